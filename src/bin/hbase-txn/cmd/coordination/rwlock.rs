//! `hbase-txn rwlock`.

use std::ffi::OsString;

use clap::{Args, Subcommand};
use hbase_txn::{LockManager, ReadWriteInfo, ReadWriteLock};
use serde::Serialize;

use super::holder::HolderObject;
use crate::{
    args::{Format, Global},
    cmd::{
        Outcome,
        lock::{
            request::{Request, Terms},
            run::{margin, run_under},
            signals::Signals,
            which::{Which, key},
        },
    },
    exit::Exit,
    output,
};

/// Read/write locks: many readers, or one writer
#[derive(Debug, Args)]
pub(crate) struct RwLock {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Run a command as a reader: no writer is beside it
    #[command(after_help = RUN)]
    Read(Run),
    /// Run a command as the writer: nobody reads or writes beside it
    #[command(after_help = RUN)]
    Write(Run),
    Show(Show),
}

#[derive(Debug, Args)]
struct Run {
    #[command(flatten)]
    request: Request,
    /// The command and its arguments, behind --
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Show who reads and who writes
#[derive(Debug, Args)]
#[command(after_help = SHOW)]
struct Show {
    #[command(flatten)]
    which: Which,
}

const RUN: &str = r#"Example: hbase-txn rwlock write locks schema --farm fra --client billing --wait 1m -- ./migrate.sh

The command is run as by `lock run`: HBASE_TXN_LOCK has the lock's key, HBASE_TXN_FENCING its number. If the lock is lost while CMD runs, CMD and what it started get TERM, and KILL 5 seconds later. A writer that waits keeps new readers out.

Exit status: that of CMD, 128 + N if signal N ended it; 3 the lock is not available, and CMD was not run; 1 CMD can't be run, or the lock not be asked for; 4 the lock was lost while CMD ran."#;

const SHOW: &str = r#"Example: hbase-txn rwlock show locks schema --farm fra --client billing --output json answers

{"rwlock":"RW#DC#fra#billing#schema","fencing":1767225600123,"writer":null,"readers":[{"holder":"ci@build-7:4711","age_ms":1500,"remaining_ms":28500}]}

A `writer` beside `readers` waits until they are gone. Age and remaining time are by this machine's clock.

Exit status: 0, held or free; 1 refused or failed."#;

#[derive(Serialize)]
struct RwLockObject<'a> {
    rwlock: String,
    fencing: Option<u64>,
    writer: Option<HolderObject<'a>>,
    readers: Vec<HolderObject<'a>>,
}

impl RwLock {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        match self.action {
            Action::Read(run) => run.run(global, false).await,
            Action::Write(run) => run.run(global, true).await,
            Action::Show(show) => show.run(global).await,
        }
    }
}

impl Run {
    async fn run(self, global: &Global, writes: bool) -> Outcome {
        let Request { asked, table } = &self.request;
        asked.which.name()?;
        let margin = margin(asked.lease()?);
        let missing = table.missing(&asked.which)?;
        let mut signals = Signals::listen()?;
        let ask = async |locks: LockManager, terms: Terms<'_>| {
            let lock = ReadWriteLock::new(&locks, terms.level, terms.id)?;
            let request = if writes { lock.write() } else { lock.read() };
            let request = request.ttl(terms.lease).wait(terms.wait.unwrap_or_default());
            request.renewed().skew_margin(margin).acquire().await
        };
        let guard = asked.acquire(global, &mut signals, missing, ask).await?;
        run_under(guard, &self.command, &mut signals).await
    }
}

impl Show {
    async fn run(self, global: &Global) -> Outcome {
        self.which.name()?;
        let locks = self.which.open(global).await?;
        let info = ReadWriteLock::new(&locks, self.which.level, &self.which.id)?
            .show()
            .await?;
        match global.output {
            Format::Table => output::line(&page(&info))?,
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
    let writer = info.writer.iter().map(|holder| format!("\n{does}: {holder}"));
    let readers = info.readers.iter().map(|holder| format!("\nreads: {holder}"));
    let holders: String = writer.chain(readers).collect();
    match holders.is_empty() {
        true => format!("{name}: free"),
        false => format!("{name}:{holders}"),
    }
}
