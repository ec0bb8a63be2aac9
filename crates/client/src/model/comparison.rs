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
    /// Is equal to no stored bytes: `NullComparator`.
    Null,
    /// Is equal to text that contains this one in any case: `SubstringComparator`. In lower case.
    Substring(String),
    /// Compares the bytes from an offset on: `BinaryComponentComparator`.
    Component {
        /// The number of stored bytes before those that are compared.
        offset: u32,
        /// The bytes that they are compared with.
        bytes: Bytes,
    },
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

    /// Is equal to no stored bytes, not even to empty ones: `NullComparator`. Supports only equal and
    /// not equal.
    #[must_use]
    pub fn null() -> Self {
        Self(ComparatorKind::Null)
    }

    /// Compares text: a value is [`Equal`](Comparison::Equal) if it contains this text, in upper or
    /// lower case: `SubstringComparator`. Supports only equal and not equal.
    ///
    /// The text must be ASCII, because servers and clients have different tables of other letters. To
    /// find other text in a read, use a [`Regex`](super::Regex).
    #[must_use]
    pub fn substring(text: &str) -> Self {
        Self(ComparatorKind::Substring(text.to_lowercase()))
    }

    /// Compares like [`binary`](Self::binary), but only the stored bytes from this offset on, as many
    /// as the given ones: `BinaryComponentComparator`. A stored value that ends before them is not
    /// equal, and neither smaller nor larger.
    #[must_use]
    pub fn component(offset: u32, bytes: impl IntoBytes) -> Self {
        let bytes = bytes.into_bytes();
        Self(ComparatorKind::Component { offset, bytes })
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
            ComparatorKind::Null => comparison == Comparison::NotEqual,
            ComparatorKind::Substring(text) => {
                let contained = String::from_utf8_lossy(stored).to_lowercase().contains(text);
                contained == (comparison == Comparison::Equal)
            }
            ComparatorKind::Component { offset, bytes } => {
                let from_offset = usize::try_from(*offset).ok().and_then(|at| stored.get(at..));
                match from_offset.and_then(|stored| stored.get(..bytes.len())) {
                    Some(stored) => comparison.accepts(stored.cmp(bytes)),
                    None => comparison == Comparison::NotEqual,
                }
            }
        }
    }

    /// Rejects a comparison that this comparator does not support.
    pub(crate) fn check(&self, comparison: Comparison) -> Result<()> {
        match &self.0 {
            ComparatorKind::Bits(..) => no_order(comparison, "bits")?,
            ComparatorKind::Null => no_order(comparison, "null")?,
            ComparatorKind::Substring(_) => no_order(comparison, "a substring")?,
            _ => {}
        }
        match &self.0 {
            ComparatorKind::Substring(text) if text.is_empty() => Err(Error::invalid("an empty substring")),
            ComparatorKind::Substring(text) if !text.is_ascii() => {
                Err(Error::invalid(format!("substring {text:?} is not ASCII"))
                    .with_hint("use a regular expression"))
            }
            ComparatorKind::Component { bytes, .. } if bytes.is_empty() => {
                Err(Error::invalid("an empty component"))
            }
            ComparatorKind::Component { offset, bytes } if component_end(*offset, bytes).is_none() => Err(
                Error::invalid(format!("a component at offset {offset}, beyond any value")),
            ),
            _ => Ok(()),
        }
    }

    /// Returns whether the server has a comparator that makes this comparison as a whole.
    pub(crate) fn is_whole(&self, comparison: Comparison) -> bool {
        match self.0 {
            ComparatorKind::Long(_) => !comparison.asks_for_order(),
            ComparatorKind::Component { .. } => false,
            _ => true,
        }
    }

    pub(crate) fn size(&self) -> usize {
        match &self.0 {
            ComparatorKind::Binary(bytes)
            | ComparatorKind::Prefix(bytes)
            | ComparatorKind::Bits(_, bytes)
            | ComparatorKind::Component { bytes, .. } => bytes.len(),
            ComparatorKind::Long(_) => size_of::<i64>(),
            ComparatorKind::Null => 0,
            ComparatorKind::Substring(text) => text.len(),
        }
    }
}

/// Rejects a comparison by order with something that a value only equals or does not.
pub(super) fn no_order(comparison: Comparison, what: &str) -> Result<()> {
    if comparison.asks_for_order() {
        Err(Error::invalid(format!(
            "{comparison} with {what}, which a value can only equal or not"
        )))
    } else {
        Ok(())
    }
}

/// Returns the length that a value needs to have this component, if there can be such a value.
pub(crate) fn component_end(offset: u32, bytes: &[u8]) -> Option<u32> {
    let end = offset.checked_add(bytes.len().try_into().ok()?)?;
    (end <= i32::MAX as u32).then_some(end)
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
            Self::Null => f.write_str("null"),
            Self::Substring(text) => write!(f, "*{}*", Shown(text.as_bytes())),
            Self::Component { offset, bytes } => write!(f, "{} at {offset}", Shown(bytes)),
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
    #[case::smaller_component(Comparator::component(1, "bc"), b"zbbz", "!= < <=")]
    #[case::equal_component(Comparator::component(1, "bc"), b"zbcz", "= <= >=")]
    #[case::ends_before_the_component(Comparator::component(1, "bc"), b"zb", "!=")]
    #[case::ends_before_the_offset(Comparator::component(4, "bc"), b"zb", "!=")]
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

    #[rstest]
    #[case(Comparator::null(), b"", false)]
    #[case(Comparator::substring("bC"), b"aBcd", true)]
    #[case(Comparator::substring("bc"), b"b\xe2c", false)]
    #[case(Comparator::substring("k"), "\u{212a}".as_bytes(), true)]
    fn null_and_substrings_are_equal_or_not(
        #[case] comparator: Comparator,
        #[case] stored: &[u8],
        #[case] equal: bool,
    ) {
        assert_eq!(comparator.accepts(Comparison::Equal, stored), equal);
        assert_eq!(comparator.accepts(Comparison::NotEqual, stored), !equal);
        comparator.check(Comparison::NotEqual).unwrap();
        comparator.check(Comparison::Greater).unwrap_err();
    }

    #[rstest]
    #[case(Comparator::substring(""), "an empty substring")]
    #[case(Comparator::substring("\u{e4}"), "is not ASCII")]
    #[case(Comparator::component(0, ""), "an empty component")]
    #[case(Comparator::component(u32::MAX, "a"), "beyond any value")]
    fn comparators_without_a_meaning_are_refused(#[case] comparator: Comparator, #[case] why: &str) {
        let error = comparator.check(Comparison::Equal).unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
    }

    #[test]
    fn a_long_value_is_shown_by_its_beginning() {
        assert_eq!(Shown(&[b'a'; 32]).to_string(), "a".repeat(32));
        assert_eq!(Shown(&[b'a'; 33]).to_string(), "a".repeat(32) + "…");
    }
}
