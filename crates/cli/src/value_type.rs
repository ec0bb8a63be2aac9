//! Types of values: numbers and booleans in the encoding of HBase's `Bytes` class.

use bytes::Bytes;
use hbase_txn::client::{FromValue, IntoValue};
use serde_json::{Number, Value};

/// The type of a value, named as the conversions of HBase's shell are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueType {
    Long,
    Int,
    Short,
    Double,
    Float,
    Boolean,
}

impl ValueType {
    const ALL: [Self; 6] = [
        Self::Long,
        Self::Int,
        Self::Short,
        Self::Double,
        Self::Float,
        Self::Boolean,
    ];

    /// Returns the name: the function of `Bytes` that reads it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Long => "toLong",
            Self::Int => "toInt",
            Self::Short => "toShort",
            Self::Double => "toDouble",
            Self::Float => "toFloat",
            Self::Boolean => "toBoolean",
        }
    }

    /// Returns the type with this name.
    pub(crate) fn named(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|known| known.name() == name);
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("there is no type {name}; there are {names}")
        })
    }

    /// Encodes the text of a value.
    pub(crate) fn encode(self, text: &str) -> Result<Bytes, String> {
        let encoded = match self {
            Self::Long => text.parse::<i64>().ok().map(IntoValue::into_value),
            Self::Int => text.parse::<i32>().ok().map(IntoValue::into_value),
            Self::Short => text.parse::<i16>().ok().map(IntoValue::into_value),
            Self::Double => finite(text.parse::<f64>().ok(), f64::is_finite).map(IntoValue::into_value),
            Self::Float => finite(text.parse::<f32>().ok(), f32::is_finite).map(IntoValue::into_value),
            Self::Boolean => text.parse::<bool>().ok().map(IntoValue::into_value),
        };
        encoded.ok_or_else(|| format!("{text} is not {}", self.range()))
    }

    /// Decodes a value. Returns `None` if [`encode`](Self::encode) can't produce these bytes from the result.
    pub(crate) fn decode(self, value: &Bytes) -> Option<Value> {
        let decoded: Value = match self {
            Self::Long => read::<i64>(value)?.into(),
            Self::Int => read::<i32>(value)?.into(),
            Self::Short => read::<i16>(value)?.into(),
            Self::Double => Number::from_f64(read(value)?)?.into(),
            // The shortest text of this float, which has fewer digits than the same number as a double.
            Self::Float => Number::from_f64(read::<f32>(value)?.to_string().parse().ok()?)?.into(),
            Self::Boolean => read::<bool>(value)?.into(),
        };
        let is_exact = self
            .encode(&decoded.to_string())
            .is_ok_and(|encoded| encoded == value);
        is_exact.then_some(decoded)
    }

    /// Describes the values of this type.
    pub(crate) fn range(self) -> String {
        match self {
            Self::Long => format!(
                "a whole number from {} to {} ({})",
                i64::MIN,
                i64::MAX,
                self.name()
            ),
            Self::Int => format!(
                "a whole number from {} to {} ({})",
                i32::MIN,
                i32::MAX,
                self.name()
            ),
            Self::Short => format!(
                "a whole number from {} to {} ({})",
                i16::MIN,
                i16::MAX,
                self.name()
            ),
            Self::Double | Self::Float => format!("a finite number ({})", self.name()),
            Self::Boolean => format!("true or false ({})", self.name()),
        }
    }
}

fn finite<T: Copy>(number: Option<T>, is_finite: fn(T) -> bool) -> Option<T> {
    number.filter(|number| is_finite(*number))
}

fn read<'a, T: FromValue<'a>>(value: &'a Bytes) -> Option<T> {
    T::from_value(value).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(ValueType::Long, "5", &[0, 0, 0, 0, 0, 0, 0, 5])]
    #[case(ValueType::Int, "-1", &[0xFF; 4])]
    #[case(ValueType::Short, "256", &[1, 0])]
    #[case(ValueType::Double, "1.0", &[0x3F, 0xF0, 0, 0, 0, 0, 0, 0])]
    #[case(ValueType::Float, "0.1", &[0x3D, 0xCC, 0xCC, 0xCD])]
    #[case(ValueType::Boolean, "true", &[0xFF])]
    fn text_and_bytes_of_a_value(#[case] value_type: ValueType, #[case] text: &str, #[case] bytes: &[u8]) {
        let encoded = value_type.encode(text).unwrap();
        assert_eq!(encoded, bytes);
        assert_eq!(value_type.decode(&encoded).unwrap().to_string(), text);
    }

    #[rstest]
    #[case(ValueType::Long, "9223372036854775808", "9223372036854775807 (toLong)")]
    #[case(ValueType::Long, "1.0", "a whole number")]
    #[case(ValueType::Int, "", " is not a whole number from -2147483648")]
    #[case(ValueType::Short, "32768", "to 32767")]
    #[case(ValueType::Double, "NaN", "NaN is not a finite number")]
    #[case(ValueType::Float, "1e39", "a finite number")]
    #[case(ValueType::Boolean, "1", "true or false")]
    fn other_texts_are_refused(#[case] value_type: ValueType, #[case] text: &str, #[case] why: &str) {
        let refusal = value_type.encode(text).unwrap_err();
        assert!(refusal.contains(why), "{refusal}");
    }

    #[rstest]
    #[case(ValueType::Boolean, &[1])]
    #[case(ValueType::Double, &[0x7F, 0xF8, 0, 0, 0, 0, 0, 0])]
    #[case(ValueType::Long, &[5])]
    fn bytes_that_no_text_has_are_not_decoded(#[case] value_type: ValueType, #[case] bytes: &'static [u8]) {
        assert_eq!(value_type.decode(&Bytes::from_static(bytes)), None);
    }

    proptest! {
        #[test]
        fn decoded_bytes_are_encoded_again(bytes: [u8; 8], length in 0..=8_usize, kind in 0..6_usize) {
            let (bytes, value_type) = (Bytes::copy_from_slice(&bytes[..length]), ValueType::ALL[kind]);
            if let Some(decoded) = value_type.decode(&bytes) {
                prop_assert_eq!(value_type.encode(&decoded.to_string()), Ok(bytes));
            }
        }

        #[test]
        fn every_whole_number_is_decoded(number: i64) {
            let encoded = ValueType::Long.encode(&number.to_string()).unwrap();
            prop_assert_eq!(ValueType::Long.decode(&encoded), Some(number.into()));
        }
    }
}
