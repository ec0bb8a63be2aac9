//! `hbase-txn table check`.

use clap::Args;
use hbase_txn::{TableName, provision::audit_table};

use crate::{
    args::Global,
    cmd::{
        Outcome,
        audit::{Audited, Watch},
    },
};

/// Find everything that would stop a transaction, a lock or a latch on a table, and say what mends it
///
/// A table without the endpoint and with no rule but one of a single byte is a lock table with the family D alone, and a
/// latch table with C alone or C and S: it is checked for what would stop its locks or latches, or let them down.
///
/// Findings are graded `broken` and `note`; with any `broken` the exit status is 1. Each region is asked for the
/// endpoint. Nothing is changed. In JSON each finding is an object, and there is none where nothing is found; with --watch
/// each has a `change`, `found` or `gone`. Not seen from here is hbase.hregion.keyvalue.timestamp.slop.millisecs: a server
/// that sets it may refuse transactions with an id, because their records are stamped ahead by the table's replay window.
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn table check orders --output json")]
pub(crate) struct Check {
    /// The table, with its namespace if it has one
    name: TableName,
    #[command(flatten)]
    watch: Watch,
}

impl Check {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        let connection = global.connect().await?;
        let fine = format!("{}: nothing stops what it is for", self.name);
        self.watch
            .run(global, &fine, async || {
                Ok(Audited {
                    looked_at: None,
                    findings: audit_table(&connection, &self.name).await?,
                })
            })
            .await
    }
}
