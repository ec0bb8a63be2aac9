//! Which lock is meant.

use std::time::Duration;

use clap::Args;
use hbase_txn::{
    BytesBinary, LONGEST_LEASE, Level, LockManager, LockManagerOptions, LockName, SHORTEST_LEASE, TableName,
};

use crate::{
    args::Global,
    durations,
    exit::Failure,
    values::{self, Ranged},
};

#[derive(Debug, Args)]
pub(in crate::cmd) struct Which {
    /// The lock table, with its namespace if it has one
    pub(in crate::cmd) table: TableName,
    /// Its id among those of its client; \xNN is a byte
    #[arg(value_parser = values::text)]
    pub(in crate::cmd) id: String,
    /// Whom it excludes: dc, the client's processes in one farm; xdc, those in all farms
    #[arg(long, default_value = "dc", value_name = "dc|xdc")]
    pub(in crate::cmd) level: Level,
    /// The farm (data centre) of what has level dc
    #[arg(long, value_name = "F", value_parser = values::text)]
    pub(in crate::cmd) farm: Option<String>,
    /// The client (a service, not a process) that it belongs to
    #[arg(long, value_name = "C", value_parser = values::text)]
    pub(in crate::cmd) client: String,
}

impl Which {
    /// The lock's name, which is looked at before any server is.
    pub(in crate::cmd) fn name(&self) -> Result<LockName, Failure> {
        let name = match (self.level, &self.farm) {
            (Level::Xdc, _) => LockName::xdc(&self.client, &self.id),
            (Level::Dc, Some(farm)) => LockName::dc(farm, &self.client, &self.id),
            (Level::Dc, None) => {
                return Err(Failure::Unparsable(
                    "a lock of level dc belongs to a farm; name it by --farm F, or take --level xdc, which spans all"
                        .to_owned(),
                ));
            }
        };
        name.map_err(|error| Failure::Refused(format!("naming a lock, table {}: {error}", self.table)))
    }

    pub(in crate::cmd) fn options(&self) -> LockManagerOptions {
        let options = LockManagerOptions::new(self.client.clone());
        match &self.farm {
            Some(farm) => options.farm(farm.clone()),
            None => options,
        }
    }

    /// The locks of a table that is there.
    pub(in crate::cmd) async fn open(&self, global: &Global) -> Result<LockManager, Failure> {
        let connection = global.connect().await?;
        Ok(self.options().open(&connection, self.table.clone()).await?)
    }
}

/// A lock's key as it is shown.
pub(in crate::cmd) fn key(name: &str) -> String {
    BytesBinary(name.as_bytes()).to_string()
}

/// A lease, in the range of all tables.
pub(in crate::cmd) fn lease(ttl: &Ranged<Duration>) -> Result<Duration, Failure> {
    let ttl = ttl.get("--ttl")?;
    if (SHORTEST_LEASE..=LONGEST_LEASE).contains(&ttl) {
        return Ok(ttl);
    }
    Err(Failure::Refused(format!(
        "--ttl {} is out of range: a lease is from {} to {}",
        durations::shown(ttl),
        durations::shown(SHORTEST_LEASE),
        durations::shown(LONGEST_LEASE)
    )))
}
