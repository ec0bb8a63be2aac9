//! The latch table that a command may create.

use clap::Args;
use hbase_txn::{
    client::TableName,
    latch::{LatchManager, LatchManagerOptions, LatchTableOptions},
};

use crate::{
    cmd::missing_table::{self, Missing},
    exit::Failure,
    global::Global,
    values::{self, Ranged},
};

const CREATING: &str = "Creating the table";

#[derive(Debug, Args)]
pub(super) struct MissingTable {
    /// Create the table if it does not exist
    #[arg(long, help_heading = CREATING)]
    create: bool,
    /// Number of regions, 1 to 257 [default: 8]
    #[arg(long, value_name = "N", requires = "create", help_heading = CREATING, allow_negative_numbers = true, value_parser = values::whole::<usize>)]
    regions: Option<Ranged<usize>>,
    /// Create the 257 regions that the Java library creates
    #[arg(long, requires = "create", conflicts_with = "regions", help_heading = CREATING)]
    java_layout: bool,
}

/// A table, and what to do if it does not exist.
pub(super) struct LatchTable<'a> {
    table: &'a TableName,
    missing: Missing<LatchTableOptions>,
}

impl MissingTable {
    /// Checks the options of the table before any call to a server.
    pub(super) fn missing<'a>(&self, table: &'a TableName) -> Result<LatchTable<'a>, Failure> {
        if !self.create {
            return Ok(LatchTable {
                table,
                missing: Missing::NotCreated,
            });
        }
        let mut options = LatchTableOptions::from(table.clone());
        if self.java_layout {
            options = options.java_layout();
        }
        if let Some(regions) = &self.regions {
            options = options.regions(regions.get("--regions")?);
        }
        options.split_keys()?;
        Ok(LatchTable {
            table,
            missing: Missing::Created(options),
        })
    }
}

impl LatchTable<'_> {
    /// Opens the table. Creates it if that was requested and it does not exist.
    pub(super) async fn open(
        self,
        options: LatchManagerOptions,
        global: &Global,
    ) -> Result<LatchManager, Failure> {
        let connection = global.connect().await?;
        missing_table::open_latches(&connection, options, self.table, self.missing).await
    }
}
