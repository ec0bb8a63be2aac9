//! Cells that make deletes exact.
//!
//! The deletion mark of a partition is one cell that every transaction changes that deletes something or
//! stamps a cell ahead of the server's clock.
//!
//! A put that is stamped ahead may be hidden by a delete that is applied before it, and no condition
//! sees a delete marker. So a transaction that stamps ahead has the condition that the mark is as it
//! was when the timestamps were read. On a table with partition versions, the version is the mark.
//!
//! A placeholder is a short-lived cell of a row that has no other cell. A condition can state that a row
//! has no other cells than these, but not that it has none.

use std::{collections::BTreeSet, slice, time::Duration};

use bytes::Bytes;
use hbase_client::{
    Cell, CellKind, Durability, Effect, Increment, Put, TableDescriptor,
    low_level::{CallKind, MultiCall, RegionAction, RegionCall, condition, pb},
};
use tokio::time::Instant;

use super::{
    partition_version,
    sequence::{Extent, ToRead},
};
use crate::{
    error::Result,
    partition::Partition,
    table_descriptor::TableDescriptorExt,
    txn::{
        partition_call::locate_whole,
        proof::{proven_table::ProvenTable, terms::Terms},
        record,
        reserved_rows::DELETIONS,
    },
};

const QUALIFIER: &str = "d";
const PLACEHOLDER: &str = "e";
/// How long a placeholder is kept. A delete that takes longer is tried again.
const PLACEHOLDER_TTL: Duration = Duration::from_secs(10);

/// The cell of the mark.
pub(super) struct DeletionMark {
    pub(in crate::txn) row: Bytes,
    family: Bytes,
    qualifier: &'static str,
    /// How long the mark is kept after a change.
    ttl: Option<Duration>,
}

impl DeletionMark {
    /// Returns the mark of a partition, or `None` for a partition that is a single row, and for a
    /// table that has no family for it.
    pub(in crate::txn) fn of(terms: &Terms, partition: &Partition) -> Option<Self> {
        if terms.partition_version {
            return Some(Self {
                row: partition_version::row(partition)?,
                family: TableDescriptor::VERSION_FAMILY.into(),
                qualifier: partition_version::QUALIFIER,
                ttl: None,
            });
        }
        Some(Self {
            row: partition.reserved_row(DELETIONS)?,
            family: record::FAMILY,
            qualifier: QUALIFIER,
            // Longer than any call may be under way.
            ttl: Some(terms.replay_window?),
        })
    }

    /// Returns what must be read for [`unchanged`](Self::unchanged).
    pub(super) fn to_read(&self) -> ToRead {
        ToRead {
            row: self.row.clone(),
            extent: Extent::column(self.family.clone(), self.qualifier.into()),
        }
    }

    /// Returns the condition that the mark was not changed after its newest timestamp was read. The
    /// server stamps each increment after the cell before.
    pub(in crate::txn) fn unchanged(&self, newest: u64) -> pb::Condition {
        condition::absent_from(&self.row, &self.family, &self.qualifier.into(), newest + 1)
    }

    /// Returns the change of the mark by one transaction, or `None` if each transaction changes it, as
    /// the version of the partition.
    pub(in crate::txn) fn change(self) -> Option<Increment> {
        let ttl = self.ttl?;
        Some(
            Increment::new(self.row)
                .column(self.family, self.qualifier, 1)
                .ttl(ttl),
        )
    }
}

/// Returns whether a cell is a placeholder, which a server has stamped.
pub(super) fn is_placeholder(cell: &Cell) -> bool {
    cell.family == record::FAMILY && cell.qualifier == PLACEHOLDER && cell.kind == CellKind::Put
}

/// Puts a placeholder into each of these rows of a partition. The table must have a record family.
/// An error has no effect on the caller's data.
pub(super) async fn put_placeholders(
    table: &ProvenTable,
    partition: &Partition,
    rows: BTreeSet<Bytes>,
    deadline: Instant,
) -> Result<()> {
    let put = |row| {
        let put = Put::new(row).cell(record::FAMILY, PLACEHOLDER, "");
        RegionAction::Atomic(vec![put.ttl(PLACEHOLDER_TTL).into()])
    };
    let call = MultiCall {
        row: partition.first_key().clone(),
        actions: rows.into_iter().map(put).collect(),
        durability: Durability::AsyncWal,
    };
    let mut attempts = RegionCall::new(
        table.table(),
        "putting placeholders",
        &call.row,
        CallKind::IdempotentWrite,
        deadline,
    );
    let written: Result<()> = async {
        loop {
            let location = locate_whole(&mut attempts, slice::from_ref(partition)).await?;
            match attempts.attempt(&location).multi(&call).await {
                Ok(_) => return Ok(()),
                Err(failed) => attempts.recover(failed).await?,
            }
        }
    }
    .await;
    written.map_err(|error| error.with_effect(Effect::None))
}
