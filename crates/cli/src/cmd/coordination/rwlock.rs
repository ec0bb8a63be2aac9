//! `hbase-txn rwlock`.

use clap::{Args, Subcommand};
use hbase_txn::{
    coordination::{ReadWriteInfo, ReadWriteLock},
    lock::{LockManager, LockName},
};
use serde::Serialize;

use super::{
    evict::{Evicted, print_eviction},
    holder::{self, HolderObject},
};
use crate::{
    cmd::lock::{
        request::{LockUse, Request, Terms},
        run::{Command, margin, run_under},
        signals::Signals,
        which::{Kind, NameObject, Which, key},
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

Exit status: that of CMD, 128 + N if signal N ended it; 3 the lock is not available, and CMD was not run; 127 CMD does not exist; 126 CMD can't be run; 1 refused or failed, and CMD was not run; 4 the lock was lost while CMD ran. --conflict-exit-code and --lost-exit-code choose others, as for lock run."#;

const RELEASE: &str = r#"Example: hbase-txn rwlock release locks schema --farm fra --client billing --token 9f86d081884c7d659a2feaa0c55ad015 --force --output json answers

{"rwlock":"RW#DC#fra#billing#schema","outcome":"evicted","holder":"ci@build-7:4711"}

The outcome is evicted, or gone: the token was released, expired or evicted before. With --log warn it is logged, too.

Exit status: 0 evicted, 3 gone, 1 refused or failed, 4 the answer was lost."#;

const SHOW: &str = r#"Example: hbase-txn rwlock show locks schema --farm fra --client billing --output json answers

{"rwlock":"RW#DC#fra#billing#schema","level":"dc","farm":"fra","client":"billing","id":"schema","fencing":1767225600123,"writer":null,"readers":[{"holder":"ci@build-7:4711","token":"9f86d081884c7d659a2feaa0c55ad015","age_ms":1500,"remaining_ms":28500}]}

A `writer` next to `readers` waits until they have released it. Age and remaining time are by this machine's clock.

Exit status: 0, held or free; 1 refused or failed."#;

#[derive(Serialize)]
pub(super) struct RwLockObject<'a> {
    #[serde(flatten)]
    name: NameObject<'a>,
    fencing: Option<i64>,
    writer: Option<HolderObject<'a>>,
    readers: Vec<HolderObject<'a>>,
}

impl<'a> RwLockObject<'a> {
    pub(super) fn new(name: Option<&'a LockName>, info: &'a ReadWriteInfo) -> Self {
        Self {
            name: NameObject {
                kind: Kind::RwLock,
                key: key(&info.key),
                name,
            },
            fencing: info.fencing,
            writer: info.writer.as_ref().map(HolderObject::from),
            readers: info.readers.iter().map(HolderObject::from).collect(),
        }
    }
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
        self.command.exit(self.lock_and_run(global, writes).await)
    }

    async fn lock_and_run(&self, global: &Global, writes: bool) -> Outcome {
        let Request { asked, table } = &self.request;
        let named = asked.which.named(Kind::RwLock)?;
        let margin = margin(asked.lease()?);
        let missing = table.missing(&asked.which)?;
        let mut signals = Signals::listen()?;
        let ask = async |locks: LockManager, terms: Terms<'_>| {
            let name = &terms.named.name;
            let lock = ReadWriteLock::new(&locks, name.level(), name.id())?;
            let request = if writes { lock.write() } else { lock.read() };
            let request = request.ttl(terms.lease).wait(terms.wait.unwrap_or_default());
            request.auto_renew().skew_margin(margin).acquire().await
        };
        let guard = asked
            .acquire(global, &mut signals, &named, LockUse::Attached, missing, ask)
            .await?;
        run_under(guard, &self.command, &mut signals).await
    }
}

impl Release {
    async fn run(self, global: &Global) -> Outcome {
        let Evicted { which, token, .. } = self.evicted;
        let named = which.named(Kind::RwLock)?;
        let locks = named.open(global).await?;
        let lock = ReadWriteLock::new(&locks, named.name.level(), named.name.id())?;
        print_eviction(global, &named, token, lock.force_release(token).await?)
    }
}

impl Show {
    async fn run(self, global: &Global) -> Outcome {
        let named = self.which.named(Kind::RwLock)?;
        let locks = named.open(global).await?;
        let lock = ReadWriteLock::new(&locks, named.name.level(), named.name.id())?;
        let info = lock.show().await?;
        match global.output {
            Format::Table => output::page(&page(&info))?,
            Format::Json => output::json(&RwLockObject::new(Some(&named.name), &info))?,
        }
        Ok(Exit::Done)
    }
}

fn page(info: &ReadWriteInfo) -> String {
    let name = key(&info.key);
    let does = writer_does(info);
    let line = |does: &str, holder| format!("\n{does}: {}", holder::sentence(holder));
    let writer = info.writer.iter().map(|holder| line(does, holder));
    let readers = info.readers.iter().map(|holder| line("reads", holder));
    let holders: String = writer.chain(readers).collect();
    match holders.is_empty() {
        true => format!("{name}: free"),
        false => format!("{name}:{holders}"),
    }
}

/// Says what the writer does: it has its place before the readers are gone.
pub(super) fn writer_does(info: &ReadWriteInfo) -> &'static str {
    match info.readers.is_empty() {
        true => "writes",
        false => "waits to write",
    }
}
