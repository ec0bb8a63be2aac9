//! `hbase-txn lock watch`, and what it shares with `elect watch`.

use std::{future::pending, time::Duration};

use clap::Args;
use futures::{
    StreamExt,
    stream::{BoxStream, select_all},
};
use hbase_txn::{
    client::TableName,
    lock::{LockEvent, LockEventKind, LockManager, LockName},
};
use jiff::Timestamp;
use serde::Serialize;
use tokio::time::sleep;

use super::{
    signals::Signals,
    which::{Kind, Named, Scope},
};
use crate::{
    durations,
    exit::{Exit, Failure, Outcome},
    global::{Format, Global},
    output,
    values::{self, Ranged},
};

/// The locks or elections to watch.
#[derive(Debug, Args)]
pub(in crate::cmd) struct Watched {
    /// Lock table, with its namespace if it has one
    table: TableName,
    /// Ids, unique for their client, or without --client full names as `lock list --all` prints
    /// them; \xNN is a byte
    #[arg(required = true, value_name = "ID", value_parser = values::text)]
    ids: Vec<String>,
    #[command(flatten)]
    scope: Scope,
    /// Longest wait for changes: stop after this time
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = durations::parse)]
    wait: Option<Ranged<Duration>>,
    /// Stop after this number of changes; the first line of each id is its state, not a change
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = values::whole::<u64>)]
    count: Option<Ranged<u64>>,
    /// Print renewals too
    #[arg(long)]
    renewals: bool,
}

/// Print the state of locks and then each change
///
/// Stops with --wait, with --count, or at a signal such as that of Ctrl-C. Each lock is read several
/// times a second while it changes, and twice a second otherwise: a hold that begins and ends
/// between two reads is not seen.
#[derive(Debug, Args)]
#[command(after_help = WATCH)]
pub(crate) struct Watch {
    #[command(flatten)]
    watched: Watched,
}

const WATCH: &str = r#"Example: hbase-txn lock watch locks nightly hourly --farm fra --client billing --wait 1h --output json prints one object for each event:

{"lock":"DC#fra#billing#nightly","at":"2026-01-01T00:00:00.123Z","event":"acquired","holder":"ci@build-7:4711","token":"9f86d081884c7d659a2feaa0c55ad015","remaining_ms":298500,"fencing":1767225600123,"waiting":0}

`event` is held or free, the state at the beginning; acquired; renewed, with --renewals; released, by its holder or by force; expired; ended, released or expired, of a Java client, which records no lease; waiting, if another number of processes waits; or failed. After expired, ended and released, `holder` is the last one. `waiting` counts the processes that wait, up to 64.

A read may take 10 seconds or --timeout. If it fails, that is reported (failed, with `error`), and the lock is read again. A failure that another read can't cure, such as a dropped table, ends the command.

Exit status: 0 stopped; 1 refused or failed, or the last read of a lock failed; 3 fewer changes than --count when --wait was over."#;

#[derive(Serialize)]
struct EventObject<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    lock: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    election: Option<&'a str>,
    at: String,
    event: &'static str,
    #[serde(flatten)]
    seen: Seen<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Seen<'a> {
    Failed { error: String },
    Event(EventFields<'a>),
}

#[derive(Serialize)]
struct EventFields<'a> {
    holder: Option<&'a str>,
    token: Option<String>,
    remaining_ms: Option<u64>,
    /// A lock's number may be null.
    #[serde(skip_serializing_if = "Option::is_none")]
    fencing: Option<Option<i64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    term: Option<Option<i64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting: Option<usize>,
}

impl Watch {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        let watch = |locks: &LockManager, name: &LockName| locks.watch(name.level(), name.id());
        self.watched.run(global, Kind::Lock, watch).await
    }
}

type Events = BoxStream<'static, hbase_txn::Result<LockEvent>>;

impl Watched {
    /// Prints the events of the streams that `watch` returns, until a signal or as the options specify.
    pub(in crate::cmd) async fn run(
        &self,
        global: &Global,
        kind: Kind,
        watch: impl Fn(&LockManager, &LockName) -> hbase_txn::Result<Events> + Send + Sync,
    ) -> Outcome {
        let ids = self.ids.iter();
        let all: Vec<_> = ids
            .map(|id| self.scope.named(&self.table, kind, id))
            .collect::<Result<_, _>>()?;
        let wait = self.wait.as_ref().map(|wait| wait.get("--wait")).transpose()?;
        let count = self
            .count
            .as_ref()
            .map(|count| count.get("--count"))
            .transpose()?;
        let mut signals = Signals::listen()?;
        let mut printer = Printer {
            kind,
            format: global.output,
            renewals: self.renewals,
            names: all.iter().map(Named::key).collect(),
            changes: 0,
            failed: vec![false; self.ids.len()],
        };
        let printing = async {
            let connection = global.connect().await?;
            let mut events = Vec::new();
            for (index, named) in all.iter().enumerate() {
                let locks = named.open_on(&connection).await?;
                events.push(watch(&locks, &named.name)?.map(move |event| (index, event)));
            }
            let mut events = select_all(events);
            let over = async {
                match wait {
                    Some(wait) => sleep(wait).await,
                    None => pending().await,
                }
            };
            tokio::pin!(over);
            while !output::is_closed() && count.is_none_or(|count| printer.changes < count) {
                tokio::select! {
                    biased;
                    () = &mut over => break,
                    Some((index, event)) = events.next() => printer.print(index, event)?,
                }
            }
            Ok::<_, Failure>(())
        };
        tokio::select! {
            biased;
            () = signals.ending() => return Ok(Exit::Done),
            printed = printing => printed?,
        }
        Ok(match count {
            _ if printer.failed.contains(&true) => Exit::Failed,
            Some(count) if printer.changes < count => Exit::NotMet,
            _ => Exit::Done,
        })
    }
}

/// Prints events.
struct Printer {
    kind: Kind,
    format: Format,
    renewals: bool,
    names: Vec<String>,
    /// The number of changes so far.
    changes: u64,
    /// Whether the last read of each lock failed.
    failed: Vec<bool>,
}

impl Printer {
    fn print(&mut self, index: usize, event: hbase_txn::Result<LockEvent>) -> Result<(), Failure> {
        let name = &self.names[index];
        let at = Timestamp::now();
        self.failed[index] = event.is_err();
        let event = match event {
            Ok(event) => event,
            Err(error) if error.is_retryable() => {
                output::complain(&format!("hbase-txn: {error}; trying again"));
                if self.format == Format::Json {
                    let error = error.to_string();
                    output::json(&self.object(name, at, "failed", Seen::Failed { error }))?;
                }
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        if event.kind == LockEventKind::Renewed && !self.renewals {
            return Ok(());
        }
        if !matches!(event.kind, LockEventKind::Held | LockEventKind::Free) {
            self.changes += 1;
        }
        match self.format {
            Format::Json => {
                let seen = Seen::Event(self.fields(&event));
                output::json(&self.object(name, at, word(event.kind), seen))?;
            }
            Format::Table => output::line(&format!("{at:.3}  {name}: {}", self.sentence(&event)))?,
        }
        Ok(())
    }

    fn object<'a>(
        &self,
        name: &'a str,
        at: Timestamp,
        event: &'static str,
        seen: Seen<'a>,
    ) -> EventObject<'a> {
        let is_lock = self.kind == Kind::Lock;
        EventObject {
            lock: is_lock.then_some(name),
            election: (!is_lock).then_some(name),
            at: format!("{at:.3}"),
            event,
            seen,
        }
    }

    fn fields<'a>(&self, event: &'a LockEvent) -> EventFields<'a> {
        let holder = event.holder.as_ref();
        let is_lock = self.kind == Kind::Lock;
        EventFields {
            holder: holder.and_then(|holder| holder.name.as_deref()),
            token: holder
                .and_then(|holder| holder.token)
                .map(|token| token.to_string()),
            remaining_ms: holder
                .filter(|_| is_held(event.kind))
                .and_then(|holder| holder.remaining())
                .map(durations::milliseconds),
            fencing: is_lock.then_some(event.fencing),
            term: (!is_lock).then_some(event.fencing),
            waiting: event.waiting,
        }
    }

    fn sentence(&self, event: &LockEvent) -> String {
        let what = match (event.kind, &event.holder) {
            (LockEventKind::Waiting, Some(_)) => LockEventKind::Held,
            (LockEventKind::Waiting, None) => LockEventKind::Free,
            (kind, _) => kind,
        };
        let mut text = word(what).to_owned();
        if let Some(holder) = &event.holder {
            let preposition = match what {
                LockEventKind::Expired | LockEventKind::Ended => ", last held by",
                _ => " by",
            };
            let who = match &holder.name {
                _ if is_held(event.kind) => holder.to_string(),
                Some(name) => name.escape_debug().to_string(),
                None => "a client that leaves no name".to_owned(),
            };
            text += &format!("{preposition} {who}");
        }
        if let Some(number) = event.fencing {
            let what = match self.kind {
                Kind::Election => "term",
                _ => "fencing number",
            };
            text += &format!("; {what} {number}");
        }
        match event.waiting {
            Some(0) if event.kind == LockEventKind::Waiting => text += "; no process waits",
            None | Some(0) => {}
            Some(1) => text += "; 1 process waits",
            Some(waiting) => text += &format!("; {waiting} processes wait"),
        }
        text
    }
}

/// Returns the word for an event in the output.
fn word(kind: LockEventKind) -> &'static str {
    match kind {
        LockEventKind::Held => "held",
        LockEventKind::Free => "free",
        LockEventKind::Acquired => "acquired",
        LockEventKind::Renewed => "renewed",
        LockEventKind::Released => "released",
        LockEventKind::Expired => "expired",
        LockEventKind::Ended => "ended",
        LockEventKind::Waiting => "waiting",
        _ => "changed",
    }
}

/// Whether the holder of an event of this kind holds the lock after it.
pub(in crate::cmd) fn is_held(kind: LockEventKind) -> bool {
    matches!(
        kind,
        LockEventKind::Held | LockEventKind::Acquired | LockEventKind::Renewed | LockEventKind::Waiting
    )
}
