//! Decimal numbers, as Java stores them.

use std::cmp::Ordering;

use crate::exception::{Exception, Result};

/// A `BigDecimal` of few enough digits.
pub(super) struct Decimal {
    unscaled: i128,
    scale: i32,
}

impl Decimal {
    /// `Bytes.toBigDecimal`: the scale, then the digits in two's complement.
    pub(super) fn read(bytes: &[u8]) -> Result<Self> {
        let Some((scale, digits)) = bytes.split_first_chunk().filter(|(_, digits)| !digits.is_empty()) else {
            // The comparator fails at the missing number.
            return Err(Exception::io("java.lang.NullPointerException"));
        };
        let sign = if digits[0] < 0x80 { 0 } else { 0xff };
        let mut number = [sign; size_of::<i128>()];
        let Some(unused) = number.len().checked_sub(digits.len()) else {
            return Err(Exception::not_modelled("a decimal number of so many digits"));
        };
        number[unused..].copy_from_slice(digits);
        Ok(Self {
            unscaled: i128::from_be_bytes(number),
            scale: i32::from_be_bytes(*scale),
        })
    }

    pub(super) fn compare(&self, other: &Self) -> Result<Ordering> {
        let scale = self.scale.max(other.scale);
        Ok(self.digits_at(scale)?.cmp(&other.digits_at(scale)?))
    }

    fn digits_at(&self, scale: i32) -> Result<i128> {
        let more = scale.abs_diff(self.scale);
        10_i128
            .checked_pow(more)
            .and_then(|factor| self.unscaled.checked_mul(factor))
            .ok_or_else(|| Exception::not_modelled("decimal numbers of so different scales"))
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(b"\0\0\0\x02\0\x96", b"\0\0\0\x01\x0f", Ordering::Equal)]
    #[case(b"\0\0\0\x01\xe7", b"\0\0\0\0\xff", Ordering::Less)]
    #[case(b"\xff\xff\xff\xff\x01", b"\0\0\0\0\x09", Ordering::Greater)]
    fn numbers_are_compared_whatever_their_scales(
        #[case] one: &[u8],
        #[case] other: &[u8],
        #[case] expected: Ordering,
    ) {
        let (one, other) = (Decimal::read(one).unwrap(), Decimal::read(other).unwrap());
        assert_eq!(one.compare(&other).unwrap(), expected);
        assert_eq!(other.compare(&one).unwrap(), expected.reverse());
    }

    #[test]
    fn numbers_beyond_the_model_are_refused() {
        let distant = Decimal::read(b"\x7f\0\0\0\x01").unwrap();
        let one = Decimal::read(b"\0\0\0\0\x01").unwrap();
        assert!(one.compare(&distant).unwrap_err().is_not_modelled());
        assert!(!Decimal::read(b"tiny").err().unwrap().is_not_modelled());
    }
}
