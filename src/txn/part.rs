//! The part of a transaction that a higher layer adds: a condition on a reserved row of the
//! partition, and changes to that row.
//!
//! The changes are computed again for each attempt and are sent as they are. They are not contents
//! that the caller gave, so a transaction id does not cover the changes, only the deed and its row.

use std::{borrow::Cow, fmt, sync::Arc};

use futures::future::BoxFuture;
use hbase_client::{Condition, Mutation, low_level::pb};

use super::outcome::Outcome;
use crate::error::Result;

/// The changes of one attempt to a part's row.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    pub(crate) mutations: Vec<Mutation>,
    /// The state that the changes were computed from, in addition to the part's condition. If it no
    /// longer holds, the attempt fails as after a write by another client, and is repeated.
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

/// A part. Its row is that of its condition.
pub(crate) trait Part: fmt::Debug + Send + Sync {
    /// Returns a description of what is done to the row. Together with the row it is all that a
    /// transaction id covers. It must not change.
    fn description(&self) -> Cow<'_, str>;

    /// Returns the condition that must hold for the row. Its label names what the part belongs to.
    fn condition(&self) -> &Condition;

    /// Returns what it means that the condition does not hold.
    fn failure(&self) -> String;

    /// Returns whether the part changes the row.
    fn writes(&self) -> bool;

    /// Returns whether the changes make a condition of the part false for good: a copy of the call is
    /// refused, so it may be sent again.
    fn applies_once(&self) -> bool {
        false
    }

    /// Returns whether the changes set the version of the partition, so that the transaction must not
    /// increment it.
    fn sets_version(&self) -> bool {
        false
    }

    /// Returns the changes of the next attempt. Called only if no earlier attempt was applied or
    /// can be any more.
    fn changes(&self) -> BoxFuture<'_, Result<Changes>>;

    /// Called at the end of the commit; `None` if the commit was dropped.
    fn ended(&self, outcome: Option<&Outcome>);
}

/// The parts of a commit, which are notified when it ends or is dropped.
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
