//! A lock that is asked for, or what else is held like one.

use std::{future::Future, pin::pin, time::Duration};

use clap::Args;
use hbase_txn::{
    Connection, LONGEST_LEASE, Level, LockGuard, LockManager, LockManagerOptions, LockRequest,
    LockTableOptions,
};
use tokio::time::timeout;

use super::{
    signals::Signals,
    which::{Which, lease},
};
use crate::{
    args::Global,
    cmd::missing_table,
    durations,
    exit::Failure,
    values::{self, Ranged},
};

/// How long the end of an attempt is waited for when the command is to end: what it wins is given back.
const LAST_ATTEMPT: Duration = Duration::from_secs(1);

/// What is asked for.
#[derive(Debug, Args)]
pub(in crate::cmd) struct Asked {
    #[command(flatten)]
    pub(in crate::cmd) which: Which,
    /// The lease: 100ms to 720h, and not longer than the TTL of the table's family
    #[arg(long, value_name = "DURATION", default_value = "30s", allow_hyphen_values = true, value_parser = durations::parse)]
    ttl: Ranged<Duration>,
    /// How long to wait for what is held, from when the table is there; 0s: one attempt [default: 0s, to lead 720h]
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = durations::parse)]
    wait: Option<Ranged<Duration>>,
    /// What the holder is called, for people who look [default: user@host:pid]
    #[arg(long, value_name = "NAME")]
    holder: Option<String>,
}

/// What is asked for in a table that is made when it is missing.
#[derive(Debug, Args)]
pub(in crate::cmd) struct Request {
    #[command(flatten)]
    pub(in crate::cmd) asked: Asked,
    #[command(flatten)]
    pub(in crate::cmd) table: MissingTable,
}

/// What all that is asked for has in common.
#[derive(Clone, Copy, Debug)]
pub(in crate::cmd) struct Terms<'a> {
    pub(in crate::cmd) level: Level,
    pub(in crate::cmd) id: &'a str,
    pub(in crate::cmd) lease: Duration,
    /// None when nothing was said.
    pub(in crate::cmd) wait: Option<Duration>,
}

impl Terms<'_> {
    /// How long is waited where leading is wanted: as long as it takes, or nearly.
    pub(in crate::cmd) fn long_wait(&self) -> Duration {
        self.wait.unwrap_or(LONGEST_LEASE)
    }
}

const MISSING: &str = "A table that is missing is made, in the layout of the Java library";

/// What becomes of a table that is missing.
#[derive(Debug, Args)]
pub(in crate::cmd) struct MissingTable {
    /// Don't make the table
    #[arg(long, help_heading = MISSING, conflicts_with_all = ["regions", "protect_java", "ours_alone"])]
    no_create: bool,
    /// How many regions it gets, 1 to 257 [default: 257]
    #[arg(long, value_name = "N", help_heading = MISSING, allow_negative_numbers = true, value_parser = values::whole::<usize>)]
    regions: Option<Ranged<usize>>,
    /// Protect Java clients from each other (NEW_VERSION_BEHAVIOR); locks that are taken often become slow by it
    #[arg(long, help_heading = MISSING)]
    protect_java: bool,
    /// No Java client uses the table: a lock is one row and not two, and costs less
    #[arg(long, help_heading = MISSING)]
    ours_alone: bool,
}

impl Asked {
    /// Refuses what no table can have, before any is made for it.
    pub(in crate::cmd) fn lease(&self) -> Result<Duration, Failure> {
        lease(&self.ttl)
    }

    /// Acquires what the terms are for, unless a signal ends the command first.
    pub(in crate::cmd) async fn acquire(
        &self,
        global: &Global,
        signals: &mut Signals,
        missing: Missing,
        ask: impl AsyncFnOnce(LockManager, Terms<'_>) -> hbase_txn::Result<LockGuard>,
    ) -> Result<LockGuard, Failure> {
        let wait = self.wait.as_ref().map(|wait| wait.get("--wait")).transpose()?;
        let terms = Terms {
            level: self.which.level,
            id: &self.which.id,
            lease: self.lease()?,
            wait,
        };
        unless_signalled(signals, async {
            let connection = global.connect().await?;
            let mut options = self.which.options();
            if let Some(holder) = &self.holder {
                options = options.holder(holder.clone());
            }
            let locks = missing.open(&connection, options, &self.which).await?;
            Ok(ask(locks, terms).await?)
        })
        .await
    }
}

impl Request {
    /// Acquires the lock, unless a signal ends the command first.
    pub(in crate::cmd) async fn acquire(
        &self,
        global: &Global,
        signals: &mut Signals,
        refine: impl FnOnce(LockRequest) -> LockRequest,
    ) -> Result<LockGuard, Failure> {
        let missing = self.table.missing(&self.asked.which)?;
        let ask = async |locks: LockManager, terms: Terms<'_>| {
            let request = locks.lock(terms.level, terms.id)?.ttl(terms.lease);
            refine(request.wait(terms.wait.unwrap_or_default()))
                .acquire()
                .await
        };
        self.asked.acquire(global, signals, missing, ask).await
    }
}

/// What becomes of a table that is missing.
pub(in crate::cmd) enum Missing {
    /// It is made.
    Made(LockTableOptions),
    /// It is made unless that is forbidden, and it is.
    Forbidden,
    /// Nobody would look for what is wanted in a new table.
    Refused,
}

impl Missing {
    /// Opens the table, which is made if that is wanted and needed.
    pub(in crate::cmd) async fn open(
        self,
        connection: &Connection,
        options: LockManagerOptions,
        which: &Which,
    ) -> Result<LockManager, Failure> {
        let name = &which.table;
        let admin = connection.admin();
        let making = match &self {
            Self::Made(table) => Some(table.create(&admin)),
            Self::Forbidden => None,
            Self::Refused => return Ok(options.open(connection, name.clone()).await?),
        };
        missing_table::open_or_make(
            name,
            options.clone().open(connection, name.clone()),
            making,
            options.open(connection, name.clone()),
        )
        .await
    }
}

impl MissingTable {
    pub(in crate::cmd) fn missing(&self, which: &Which) -> Result<Missing, Failure> {
        if self.no_create {
            return Ok(Missing::Forbidden);
        }
        let mut options = LockTableOptions::new(which.table.clone());
        if let Some(regions) = &self.regions {
            options = options.regions(regions.get("--regions")?);
        }
        if self.protect_java {
            options = options.protect_java();
        }
        if self.ours_alone {
            options = options.ours_alone();
        }
        options.split_keys()?;
        Ok(Missing::Made(options))
    }
}

/// The lock, unless a signal comes first that ends processes.
async fn unless_signalled(
    signals: &mut Signals,
    acquiring: impl Future<Output = Result<LockGuard, Failure>>,
) -> Result<LockGuard, Failure> {
    let mut acquiring = pin!(acquiring);
    tokio::select! {
        guard = &mut acquiring => return guard,
        () = signals.ending() => {}
    }
    // Where no answer comes in time, what the attempt won ends with its lease.
    if let Ok(Ok(guard)) = timeout(LAST_ATTEMPT, acquiring).await {
        let _ = timeout(LAST_ATTEMPT, guard.release()).await;
    }
    Err(Failure::Interrupted)
}
