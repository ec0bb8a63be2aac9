//! `hbase-txn doctor`.

use clap::Args;
use hbase_provision::{ClusterAudit, audit_cluster};
use hbase_txn::client::TableName;

use super::audit::{Audited, Watch};
use crate::{exit::Outcome, global::Global, output, progress::Progress};

/// Find problems of a cluster with transactions, locks and latches
///
/// Checks versions, servers, clocks, the switches for splits and merges, and each table for this
/// toolkit: a table with the endpoint, a valid or invalid partition rule, a family of the toolkit,
/// or the layout of a lock or latch table. Queries the endpoint of each of their regions. Changes
/// nothing.
///
/// Findings are printed as by `table check`, grouped by table, with what is broken first and the totals
/// last. The exit status is 1 if any finding is `broken`.
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn doctor")]
pub(crate) struct Doctor {
    /// Only these tables, for this toolkit or not
    #[arg(value_name = "TABLE")]
    tables: Vec<TableName>,
    #[command(flatten)]
    watch: Watch,
}

impl Doctor {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        let chosen = global.chosen()?;
        let connection = global.connect().await?;
        let mut progress = Progress::on_a_terminal();
        if let Some(progress) = &progress {
            progress.step("querying every region");
        }
        let audit = async || {
            let audit = audit_cluster(&connection, &self.tables).await;
            // Only the first audit of a watch shows progress.
            if let Some(progress) = progress.take() {
                progress.finish();
            }
            let audit = audit?;
            let (tables, regions) = (audit.tables.len(), audit.regions);
            Ok(Audited {
                looked_at: Some(format!("cluster {chosen}, {}", summary(&audit))),
                fine: format!(
                    "no problems found ({}, {} queried)",
                    output::counted(tables, "table"),
                    output::counted(regions, "region"),
                ),
                findings: audit.findings,
            })
        };
        self.watch.run(global, audit).await
    }
}

/// Summarizes the audited objects.
fn summary(audit: &ClusterAudit) -> String {
    let tables: Vec<_> = audit.tables.iter().map(ToString::to_string).collect();
    let looked_at = match tables.len() {
        0 => "no visible table is for transactions, locks or latches".to_owned(),
        _ => tables.join(", "),
    };
    let skipped = match audit.skipped {
        0 => String::new(),
        count => format!("; {} for other purposes skipped", output::counted(count, "table")),
    };
    let clock = audit.kdc_clock.as_ref();
    let clock = clock.map_or(String::new(), |clock| format!("; {clock}"));
    format!(
        "HBase {}, {}: {looked_at}{skipped}{clock}",
        audit.version,
        output::counted(audit.servers.len(), "region server"),
    )
}
