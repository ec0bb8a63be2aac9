//! What becomes of a latch table that is missing.

use clap::Args;
use hbase_txn::{LatchManager, LatchManagerOptions, LatchTableOptions, TableName};

use crate::{
    args::Global,
    cmd::missing_table,
    exit::Failure,
    values::{self, Ranged},
};

const MISSING: &str =
    "A table that is missing is made, in the layout of the Java library and with the family S";

#[derive(Debug, Args)]
pub(super) struct MissingTable {
    /// Don't make the table
    #[arg(long, help_heading = MISSING, conflicts_with = "regions")]
    no_create: bool,
    /// How many regions it gets, 1 to 257 [default: 257]
    #[arg(long, value_name = "N", help_heading = MISSING, allow_negative_numbers = true, value_parser = values::whole::<usize>)]
    regions: Option<Ranged<usize>>,
}

/// A table that may be made.
pub(super) struct Missing<'a> {
    table: &'a TableName,
    options: Option<LatchTableOptions>,
}

impl MissingTable {
    /// Looks at how the table would be made before any server is.
    pub(super) fn missing<'a>(&self, table: &'a TableName) -> Result<Missing<'a>, Failure> {
        let options = match (self.no_create, &self.regions) {
            (true, _) => None,
            (false, None) => Some(LatchTableOptions::new(table.clone())),
            (false, Some(regions)) => {
                Some(LatchTableOptions::new(table.clone()).regions(regions.get("--regions")?))
            }
        };
        if let Some(options) = &options {
            options.split_keys()?;
        }
        Ok(Missing { table, options })
    }
}

impl Missing<'_> {
    /// Opens the table, and makes it before if it is missing and may be made.
    pub(super) async fn open(
        &self,
        options: LatchManagerOptions,
        global: &Global,
    ) -> Result<LatchManager, Failure> {
        let connection = global.connect().await?;
        let admin = connection.admin();
        missing_table::open_or_make(
            self.table,
            options.clone().open(&connection, self.table.clone()),
            self.options.as_ref().map(|table| table.create(&admin)),
            options.open(&connection, self.table.clone()),
        )
        .await
    }
}
