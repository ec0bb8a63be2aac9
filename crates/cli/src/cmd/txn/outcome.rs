//! `hbase-txn txn outcome`.

use bytes::Bytes;
use clap::Args;
use hbase_txn::{
    PartitionedTable, Recorded, Settled, TransactionId,
    client::{BytesBinary, TableName},
};
use serde::Serialize;

use crate::{
    exit::{self, Exit},
    global::{Format, Global},
    output::{self, Shown},
    values,
};

/// Look up the outcome of a transaction with an id
///
/// A transaction was committed (all of it was applied), aborted (nothing was applied; it may be
/// sent again), or has no record. A missing record proves nothing, because the transaction may
/// still be in flight, and the exit status is 4. --settle makes the outcome definite.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Outcome {
    /// Table, with its namespace if it has one
    table: TableName,
    /// Prefix of the partition; \xNN is a byte
    #[arg(value_parser = values::bytes)]
    prefix: Bytes,
    /// Id of the transaction; \xNN is a byte
    #[arg(value_parser = values::bytes)]
    id: Bytes,
    /// Abort it if it is not committed, so that a request in flight is not applied any more
    #[arg(long)]
    settle: bool,
}

const EXAMPLE: &str = r#"Example: hbase-txn txn outcome orders xxx order-4711 --settle --output json answers

{"prefix":"xxx","id":"order-4711","outcome":"committed"}

Run it within the table's replay window, by default 24 hours: an older record may have expired, and then the outcome is none.

Exit status: 0 committed or aborted, 4 none, or --settle could not determine the outcome; 1 the command failed."#;

#[derive(Serialize)]
struct OutcomeObject<'a> {
    prefix: Shown<'a>,
    id: Shown<'a>,
    outcome: &'static str,
}

impl Outcome {
    pub(crate) async fn run(self, global: &Global) -> exit::Outcome {
        let id = TransactionId::new(self.id)?;
        let connection = global.connect().await?;
        let table = PartitionedTable::open(&connection, self.table).await?;
        let recorded = if self.settle {
            match table.settle(self.prefix.clone(), &id).await? {
                Settled::Committed => Some("committed"),
                Settled::NotApplied => Some("aborted"),
            }
        } else {
            match table.outcome(self.prefix.clone(), &id).await? {
                Recorded::Committed => Some("committed"),
                Recorded::Aborted => Some("aborted"),
                _ => None,
            }
        };
        let outcome = recorded.unwrap_or("none");
        match global.output {
            Format::Table => output::line(&format!(
                "partition {}, transaction {id}: {outcome}",
                BytesBinary(&self.prefix)
            ))?,
            Format::Json => output::json(&OutcomeObject {
                prefix: Shown(&self.prefix),
                id: Shown(id.as_bytes()),
                outcome,
            })?,
        }
        Ok(match recorded {
            Some(_) => Exit::Done,
            None => Exit::Unknown,
        })
    }
}
