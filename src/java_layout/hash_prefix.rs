//! The one-byte hash that spreads keys over 256 buckets, as HBaseWD and its descendants compute it.

use bytes::{BufMut, Bytes, BytesMut};

use crate::error::{Error, Result};

/// The prefix byte of a key: `OneByteSimpleHash` with 256 buckets (`com.sematext.hbase.ds`,
/// `io.appform.hbase.ds`), byte for byte.
///
/// The hash is Java's `Arrays.hashCode` of the key's signed bytes; its absolute value is taken as a
/// 32-bit number, of which the smallest has none and stays negative. So it is not the low byte of
/// the hash where that is negative.
pub(crate) fn hash_prefix(key: &[u8]) -> u8 {
    let hash = key.iter().fold(1_i32, |hash, byte| {
        hash.wrapping_mul(31)
            .wrapping_add(i32::from(i8::from_be_bytes([*byte])))
    });
    hash.wrapping_abs().to_be_bytes()[3]
}

/// The row of a key in a table with 256 buckets: the prefix byte, and the key.
pub(crate) fn distributed_row(key: &[u8]) -> Bytes {
    let mut row = BytesMut::with_capacity(1 + key.len());
    row.put_u8(hash_prefix(key));
    row.put_slice(key);
    row.freeze()
}

/// The regions of a table as the Java libraries make it: its split keys are all 256 bytes, so the
/// first region stays empty.
pub const JAVA_REGIONS: usize = 257;

/// The number of regions of a lock or latch table unless specified otherwise.
pub const DEFAULT_REGIONS: usize = 8;

/// The keys at which the regions of a table with 256 buckets begin, but for the first.
///
/// # Errors
///
/// For no regions, or more than 257.
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

    /// Each as its prefix and its key, in hex; the suite asks Java's own hash for the same.
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
