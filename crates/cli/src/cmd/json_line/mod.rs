//! Lines that are JSON objects: their mutations, and the errors of their text.
//!
//! | file | contents |
//! |---|---|
//! | `mutation` | a mutation: put, delete, increment, append |
//! | `value` | the value of a cell: bytes, a number or a boolean |
//! | `keys` | the values of keys, and their errors |
//!
//! serde_json adds the column to every error that is raised while it reads.

pub(in crate::cmd) mod keys;
mod mutation;
mod value;

use serde::de::DeserializeOwned;

pub(in crate::cmd) use self::{keys::Object, mutation::LineMutation, value::LineValue};

/// The maximum length in characters.
const MAX_REFUSAL: usize = 400;

/// Some editors put it before UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Parses a line. The error names the column, counted in bytes from 1.
pub(in crate::cmd) fn parse<T: DeserializeOwned>(number: u64, text: &[u8]) -> Result<T, String> {
    refuse_byte_order_mark(number, text)?;
    serde_json::from_slice(text).map_err(|error| {
        // serde_json also counts lines, but the text has only one.
        let text = error.to_string();
        let place = format!(" at line {} column {}", error.line(), error.column());
        let what = excerpt(text.strip_suffix(&place).unwrap_or(&text));
        let what = in_words(what);
        let column = error.column().max(1);
        format!("line {number}, column {column}: {what}")
    })
}

/// Refuses a line that begins with a byte order mark.
pub(in crate::cmd) fn refuse_byte_order_mark(number: u64, text: &[u8]) -> Result<(), String> {
    if text.starts_with(BYTE_ORDER_MARK) {
        Err(format!(
            "line {number}, column 1: the file begins with a byte order mark; save the file as UTF-8 without one"
        ))
    } else {
        Ok(())
    }
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
