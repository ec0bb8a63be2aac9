//! `hbase-txn table list`.

use clap::Args;
use serde::Serialize;

use crate::{
    exit::{Exit, Outcome},
    global::{Format, Global},
    output,
};

/// List the tables that are not HBase's own
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn table list --namespace billing")]
pub(crate) struct List {
    /// Only tables of this namespace
    #[arg(long)]
    namespace: Option<String>,
}

#[derive(Serialize)]
struct TableObject {
    table: String,
}

impl List {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        let admin = global.connect().await?.admin();
        let mut tables = match &self.namespace {
            Some(namespace) => admin.tables_of_namespace(namespace).await?,
            None => admin.tables().await?,
        };
        tables.sort();
        for table in tables {
            let table = table.to_string();
            match global.output {
                Format::Json => output::json(&TableObject { table })?,
                Format::Table => output::line(&table)?,
            }
        }
        Ok(Exit::Done)
    }
}
