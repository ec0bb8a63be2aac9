//! The one-byte hash that spreads keys over 256 buckets, as HBaseWD and its descendants compute it.

use bytes::{BufMut, Bytes, BytesMut};

use crate::error::{Error, Result};

/// Returns the prefix byte of a key: `OneByteSimpleHash` with 256 buckets (`com.sematext.hbase.ds`,
/// `io.appform.hbase.ds`), byte for byte.
///
/// The hash is Java's `Arrays.hashCode` of the key's signed bytes. The prefix is the low byte of
/// its 32-bit absolute value, where `i32::MIN` stays negative; it is not the low byte of a negative
/// hash.
pub(crate) fn hash_prefix(key: &[u8]) -> u8 {
    let hash = key.iter().fold(1_i32, |hash, byte| {
        hash.wrapping_mul(31)
            .wrapping_add(i32::from(i8::from_be_bytes([*byte])))
    });
    hash.wrapping_abs().to_be_bytes()[3]
}

/// Returns the row of a key in a table with 256 buckets: the prefix byte and the key.
pub(crate) fn distributed_row(key: &[u8]) -> Bytes {
    let mut row = BytesMut::with_capacity(1 + key.len());
    row.put_u8(hash_prefix(key));
    row.put_slice(key);
    row.freeze()
}

/// The number of regions of a table that the Java libraries create. All 256 byte values are split
/// keys, so the first region stays empty.
pub const JAVA_REGIONS: usize = 257;

/// The default number of regions of a lock or latch table.
pub const DEFAULT_REGIONS: usize = 8;

/// Returns the start keys of the regions of a table with 256 buckets, except the first.
///
/// # Errors
///
/// Returns an error for 0 regions, or more than 257.
pub(crate) fn bucket_split_keys(regions: usize) -> Result<Vec<Bytes>> {
    let bytes: Vec<u8> = match regions {
        JAVA_REGIONS => (0..=u8::MAX).collect(),
        1..JAVA_REGIONS => (1..regions)
            .map(|region| u8::try_from(region * 256 / regions).unwrap_or(u8::MAX))
            .collect(),
        regions => {
            return Err(Error::invalid(format!(
                "{regions} regions; a table of 256 buckets has from 1 to {JAVA_REGIONS}"
            )));
        }
    };
    Ok(bytes
        .into_iter()
        .map(|byte| Bytes::copy_from_slice(&[byte]))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each line has a prefix and a key, in hexadecimal; the suite checks them with Java's own
    /// hash.
    #[test]
    fn rows_are_those_of_java() {
        let lines = include_str!("../../tests/hash_vectors.tsv").lines();
        let vectors: Vec<_> = lines
            .filter(|line| !line.starts_with('#'))
            .map(|line| line.split_once('\t').unwrap())
            .collect();
        assert_eq!(vectors.len(), 39);
        let digits = |hex: &str, at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
        for (prefix, key) in vectors {
            let bytes: Vec<u8> = (0..key.len()).step_by(2).map(|at| digits(key, at)).collect();
            let row = distributed_row(&bytes);
            assert_eq!((row[0], &row[1..]), (digits(prefix, 0), &bytes[..]), "{key}");
        }
    }
}
