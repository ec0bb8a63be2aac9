//! Comparisons of bytes: operators and comparators.

use std::{cmp::Ordering, fmt};

use bytes::Bytes;

use super::{BytesBinary, IntoBytes, IntoValue};
use crate::error::{Error, Result};

/// The length at which a description cuts a value.
const SHOWN_VALUE: usize = 32;

/// A relation of the stored value to the given one: *stored* is less than *given*, and so on.
///
/// # Example
///
/// ```
/// use hbase_client::{Comparison, Condition};
///
/// // Holds while the stored price is below the given one.
/// let cheap = Condition::compare("xxxabc", "f", "price", Comparison::Less, "0100");
/// assert_eq!(cheap.label_text(), "xxxabc f:price < 0100");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Comparison {
    /// The stored value equals the given one.
    Equal,
    /// The stored value differs from the given one.
    NotEqual,
    /// The stored value is smaller than the given one.
    Less,
    /// The stored value is smaller than the given one, or equal.
    LessOrEqual,
    /// The stored value is larger than the given one.
    Greater,
    /// The stored value is larger than the given one, or equal.
    GreaterOrEqual,
}

impl Comparison {
    /// Returns whether it holds for this order of the stored value to the given one.
    pub(crate) fn accepts(self, stored_to_given: Ordering) -> bool {
        match self {
            Self::Equal => stored_to_given.is_eq(),
            Self::NotEqual => stored_to_given.is_ne(),
            Self::Less => stored_to_given.is_lt(),
            Self::LessOrEqual => stored_to_given.is_le(),
            Self::Greater => stored_to_given.is_gt(),
            Self::GreaterOrEqual => stored_to_given.is_ge(),
        }
    }

    /// Returns whether it depends on the order, not only on equality.
    pub(crate) fn asks_for_order(self) -> bool {
        !matches!(self, Self::Equal | Self::NotEqual)
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Equal => "=",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
        })
    }
}

/// The operand of a comparison in a [`Filter`](super::Filter), and how it is compared.
///
/// # Example
///
/// ```
/// use hbase_client::{Comparator, Comparison, Filter};
///
/// let large = Filter::column_value("f", "total", Comparison::GreaterOrEqual, Comparator::long(1_000));
/// let drafts = Filter::value(Comparison::Equal, Comparator::prefix("draft:"));
/// let either = Filter::any([large, drafts]);
/// # let _ = either;
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Comparator(pub(crate) ComparatorKind);

/// The kinds of [`Comparator`], named after HBase's comparator classes.
#[derive(Clone, PartialEq, Eq)]
pub enum ComparatorKind {
    /// Compares all bytes, unsigned: `BinaryComparator`.
    Binary(Bytes),
    /// Compares the bytes up to the length of the prefix, unsigned: `BinaryPrefixComparator`.
    Prefix(Bytes),
    /// Compares eight bytes as a signed big-endian number.
    Long(i64),
    /// Combines the stored bytes with a mask of the same length, and is equal if any bit of the
    /// result is set: `BitComparator`.
    Bits(BitOperation, Bytes),
}

/// The operation that combines a mask and the stored bytes: `BitComparator.BitwiseOp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BitOperation {
    /// Sets a bit that is set in both.
    And,
    /// Sets a bit that is set in at least one.
    Or,
    /// Sets a bit that is set in exactly one.
    Xor,
}

impl Comparator {
    /// Compares byte by byte, unsigned: `BinaryComparator`. The order of bytes is not the order of
    /// negative numbers; see [`IntoValue`](crate::IntoValue#order).
    #[must_use]
    pub fn binary(value: impl IntoValue) -> Self {
        Self(ComparatorKind::Binary(value.into_value()))
    }

    /// Compares like [`binary`](Self::binary), but only as many stored bytes as the prefix has:
    /// `BinaryPrefixComparator`. [`Equal`](Comparison::Equal) means "begins with".
    #[must_use]
    pub fn prefix(prefix: impl IntoBytes) -> Self {
        Self(ComparatorKind::Prefix(prefix.into_bytes()))
    }

    /// Compares numbers of eight bytes, big-endian, signed, like counters. A stored value of
    /// another width is not equal, and neither smaller nor larger.
    #[must_use]
    pub fn long(value: i64) -> Self {
        Self(ComparatorKind::Long(value))
    }

    /// Compares bits: a value is [`Equal`](Comparison::Equal) if it has the length of the mask and
    /// any of its bits set: `BitComparator` with AND. Supports only equal and not equal.
    #[must_use]
    pub fn bit_and(mask: impl IntoBytes) -> Self {
        Self(ComparatorKind::Bits(BitOperation::And, mask.into_bytes()))
    }

    /// Compares bits: a value is [`Equal`](Comparison::Equal) if it has the length of the mask and
    /// any bit is set in either: `BitComparator` with OR. Supports only equal and not equal.
    #[must_use]
    pub fn bit_or(mask: impl IntoBytes) -> Self {
        Self(ComparatorKind::Bits(BitOperation::Or, mask.into_bytes()))
    }

    /// Compares bits: a value is [`Equal`](Comparison::Equal) if it has the length of the mask and
    /// differs from it: `BitComparator` with XOR. Supports only equal and not equal.
    #[must_use]
    pub fn bit_xor(mask: impl IntoBytes) -> Self {
        Self(ComparatorKind::Bits(BitOperation::Xor, mask.into_bytes()))
    }

    /// Returns whether stored bytes pass the comparison, as the server would decide.
    pub(crate) fn accepts(&self, comparison: Comparison, stored: &[u8]) -> bool {
        match &self.0 {
            ComparatorKind::Binary(given) => comparison.accepts(stored.cmp(given)),
            ComparatorKind::Prefix(given) => {
                comparison.accepts(stored[..stored.len().min(given.len())].cmp(given))
            }
            ComparatorKind::Long(given) => match <[u8; 8]>::try_from(stored) {
                Ok(stored) => comparison.accepts(i64::from_be_bytes(stored).cmp(given)),
                Err(_) => comparison == Comparison::NotEqual,
            },
            ComparatorKind::Bits(operation, mask) => {
                let any = stored.len() == mask.len()
                    && stored.iter().zip(mask).any(|(stored, mask)| {
                        0 != match operation {
                            BitOperation::And => stored & mask,
                            BitOperation::Or => stored | mask,
                            BitOperation::Xor => stored ^ mask,
                        }
                    });
                any == (comparison == Comparison::Equal)
            }
        }
    }

    /// Rejects a comparison that this comparator does not support.
    pub(crate) fn check(&self, comparison: Comparison) -> Result<()> {
        match self.0 {
            ComparatorKind::Bits(..) if comparison.asks_for_order() => Err(Error::invalid(format!(
                "{comparison} with a comparison of bits, which can only be equal or not"
            ))),
            _ => Ok(()),
        }
    }

    pub(crate) fn size(&self) -> usize {
        match &self.0 {
            ComparatorKind::Binary(bytes)
            | ComparatorKind::Prefix(bytes)
            | ComparatorKind::Bits(_, bytes) => bytes.len(),
            ComparatorKind::Long(_) => size_of::<i64>(),
        }
    }
}

impl fmt::Display for ComparatorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Binary(bytes) => write!(f, "{}", Shown(bytes)),
            Self::Prefix(bytes) => write!(f, "{}*", Shown(bytes)),
            Self::Long(value) => write!(f, "{value}L"),
            Self::Bits(BitOperation::And, mask) => write!(f, "bits & {}", Shown(mask)),
            Self::Bits(BitOperation::Or, mask) => write!(f, "bits | {}", Shown(mask)),
            Self::Bits(BitOperation::Xor, mask) => write!(f, "bits ^ {}", Shown(mask)),
        }
    }
}

impl fmt::Debug for ComparatorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Comparator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for Comparator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Displays the beginning of a key or a value.
pub(super) struct Shown<'a>(pub(super) &'a [u8]);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.get(..SHOWN_VALUE) {
            Some(beginning) if beginning.len() < self.0.len() => write!(f, "{}…", BytesBinary(beginning)),
            _ => write!(f, "{}", BytesBinary(self.0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const ALL: [Comparison; 6] = [
        Comparison::Equal,
        Comparison::NotEqual,
        Comparison::Less,
        Comparison::LessOrEqual,
        Comparison::Greater,
        Comparison::GreaterOrEqual,
    ];

    /// Returns the comparisons that a stored value passes.
    fn passed(comparator: &Comparator, stored: &[u8]) -> String {
        let passed = ALL
            .iter()
            .filter(|comparison| comparator.accepts(**comparison, stored));
        passed.map(Comparison::to_string).collect::<Vec<_>>().join(" ")
    }

    #[rstest]
    #[case::smaller(Comparator::binary("b"), b"a", "!= < <=")]
    #[case::equal(Comparator::binary("b"), b"b", "= <= >=")]
    #[case::larger(Comparator::binary("b"), b"ba", "!= > >=")]
    #[case::unsigned(Comparator::binary("b"), b"\xff", "!= > >=")]
    #[case::beginning(Comparator::prefix("bc"), b"bcd", "= <= >=")]
    #[case::shorter_than_the_prefix(Comparator::prefix("bc"), b"b", "!= < <=")]
    #[case::negative(Comparator::long(3), &(-4_i64).to_be_bytes(), "!= < <=")]
    #[case::not_a_number(Comparator::long(3), b"3", "!=")]
    #[case::empty_is_not_a_number(Comparator::long(0), b"", "!=")]
    fn the_stored_value_stands_on_the_left(
        #[case] comparator: Comparator,
        #[case] stored: &[u8],
        #[case] expected: &str,
    ) {
        assert_eq!(passed(&comparator, stored), expected);
    }

    #[rstest]
    #[case(Comparator::bit_and(&b"\x01\x02"[..]), b"\x00\x02", true)]
    #[case(Comparator::bit_and(&b"\x01\x02"[..]), b"\x02\x01", false)]
    #[case(Comparator::bit_and(&b"\x01\x02"[..]), b"\x01", false)]
    #[case(Comparator::bit_or(&b"\x00"[..]), b"\x00", false)]
    #[case(Comparator::bit_or(&b"\x00"[..]), b"\x01", true)]
    #[case(Comparator::bit_xor(&b"\x01"[..]), b"\x01", false)]
    #[case(Comparator::bit_xor(&b"\x01"[..]), b"\x00", true)]
    fn bits_are_equal_or_not(#[case] comparator: Comparator, #[case] stored: &[u8], #[case] equal: bool) {
        assert_eq!(comparator.accepts(Comparison::Equal, stored), equal);
        assert_eq!(comparator.accepts(Comparison::NotEqual, stored), !equal);
        comparator.check(Comparison::Equal).unwrap();
        comparator.check(Comparison::Less).unwrap_err();
    }

    #[test]
    fn a_long_value_is_shown_by_its_beginning() {
        assert_eq!(Shown(&[b'a'; 32]).to_string(), "a".repeat(32));
        assert_eq!(Shown(&[b'a'; 33]).to_string(), "a".repeat(32) + "…");
    }
}
