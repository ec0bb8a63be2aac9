//! `hbase-txn table clone-schema`.

use clap::Args;
use hbase_txn::{admin::Admin, client::TableName};

use super::done::print_done;
use crate::{exit::Outcome, global::Global};

/// Create an empty table like another one
///
/// It has the families, the attributes, such as the partition rule, and the region boundaries of the
/// other table.
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn table clone-schema orders archive:orders")]
pub(crate) struct CloneSchema {
    /// Table, with its namespace if it has one
    name: TableName,
    /// New table, with its namespace if it has one
    new_name: TableName,
    /// Create one region
    #[arg(long)]
    drop_splits: bool,
}

impl CloneSchema {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        let admin = Admin::new(&global.connect().await?);
        admin
            .clone_table_schema(&self.name, &self.new_name, !self.drop_splits)
            .await?;
        print_done(global, &self.new_name, "created", ("created", true))
    }
}
