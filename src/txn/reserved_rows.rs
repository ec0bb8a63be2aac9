//! The rows that this layer keeps in a partition. No I/O.

use bytes::Bytes;
use hbase_client::BytesBinary;

use crate::{
    error::{Error, Result},
    partition::Partition,
};

/// The row of the partition's version.
pub(super) const VERSION: &[u8] = b"version";
/// The row of the cells that compare clocks.
pub(super) const CLOCK: &[u8] = b"clock";
/// The row of the deletion mark.
pub(super) const DELETIONS: &[u8] = b"deletions";
/// The rows of the test of a `Multi`, of equal length.
pub(super) const TRIALS: [&[u8]; 2] = [b"trial-1", b"trial-2"];

/// The error for what a partition of a single row can't have: only rows behind a whole prefix are sure to stay in
/// its region.
pub(super) fn of_lone_row(partition: &Partition, what: &str) -> Error {
    Error::invalid(format!(
        "row {} is shorter than the prefix, or has no delimiter; a single row can't have {what}",
        BytesBinary(partition.prefix())
    ))
}

/// Returns the reserved row of this name in a partition.
///
/// # Errors
///
/// Returns [`InvalidInput`](crate::ClientErrorKind::InvalidInput) if the partition is a single row:
/// no other row is sure to stay in the same region. The same if its prefix leaves no room for the
/// name in a row key.
pub(super) fn reserved_row(partition: &Partition, name: &[u8], what: &str) -> Result<Bytes> {
    partition.reserved_row(name).ok_or_else(|| {
        if partition.is_lone_row() {
            of_lone_row(partition, what)
        } else {
            Error::invalid(format!(
                "a partition whose prefix has {} bytes can't have {what}: its row key would be too long",
                partition.prefix().len()
            ))
            .with_hint("use shorter prefixes")
        }
    })
}
