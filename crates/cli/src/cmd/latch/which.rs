//! The arguments that name a latch.

use clap::Args;
use hbase_txn::{
    BytesBinary, Level, TableName,
    latch::{Latch, LatchManagerOptions, LatchName},
};

use crate::{cmd::missing_table, exit::Failure, global::Global, values};

/// The farm name of commands that do not count.
pub(super) const NO_FARM: &str = "-";

#[derive(Debug, Args)]
pub(super) struct Which {
    /// Latch table, with its namespace if it has one
    pub(super) table: TableName,
    /// Id of the latch, unique for its client; \xNN is a byte
    #[arg(value_parser = values::text)]
    pub(super) id: String,
    #[command(flatten)]
    pub(super) scope: LatchScope,
}

#[derive(Debug, Args)]
pub(super) struct LatchScope {
    /// Counts that make the latch: dc, those of one farm; xdc, the sum of all farms
    #[arg(long, default_value = "dc", value_name = "dc|xdc")]
    level: Level,
    /// Farm (data centre) whose column is counted; not needed to show, wait for or delete a latch
    /// of level xdc
    #[arg(long, value_name = "F", value_parser = values::text)]
    farm: Option<String>,
    /// Client of the latch: a service, not a process
    #[arg(long, value_name = "C", value_parser = values::text)]
    client: String,
}

/// The use of the latch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LatchUse {
    Count,
    Read,
}

impl Which {
    /// Checks the latch's name and the farm before any call to a server.
    pub(super) fn options(&self, latch_use: LatchUse) -> Result<LatchManagerOptions, Failure> {
        let LatchScope { level, farm, client } = &self.scope;
        let farm = match (farm, level, latch_use) {
            (Some(farm), _, _) => farm,
            (None, Level::Xdc, LatchUse::Read) => NO_FARM,
            (None, Level::Xdc, LatchUse::Count) => {
                return Err(Failure::Unparsable(
                    "the count is in the column of a farm, also at level xdc; name the farm by --farm F"
                        .to_owned(),
                ));
            }
            (None, Level::Dc, _) => {
                return Err(Failure::Unparsable(
                    "a latch of level dc belongs to a farm; name it by --farm F, or take --level xdc, which adds up all"
                        .to_owned(),
                ));
            }
        };
        LatchName::new(client, &self.id)
            .map_err(|error| Failure::Refused(format!("naming a latch, table {}: {error}", self.table)))?;
        Ok(LatchManagerOptions::new(client, farm))
    }

    /// Opens the latch, in an existing table.
    pub(super) async fn open(&self, global: &Global, latch_use: LatchUse) -> Result<Latch, Failure> {
        let options = self.options(latch_use)?;
        let connection = global.connect().await?;
        let latches = missing_table::open_latches(&connection, options, &self.table, None).await?;
        Ok(latches.latch(self.scope.level, &self.id)?)
    }

    pub(super) fn level(&self) -> Level {
        self.scope.level
    }
}

/// Formats a latch's key for output.
pub(super) fn key(latch: &Latch) -> String {
    BytesBinary(latch.key().as_bytes()).to_string()
}
