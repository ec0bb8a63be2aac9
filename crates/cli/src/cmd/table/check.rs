//! `hbase-txn table check`.

use clap::Args;
use hbase_provision::audit_table;
use hbase_txn::{admin::Admin, client::TableName};

use crate::{
    cmd::audit::{Audited, Watch},
    exit::Outcome,
    global::Global,
    output,
};

/// Find problems of a table with transactions, locks and latches
///
/// Queries the endpoint of each region and changes nothing. Each finding has a severity, `broken`
/// or `note`, and the fix. The exit status is 1 if any finding is `broken`. In JSON each finding is
/// an object, and nothing is printed if there are none; with --watch each has a `change`, `found`
/// or `gone`.
///
/// A table without the endpoint, and without a rule or with a rule of a single byte, is checked as
/// a lock table if D is its only family, and as a latch table if its families are C or C and S.
///
/// The setting hbase.hregion.keyvalue.timestamp.slop.millisecs can't be checked from a client. A
/// server that sets it may refuse transactions with an id, because the timestamps of their records
/// are ahead by the table's replay window.
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn table check orders --output json")]
pub(crate) struct Check {
    /// Table, with its namespace if it has one
    name: TableName,
    #[command(flatten)]
    watch: Watch,
}

impl Check {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        let connection = global.connect().await?;
        self.watch
            .run(global, async || {
                let findings = audit_table(&connection, &self.name).await?;
                let regions = Admin::new(&connection).regions(&self.name).await?.len();
                let queried = output::counted(regions, "region");
                Ok(Audited {
                    looked_at: None,
                    fine: format!("{}: no problems found ({queried} queried)", self.name),
                    findings,
                })
            })
            .await
    }
}
