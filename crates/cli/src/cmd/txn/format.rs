//! The format of the lines of `txn apply`.
//!
//! | file | contents |
//! |---|---|
//! | `mutation` | a mutation: put, delete, increment, append |
//! | `condition` | a condition |
//! | `keys` | the values of keys, and their errors |
//!
//! serde_json adds the column to every error that is raised while it reads.

mod condition;
mod keys;
mod mutation;

use bytes::Bytes;
use hbase_txn::{Condition, TransactionId};
use serde::Deserialize;

use self::{condition::LineCondition, keys::Object};

pub(super) use self::mutation::LineMutation;

/// The maximum length in characters.
const MAX_REFUSAL: usize = 400;

/// Some editors put it before UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// A line: changes and conditions in one partition, or mutations of any rows. It has at least one
/// mutation or condition.
#[derive(Debug)]
pub(super) struct Transaction {
    /// The partition's prefix; `None` derives the partitions from the rows.
    pub(super) prefix: Option<Bytes>,
    /// The id of its record.
    pub(super) id: Option<TransactionId>,
    pub(super) conditions: Vec<Condition>,
    pub(super) mutations: Vec<LineMutation>,
}

impl Transaction {
    /// Parses a line. The error names the column, counted in bytes from 1.
    pub(super) fn parse(number: u64, text: &[u8]) -> Result<Self, String> {
        if text.starts_with(BYTE_ORDER_MARK) {
            return Err(format!(
                "line {number}, column 1: the file begins with a byte order mark; save the file as UTF-8 without one"
            ));
        }
        match serde_json::from_slice::<Object<LineKeys>>(text) {
            Ok(Object(keys)) if keys.mutations.is_empty() && keys.conditions.is_empty() => Err(format!(
                "line {number}, column {}: neither mutations nor conditions",
                text.len()
            )),
            Ok(Object(keys)) => Ok(Self {
                prefix: keys.prefix,
                id: keys.id,
                conditions: keys
                    .conditions
                    .into_iter()
                    .map(|Object(LineCondition(condition))| condition)
                    .collect(),
                mutations: keys
                    .mutations
                    .into_iter()
                    .map(|Object(mutation)| mutation)
                    .collect(),
            }),
            Err(error) => {
                // serde_json also counts lines, but the text has only one.
                let text = error.to_string();
                let place = format!(" at line {} column {}", error.line(), error.column());
                let what = excerpt(text.strip_suffix(&place).unwrap_or(&text));
                let what = in_words(what);
                let column = error.column().max(1);
                Err(format!("line {number}, column {column}: {what}"))
            }
        }
    }

    /// Whether the line is a single transaction, whatever rows it has.
    pub(super) fn is_whole(&self) -> bool {
        self.prefix.is_some() || self.id.is_some() || !self.conditions.is_empty()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LineKeys {
    #[serde(default, deserialize_with = "keys::prefix")]
    prefix: Option<Bytes>,
    #[serde(default, deserialize_with = "keys::id")]
    id: Option<TransactionId>,
    #[serde(default, deserialize_with = "keys::conditions")]
    conditions: Vec<Object<LineCondition>>,
    #[serde(default, deserialize_with = "keys::mutations")]
    mutations: Vec<Object<LineMutation>>,
}

/// Replaces serde_json's messages about its own types and states.
fn in_words(what: String) -> String {
    if let Some((_, key)) = what.rsplit_once(", expected an array for ") {
        return format!("{key} is not an array");
    }
    match what.as_str() {
        "invalid escape" => r#"invalid escape; a byte \xNN is spelt "\\xNN" in JSON"#.to_owned(),
        "expected value" | "expected ident" => "not a JSON object".to_owned(),
        "trailing characters" => "there is text after the JSON object".to_owned(),
        what if what.starts_with("EOF while parsing") => "the JSON object is not complete".to_owned(),
        what if what.ends_with(", expected an object") => "not a JSON object".to_owned(),
        _ => what,
    }
}

/// Truncates a message that quotes a long key or value.
fn excerpt(what: &str) -> String {
    match what.char_indices().nth(MAX_REFUSAL) {
        Some((cut, _)) => format!("{}…", &what[..cut]),
        None => what.to_owned(),
    }
}

#[cfg(test)]
mod tests;
