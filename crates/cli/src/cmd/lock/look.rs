//! `hbase-txn lock show` and `list`.

use clap::Args;
use hbase_txn::{
    Level, TableName,
    lock::{LockInfo, LockManagerOptions},
};
use serde::Serialize;

use super::which::Which;
use crate::{
    cmd::missing_table,
    durations,
    exit::{Exit, Outcome},
    global::{Format, Global},
    output::{self, Lines},
    values,
};

/// Show the holder of a lock
#[derive(Debug, Args)]
#[command(after_help = SHOW)]
pub(crate) struct Show {
    #[command(flatten)]
    which: Which,
}

/// List the held locks of a table
///
/// The table is read from one end to the other. Each line was true at some time, but not all lines
/// at the same time.
#[derive(Debug, Args)]
#[command(after_help = LIST)]
pub(crate) struct List {
    /// Lock table, with its namespace if it has one
    table: TableName,
    /// Only locks of this level; as with --farm and --client, without keys in another form than
    /// this library's
    #[arg(long, value_name = "dc|xdc")]
    level: Option<Level>,
    /// Only locks of this farm, which have level dc
    #[arg(long, value_name = "F", value_parser = values::text)]
    farm: Option<String>,
    /// Only locks of this client
    #[arg(long, value_name = "C", value_parser = values::text)]
    client: Option<String>,
}

const SHOW: &str = r#"Example: hbase-txn lock show locks nightly --farm fra --client billing --output json answers

{"lock":"DC#fra#billing#nightly","state":"held","holder":"ci@build-7:4711","age_ms":1500,"remaining_ms":298500,"fencing":1767225600123,"rows_disagree":false}

`state` is held or free. `holder` and `remaining_ms` are also null if a Java client holds it, which writes neither. Age and remaining time are by this machine's clock. `fencing` is the last number, which renewals raise too: a holder's own is this or a lower one. It is null when none is known. With `rows_disagree` the two rows of the lock disagree: a Java client removed or overwrote the lock row of a holder.

Exit status: 0, held or free; 1 refused or failed."#;

const LIST: &str = "Example: hbase-txn lock list locks --client billing --output json; its objects are those of lock show, with null for `fencing`";

#[derive(Serialize)]
struct LockObject<'a> {
    lock: &'a str,
    state: &'static str,
    holder: Option<&'a str>,
    age_ms: Option<u64>,
    remaining_ms: Option<u64>,
    fencing: Option<i64>,
    rows_disagree: bool,
}

impl<'a> From<&'a LockInfo> for LockObject<'a> {
    fn from(lock: &'a LockInfo) -> Self {
        let holder = lock.holder.as_ref();
        Self {
            lock: &lock.key,
            state: if holder.is_some() { "held" } else { "free" },
            holder: holder.and_then(|holder| holder.name.as_deref()),
            age_ms: holder.map(|holder| durations::milliseconds(holder.age())),
            remaining_ms: holder
                .and_then(|holder| holder.remaining())
                .map(durations::milliseconds),
            fencing: lock.fencing,
            rows_disagree: lock.rows_disagree,
        }
    }
}

const AT_ODDS: &str = "its rows do not agree: a Java client removed or took the lock row of this holder";

impl Show {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        self.which.name()?;
        let locks = self.which.open(global).await?;
        let lock = locks.show(self.which.scope.level, &self.which.id).await?;
        match global.output {
            Format::Json => output::json(&LockObject::from(&lock))?,
            Format::Table => output::line(&sentence(&lock))?,
        }
        Ok(Exit::Done)
    }
}

impl List {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        let connection = global.connect().await?;
        // The manager's client does not matter: it lists the locks of all clients.
        let options = LockManagerOptions::new("-");
        let locks = missing_table::open_locks(&connection, options, &self.table, None).await?;
        let locks = locks.list().await?;
        let found = locks.iter().filter(|lock| self.wants(lock));
        match global.output {
            Format::Json => {
                let mut lines = Lines::new();
                for lock in found {
                    lines.json(&LockObject::from(lock))?;
                }
                lines.flush()?;
            }
            Format::Table => output::page(&page(found))?,
        }
        Ok(Exit::Done)
    }

    fn wants(&self, lock: &LockInfo) -> bool {
        let Self {
            level, farm, client, ..
        } = self;
        let Some(name) = &lock.name else {
            return level.is_none() && farm.is_none() && client.is_none();
        };
        level.is_none_or(|level| name.level() == level)
            && farm.as_deref().is_none_or(|farm| name.farm() == Some(farm))
            && client.as_deref().is_none_or(|client| name.client() == client)
    }
}

fn sentence(lock: &LockInfo) -> String {
    let fencing = lock
        .fencing
        .map_or_else(String::new, |fencing| format!("; fencing number {fencing}"));
    match &lock.holder {
        None => format!("{}: free{fencing}", lock.key),
        Some(holder) => {
            let odds = if lock.rows_disagree {
                format!("; {AT_ODDS}")
            } else {
                String::new()
            };
            format!("{}: held by {holder}{fencing}{odds}", lock.key)
        }
    }
}

fn page<'a>(locks: impl Iterator<Item = &'a LockInfo>) -> String {
    let unknown = || "-".to_owned();
    let header = ["lock", "holder", "age", "remaining"];
    let rows = locks.filter_map(|lock| {
        let holder = lock.holder.as_ref()?;
        let name = holder
            .name
            .as_ref()
            .map_or_else(unknown, |name| name.escape_debug().to_string());
        Some([
            lock.key.clone(),
            name,
            durations::shown(holder.age()),
            holder.remaining().map_or_else(unknown, durations::shown),
        ])
    });
    output::table(header, rows)
}
