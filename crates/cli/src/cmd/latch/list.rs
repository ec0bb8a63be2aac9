//! `hbase-txn latch list`.

use clap::Args;
use hbase_txn::{
    client::TableName,
    latch::{LatchManagerOptions, LatchName, ListedBarrier, ListedLatch},
};
use serde::Serialize;

use super::{
    barrier::{self, BarrierObject},
    look::{self, LatchObject},
    which::{NO_FARM, NameObject, shown},
};
use crate::{
    cmd::missing_table::{self, Missing},
    exit::{Exit, Outcome},
    global::{Format, Global},
    output, values,
};

/// List the latches and barriers of a table
///
/// The table is read from one end to the other. Each line was true at some time, but not all lines
/// at the same time. An expired latch is listed for a week.
#[derive(Debug, Args)]
#[command(after_help = LIST)]
pub(crate) struct List {
    /// Latch table, with its namespace if it has one
    table: TableName,
    /// Only latches and barriers of this client
    #[arg(long, value_name = "C", value_parser = values::text)]
    client: Option<String>,
}

const LIST: &str = r#"Example: hbase-txn latch list latches --client billing --output json; each object has `kind`, latch or barrier, and is otherwise that of latch show or barrier show.

The commands accept a listed name in place of --farm, --level and --client: hbase-txn latch show latches DC#fra#billing#nightly. To count at level xdc takes --farm too. A count of a Java client does not show its level, and is listed as a latch of its farm."#;

#[derive(Serialize)]
struct ListedObject<'a> {
    kind: &'static str,
    #[serde(flatten)]
    object: AnyObject<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum AnyObject<'a> {
    Latch(LatchObject<'a>),
    Barrier(BarrierObject<'a>),
}

impl List {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        let connection = global.connect().await?;
        // The manager's client does not matter: it lists the latches of all clients.
        let options = LatchManagerOptions::new("-", NO_FARM);
        let manager =
            missing_table::open_latches(&connection, options, &self.table, Missing::Refused).await?;
        let (mut latches, mut barriers) = (manager.list().await?, manager.list_barriers().await?);
        latches.retain(|latch| self.wants(latch.name.as_ref()));
        barriers.retain(|barrier| self.wants(barrier.name.as_ref()));
        match global.output {
            Format::Json => {
                let latches = latches.iter().map(of_latch);
                output::json_lines(latches.chain(barriers.iter().map(of_barrier)))?;
            }
            Format::Table => output::page(&page(&latches, &barriers))?,
        }
        Ok(Exit::Done)
    }

    fn wants(&self, name: Option<&LatchName>) -> bool {
        let client = self.client.as_deref();
        client.is_none_or(|client| name.is_some_and(|name| name.client() == client))
    }
}

fn of_latch(latch: &ListedLatch) -> ListedObject<'_> {
    let name = NameObject {
        word: "latch",
        name: latch.name.as_ref(),
        farm: latch.farm.as_deref(),
        key: &latch.info.key,
    };
    ListedObject {
        kind: "latch",
        object: AnyObject::Latch(LatchObject::new(name, &latch.info)),
    }
}

fn of_barrier(barrier: &ListedBarrier) -> ListedObject<'_> {
    ListedObject {
        kind: "barrier",
        object: AnyObject::Barrier(BarrierObject::new(barrier.name.as_ref(), &barrier.info)),
    }
}

fn page(latches: &[ListedLatch], barriers: &[ListedBarrier]) -> String {
    let latches = latches.iter().map(|ListedLatch { name, farm, info, .. }| {
        let name = shown(name.as_ref(), farm.as_deref(), &info.key);
        ["latch".to_owned(), name, look::sentence(info)]
    });
    let barriers = barriers.iter().map(|ListedBarrier { name, info, .. }| {
        let name = shown(name.as_ref(), None, &info.key);
        ["barrier".to_owned(), name, barrier::sentence(info)]
    });
    output::table(["kind", "name", "state"], latches.chain(barriers))
}
