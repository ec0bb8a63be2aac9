//! Limits that are checked before anything is sent: keys, names and timestamps out of range, cells
//! too large.

use bytes::Bytes;

use super::BytesBinary;
use crate::error::{Error, Failure, FailureKind, Result};

/// The length at which an error cuts a row.
const SHOWN_ROW: usize = 64;
/// A row key's length is two bytes on the wire, and signed in Java.
const MAX_ROW: usize = i16::MAX as usize;
/// A family's length is one byte on the wire, and signed in Java.
const MAX_FAMILY: usize = i8::MAX as usize;
/// HBase's overhead of a cell besides row, family, qualifier and value: lengths, timestamp, type.
const CELL_OVERHEAD: usize = 24;
/// Java's `Long.MAX_VALUE`, which HBase interprets as "now".
pub const LATEST_TIMESTAMP: u64 = i64::MAX as u64;

/// Limits that the client checks before sending, whatever the limits of the server are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest cell, key and value together; `hbase.client.keyvalue.maxsize`, 10 MiB.
    pub max_cell_size: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_cell_size: 10 << 20,
        }
    }
}

impl Limits {
    /// Rejects a cell that is too large.
    pub(super) fn check_cell(&self, row: &[u8], family: &[u8], qualifier: &[u8], value: usize) -> Result<()> {
        let size = CELL_OVERHEAD + row.len() + family.len() + qualifier.len() + value;
        if size <= self.max_cell_size {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "cell {}:{} of {size} bytes is over the limit of {}",
            BytesBinary(family),
            BytesBinary(qualifier),
            self.max_cell_size
        ))
        .with_hint("hbase.client.keyvalue.maxsize raises it, if the server takes as much"))
    }
}

/// Returns the largest row key before this one; before an empty key, the largest of all.
pub(crate) fn key_before(row: &[u8]) -> Bytes {
    match row.split_last() {
        Some((0, shorter)) => Bytes::copy_from_slice(shorter),
        last => {
            let mut key = vec![0xff; MAX_ROW];
            if let Some((last, shorter)) = last {
                key[..shorter.len()].copy_from_slice(shorter);
                key[shorter.len()] = last - 1;
            }
            key.into()
        }
    }
}

/// Returns the first key after all keys with the prefix, or an empty key if there is none.
#[must_use]
pub fn key_after_prefix(prefix: &[u8]) -> Bytes {
    match prefix.iter().rposition(|byte| *byte != 0xff) {
        Some(last) => {
            let mut key = prefix[..=last].to_vec();
            key[last] += 1;
            key.into()
        }
        None => Bytes::new(),
    }
}

/// Returns the next timestamp after an existing one.
///
/// # Errors
///
/// Returns [`InvalidInput`](crate::ErrorKind::InvalidInput) if there is no later timestamp.
pub fn timestamp_after(seen: u64) -> Result<u64> {
    match seen.saturating_add(1) {
        after if after < LATEST_TIMESTAMP => Ok(after),
        _ => Err(
            Error::invalid(format!("no timestamp is left behind {seen}, which a cell has"))
                .with_hint("delete up to that timestamp, and compact the table"),
        ),
    }
}

pub(super) fn check_row(row: &Bytes) -> Result<()> {
    match row.len() {
        0 => Err(Error::invalid("an empty row key")),
        1..=MAX_ROW => Ok(()),
        length => Err(Error::invalid(format!(
            "a row key of {length} bytes; HBase takes {MAX_ROW} at most"
        ))),
    }
}

pub(super) fn check_family(family: &Bytes) -> Result<()> {
    match family.len() {
        0 => Err(Error::invalid("an empty column family")),
        1..=MAX_FAMILY => Ok(()),
        length => Err(Error::invalid(format!(
            "a family name of {length} bytes; HBase takes {MAX_FAMILY} at most"
        ))),
    }
}

pub(super) fn check_timestamp(timestamp: Option<u64>) -> Result<()> {
    match timestamp {
        Some(timestamp) if timestamp >= LATEST_TIMESTAMP => Err(Error::invalid(format!(
            "timestamp {timestamp} is out of range; leave it out for the server's own time"
        ))),
        _ => Ok(()),
    }
}

/// Adds the row to the context of an error. Cuts a row that is rejected for its length.
pub(crate) fn in_row<K: FailureKind>(error: Failure<K>, row: &Bytes) -> Failure<K> {
    match row.len() {
        0 => error,
        1..=SHOWN_ROW => error.at_row(&BytesBinary(row)),
        _ => error.at_row(&format_args!("{}…", BytesBinary(&row[..SHOWN_ROW]))),
    }
}
