//! The rows that this layer keeps in a partition. No I/O.

use bytes::Bytes;
use hbase_client::Partition;

use crate::error::{Error, Result};

/// The row of the partition's version.
pub(super) const VERSION: &[u8] = b"version";
/// The row of the cells that compare clocks.
pub(super) const CLOCK: &[u8] = b"clock";
/// The row of the deletion mark.
pub(super) const DELETIONS: &[u8] = b"deletions";
/// The rows of the test of a `Multi`, of equal length.
pub(super) const TRIALS: [&[u8]; 2] = [b"trial-1", b"trial-2"];

/// Returns the reserved row of this name in a partition.
///
/// # Errors
///
/// Returns [`InvalidInput`](crate::ClientErrorKind::InvalidInput) if the partition is a single row:
/// no other row is sure to stay in the same region. The same if its prefix leaves no room for the
/// name in a row key.
pub(super) fn reserved_row(partition: &Partition, name: &[u8], what: &str) -> Result<Bytes> {
    partition
        .reserved_row(name)
        .ok_or_else(|| match partition.is_lone_row() {
            true => Error::invalid(format!(
                "{partition} can't have {what}, which is a row itself and may be parted from it"
            )),
            false => Error::invalid(format!(
                "a partition whose prefix has {} bytes can't have {what}: its row key would be too long",
                partition.prefix().len()
            ))
            .with_hint("use shorter prefixes"),
        })
}
