//! `hbase-txn rwlock`.

use clap::{Args, Subcommand};
use hbase_txn::{
    coordination::{ReadWriteInfo, ReadWriteLock},
    lock::{LockManager, LockName, Session},
};
use serde::Serialize;

use super::{
    evict::Evicted,
    holder::{self, HolderObject},
};
use crate::{
    cmd::lock::{
        request::Terms,
        run::Run,
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
    /// Revoke a reader's or writer's lock by the holder's token
    ///
    /// Only the holder with this token is evicted. If it has released or lost the lock, nothing
    /// changes.
    #[command(after_help = RELEASE)]
    Release(Evicted),
    /// Show the readers and the writer
    #[command(after_help = SHOW)]
    Show(Which),
}

const RUN: &str = r#"Example: hbase-txn rwlock write locks schema --farm fra --client billing --wait 1m -- ./migrate.sh

The command is run as by `lock run`: HBASE_TXN_LOCK has the lock's key, HBASE_TXN_FENCING its number. If the lock is lost while CMD runs, CMD and the processes that it started get TERM, and KILL 5 seconds later. A writer that waits keeps new readers out.

Exit status: that of CMD, 128 + N if signal N ended it; 3 the lock is not available, and CMD was not run; 127 CMD does not exist; 126 CMD can't be run; 1 refused or failed, and CMD was not run; 4 the lock was lost while CMD ran. --conflict-exit-code and --lost-exit-code choose others, as for lock run."#;

const RELEASE: &str = r#"Example: hbase-txn rwlock release locks schema --farm fra --client billing --token 9f86d081884c7d659a2feaa0c55ad015 --force --output json answers

{"rwlock":"RW#DC#fra#billing#schema","outcome":"evicted","holder":"ci@build-7:4711"}

The outcome is evicted, or gone: the token was released, expired or evicted before. With --log warn it is logged, too.

Exit status: 0 evicted, 3 gone, 1 refused or failed, 4 the answer was lost."#;

const SHOW: &str = r#"Example: hbase-txn rwlock show locks schema --farm fra --client billing --output json answers

{"rwlock":"RW#DC#fra#billing#schema","level":"dc","farm":"fra","client":"billing","id":"schema","waiting":0,"fencing":1767225600123,"writer":null,"readers":[{"holder":"ci@build-7:4711","token":"9f86d081884c7d659a2feaa0c55ad015","age_ms":1500,"remaining_ms":28500}]}

A `writer` next to `readers` waits until they have released it. `waiting` counts the processes that wait in line, up to 64. Age and remaining time are by this machine's clock.

Exit status: 0, held or free; 1 refused or failed."#;

#[derive(Serialize)]
pub(super) struct RwLockObject<'a> {
    #[serde(flatten)]
    name: NameObject<'a>,
    waiting: usize,
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
            waiting: info.waiting,
            fencing: info.fencing,
            writer: info.writer.as_ref().map(HolderObject::from),
            readers: info.readers.iter().map(HolderObject::from).collect(),
        }
    }
}

impl RwLock {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        match self.action {
            Action::Read(run) => lock_and_run(run, global, false).await,
            Action::Write(run) => lock_and_run(run, global, true).await,
            Action::Release(evicted) => {
                let evict = async |locks: &LockManager, name: &LockName, token| {
                    open(locks, name)?.force_release(token).await
                };
                evicted.run(global, Kind::RwLock, evict).await
            }
            Action::Show(which) => show(&which, global).await,
        }
    }
}

fn open(locks: &LockManager, name: &LockName) -> hbase_txn::Result<ReadWriteLock> {
    ReadWriteLock::new(locks, name.level(), name.id())
}

async fn lock_and_run(run: Run, global: &Global, writes: bool) -> Outcome {
    let ask = async |locks: &LockManager, session: &Session, terms: Terms<'_>| {
        let lock = open(locks, &terms.named.name)?;
        let request = if writes { lock.write() } else { lock.read() };
        let request = request.session(session).wait(terms.wait.unwrap_or_default());
        request.acquire().await
    };
    run.run(global, Kind::RwLock, ask).await
}

async fn show(which: &Which, global: &Global) -> Outcome {
    let named = which.named(Kind::RwLock)?;
    let info = open(&named.open(global).await?, &named.name)?.show().await?;
    match global.output {
        Format::Table => output::page(&page(&info))?,
        Format::Json => output::json(&RwLockObject::new(Some(&named.name), &info))?,
    }
    Ok(Exit::Done)
}

fn page(info: &ReadWriteInfo) -> String {
    let name = key(&info.key);
    let does = writer_does(info);
    let line = |does: &str, holder| format!("\n{does}: {}", holder::sentence(holder));
    let writer = info.writer.iter().map(|holder| line(does, holder));
    let readers = info.readers.iter().map(|holder| line("reads", holder));
    let holders: String = writer.chain(readers).collect();
    let waiting = holder::waiting(info.waiting);
    if holders.is_empty() {
        format!("{name}: free{waiting}")
    } else {
        format!("{name}:{holders}{waiting}")
    }
}

/// Says what the writer does: it has its place before the readers are gone.
pub(super) fn writer_does(info: &ReadWriteInfo) -> &'static str {
    if info.readers.is_empty() {
        "writes"
    } else {
        "waits to write"
    }
}
