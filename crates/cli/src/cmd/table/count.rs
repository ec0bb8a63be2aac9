//! `hbase-txn table count`.

use clap::Args;
use hbase_txn::client::TableName;

use super::regions_at_once::RegionsAtOnce;
use crate::{
    cmd::rows::{Range, Selection, print_count},
    exit::{Exit, Outcome},
    global::Global,
    progress::Progress,
};

/// Count rows, reading several regions at once
///
/// One cell of each family is read of a row. Rows that come or go meanwhile are counted or not.
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn table count orders --prefix xxx")]
pub(crate) struct Count {
    /// Table, with its namespace if it has one
    name: TableName,
    #[command(flatten)]
    range: Range,
    #[command(flatten)]
    cells: Selection,
    #[command(flatten)]
    regions: RegionsAtOnce,
}

impl Count {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        /// Rows between two steps of the progress.
        const STEP: u64 = 10_000;
        let regions = self.regions.get()?;
        let scan = self.range.scan(self.cells)?.cache_blocks(false);
        let scan = scan.max_results_per_column_family(1);
        let table = global.connect().await?.table(self.name)?;
        let progress = Progress::on_a_terminal();
        let mut scanner = table.scan_regions(scan, regions)?;
        let mut rows = 0;
        while scanner.next().await?.is_some() {
            rows += 1;
            if rows % STEP == 0
                && let Some(progress) = &progress
            {
                progress.step(&format!("{rows} rows"));
            }
        }
        if let Some(progress) = progress {
            progress.finish();
        }
        print_count(table.name(), rows, global.output)?;
        Ok(Exit::Done)
    }
}
