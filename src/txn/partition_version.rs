//! The version of a partition: one cell that every transaction of a table that promises it changes.

use bytes::Bytes;
use hbase_client::{Increment, Partition, TableDescriptor};

use crate::{random, table_descriptor::TableDescriptorExt};

pub(super) const QUALIFIER: &str = "v";

/// The row of the partition's version cell; none for a row of its own, which has no version.
pub(super) fn row(partition: &Partition) -> Option<Bytes> {
    partition.reserved_row(b"version")
}

/// Changes the version. It grows by a random amount: one that was deleted and starts again does not
/// return to a number that a reader has seen. An increment is stamped later than what is there,
/// so that it can't be hidden.
pub(super) fn bump(partition: &Partition) -> Option<Increment> {
    let amount = (random::bits_64() >> 1).max(1).cast_signed();
    Some(Increment::new(row(partition)?).column(TableDescriptor::VERSION_FAMILY, QUALIFIER, amount))
}
