//! `hbase-txn snapshot`.

use std::time::Duration;

use clap::{Args, Subcommand};
use hbase_txn::{
    admin::{Admin, CloneSnapshotOptions, SnapshotDescription, SnapshotKind},
    client::{TableName, TableState},
};
use jiff::Timestamp;
use serde::Serialize;

use super::confirm::confirm;
use crate::{
    durations,
    exit::{Exit, Outcome},
    global::{Format, Global},
    output,
    values::Ranged,
};

/// Take, list, clone, restore and delete snapshots of tables
#[derive(Debug, Args)]
pub(crate) struct Snapshot {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Take(Take),
    List(List),
    Clone(Clone),
    Restore(Restore),
    Delete(Delete),
}

/// Take a snapshot of a table
///
/// Each region is flushed and taken at a moment of its own.
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn snapshot take orders before-migration")]
struct Take {
    /// Table, with its namespace if it has one
    table: TableName,
    /// Name of the snapshot
    snapshot: String,
    /// Time after which the cluster deletes the snapshot, in whole seconds [default: never]
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = durations::seconds)]
    ttl: Option<Ranged<u32>>,
}

/// List the snapshots of all tables
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn snapshot list --table orders")]
struct List {
    /// Only those of this table
    #[arg(long)]
    table: Option<TableName>,
}

/// Create a table with the rows of a snapshot
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn snapshot clone before-migration orders-copy")]
struct Clone {
    /// Name of the snapshot
    snapshot: String,
    /// New table, with its namespace if it has one
    table: TableName,
    /// Also grant what users had on the table of the snapshot when it was taken
    #[arg(long)]
    with_permissions: bool,
    /// Store file tracker of the new table: DEFAULT or FILE [default: that of the snapshot]
    #[arg(long, value_name = "NAME")]
    store_file_tracker: Option<String>,
}

/// Make the table of a snapshot as it was then
///
/// What was written since is lost. The table is disabled meanwhile, and then as it was: a table that was
/// disabled stays so. On a terminal, the command first asks for the snapshot's name. Elsewhere it requires
/// --yes.
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn snapshot restore before-migration --yes")]
struct Restore {
    /// Name of the snapshot
    snapshot: String,
    /// Also grant again what users had when the snapshot was taken
    #[arg(long)]
    with_permissions: bool,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

/// Delete a snapshot
///
/// Tables that were cloned from it stay. On a terminal, the command first asks for the snapshot's name.
/// Elsewhere it requires --yes.
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn snapshot delete before-migration --yes")]
struct Delete {
    /// Name of the snapshot
    snapshot: String,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

#[derive(Serialize)]
struct SnapshotObject {
    snapshot: String,
    table: Option<String>,
    created: String,
    kind: &'static str,
    owner: String,
    ttl_s: Option<u64>,
}

impl From<SnapshotDescription> for SnapshotObject {
    fn from(found: SnapshotDescription) -> Self {
        Self {
            snapshot: found.name,
            table: found.table.map(|table| table.to_string()),
            created: Timestamp::try_from(found.created)
                .map_or_else(|_| String::new(), |time| time.to_string()),
            kind: match found.kind {
                SnapshotKind::Disabled => "disabled",
                SnapshotKind::SkipFlush => "skip-flush",
                _ => "flush",
            },
            owner: found.owner,
            ttl_s: found.ttl.map(|ttl| ttl.as_secs()),
        }
    }
}

impl Snapshot {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        match self.action {
            Action::Take(take) => {
                let ttl = take.ttl.map(|ttl| ttl.get("--ttl")).transpose()?;
                let ttl = ttl.map(|seconds| Duration::from_secs(seconds.into()));
                let admin = Admin::new(&global.connect().await?);
                match ttl {
                    Some(ttl) => admin.snapshot_with_ttl(&take.snapshot, take.table, ttl).await?,
                    None => admin.snapshot(&take.snapshot, take.table).await?,
                }
            }
            Action::List(List { table }) => return list(table, global).await,
            Action::Clone(clone) => {
                let admin = Admin::new(&global.connect().await?);
                let mut options = CloneSnapshotOptions::new();
                if clone.with_permissions {
                    options = options.with_permissions();
                }
                if let Some(tracker) = clone.store_file_tracker {
                    options = options.with_store_file_tracker(tracker);
                }
                admin
                    .clone_snapshot_with(&clone.snapshot, clone.table, &options)
                    .await?;
            }
            Action::Restore(restore) => return restore.run(global).await,
            Action::Delete(delete) => {
                let name = &delete.snapshot;
                let consequence = format!("This deletes snapshot {name}; what only it has is lost.");
                confirm(global, delete.yes, name, &consequence)?;
                let admin = Admin::new(&global.connect().await?);
                admin.delete_snapshot(&delete.snapshot).await?;
            }
        }
        Ok(Exit::Done)
    }
}

async fn list(table: Option<TableName>, global: &Global) -> Outcome {
    let mut snapshots = Admin::new(&global.connect().await?).snapshots().await?;
    snapshots.retain(|found| table.is_none() || found.table == table);
    snapshots.sort_by(|one, other| (one.created, &one.name).cmp(&(other.created, &other.name)));
    let objects = snapshots.into_iter().map(SnapshotObject::from);
    match global.output {
        Format::Json => {
            for object in objects {
                output::json(&object)?;
            }
        }
        Format::Table => {
            let rows = objects.map(|found| {
                let table = found.table.unwrap_or_default();
                [found.snapshot, table, found.created, found.owner]
            });
            output::page(&output::table(["snapshot", "table", "created", "owner"], rows))?;
        }
    }
    Ok(Exit::Done)
}

impl Restore {
    async fn run(self, global: &Global) -> Outcome {
        let name = &self.snapshot;
        let consequence = format!("This replaces all rows of the table of snapshot {name}.");
        confirm(global, self.yes, name, &consequence)?;
        let admin = Admin::new(&global.connect().await?);
        let snapshots = admin.snapshots().await?;
        let found = snapshots.into_iter().find(|found| found.name == self.snapshot);
        let table = found.and_then(|found| found.table);
        // An unknown snapshot is reported by the library.
        let Some(table) = table else {
            self.restore(&admin).await?;
            return Ok(Exit::Done);
        };
        let regions = admin.regions(&table).await.map_or(0, |regions| regions.len());
        let admin = admin.with_time_for_regions(regions);
        if admin.state(&table).await? == TableState::Disabled {
            self.restore(&admin).await?;
            return Ok(Exit::Done);
        }
        let restored = match admin.disable_table(&table).await {
            Ok(()) => self.restore(&admin).await,
            failed => failed,
        };
        // Also if it could not be disabled in time: HBase may go on with it.
        let enabled = admin.enable_table(&table).await;
        restored?;
        enabled?;
        Ok(Exit::Done)
    }

    async fn restore(&self, admin: &Admin) -> hbase_client::Result<()> {
        if self.with_permissions {
            admin.restore_snapshot_with_permissions(&self.snapshot).await
        } else {
            admin.restore_snapshot(&self.snapshot).await
        }
    }
}
