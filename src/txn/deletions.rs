//! The deletion mark of a partition: one cell that every transaction changes that deletes something or
//! stamps a cell ahead of the server's clock.
//!
//! A put that is stamped ahead may be hidden by a delete that is applied before it, and no condition
//! sees a delete marker. So a transaction that stamps ahead has the condition that the mark is as it
//! was when the timestamps were read. On a table with partition versions, the version is the mark.

use std::time::Duration;

use bytes::Bytes;
use hbase_client::{
    Increment, Partition, TableDescriptor,
    low_level::{condition, pb},
};

use super::{
    partition_version, record,
    reserved_rows::DELETIONS,
    sequence::{Extent, ToRead},
    terms::Terms,
};
use crate::table_descriptor::TableDescriptorExt;

const QUALIFIER: &str = "d";

/// The cell of the mark.
pub(super) struct DeletionMark {
    pub(super) row: Bytes,
    family: Bytes,
    qualifier: &'static str,
    /// How long the mark is kept after a change.
    ttl: Option<Duration>,
}

impl DeletionMark {
    /// Returns the mark of a partition, or `None` for a partition that is a single row, and for a
    /// table that has no family for it.
    pub(super) fn of(terms: &Terms, partition: &Partition) -> Option<Self> {
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
    pub(super) fn unchanged(&self, newest: u64) -> pb::Condition {
        condition::absent_from(&self.row, &self.family, &self.qualifier.into(), newest + 1)
    }

    /// Returns the change of the mark by one transaction, or `None` if each transaction changes it, as
    /// the version of the partition.
    pub(super) fn change(self) -> Option<Increment> {
        let ttl = self.ttl?;
        Some(
            Increment::new(self.row)
                .column(self.family, self.qualifier, 1)
                .ttl(ttl),
        )
    }
}
