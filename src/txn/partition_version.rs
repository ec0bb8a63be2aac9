//! The version of a partition: one cell that every transaction of a table that promises it changes.

use bytes::Bytes;

use crate::model::{Increment, Partition, TableDescriptor};

pub(super) const QUALIFIER: &str = "v";

/// The row of the partition's version cell; none for a row of its own, which has no version.
pub(super) fn row(partition: &Partition) -> Option<Bytes> {
    partition.reserved_row(b"version")
}

/// Changes the version. It grows by a random amount: one that was deleted and begins anew does not come back to a number
/// that somebody has seen. An increment is stamped later than what is there, so that it can't be hidden.
pub(super) fn bump(partition: &Partition) -> Option<Increment> {
    let amount = fastrand::i64(1..=i64::MAX);
    Some(Increment::new(row(partition)?).column(TableDescriptor::VERSION_FAMILY, QUALIFIER, amount))
}
