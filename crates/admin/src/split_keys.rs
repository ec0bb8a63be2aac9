//! Region boundaries at equal distances.

use bytes::Bytes;
use hbase_client::{BytesBinary, Error, Result};

/// The maximum number of regions of a new table here. HBase's master assigns them all at once.
const MAX_REGIONS: u32 = 1 << 20;

/// Returns the split keys of a new table with this many regions: one before `start`, one from `end` on, and
/// the others between these two keys at equal distances, as if keys were fractions. For
/// [`Admin::create_table`](crate::Admin::create_table). HBase's Java client divides a range so, too
/// (`Bytes.split`).
///
/// It suits keys whose first bytes are spread evenly, such as hashes. The keys have the length of the longer
/// of both, and more bytes only where the range is too narrow.
///
/// # Errors
///
/// Returns [`InvalidInput`](hbase_client::ErrorKind::InvalidInput) for fewer than three regions or more than a
/// million, for an empty `start`, and unless it is before `end`.
///
/// # Example
///
/// ```
/// # fn main() -> hbase_client::Result<()> {
/// let keys = hbase_admin::split_keys_between("10", "90", 6)?;
/// assert_eq!(keys, ["10", "30", "50", "70", "90"]);
/// # Ok(()) }
/// ```
pub fn split_keys_between(
    start: impl AsRef<[u8]>,
    end: impl AsRef<[u8]>,
    regions: u32,
) -> Result<Vec<Bytes>> {
    let (start, end) = (start.as_ref(), end.as_ref());
    if !(3..=MAX_REGIONS).contains(&regions) {
        let what = format!("{regions} regions with a range between them; there are 3 to {MAX_REGIONS}");
        return Err(Error::invalid(what));
    }
    if start.is_empty() {
        return Err(Error::invalid("an empty split key"));
    }
    let mut length = start.len().max(end.len());
    let parts = regions - 2;
    let step = loop {
        let (from, to) = (padded(start, length), padded(end, length));
        if from >= to {
            let (start, end) = (BytesBinary(start), BytesBinary(end));
            return Err(Error::invalid(format!(
                "no range from {start} to {end}: the first key must be before the last"
            )));
        }
        let step = divide(subtract(&to, &from), parts);
        if step.iter().any(|byte| *byte != 0) {
            break step;
        }
        length += 1;
    };
    let mut key = padded(start, length);
    let mut keys = vec![Bytes::copy_from_slice(start)];
    for _ in 1..parts {
        add(&mut key, &step);
        keys.push(Bytes::copy_from_slice(&key));
    }
    keys.push(Bytes::copy_from_slice(end));
    Ok(keys)
}

fn padded(key: &[u8], length: usize) -> Vec<u8> {
    let mut key = key.to_vec();
    key.resize(length, 0);
    key
}

/// Subtracts a number of the same length that is not larger.
fn subtract(from: &[u8], other: &[u8]) -> Vec<u8> {
    let mut result = from.to_vec();
    let mut borrow = false;
    for (byte, other) in result.iter_mut().zip(other).rev() {
        let (difference, first) = byte.overflowing_sub(*other);
        let (difference, second) = difference.overflowing_sub(u8::from(borrow));
        (*byte, borrow) = (difference, first || second);
    }
    result
}

/// Adds a number of the same length. The sum must not be longer.
fn add(to: &mut [u8], other: &[u8]) {
    let mut carry = false;
    for (byte, other) in to.iter_mut().zip(other).rev() {
        let (sum, first) = byte.overflowing_add(*other);
        let (sum, second) = sum.overflowing_add(u8::from(carry));
        (*byte, carry) = (sum, first || second);
    }
}

fn divide(mut number: Vec<u8>, by: u32) -> Vec<u8> {
    let mut rest = 0_u64;
    for byte in &mut number {
        let value = rest << 8 | u64::from(*byte);
        *byte = u8::try_from(value / u64::from(by)).unwrap_or(u8::MAX);
        rest = value % u64::from(by);
    }
    number
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use hbase_client::ErrorKind;

    /// What `Bytes.split(start, end, regions - 3)` of Java returns.
    #[rstest]
    #[case("a", "c", 3, &["a", "c"])]
    #[case("a", "c", 4, &["a", "b", "c"])]
    #[case("10", "90", 6, &["10", "30", "50", "70", "90"])]
    #[case("aaa", "zzz", 5, &[&b"aaa"[..], b"i\xbf\x14", b"r\x1c\xc7", b"zzz"])]
    #[case("a", "ccc", 7, &[&b"a"[..], b"azG", b"a\xf4\x8e", b"bn\xd5", b"b\xe9\x1c", b"ccc"])]
    // Java appends the zero bytes of the others to the first and the last key here.
    #[case("a", "b", 6, &[&b"a"[..], b"a@", b"a\x80", b"a\xc0", b"b"])]
    fn boundaries_are_those_of_java(
        #[case] start: &str,
        #[case] end: &str,
        #[case] regions: u32,
        #[case] expected: &[impl AsRef<[u8]>],
    ) {
        let expected: Vec<_> = expected.iter().map(|key| key.as_ref()).collect();
        assert_eq!(split_keys_between(start, end, regions).unwrap(), expected);
    }

    #[test]
    fn narrow_ranges_have_longer_keys() {
        let keys = split_keys_between("a", "b", 5_003).unwrap();
        assert_eq!(keys.len(), 5_002);
        assert!(keys.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!((&keys[0][..], keys[1].len()), (&b"a"[..], 3));
    }

    #[rstest]
    #[case("a", "a", 5)]
    #[case("b", "a", 5)]
    #[case("a", "a\0", 5)]
    #[case("", "", 5)]
    #[case("", "a", 5)]
    #[case("a", "b", 2)]
    #[case("a", "b", u32::MAX)]
    fn ranges_without_keys_are_refused(#[case] start: &str, #[case] end: &str, #[case] regions: u32) {
        let error = split_keys_between(start, end, regions).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    }
}
