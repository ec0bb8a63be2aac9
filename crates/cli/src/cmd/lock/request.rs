//! A request for a lock, or for permits or a leadership.

use std::{future::Future, sync::OnceLock, time::Duration};

use clap::Args;
use hbase_txn::{
    ErrorKind,
    client::Connection,
    lock::{LockManager, LockRequest, LockTableOptions, Session},
};
use tokio::time::timeout;

use super::{
    run::margin,
    signals::Signals,
    which::{Kind, Named, Which, lease},
};
use crate::{
    cmd::{
        missing_table::{self, Missing},
        waiting,
    },
    durations,
    exit::Failure,
    global::Global,
    values::{self, Ranged},
};

/// The time that a command stopped by a signal has for leaving the queue and for the answer to an
/// attempt. A lock that the attempt acquires is released.
const LEAVING: Duration = Duration::from_secs(1);

/// A request for a lock.
#[derive(Debug, Args)]
pub(in crate::cmd) struct Asked {
    #[command(flatten)]
    pub(in crate::cmd) which: Which,
    /// Lease: 100ms to 720h, at most the TTL of the table's family
    #[arg(long, value_name = "DURATION", default_value = "30s", allow_hyphen_values = true, value_parser = durations::parse)]
    ttl: Ranged<Duration>,
    /// Maximum time to wait for other holders, not counting the creation of the table; 0s: one
    /// attempt [default: 0s]
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = durations::parse)]
    wait: Option<Ranged<Duration>>,
    /// Name of the holder, for `show` and errors [default: user@host:pid, or "user@host (detached)"
    /// for what stays held after the command]
    #[arg(long, value_name = "NAME")]
    holder: Option<String>,
}

/// A request in a table that may be created.
#[derive(Debug, Args)]
pub(in crate::cmd) struct Request {
    #[command(flatten)]
    pub(in crate::cmd) asked: Asked,
    #[command(flatten)]
    pub(in crate::cmd) table: MissingTable,
}

/// What ends the hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cmd) enum LockUse {
    /// The end of the command.
    Attached,
    /// A release by token, from any process.
    Detached,
}

/// The options that all requests share.
#[derive(Clone, Copy, Debug)]
pub(in crate::cmd) struct Terms<'a> {
    pub(in crate::cmd) named: &'a Named<'a>,
    pub(in crate::cmd) lease: Duration,
    /// The part of the lease for stopping a command.
    pub(in crate::cmd) margin: Duration,
    /// `None` if not specified.
    pub(in crate::cmd) wait: Option<Duration>,
}

const CREATING: &str = "Creating the table";

/// The table to create if it does not exist.
#[derive(Debug, Args)]
pub(in crate::cmd) struct MissingTable {
    /// Create the table if it does not exist
    #[arg(long, help_heading = CREATING)]
    create: bool,
    /// Number of regions, 1 to 257 [default: 8]
    #[arg(long, value_name = "N", requires = "create", help_heading = CREATING, allow_negative_numbers = true, value_parser = values::whole::<usize>)]
    regions: Option<Ranged<usize>>,
    /// Create the 257 regions that the Java library creates
    #[arg(long, requires = "create", conflicts_with = "regions", help_heading = CREATING)]
    java_layout: bool,
    /// Protect Java clients from each other (NEW_VERSION_BEHAVIOR); locks that are acquired often
    /// become slower
    #[arg(long, requires = "create", help_heading = CREATING)]
    protect_java_clients: bool,
    /// Create a table for no Java clients: a lock is one row, not two, and costs less
    #[arg(long, requires = "create", help_heading = CREATING)]
    no_java_clients: bool,
}

impl Asked {
    /// Checks the range of the lease, before a table is created.
    pub(in crate::cmd) fn lease(&self) -> Result<Duration, Failure> {
        lease(&self.ttl)
    }

    /// Refuses --wait, for what is never held by others.
    pub(in crate::cmd) fn without_wait(&self) -> Result<(), Failure> {
        match self.wait {
            None => Ok(()),
            Some(_) => Err(Failure::Unparsable(
                "--wait is not for groups: a member waits for no other".to_owned(),
            )),
        }
    }

    /// Acquires what `ask` requests, unless a signal stops the command first.
    pub(in crate::cmd) async fn acquire<T>(
        &self,
        global: &Global,
        signals: &mut Signals,
        kind: Kind,
        lock_use: LockUse,
        table: Option<&MissingTable>,
        ask: impl AsyncFnOnce(LockManager, Terms<'_>) -> hbase_txn::Result<T>,
    ) -> Result<T, Failure> {
        let named = &self.which.named(kind)?;
        let lease = self.lease()?;
        let missing = match table {
            Some(table) => table.missing(&self.which)?,
            None => Missing::Refused,
        };
        let wait = self.wait.as_ref().map(|wait| wait.get("--wait")).transpose()?;
        let terms = Terms {
            named,
            lease,
            margin: margin(lease),
            wait,
        };
        let opened = OnceLock::new();
        unless_signalled(signals, &opened, async {
            let connection = global.connect().await?;
            let mut options = named.options();
            match (&self.holder, lock_use) {
                (Some(holder), _) => options = options.holder(holder.clone()),
                (None, LockUse::Detached) => options = options.holder(detached(&connection)),
                (None, LockUse::Attached) => {}
            }
            let locks = missing_table::open_locks(&connection, options, named.table, missing).await?;
            let _ = opened.set(locks.clone());
            let obstacles = waiting::obstacles(&locks, named)?;
            let asked = waiting::shown(obstacles, ask(locks, terms)).await;
            asked.map_err(|error| match error.kind() {
                ErrorKind::LockUnavailable => Failure::Library(error.with_hint(format!(
                    "to see its {}, run {}",
                    named.kind.holders(),
                    named.command("show", "")
                ))),
                ErrorKind::SemaphoreAbsent => absent(named, error),
                _ => error.into(),
            })
        })
        .await
    }
}

/// Returns the holder's name of what stays held when this process has ended.
fn detached(connection: &Connection) -> String {
    let system = rustix::system::uname();
    let host = system.nodename().to_string_lossy();
    format!("{}@{host} (detached)", connection.config().user())
}

/// Adds the command that creates a missing semaphore.
pub(in crate::cmd) fn absent(named: &Named<'_>, error: hbase_txn::Error) -> Failure {
    Failure::Library(error.with_better_hint(format!(
        "check its name, or create it: run {}",
        named.command("create", " PERMITS")
    )))
}

impl Terms<'_> {
    /// Opens a session with these terms.
    pub(in crate::cmd) fn session(&self, locks: &LockManager) -> hbase_txn::Result<Session> {
        let session = locks.session(locks.holder())?;
        Ok(session.ttl(self.lease).skew_margin(self.margin))
    }

    /// Creates the request for a lock.
    pub(in crate::cmd) fn lock(&self, locks: &LockManager) -> hbase_txn::Result<LockRequest> {
        let name = &self.named.name;
        let request = locks.lock(name.level(), name.id())?.ttl(self.lease);
        Ok(request.wait(self.wait.unwrap_or_default()))
    }
}

impl MissingTable {
    /// Returns what to do if the table does not exist. Checks the options before any call to a server.
    pub(in crate::cmd) fn missing(&self, which: &Which) -> Result<Missing<LockTableOptions>, Failure> {
        if !self.create {
            return Ok(Missing::NotCreated);
        }
        let mut options = LockTableOptions::from(which.table.clone());
        if self.java_layout {
            options = options.java_layout();
        }
        if let Some(regions) = &self.regions {
            options = options.regions(regions.get("--regions")?);
        }
        if self.protect_java_clients {
            options = options.protect_java_clients();
        }
        if self.no_java_clients {
            options = options.without_java_clients();
        }
        options.split_keys()?;
        Ok(Missing::Created(options))
    }
}

/// Returns what is acquired, unless a terminating signal arrives first.
async fn unless_signalled<T>(
    signals: &mut Signals,
    opened: &OnceLock<LockManager>,
    acquiring: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let acquired = tokio::select! {
        biased;
        acquired = acquiring => acquired,
        () = signals.ending() => Err(Failure::Interrupted),
    };
    // A request that has failed or was dropped leaves the queue.
    if acquired.is_err()
        && let Some(locks) = opened.get()
    {
        let _ = timeout(LEAVING, locks.background_done()).await;
    }
    acquired
}
