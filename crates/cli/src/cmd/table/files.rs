//! `hbase-txn table flush` and `compact`.

use bytes::Bytes;
use clap::Args;
use hbase_txn::{admin::Admin, client::TableName};

use super::done::print_done;
use crate::{exit::Outcome, global::Global, progress::Progress, values};

/// Write a table's rows from memory to files, and wait until that is done
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn table flush orders")]
pub(crate) struct Flush {
    /// Table, with its namespace if it has one
    name: TableName,
    /// Only this column family
    #[arg(long, value_name = "F", value_parser = values::bytes)]
    family: Option<Bytes>,
}

/// Merge the files of each region into one, and wait until that is done
///
/// A major compaction: it drops deleted and expired cells for good. Raise --timeout for large tables;
/// the servers continue after it.
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn table compact orders --timeout 30m")]
pub(crate) struct Compact {
    /// Table, with its namespace if it has one
    name: TableName,
    /// Only this column family
    #[arg(long, value_name = "F", value_parser = values::bytes)]
    family: Option<Bytes>,
}

impl Flush {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        let admin = Admin::new(&global.connect().await?);
        match self.family {
            Some(family) => admin.flush_column_family(&self.name, family).await?,
            None => admin.flush_table(&self.name).await?,
        }
        print_done(global, &self.name, "flushed", ("flushed", true))
    }
}

impl Compact {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        let admin = Admin::new(&global.connect().await?);
        let progress = Progress::on_a_terminal();
        if let Some(progress) = &progress {
            progress.step("compacting");
        }
        let compacted = match self.family {
            Some(family) => admin.major_compact_column_family(&self.name, family).await,
            None => admin.major_compact_table(&self.name).await,
        };
        if let Some(progress) = progress {
            progress.finish();
        }
        compacted?;
        print_done(global, &self.name, "compacted", ("compacted", true))
    }
}
