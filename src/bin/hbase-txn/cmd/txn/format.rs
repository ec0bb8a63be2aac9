//! What a line of `txn apply` may say.
//!
//! The keys are final; those that this version does not serve yet are known and refused by name. A refusal says
//! where in the line it was found: serde_json adds the column to every error that is raised while it reads.

use std::{fmt, marker::PhantomData, time::Duration};

use bytes::Bytes;
use hbase_txn::{Delete, Mutation, Put, parse_bytes_binary};
use serde::{
    Deserialize, Deserializer,
    de::{self, DeserializeOwned, Error as _, MapAccess, Visitor, value::MapAccessDeserializer},
};
use serde_json::Value;

/// In characters.
const LONGEST_REFUSAL: usize = 400;

/// What some editors put in front of UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// A line: the mutations of one partition, or of any rows.
#[derive(Debug)]
pub(super) struct Transaction {
    /// The partition's prefix; none to group by partition.
    pub(super) prefix: Option<Bytes>,
    pub(super) mutations: Vec<LineMutation>,
}

/// A mutation of a line.
#[derive(Debug, Deserialize)]
#[serde(try_from = "MutationKeys")]
pub(super) struct LineMutation {
    pub(super) mutation: Mutation,
    /// Whether it is a delete that the server stamps with its own time.
    pub(super) deletes_now: bool,
}

impl Transaction {
    /// Reads a line. The error names the column, counted in bytes from 1.
    pub(super) fn parse(number: u64, text: &[u8]) -> Result<Self, String> {
        if text.starts_with(BYTE_ORDER_MARK) {
            return Err(format!(
                "line {number}, column 1: a byte order mark stands in front; save the file as UTF-8 without one"
            ));
        }
        match serde_json::from_slice::<Object<LineKeys>>(text) {
            Ok(Object(LineKeys { mutations, .. })) if mutations.is_empty() => {
                Err(format!("line {number}, column {}: no mutations", text.len()))
            }
            Ok(Object(keys)) => Ok(Self {
                prefix: keys.prefix,
                mutations: keys
                    .mutations
                    .into_iter()
                    .map(|Object(mutation)| mutation)
                    .collect(),
            }),
            Err(error) => {
                // It counts lines too; here there is only one.
                let text = error.to_string();
                let place = format!(" at line {} column {}", error.line(), error.column());
                let what = excerpt(text.strip_suffix(&place).unwrap_or(&text));
                let what = in_words(what);
                let column = error.column().max(1);
                Err(format!("line {number}, column {column}: {what}"))
            }
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LineKeys {
    #[serde(default, deserialize_with = "prefix")]
    prefix: Option<Bytes>,
    #[serde(default, rename = "id", deserialize_with = "id")]
    _id: (),
    #[serde(default, rename = "conditions", deserialize_with = "conditions")]
    _conditions: (),
    #[serde(default)]
    mutations: Vec<Object<LineMutation>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MutationKeys {
    op: Op,
    #[serde(deserialize_with = "row")]
    row: Bytes,
    #[serde(default, deserialize_with = "family")]
    family: Option<Bytes>,
    #[serde(default, deserialize_with = "qualifier")]
    qualifier: Option<Bytes>,
    #[serde(default, deserialize_with = "value")]
    value: Option<Bytes>,
    #[serde(default, deserialize_with = "ttl")]
    ttl_ms: Option<u64>,
    #[serde(default, deserialize_with = "timestamp")]
    timestamp: Option<u64>,
    amount: Option<i64>,
}

/// What a mutation does.
#[derive(Clone, Copy)]
enum Op {
    Put,
    Delete,
}

impl TryFrom<MutationKeys> for LineMutation {
    type Error = String;

    fn try_from(keys: MutationKeys) -> Result<Self, Self::Error> {
        if keys.amount.is_some() {
            return Err("`amount` is for increments".to_owned());
        }
        match keys.op {
            Op::Put => put(keys),
            Op::Delete => delete(keys),
        }
    }
}

fn put(keys: MutationKeys) -> Result<LineMutation, String> {
    let needed = |key: &str| format!("a put needs `{key}`");
    let family = keys.family.ok_or_else(|| needed("family"))?;
    let qualifier = keys.qualifier.ok_or_else(|| needed("qualifier"))?;
    let value = keys.value.ok_or_else(|| needed("value"))?;
    let mut put = Put::new(keys.row).cell(family, qualifier, value);
    if let Some(millis) = keys.ttl_ms {
        put = put.ttl(Duration::from_millis(millis));
    }
    if let Some(timestamp) = keys.timestamp {
        put = put.timestamp(timestamp);
    }
    Ok(LineMutation {
        mutation: put.into(),
        deletes_now: false,
    })
}

/// Without a qualifier the family, without a family the row.
fn delete(keys: MutationKeys) -> Result<LineMutation, String> {
    if keys.value.is_some() {
        return Err("a delete has no `value`".to_owned());
    }
    if keys.ttl_ms.is_some() {
        return Err(
            "a delete can't have `ttl_ms`: its marker would expire and what it deleted come back".to_owned(),
        );
    }
    let delete = Delete::new(keys.row);
    let mut delete = match (keys.family, keys.qualifier) {
        (Some(family), Some(qualifier)) => delete.column(family, qualifier),
        (Some(family), None) => delete.family(family),
        (None, None) => delete,
        (None, Some(_)) => return Err("a delete with `qualifier` needs `family`".to_owned()),
    };
    if let Some(timestamp) = keys.timestamp {
        delete = delete.timestamp(timestamp);
    }
    Ok(LineMutation {
        mutation: delete.into(),
        deletes_now: keys.timestamp.is_none(),
    })
}

impl<'de> Deserialize<'de> for Op {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OpVisitor;

        impl Visitor<'_> for OpVisitor {
            type Value = Op;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an operation")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Op, E> {
                match text {
                    "put" => Ok(Op::Put),
                    "delete" => Ok(Op::Delete),
                    "increment" | "append" => Err(E::custom(not_yet(&format!("op `{text}`")))),
                    other => Err(E::unknown_variant(
                        other,
                        &["put", "delete", "increment", "append"],
                    )),
                }
            }
        }

        deserializer.deserialize_str(OpVisitor)
    }
}

/// What serde_json says, for people who never heard of its types and states.
fn in_words(what: String) -> String {
    match what.as_str() {
        "invalid escape" => r#"invalid escape; a byte \xNN is spelt "\\xNN" in JSON"#.to_owned(),
        "expected value" | "expected ident" => "not a JSON object".to_owned(),
        "trailing characters" => "something stands behind the JSON object".to_owned(),
        what if what.starts_with("EOF while parsing") => "the JSON object is not complete".to_owned(),
        what if what.ends_with(", expected an object") => "not a JSON object".to_owned(),
        what if what.ends_with(", expected a sequence") => "`mutations` is not an array".to_owned(),
        _ => what,
    }
}

/// What went wrong, without most of a key or value that is as long as a book.
fn excerpt(what: &str) -> String {
    match what.char_indices().nth(LONGEST_REFUSAL) {
        Some((cut, _)) => format!("{}…", &what[..cut]),
        None => what.to_owned(),
    }
}

fn not_yet(what: &str) -> String {
    format!("{what} is not supported in this version")
}

fn id<'de, D: Deserializer<'de>>(_: D) -> Result<(), D::Error> {
    Err(D::Error::custom(not_yet("`id`, a transaction with a record,")))
}

fn conditions<'de, D: Deserializer<'de>>(_: D) -> Result<(), D::Error> {
    Err(D::Error::custom(not_yet(
        "`conditions`, a transaction with conditions,",
    )))
}

fn prefix<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Bytes>, D::Error> {
    escaped("prefix", deserializer).map(Some)
}

fn row<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
    escaped("row", deserializer)
}

fn family<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Bytes>, D::Error> {
    escaped("family", deserializer).map(Some)
}

fn qualifier<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Bytes>, D::Error> {
    escaped("qualifier", deserializer).map(Some)
}

fn value<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Bytes>, D::Error> {
    escaped("value", deserializer).map(Some)
}

fn ttl<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    millis("ttl_ms", deserializer).map(Some)
}

fn timestamp<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    millis("timestamp", deserializer).map(Some)
}

/// Milliseconds under this key.
fn millis<'de, D: Deserializer<'de>>(key: &'static str, deserializer: D) -> Result<u64, D::Error> {
    let refuse = |what: &dyn fmt::Display| {
        let must = "it must be a whole number of milliseconds, 0 or more";
        D::Error::custom(format!("{key} is {what}; {must}"))
    };
    match Value::deserialize(deserializer)? {
        Value::Number(number) => number.as_u64().ok_or_else(|| refuse(&number)),
        other => Err(refuse(&other)),
    }
}

/// Bytes as HBase's shell writes them, under this key.
fn escaped<'de, D: Deserializer<'de>>(key: &'static str, deserializer: D) -> Result<Bytes, D::Error> {
    struct Escaped(&'static str);

    impl Visitor<'_> for Escaped {
        type Value = Bytes;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a string for `{}`", self.0)
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<Bytes, E> {
            parse_bytes_binary(text).map_err(|error| E::custom(format!("`{}`: {error}", self.0)))
        }
    }

    deserializer.deserialize_str(Escaped(key))
}

/// A JSON object. What serde derives takes an array of the values as well.
struct Object<T>(T);

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

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn parse(text: &str) -> Result<Transaction, String> {
        Transaction::parse(7, text.as_bytes())
    }

    fn mutations(text: &str) -> Vec<Mutation> {
        let line = format!(r#"{{"mutations":[{text}]}}"#);
        let transaction = parse(&line).unwrap();
        transaction
            .mutations
            .into_iter()
            .map(|line| line.mutation)
            .collect()
    }

    fn cell() -> Put {
        Put::new("r").cell("f", "q", "v")
    }

    #[rstest]
    #[case(r#"{"op":"put","row":"r","family":"f","qualifier":"q","value":"v"}"#, cell())]
    #[case(r#"{"op":"put","row":"r","family":"f","qualifier":"q","value":"v","ttl_ms":1000}"#, cell().ttl(Duration::from_secs(1)))]
    #[case(r#"{"op":"put","row":"r","family":"f","qualifier":"q","value":"v","timestamp":5}"#, cell().timestamp(5))]
    #[case(r#"{"value":"","qualifier":"","family":"f","row":"é","op":"put"}"#, Put::new("é").cell("f", "", ""))]
    #[case(r#"{"op":"put","row":"\\x00\\xfF","family":"f","qualifier":"q","value":"\\x5c"}"#, Put::new(&b"\0\xff"[..]).cell("f", "q", "\\"))]
    #[case(r#"{"op":"delete","row":"r"}"#, Delete::new("r"))]
    #[case(r#"{"op":"delete","row":"r","family":"f"}"#, Delete::new("r").family("f"))]
    #[case(r#"{"op":"delete","row":"r","family":"f","qualifier":"q"}"#, Delete::new("r").column("f", "q"))]
    #[case(r#"{"op":"delete","row":"r","timestamp":9}"#, Delete::new("r").timestamp(9))]
    fn reads_puts_and_deletes(#[case] text: &str, #[case] mutation: impl Into<Mutation>) {
        assert_eq!(mutations(text), [mutation.into()]);
    }

    #[test]
    fn knows_the_prefix_and_the_deletes_that_the_server_stamps() {
        let line = r#"{"prefix":"xx\\x00","mutations":[{"op":"delete","row":"a"},{"op":"delete","row":"b","timestamp":1}]}"#;
        let transaction = parse(line).unwrap();
        assert_eq!(transaction.prefix.unwrap(), "xx\0");
        let now: Vec<bool> = transaction
            .mutations
            .iter()
            .map(|line| line.deletes_now)
            .collect();
        assert_eq!(now, [true, false]);
        assert!(
            parse(r#"{"mutations":[{"op":"delete","row":"a"}]}"#)
                .unwrap()
                .prefix
                .is_none()
        );
    }

    #[rstest]
    // Not JSON, or not this JSON.
    #[case("", 1, "the JSON object is not complete")]
    #[case("no", 2, "not a JSON object")]
    #[case("not json", 2, "not a JSON object")]
    #[case("put xxx", 1, "not a JSON object")]
    #[case("5", 1, "not a JSON object")]
    #[case("[]", 1, "not a JSON object")]
    #[case(r#"["xxx"]"#, 1, "not a JSON object")]
    #[case("\u{feff}{}", 1, "a byte order mark")]
    #[case(r#"{"mutations":[]} {}"#, 18, "something stands behind")]
    #[case(r#"{"mutations":[{"op":"put"#, 24, "the JSON object is not complete")]
    #[case(r#"{"mutations":[["put","r"]]}"#, 14, "not a JSON object")]
    #[case(r#"{"mutations":{}}"#, 13, "`mutations` is not an array")]
    #[case(r"{}", 2, "no mutations")]
    #[case(r#"{"mutations":[]}"#, 16, "no mutations")]
    // Keys.
    #[case(r#"{"prefix":"a","mutation":[]}"#, 24, "unknown field `mutation`")]
    #[case(r#"{"prefix":"a","prefix":"b"}"#, 22, "duplicate field `prefix`")]
    #[case(r#"{"prefix":5}"#, 11, "expected a string for `prefix`")]
    #[case(
        r#"{"id":"7","mutations":[]}"#,
        6,
        "`id`, a transaction with a record, is not supported in this version"
    )]
    #[case(
        r#"{"conditions":[],"mutations":[]}"#,
        14,
        "`conditions`, a transaction with conditions, is not supported"
    )]
    #[case(r#"{"mutations":[{"op":"put","rows":"r"}]}"#, 32, "unknown field `rows`")]
    #[case(
        r#"{"mutations":[{"op":"increment","row":"r","family":"f","qualifier":"q","amount":1}]}"#,
        31,
        "op `increment` is not supported in this version"
    )]
    #[case(
        r#"{"mutations":[{"op":"append","row":"r"}]}"#,
        28,
        "op `append` is not supported in this version"
    )]
    #[case(
        r#"{"mutations":[{"op":"upsert","row":"r"}]}"#,
        28,
        "unknown variant `upsert`"
    )]
    // Values.
    #[case(r#"{"mutations":[{"op":"delete"}]}"#, 29, "missing field `row`")]
    #[case(r#"{"mutations":[{"row":"r"}]}"#, 25, "missing field `op`")]
    #[case(
        r#"{"mutations":[{"op":"put","row":"r","qualifier":"q","value":""}]}"#,
        63,
        "a put needs `family`"
    )]
    #[case(
        r#"{"mutations":[{"op":"put","row":"r","family":"f","value":""}]}"#,
        60,
        "a put needs `qualifier`"
    )]
    #[case(
        r#"{"mutations":[{"op":"put","row":"r","family":"f","qualifier":"q"}]}"#,
        65,
        "a put needs `value`"
    )]
    #[case(
        r#"{"mutations":[{"op":"put","row":"r","ttl_ms":-1}]}"#,
        48,
        "ttl_ms is -1; it must be"
    )]
    #[case(
        r#"{"mutations":[{"op":"put","row":"r","timestamp":1.5}]}"#,
        52,
        "timestamp is 1.5; it must be"
    )]
    #[case(
        r#"{"mutations":[{"op":"put","row":"r","timestamp":"5"}]}"#,
        52,
        r#"timestamp is "5"; it must be"#
    )]
    #[case(
        r#"{"mutations":[{"op":"delete","row":"r","amount":1}]}"#,
        50,
        "`amount` is for increments"
    )]
    #[case(
        r#"{"mutations":[{"op":"delete","row":"r","value":""}]}"#,
        50,
        "a delete has no `value`"
    )]
    #[case(r#"{"mutations":[{"op":"delete","row":"r","ttl_ms":1}]}"#, 50, "come back")]
    #[case(
        r#"{"mutations":[{"op":"delete","row":"r","qualifier":"q"}]}"#,
        55,
        "needs `family`"
    )]
    // Escapes. The first is JSON's own: a backslash of ours is written as two.
    #[case(r#"{"prefix":"\x00"}"#, 13, r#"is spelt "\\xNN" in JSON"#)]
    #[case(r#"{"prefix":"a\\n"}"#, 16, "`prefix`: a stray backslash at column 2")]
    #[case(
        r#"{"mutations":[{"op":"put","row":"\\xG0"}]}"#,
        39,
        "`row`: a stray backslash at column 1"
    )]
    #[case(
        r#"{"mutations":[{"op":"put","row":"r","value":"\\"}]}"#,
        48,
        "`value`: a stray backslash at column 1"
    )]
    fn refuses_a_line_and_says_where(#[case] text: &str, #[case] column: usize, #[case] why: &str) {
        let refusal = parse(text).unwrap_err();
        assert!(
            refusal.starts_with(&format!("line 7, column {column}: ")) && refusal.contains(why),
            "{refusal}"
        );
    }

    #[test]
    fn bytes_that_are_no_utf8_are_refused() {
        let refusal = Transaction::parse(1, b"{\"prefix\":\"\xff\"}").unwrap_err();
        assert!(refusal.starts_with("line 1, column 1"), "{refusal}");
    }

    #[test]
    fn a_refusal_stays_short_whatever_the_line_holds() {
        let long = "x".repeat(1 << 20);
        for line in [
            format!(r#"{{"prefix":"{long}\\"}}"#),
            format!(r#"{{"{long}":1}}"#),
        ] {
            assert!(parse(&line).unwrap_err().len() < 1_000);
        }
    }
}
