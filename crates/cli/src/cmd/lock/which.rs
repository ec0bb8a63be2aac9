//! The arguments that name a lock.

use std::time::Duration;

use clap::Args;
use hbase_txn::{
    BytesBinary, Level, TableName,
    lock::{LockManager, LockManagerOptions, LockName, MAX_LEASE, MIN_LEASE},
};

use crate::{
    cmd::missing_table,
    durations,
    exit::Failure,
    global::Global,
    hints,
    values::{self, Ranged},
};

#[derive(Debug, Args)]
pub(in crate::cmd) struct Which {
    /// Lock table, with its namespace if it has one
    pub(in crate::cmd) table: TableName,
    /// Id, unique for its client; \xNN is a byte
    #[arg(value_parser = values::text)]
    pub(in crate::cmd) id: String,
    #[command(flatten)]
    pub(in crate::cmd) scope: Scope,
}

/// The processes that a lock excludes.
#[derive(Debug, Args)]
pub(in crate::cmd) struct Scope {
    /// Processes to exclude: dc, those of the client in one farm; xdc, those in all farms
    #[arg(long, default_value = "dc", value_name = "dc|xdc")]
    pub(in crate::cmd) level: Level,
    /// Farm (data centre), for level dc
    #[arg(long, value_name = "F", value_parser = values::text)]
    pub(in crate::cmd) farm: Option<String>,
    /// Client: a service, not a process
    #[arg(long, value_name = "C", value_parser = values::text)]
    pub(in crate::cmd) client: String,
}

impl Which {
    /// Returns the lock's name. Checks it before any call to a server.
    pub(in crate::cmd) fn name(&self) -> Result<LockName, Failure> {
        self.scope.name(&self.table, &self.id)
    }

    pub(in crate::cmd) fn options(&self) -> LockManagerOptions {
        self.scope.options()
    }

    /// Formats the arguments that name the lock.
    pub(super) fn arguments(&self) -> String {
        let Scope { level, farm, client } = &self.scope;
        let [id, client] = [&self.id, client].map(argument);
        match (level, farm) {
            (Level::Dc, Some(farm)) => format!("{id} --farm {} --client {client}", argument(farm)),
            _ => format!("{id} --level xdc --client {client}"),
        }
    }

    /// Opens the locks of an existing table.
    pub(in crate::cmd) async fn open(&self, global: &Global) -> Result<LockManager, Failure> {
        self.scope.open(global, &self.table).await
    }
}

impl Scope {
    /// Returns the name of a lock. Checks it before any call to a server.
    pub(in crate::cmd) fn name(&self, table: &TableName, id: &str) -> Result<LockName, Failure> {
        let name = match (self.level, &self.farm) {
            (Level::Xdc, _) => LockName::xdc(&self.client, id),
            (Level::Dc, Some(farm)) => LockName::dc(farm, &self.client, id),
            (Level::Dc, None) => {
                return Err(Failure::Unparsable(
                    "a lock of level dc belongs to a farm; name it by --farm F, or take --level xdc, which spans all"
                        .to_owned(),
                ));
            }
        };
        name.map_err(|error| Failure::Refused(format!("naming a lock, table {table}: {error}")))
    }

    fn options(&self) -> LockManagerOptions {
        let options = LockManagerOptions::new(self.client.clone());
        match &self.farm {
            Some(farm) => options.farm(farm.clone()),
            None => options,
        }
    }

    /// Opens the locks of an existing table.
    pub(in crate::cmd) async fn open(
        &self,
        global: &Global,
        table: &TableName,
    ) -> Result<LockManager, Failure> {
        let connection = global.connect().await?;
        missing_table::open_locks(&connection, self.options(), table, None).await
    }
}

fn argument(text: &String) -> String {
    hints::word(&BytesBinary(text.as_bytes()))
}

/// Formats a lock's key for output.
pub(in crate::cmd) fn key(name: &str) -> String {
    BytesBinary(name.as_bytes()).to_string()
}

/// Checks that a lease is in the range of all tables.
pub(in crate::cmd) fn lease(ttl: &Ranged<Duration>) -> Result<Duration, Failure> {
    let ttl = ttl.get("--ttl")?;
    if (MIN_LEASE..=MAX_LEASE).contains(&ttl) {
        return Ok(ttl);
    }
    Err(Failure::Refused(format!(
        "--ttl {} is out of range: a lease is from {} to {}",
        durations::shown(ttl),
        durations::shown(MIN_LEASE),
        durations::shown(MAX_LEASE)
    )))
}
