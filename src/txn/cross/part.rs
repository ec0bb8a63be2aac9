//! The changes of a partition's version, intent and decision, as parts of transactions. No I/O.

use std::{borrow::Cow, sync::Arc};

use bytes::Bytes;
use futures::{FutureExt, future::BoxFuture};
use hbase_client::{Condition, Mutation, Put, low_level::condition};

use super::{
    intent::{Holder, Intent, PartitionState},
    redo,
};
use crate::{
    error::Result,
    partition::Partition,
    txn::{
        outcome::Outcome,
        part::{Changes, Part},
        record,
    },
};

/// A step of a transaction across partitions in one of them.
#[derive(Debug)]
pub(in crate::txn) struct Step {
    condition: Condition,
    /// The row that must have no record, for the step that decides.
    undecided: Option<Bytes>,
    mutations: Vec<Mutation>,
    sets_version: bool,
}

/// Returns the step that holds a partition, and the holder that it makes. `now`: a time that no clock of
/// a server has passed.
pub(in crate::txn) fn hold(
    partition: &Partition,
    state: &PartitionState,
    intent: &Intent,
    now: u64,
) -> Result<(Arc<dyn Part>, Holder)> {
    let (put, holder) = state.hold(partition, intent, now)?;
    let step = Step {
        condition: state.unchanged(partition)?,
        undecided: None,
        mutations: vec![put.into()],
        sets_version: true,
    };
    Ok((Arc::new(step), holder))
}

/// Returns the step that frees a partition. `version`: a random number.
pub(in crate::txn) fn free(
    partition: &Partition,
    holder: &Holder,
    version: u64,
    now: u64,
) -> Result<Arc<dyn Part>> {
    Ok(Arc::new(Step {
        condition: holder.unchanged(partition)?,
        undecided: None,
        mutations: vec![holder.free(partition, version, now)?.into()],
        sets_version: true,
    }))
}

/// Returns the step that decides for a commit at home. `record`: the put of the record in its row, which
/// must have none. `redo`: what is written in the other partitions, kept under this timestamp.
pub(in crate::txn) fn decide(
    home: &Partition,
    state: &PartitionState,
    record: Put,
    redo: &[Bytes],
    timestamp: u64,
) -> Result<Arc<dyn Part>> {
    let row = record.row().clone();
    let kept = (!redo.is_empty()).then(|| redo::keep(row.clone(), redo, timestamp));
    let redo = kept.map(Mutation::from);
    Ok(Arc::new(Step {
        condition: state.unchanged(home)?,
        undecided: Some(row),
        mutations: [record.into()].into_iter().chain(redo).collect(),
        sets_version: false,
    }))
}

impl Part for Step {
    fn description(&self) -> Cow<'_, str> {
        "transaction across partitions".into()
    }

    fn condition(&self) -> &Condition {
        &self.condition
    }

    fn failure(&self) -> String {
        format!("not met: {}", self.condition.label_text())
    }

    fn writes(&self) -> bool {
        true
    }

    fn applies_once(&self) -> bool {
        true
    }

    fn sets_version(&self) -> bool {
        self.sets_version
    }

    fn changes(&self) -> BoxFuture<'_, Result<Changes>> {
        let absent = |row| condition::cell_equals(row, &record::FAMILY, &record::QUALIFIER, None);
        let changes = Changes {
            mutations: self.mutations.clone(),
            seen: self.undecided.as_ref().map(absent),
        };
        async move { Ok(changes) }.boxed()
    }

    fn ended(&self, _: Option<&Outcome>) {}
}
