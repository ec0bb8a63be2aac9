//! `hbase-txn table flush` and `compact`.

use clap::Args;
use hbase_txn::TableName;
use serde::Serialize;

use crate::{
    exit::{Exit, Outcome},
    global::{Format, Global},
    output,
    progress::Progress,
};

/// Write a table's rows from memory to files, and wait until that is done
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn table flush orders")]
pub(crate) struct Flush {
    /// Table, with its namespace if it has one
    name: TableName,
}

/// Merge the files of each region into one, and wait until that is done
///
/// A major compaction: it drops deleted and expired cells for good. Raise --timeout for large tables;
/// the servers continue after it.
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn table compact orders --timeout 30m")]
pub(crate) struct Compact {
    /// Table, with its namespace if it has one
    name: TableName,
}

impl Flush {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        #[derive(Serialize)]
        struct Flushed {
            table: String,
            flushed: bool,
        }
        global.connect().await?.admin().flush_table(&self.name).await?;
        let table = self.name.to_string();
        match global.output {
            Format::Table => output::line(&format!("{table}: flushed"))?,
            Format::Json => output::json(&Flushed { table, flushed: true })?,
        }
        Ok(Exit::Done)
    }
}

impl Compact {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        #[derive(Serialize)]
        struct Compacted {
            table: String,
            compacted: bool,
        }
        let admin = global.connect().await?.admin();
        let progress = Progress::on_a_terminal();
        if let Some(progress) = &progress {
            progress.step("compacting");
        }
        let compacted = admin.major_compact_table(&self.name).await;
        if let Some(progress) = progress {
            progress.finish();
        }
        compacted?;
        let table = self.name.to_string();
        match global.output {
            Format::Table => output::line(&format!("{table}: compacted"))?,
            Format::Json => output::json(&Compacted {
                table,
                compacted: true,
            })?,
        }
        Ok(Exit::Done)
    }
}
