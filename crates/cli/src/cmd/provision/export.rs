//! `hbase-txn provision export`.

use clap::Args;
use hbase_provision::export_table;
use hbase_txn::client::TableName;
use serde::Serialize;

use crate::{
    exit::{Exit, Outcome},
    global::{Format, Global},
    output,
};

/// Print the table file of an existing table
///
/// The file has the families, attributes, partition rule, endpoint and split keys, without values
/// that equal HBase's defaults. `provision apply` creates the same table from it elsewhere, and finds
/// nothing to change here. What a new table would have in another form is a note on stderr. A
/// setting that no file can state is an error.
#[derive(Debug, Args)]
#[command(after_help = EXPORT)]
pub(crate) struct Export {
    /// Table, with its namespace if it has one
    table: TableName,
}

const EXPORT: &str = "Example: hbase-txn provision export orders > orders.toml

With --output json it prints one object: {\"table\":\"orders\",\"contents\":\"table = ...\",\"notes\":[]}";

#[derive(Serialize)]
struct Exported<'a> {
    table: String,
    contents: &'a str,
    notes: &'a [String],
}

impl Export {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        let connection = global.connect().await?;
        let exported = export_table(&connection, &self.table).await?;
        match global.output {
            Format::Json => output::json(&Exported {
                table: self.table.to_string(),
                contents: &exported.contents,
                notes: &exported.notes,
            })?,
            Format::Table => {
                for note in &exported.notes {
                    output::complain(&format!("hbase-txn: note: {}: {note}", self.table));
                }
                output::page(exported.contents.trim_end())?;
            }
        }
        Ok(Exit::Done)
    }
}
