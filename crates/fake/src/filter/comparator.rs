//! Comparators.

use std::cmp::Ordering;

use bytes::Bytes;
use hbase_protocol as pb;

use super::{
    decimal::Decimal,
    message::{class, decode},
    regex::Regex,
};
use crate::exception::{Exception, Result};

/// A given value, and how stored values are compared with it.
pub(crate) struct Comparator {
    value: Option<Bytes>,
    way: Way,
}

enum Way {
    Binary,
    BinaryPrefix,
    /// Equal to nothing but an absent value.
    Null,
    /// Lower-case text that a stored value contains.
    Substring(String),
    Long(i64),
    Bit(pb::bit_comparator::BitwiseOp),
    /// A part of a stored value, from an offset on.
    Component(usize),
    /// Text that a stored value matches.
    Regex(Regex),
    Decimal(Decimal),
}

impl Comparator {
    pub(crate) fn parse(comparator: &pb::Comparator) -> Result<Self> {
        let bytes = comparator.serialized_comparator.clone().unwrap_or_default();
        let given = |comparable: pb::ByteArrayComparable| Some(comparable.value.unwrap_or_default());
        let name = class(&comparator.name)?;
        Ok(match name {
            "BinaryComparator" => {
                let pb::BinaryComparator { comparable } = decode(&bytes, name)?;
                Self::new(given(comparable), Way::Binary)
            }
            "BinaryPrefixComparator" => {
                let pb::BinaryPrefixComparator { comparable } = decode(&bytes, name)?;
                Self::new(given(comparable), Way::BinaryPrefix)
            }
            "NullComparator" => {
                let pb::NullComparator {} = decode(&bytes, name)?;
                Self::new(Some(Bytes::new()), Way::Null)
            }
            "SubstringComparator" => {
                let pb::SubstringComparator { substr } = decode(&bytes, name)?;
                let text = substr.to_lowercase();
                Self::new(Some(text.clone().into()), Way::Substring(text))
            }
            "LongComparator" => {
                let pb::LongComparator { comparable } = decode(&bytes, name)?;
                let value = given(comparable).unwrap_or_default();
                let number = value[..].try_into().map_err(|_| not_a_long())?;
                Self::new(Some(value), Way::Long(i64::from_be_bytes(number)))
            }
            "BitComparator" => {
                let message: pb::BitComparator = decode(&bytes, name)?;
                let operator = message.bitwise_op();
                Self::new(given(message.comparable), Way::Bit(operator))
            }
            "BinaryComponentComparator" => {
                let pb::BinaryComponentComparator { value, offset } = decode(&bytes, name)?;
                let offset = usize::try_from(offset).unwrap_or(usize::MAX);
                Self::new(Some(value), Way::Component(offset))
            }
            "RegexStringComparator" => {
                let message: pb::RegexStringComparator = decode(&bytes, name)?;
                Self::new(
                    Some(message.pattern.clone().into()),
                    Way::Regex(Regex::new(&message)?),
                )
            }
            "BigDecimalComparator" => {
                let pb::BigDecimalComparator { comparable } = decode(&bytes, name)?;
                let value = given(comparable).unwrap_or_default();
                let number = Decimal::read(&value)?;
                Self::new(Some(value), Way::Decimal(number))
            }
            other => return Err(Exception::not_modelled(format!("comparator {other}"))),
        })
    }

    fn new(value: Option<Bytes>, way: Way) -> Self {
        Self { value, way }
    }

    /// The given value.
    pub(crate) fn value(&self) -> Option<&Bytes> {
        self.value.as_ref()
    }

    /// Returns the order of the given value and a stored one.
    ///
    /// # Errors
    ///
    /// Returns the exception of a server that cannot compare them.
    pub(crate) fn compare(&self, stored: &[u8]) -> Result<Ordering> {
        let given = self.value.as_deref().unwrap_or_default();
        Ok(match &self.way {
            Way::Binary => given.cmp(stored),
            Way::BinaryPrefix => given.cmp(&stored[..stored.len().min(given.len())]),
            Way::Null => Ordering::Greater,
            Way::Substring(text) => {
                let stored = String::from_utf8_lossy(stored).to_lowercase();
                equal_or_greater(stored.contains(text))
            }
            Way::Long(given) => {
                let stored = stored.get(..8).and_then(|bytes| bytes.try_into().ok());
                given.cmp(&i64::from_be_bytes(stored.ok_or_else(not_a_long)?))
            }
            Way::Bit(operator) => {
                let bits = |one: u8, other: u8| match operator {
                    pb::bit_comparator::BitwiseOp::And => one & other,
                    pb::bit_comparator::BitwiseOp::Or => one | other,
                    pb::bit_comparator::BitwiseOp::Xor => one ^ other,
                };
                let any = given.len() == stored.len()
                    && given
                        .iter()
                        .zip(stored)
                        .any(|(one, other)| bits(*one, *other) != 0);
                equal_or_greater(any)
            }
            // A real server reads on in its memory.
            Way::Component(offset) => {
                let stored = stored.get(*offset..).unwrap_or_default();
                given.cmp(stored.get(..given.len()).ok_or_else(|| {
                    Exception::not_modelled("a value that ends before the component that it is compared with")
                })?)
            }
            Way::Regex(regex) => equal_or_greater(regex.finds(stored)?),
            Way::Decimal(given) => given.compare(&Decimal::read(stored)?)?,
        })
    }
}

fn equal_or_greater(equal: bool) -> Ordering {
    if equal { Ordering::Equal } else { Ordering::Greater }
}

fn not_a_long() -> Exception {
    Exception::io("offset (0) + length (8) exceed the capacity of the array")
}
