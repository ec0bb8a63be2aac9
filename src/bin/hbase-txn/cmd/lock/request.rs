//! A lock that is asked for.

use std::{future::Future, pin::pin, time::Duration};

use clap::Args;
use hbase_txn::{Connection, ErrorKind, LockGuard, LockManager, LockRequest, LockTableOptions};
use tokio::time::timeout;

use super::{
    signals::Signals,
    which::{Which, lease},
};
use crate::{
    args::Global,
    durations,
    exit::Failure,
    progress::Progress,
    values::{self, Ranged},
};

/// How long the end of an attempt is waited for when the command is to end: what it wins is given back.
const LAST_ATTEMPT: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
pub(super) struct Request {
    #[command(flatten)]
    pub(super) which: Which,
    /// The lease: 100ms to 720h, and not longer than the TTL of the table's family
    #[arg(long, value_name = "DURATION", default_value = "30s", allow_hyphen_values = true, value_parser = durations::parse)]
    ttl: Ranged<Duration>,
    /// How long to wait for a lock that is held, from when the table is there; 0s: one attempt
    #[arg(long, value_name = "DURATION", default_value = "0s", allow_hyphen_values = true, value_parser = durations::parse)]
    wait: Ranged<Duration>,
    /// What the holder is called, for people who look [default: user@host:pid]
    #[arg(long, value_name = "NAME")]
    holder: Option<String>,
    #[command(flatten)]
    table: MissingTable,
}

const MISSING: &str = "A table that is missing is made, in the layout of the Java library";

/// What becomes of a table that is missing.
#[derive(Debug, Args)]
struct MissingTable {
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

impl Request {
    /// Refuses what no table can have, before any is made for it.
    pub(super) fn lease(&self) -> Result<Duration, Failure> {
        lease(&self.ttl)
    }

    /// Acquires the lock, unless a signal ends the command first.
    pub(super) async fn acquire(
        &self,
        global: &Global,
        signals: &mut Signals,
        refine: impl FnOnce(LockRequest) -> LockRequest,
    ) -> Result<LockGuard, Failure> {
        let Which { level, id, .. } = &self.which;
        let (lease, wait) = (self.lease()?, self.wait.get("--wait")?);
        let table = self.table.options(&self.which)?;
        unless_signalled(signals, async {
            let connection = global.connect().await?;
            let locks = self.open(&connection, table).await?;
            let request = locks.lock(*level, id)?.ttl(lease).wait(wait);
            Ok(refine(request).acquire().await?)
        })
        .await
    }

    /// Opens the table, which is made if that is wanted and needed.
    async fn open(
        &self,
        connection: &Connection,
        missing: Option<LockTableOptions>,
    ) -> Result<LockManager, Failure> {
        let mut options = self.which.options();
        if let Some(holder) = &self.holder {
            options = options.holder(holder.clone());
        }
        let name = &self.which.table;
        let error = match options.clone().open(connection, name.clone()).await {
            Err(error) if error.kind() == ErrorKind::TableNotFound => error,
            done => return Ok(done?),
        };
        let Some(table) = missing else {
            return Err(Failure::Refused(format!("{error}; but --no-create forbids it")));
        };
        let progress = Progress::on_a_terminal();
        if let Some(progress) = &progress {
            progress.step(&format!("making table {name}"));
        }
        let made = table.create(&connection.admin()).await;
        if let Some(progress) = &progress {
            progress.finish();
        }
        made?;
        Ok(options.open(connection, name.clone()).await?)
    }
}

impl MissingTable {
    fn options(&self, which: &Which) -> Result<Option<LockTableOptions>, Failure> {
        if self.no_create {
            return Ok(None);
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
        Ok(Some(options))
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
