//! `hbase-txn rwlock`.

use clap::{Args, Subcommand};
use hbase_txn::{
    coordination::{ReadWriteInfo, ReadWriteLock},
    lock::LockManager,
};
use serde::Serialize;

use super::{
    evict::{Evicted, Resource},
    holder::{self, HolderObject},
};
use crate::{
    cmd::lock::{
        request::{Request, Terms},
        run::{Command, margin, run_under},
        signals::Signals,
        which::{Which, key},
    },
    exit::{Exit, Outcome},
    global::{Format, Global},
    output,
};

/// Run a command as one of many readers or as the only writer
#[derive(Debug, Args)]
pub(crate) struct RwLock {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Run a command as a reader, while no other process writes
    #[command(after_help = RUN)]
    Read(Run),
    /// Run a command as the writer, while no other process reads or writes
    #[command(after_help = RUN)]
    Write(Run),
    Release(Release),
    Show(Show),
}

#[derive(Debug, Args)]
struct Run {
    #[command(flatten)]
    request: Request,
    #[command(flatten)]
    command: Command,
}

/// Revoke a reader's or writer's lock by the holder's token
///
/// Only the holder with this token is evicted. If it has released or lost the lock, nothing
/// changes.
#[derive(Debug, Args)]
#[command(after_help = RELEASE)]
struct Release {
    #[command(flatten)]
    evicted: Evicted,
}

/// Show the readers and the writer
#[derive(Debug, Args)]
#[command(after_help = SHOW)]
struct Show {
    #[command(flatten)]
    which: Which,
}

const RUN: &str = r#"Example: hbase-txn rwlock write locks schema --farm fra --client billing --wait 1m -- ./migrate.sh

The command is run as by `lock run`: HBASE_TXN_LOCK has the lock's key, HBASE_TXN_FENCING its number. If the lock is lost while CMD runs, CMD and the processes that it started get TERM, and KILL 5 seconds later. A writer that waits keeps new readers out.

Exit status: that of CMD, 128 + N if signal N ended it; 3 the lock is not available, and CMD was not run; 1 CMD can't be run, or the cluster can't be reached; 4 the lock was lost while CMD ran."#;

const RELEASE: &str = r#"Example: hbase-txn rwlock release locks schema --farm fra --client billing --token 9f86d081884c7d659a2feaa0c55ad015 --force --output json answers

{"rwlock":"RW#DC#fra#billing#schema","outcome":"evicted","holder":"ci@build-7:4711"}

The outcome is evicted, or gone: the token was released, expired or evicted before. With --log warn it is logged, too.

Exit status: 0 evicted, 3 gone, 1 refused or failed, 4 the answer was lost."#;

const SHOW: &str = r#"Example: hbase-txn rwlock show locks schema --farm fra --client billing --output json answers

{"rwlock":"RW#DC#fra#billing#schema","fencing":1767225600123,"writer":null,"readers":[{"holder":"ci@build-7:4711","token":"9f86d081884c7d659a2feaa0c55ad015","age_ms":1500,"remaining_ms":28500}]}

A `writer` beside `readers` waits until they are gone. Age and remaining time are by this machine's clock.

Exit status: 0, held or free; 1 refused or failed."#;

#[derive(Serialize)]
struct RwLockObject<'a> {
    rwlock: String,
    fencing: Option<i64>,
    writer: Option<HolderObject<'a>>,
    readers: Vec<HolderObject<'a>>,
}

impl RwLock {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        match self.action {
            Action::Read(run) => run.run(global, false).await,
            Action::Write(run) => run.run(global, true).await,
            Action::Release(release) => release.run(global).await,
            Action::Show(show) => show.run(global).await,
        }
    }
}

impl Run {
    async fn run(self, global: &Global, writes: bool) -> Outcome {
        let Request { asked, table } = &self.request;
        asked.which.name()?;
        let margin = margin(asked.lease()?);
        let create = table.options(&asked.which)?;
        let mut signals = Signals::listen()?;
        let ask = async |locks: LockManager, terms: Terms<'_>| {
            let lock = ReadWriteLock::new(&locks, terms.level, terms.id)?;
            let request = if writes { lock.write() } else { lock.read() };
            let request = request.ttl(terms.lease).wait(terms.wait.unwrap_or_default());
            request.auto_renew().skew_margin(margin).acquire().await
        };
        let guard = asked.acquire(global, &mut signals, create, "rwlock", ask).await?;
        run_under(guard, &self.command, &mut signals).await
    }
}

impl Release {
    async fn run(self, global: &Global) -> Outcome {
        let Evicted { which, token, .. } = self.evicted;
        which.name()?;
        let locks = which.open(global).await?;
        let lock = ReadWriteLock::new(&locks, which.scope.level, &which.id)?;
        let evicted = lock.force_release(token).await?;
        Resource::RwLock(key(lock.key())).print_eviction(global, token, evicted)
    }
}

impl Show {
    async fn run(self, global: &Global) -> Outcome {
        self.which.name()?;
        let locks = self.which.open(global).await?;
        let info = ReadWriteLock::new(&locks, self.which.scope.level, &self.which.id)?
            .show()
            .await?;
        match global.output {
            Format::Table => output::page(&page(&info))?,
            Format::Json => output::json(&RwLockObject {
                rwlock: key(&info.key),
                fencing: info.fencing,
                writer: info.writer.as_ref().map(HolderObject::from),
                readers: info.readers.iter().map(HolderObject::from).collect(),
            })?,
        }
        Ok(Exit::Done)
    }
}

fn page(info: &ReadWriteInfo) -> String {
    let name = key(&info.key);
    let does = if info.readers.is_empty() {
        "writes"
    } else {
        "waits to write"
    };
    let line = |does: &str, holder| format!("\n{does}: {}", holder::sentence(holder));
    let writer = info.writer.iter().map(|holder| line(does, holder));
    let readers = info.readers.iter().map(|holder| line("reads", holder));
    let holders: String = writer.chain(readers).collect();
    match holders.is_empty() {
        true => format!("{name}: free"),
        false => format!("{name}:{holders}"),
    }
}
