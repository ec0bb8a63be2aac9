//! The version of a partition: one cell that every transaction changes if the table declares
//! partition versions.

use bytes::Bytes;
use hbase_client::{Environment, Increment, TableDescriptor};

use crate::{
    partition::Partition, random, table_descriptor::TableDescriptorExt, txn::reserved_rows::VERSION,
};

pub(in crate::txn) const QUALIFIER: &str = "v";

/// Returns the row of the partition's version cell, or `None` for a partition that is a single row,
/// which has no version.
pub(in crate::txn) fn row(partition: &Partition) -> Option<Bytes> {
    partition.reserved_row(VERSION)
}

/// Returns the increment that changes the version. The amount is random, so that a version that is
/// deleted and starts again does not return to a number that a reader has seen. The server stamps
/// an increment after the existing cell, so it can't be hidden.
pub(super) fn bump(environment: &dyn Environment, partition: &Partition) -> Option<Increment> {
    let amount = (random::bits_64(environment) >> 1).max(1).cast_signed();
    Some(Increment::new(row(partition)?).column(TableDescriptor::VERSION_FAMILY, QUALIFIER, amount))
}
