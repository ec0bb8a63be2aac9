//! `hbase-txn txn outcome`.

use bytes::Bytes;
use clap::Args;
use hbase_txn::{BytesBinary, PartitionedTable, Recorded, Settled, TableName, TransactionId};
use serde::Serialize;

use crate::{
    args::{Format, Global},
    cmd,
    exit::Exit,
    output::{self, Shown},
    values,
};

/// Tell how a transaction with an id ended
///
/// It was committed (all of it was applied) or aborted (nothing was; it may be sent again), or there is none: no record
/// of it. That proves nothing, because it may still be on its way, and the exit status is 4. --settle makes sure.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Outcome {
    /// The table, with its namespace if it has one
    table: TableName,
    /// The partition's prefix; \xNN is a byte
    #[arg(value_parser = values::bytes)]
    prefix: Bytes,
    /// The transaction's id; \xNN is a byte
    #[arg(value_parser = values::bytes)]
    id: Bytes,
    /// Where it is not committed, abort it: whatever of it is still on its way is not applied any more
    #[arg(long)]
    settle: bool,
}

const EXAMPLE: &str = r#"Example: hbase-txn txn outcome orders xxx order-4711 --settle --output json answers

{"prefix":"xxx","id":"order-4711","outcome":"committed"}

Ask within the table's replay window, 24 hours unless said otherwise: what is older may be forgotten, and is then like what never was.

Exit status: 0 committed or aborted, 4 none; 1 when the question can't be asked, 4 when --settle could not find out."#;

#[derive(Serialize)]
struct OutcomeObject<'a> {
    prefix: Shown<'a>,
    id: Shown<'a>,
    outcome: &'static str,
}

impl Outcome {
    pub(crate) async fn run(self, global: &Global) -> cmd::Outcome {
        let id = TransactionId::new(self.id)?;
        let connection = global.connect().await?;
        let table = PartitionedTable::open(&connection, self.table).await?;
        let recorded = if self.settle {
            match table.settle(self.prefix.clone(), &id).await? {
                Settled::Committed => Some("committed"),
                Settled::NotApplied => Some("aborted"),
                _ => None,
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
