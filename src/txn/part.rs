//! What a layer above makes part of a transaction: a condition on a reserved row of the partition,
//! and changes of it.
//!
//! Such parts are no contents that the caller gave: their changes are computed again for each
//! attempt, are sent as they are, and an id does not stand for them, but for what is done to which
//! row.

use std::{borrow::Cow, fmt, sync::Arc};

use futures::future::BoxFuture;
use hbase_client::{Condition, Mutation, low_level::pb};

use super::outcome::Outcome;
use crate::error::Result;

/// What one attempt makes of a part's row.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    pub(crate) mutations: Vec<Mutation>,
    /// What they were made for, and what must still be so, beside the part's condition. When it is
    /// not, the attempt fails as by another writer, and is repeated.
    pub(crate) seen: Option<pb::Condition>,
}

impl From<Vec<Mutation>> for Changes {
    fn from(mutations: Vec<Mutation>) -> Self {
        Self {
            mutations,
            seen: None,
        }
    }
}

/// One of them. Its row is that of its condition.
pub(crate) trait Part: fmt::Debug + Send + Sync {
    /// What is done to the row: with the row, all of it that an id stands for. It must not change.
    fn deed(&self) -> Cow<'_, str>;

    /// What must be true of the row.
    fn condition(&self) -> &Condition;

    /// Whether it changes the row.
    fn writes(&self) -> bool;

    /// Returns the changes that the next attempt makes of the row. Is called when no attempt before
    /// was applied, and none can be any more.
    fn changes(&self) -> BoxFuture<'_, Result<Changes>>;

    /// Is called at the end of the commit; `None` if the commit was dropped.
    fn ended(&self, outcome: Option<&Outcome>);
}

/// The parts of a commit. They are notified of its end, also when it is dropped.
pub(super) struct Ending(Vec<Arc<dyn Part>>);

impl Ending {
    pub(super) fn of(parts: &[Arc<dyn Part>]) -> Self {
        Self(parts.to_vec())
    }

    pub(super) fn notify(mut self, outcome: &Outcome) {
        for part in self.0.drain(..) {
            part.ended(Some(outcome));
        }
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        for part in self.0.drain(..) {
            part.ended(None);
        }
    }
}
