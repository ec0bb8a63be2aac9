//! The value of a cell.

use std::str;

use bytes::Bytes;
use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::Value;

use super::keys::escaped;
use crate::value_type::ValueType;

/// A value of a line: bytes as a string, or a number or a boolean.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::cmd) struct LineValue {
    /// The bytes of a string, or the text of a number or a boolean.
    bytes: Bytes,
    /// The type of a number or a boolean for which the line has none.
    implied: Option<ValueType>,
}

impl LineValue {
    pub(super) fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let (bytes, implied) = match &value {
            Value::String(text) => match escaped(text) {
                Ok(bytes) => (bytes, None),
                Err(error) => return Err(D::Error::custom(format!("`value`: {error}"))),
            },
            Value::Number(number) => (number.to_string().into(), Some(ValueType::Long)),
            Value::Bool(is_true) => (is_true.to_string().into(), Some(ValueType::Boolean)),
            _ => {
                let must = "it must be a string, a number, true or false";
                return Err(D::Error::custom(format!("`value` is {value}; {must}")));
            }
        };
        Ok(Self { bytes, implied })
    }

    /// Returns the bytes of a value, and the type of a typed one. Refuses a type without a value.
    pub(in crate::cmd) fn typed(
        value: Option<Self>,
        value_type: Option<ValueType>,
    ) -> Result<Option<(Bytes, Option<ValueType>)>, String> {
        let Some(Self { bytes, implied }) = value else {
            return match value_type {
                Some(_) => Err("`value_type` needs `value`".to_owned()),
                None => Ok(None),
            };
        };
        let Some(value_type) = value_type.or(implied) else {
            return Ok(Some((bytes, None)));
        };
        let text = str::from_utf8(&bytes).map_err(|_| "`value`: its bytes are no UTF-8".to_owned())?;
        let encoded = value_type
            .encode(text)
            .map_err(|error| format!("`value`: {error}"))?;
        Ok(Some((encoded, Some(value_type))))
    }

    /// Returns the bytes of a value.
    pub(in crate::cmd) fn bytes(
        value: Option<Self>,
        value_type: Option<ValueType>,
    ) -> Result<Option<Bytes>, String> {
        Ok(Self::typed(value, value_type)?.map(|(bytes, _)| bytes))
    }
}
