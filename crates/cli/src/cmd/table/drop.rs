//! `hbase-txn table drop` and `truncate`.

use clap::Args;
use hbase_txn::client::TableName;

use super::done::print_done;
use crate::{cmd::confirm::confirm, exit::Outcome, global::Global};

/// Disable a table and delete it, with all its rows
///
/// On a terminal, the command first asks for the table's name. Elsewhere it requires --yes. It may take
/// --timeout, and 100 ms for each region.
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn table drop orders --yes")]
pub(crate) struct Drop {
    /// Table, with its namespace if it has one
    name: TableName,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

/// Delete all rows of a table
///
/// The table is disabled meanwhile. Its descriptor and its region boundaries stay. On a terminal, the
/// command first asks for the table's name. Elsewhere it requires --yes. It may take --timeout, and 100 ms for
/// each region.
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn table truncate orders --yes")]
pub(crate) struct Truncate {
    /// Table, with its namespace if it has one
    name: TableName,
    /// Leave one region
    #[arg(long)]
    drop_splits: bool,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

impl Drop {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        let table = self.name.to_string();
        let consequence = format!("This deletes table {table} and all its rows.");
        confirm(global, self.yes, &table, &consequence)?;
        let admin = global.connect_for(&self.name).await?;
        admin.delete_table(&self.name).await?;
        print_done(global, &self.name, "dropped", ("dropped", true))
    }
}

impl Truncate {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        let table = self.name.to_string();
        let consequence = format!("This deletes all rows of table {table}.");
        confirm(global, self.yes, &table, &consequence)?;
        let admin = global.connect_for(&self.name).await?;
        admin.truncate_table(&self.name, !self.drop_splits).await?;
        print_done(global, &self.name, "truncated", ("truncated", true))
    }
}
