//! The values of keys, and their errors.

use std::{fmt, marker::PhantomData};

use bytes::Bytes;
use hbase_txn::{TransactionId, client::parse_bytes_binary};
use serde::{
    Deserialize, Deserializer,
    de::{self, DeserializeOwned, Error as _, MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer},
};
use serde_json::Value;

use super::LineValue;
use crate::value_type::ValueType;

/// A JSON object. serde's derived implementation would also accept an array of the values.
pub(in crate::cmd) struct Object<T>(pub(in crate::cmd) T);

impl<'de, T: DeserializeOwned> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ObjectVisitor<T>(PhantomData<T>);

        impl<'de, T: DeserializeOwned> Visitor<'de> for ObjectVisitor<T> {
            type Value = Object<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Object)
            }
        }

        deserializer.deserialize_map(ObjectVisitor(PhantomData))
    }
}

pub(in crate::cmd) fn prefix<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Bytes>, D::Error> {
    string("prefix", escaped, deserializer).map(Some)
}

pub(in crate::cmd) fn id<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<TransactionId>, D::Error> {
    string("id", |text| TransactionId::new(escaped(text)?), deserializer).map(Some)
}

pub(in crate::cmd) fn row<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
    string("row", escaped, deserializer)
}

pub(in crate::cmd) fn family<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Bytes>, D::Error> {
    string("family", escaped, deserializer).map(Some)
}

pub(in crate::cmd) fn qualifier<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Bytes>, D::Error> {
    string("qualifier", escaped, deserializer).map(Some)
}

pub(in crate::cmd) fn value<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<LineValue>, D::Error> {
    LineValue::read(deserializer).map(Some)
}

pub(in crate::cmd) fn value_type<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<ValueType>, D::Error> {
    string("value_type", ValueType::named, deserializer).map(Some)
}

/// A label is text, not bytes, so a backslash in it is literal.
pub(in crate::cmd) fn label<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    string("label", |text| Ok::<_, String>(text.to_owned()), deserializer).map(Some)
}

pub(in crate::cmd) fn ttl<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    millis("ttl_ms", deserializer).map(Some)
}

pub(in crate::cmd) fn timestamp<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    millis("timestamp", deserializer).map(Some)
}

pub(in crate::cmd) fn amount<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
    let must = "it must be a whole number that eight bytes can hold";
    number("amount", Value::as_i64, must, deserializer).map(Some)
}

pub(in crate::cmd) fn conditions<'de, D: Deserializer<'de>, T: DeserializeOwned>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    array("conditions", deserializer)
}

pub(in crate::cmd) fn mutations<'de, D: Deserializer<'de>, T: DeserializeOwned>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    array("mutations", deserializer)
}

pub(in crate::cmd) fn cells<'de, D: Deserializer<'de>, T: DeserializeOwned>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    array("cells", deserializer)
}

/// Reads one of the words for `op`.
pub(in crate::cmd) fn op<'de, D: Deserializer<'de>, T: Copy>(
    words: &[(&str, T)],
    deserializer: D,
) -> Result<T, D::Error> {
    let find = |text: &str| {
        let found = words.iter().find(|(word, _)| *word == text);
        found.map(|(_, op)| *op).ok_or_else(|| {
            let words: Vec<_> = words.iter().map(|(word, _)| format!("`{word}`")).collect();
            format!("there is no `{text}`; there are {}", words.join(", "))
        })
    };
    string("op", find, deserializer)
}

fn millis<'de, D: Deserializer<'de>>(key: &'static str, deserializer: D) -> Result<u64, D::Error> {
    let must = "it must be a whole number of milliseconds, 0 or more";
    number(key, Value::as_u64, must, deserializer)
}

/// Reads a number.
fn number<'de, D: Deserializer<'de>, T>(
    key: &'static str,
    read: fn(&Value) -> Option<T>,
    must: &str,
    deserializer: D,
) -> Result<T, D::Error> {
    let value = Value::deserialize(deserializer)?;
    read(&value).ok_or_else(|| D::Error::custom(format!("{key} is {value}; {must}")))
}

/// Parses bytes in the notation of HBase's shell.
pub(super) fn escaped(text: &str) -> hbase_client::Result<Bytes> {
    parse_bytes_binary(text)
}

/// Reads a string and converts it.
fn string<'de, D: Deserializer<'de>, T, E: fmt::Display>(
    key: &'static str,
    read: impl Fn(&str) -> Result<T, E>,
    deserializer: D,
) -> Result<T, D::Error> {
    struct StringVisitor<R>(&'static str, R);

    impl<T, E: fmt::Display, R: Fn(&str) -> Result<T, E>> Visitor<'_> for StringVisitor<R> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a string for `{}`", self.0)
        }

        fn visit_str<F: de::Error>(self, text: &str) -> Result<T, F> {
            (self.1)(text).map_err(|error| F::custom(format!("`{}`: {error}", self.0)))
        }
    }

    deserializer.deserialize_str(StringVisitor(key, read))
}

/// Reads an array.
fn array<'de, D: Deserializer<'de>, T: DeserializeOwned>(
    key: &'static str,
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    struct ArrayVisitor<T>(&'static str, PhantomData<T>);

    impl<'de, T: DeserializeOwned> Visitor<'de> for ArrayVisitor<T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "an array for `{}`", self.0)
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Vec<T>, A::Error> {
            let mut all = Vec::new();
            while let Some(element) = elements.next_element()? {
                all.push(element);
            }
            Ok(all)
        }
    }

    deserializer.deserialize_seq(ArrayVisitor(key, PhantomData))
}
