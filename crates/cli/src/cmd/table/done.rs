//! What a command has done to a table.

use hbase_txn::client::TableName;
use serde::{Serialize, Serializer, ser::SerializeMap};

use crate::{
    exit::{Exit, Outcome},
    global::{Format, Global},
    output,
};

/// What was done to a table, or how it is now: `{"table": "orders", "dropped": true}`.
struct Done<'a> {
    table: &'a TableName,
    key: &'static str,
    value: bool,
}

impl Serialize for Done<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_map(Some(2))?;
        object.serialize_entry("table", &self.table.to_string())?;
        object.serialize_entry(self.key, &self.value)?;
        object.end()
    }
}

/// Prints what was done to a table, in a word for people.
pub(super) fn print_done(
    global: &Global,
    table: &TableName,
    word: &str,
    (key, value): (&'static str, bool),
) -> Outcome {
    match global.output {
        Format::Table => output::line(&format!("{table}: {word}"))?,
        Format::Json => output::json(&Done { table, key, value })?,
    }
    Ok(Exit::Done)
}
