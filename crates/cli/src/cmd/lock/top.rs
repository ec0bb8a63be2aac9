//! `hbase-txn lock top`.

use std::{cmp::Reverse, fmt::Write as _, io, io::IsTerminal, path::PathBuf, time::Duration};

use clap::{Args, ValueEnum};
use hbase_txn::{
    client::TableName,
    lock::{LockHolder, LockInfo, LockManagerOptions},
};
use jiff::Timestamp;
use serde::Serialize;
use tokio::time::sleep;

use super::{look::LockObject, signals::Signals};
use crate::{
    cmd::{
        coordination::list::cells,
        missing_table::{self, Missing},
        whole_file,
    },
    durations,
    exit::{Exit, Failure, Outcome},
    global::{Format, Global},
    output,
    values::{self, Ranged},
};

/// What is written to a terminal before each screen: the cursor goes to the upper left corner, and the
/// screen is cleared.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// The shortest pause between two screens.
const SHORTEST: Duration = Duration::from_millis(100);

/// Show the locks with most waiting processes, or the oldest ones, again and again
///
/// On a terminal each screen replaces the last one. Stops with --count, or at a signal such as that of
/// Ctrl-C. Each screen reads the table from one end to the other.
#[derive(Debug, Args)]
#[command(after_help = TOP)]
pub(super) struct Top {
    /// Lock table, with its namespace if it has one
    table: TableName,
    /// Order: the number of waiting processes, or how long the lock has been held
    #[arg(long, value_name = "ORDER", default_value = "waiting")]
    by: Order,
    /// Longest list on a screen
    #[arg(long, value_name = "N", default_value = "20", allow_negative_numbers = true, value_parser = values::whole::<usize>)]
    rows: Ranged<usize>,
    /// Pause between two screens, at least 100ms
    #[arg(long, value_name = "DURATION", default_value = "2s", allow_hyphen_values = true, value_parser = durations::parse)]
    interval: Ranged<Duration>,
    /// Stop after this number of screens
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = values::whole::<u64>)]
    count: Option<Ranged<u64>>,
    /// Also write the numbers to this file, in the text format of Prometheus
    #[arg(long, value_name = "FILE")]
    metrics: Option<PathBuf>,
}

const TOP: &str = r#"Example: hbase-txn lock top locks --count 1 --output json prints one object for each screen:

{"at":"2026-01-01T00:00:00Z","held":812,"waiting":5,"locks":[{"lock":"DC#fra#billing#nightly","level":"dc","farm":"fra","client":"billing","id":"nightly","state":"held","holder":"ci@build-7:4711","age_ms":1500,"remaining_ms":298500,"waiting":5,"fencing":null,"rows_disagree":false}]}

`held` and `waiting` count all locks of the table and the processes that wait for any of them. The locks are those of `lock list`, --rows of them, in the order of --by.

--metrics writes these numbers for each screen to FILE, which node_exporter's textfile collector can read: hbase_txn_table_locks_held and hbase_txn_table_lock_waiters for the table, hbase_txn_lock_waiters and hbase_txn_lock_held_seconds for each lock of the screen. FILE is replaced as a whole.

Exit status: 0 stopped; 1 refused or failed."#;

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Order {
    Waiting,
    Held,
}

#[derive(Serialize)]
struct Screen<'a> {
    at: String,
    held: usize,
    waiting: usize,
    locks: Vec<LockObject<'a>>,
}

impl Top {
    pub(super) async fn run(self, global: &Global) -> Outcome {
        let rows = self.rows.get("--rows")?;
        let interval = self.interval.get("--interval")?.max(SHORTEST);
        let count = self
            .count
            .as_ref()
            .map(|count| count.get("--count"))
            .transpose()?;
        if let Some(file) = &self.metrics {
            whole_file::check(file)?;
        }
        let connection = global.connect().await?;
        // The manager's client does not matter: it lists the locks of all clients.
        let options = LockManagerOptions::new("-");
        let manager = missing_table::open_locks(&connection, options, &self.table, Missing::Refused).await?;
        let mut signals = Signals::listen()?;
        let mut screens = 0;
        loop {
            let locks = tokio::select! {
                locks = manager.list() => locks?,
                _ = signals.next() => return Ok(Exit::Done),
            };
            let all = Totals::of(&locks);
            let locks = first(locks, self.by, rows);
            self.show(global, all, &locks)?;
            screens += 1;
            if count.is_some_and(|count| screens >= count) {
                return Ok(Exit::Done);
            }
            tokio::select! {
                () = sleep(interval) => {}
                _ = signals.next() => return Ok(Exit::Done),
            }
        }
    }

    fn show(&self, global: &Global, all: Totals, locks: &[LockInfo]) -> Result<(), Failure> {
        let now = Timestamp::now();
        if let Some(file) = &self.metrics {
            whole_file::write(file, &metrics(&self.table, all, locks))?;
        }
        let Totals { held, waiting } = all;
        match global.output {
            Format::Json => output::json(&Screen {
                at: now.to_string(),
                held,
                waiting,
                locks: locks.iter().map(LockObject::from).collect(),
            })?,
            Format::Table => {
                let clear = if io::stdout().is_terminal() { CLEAR } else { "" };
                let held = output::counted(held, "lock");
                output::page(&format!(
                    "{clear}{now:.0}: {held} held, {waiting} waiting\n{}",
                    page(locks)
                ))?;
            }
        }
        Ok(())
    }
}

/// The numbers of a whole table.
#[derive(Clone, Copy)]
struct Totals {
    held: usize,
    waiting: usize,
}

impl Totals {
    fn of(locks: &[LockInfo]) -> Self {
        Self {
            held: locks.len(),
            waiting: locks.iter().map(|lock| lock.waiting).sum(),
        }
    }
}

/// Returns the first locks in an order.
fn first(mut locks: Vec<LockInfo>, by: Order, rows: usize) -> Vec<LockInfo> {
    let age = |lock: &LockInfo| lock.holder.as_ref().map(LockHolder::age);
    match by {
        Order::Waiting => locks.sort_by_cached_key(|lock| Reverse((lock.waiting, age(lock)))),
        Order::Held => locks.sort_by_cached_key(|lock| Reverse((age(lock), lock.waiting))),
    }
    locks.truncate(rows);
    locks
}

fn page(locks: &[LockInfo]) -> String {
    let rows = locks.iter().filter_map(|lock| {
        let [name, age, remaining] = cells(lock.holder.as_ref()?);
        Some([lock.waiting.to_string(), age, remaining, lock.key.clone(), name])
    });
    output::table(["waiting", "held for", "remaining", "lock", "holder"], rows)
}

/// Returns the numbers in the text format of Prometheus.
fn metrics(table: &TableName, all: Totals, locks: &[LockInfo]) -> String {
    let mut text = String::new();
    let table = escaped(&table.to_string());
    let mut family = |name: &str, help: &str, samples: &mut dyn Iterator<Item = (String, f64)>| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge");
        for (labels, value) in samples {
            let _ = writeln!(text, "{name}{{table=\"{table}\"{labels}}} {value}");
        }
    };
    let of_lock = |lock: &LockInfo| format!(",lock=\"{}\"", escaped(&lock.key));
    let one = |value: usize| std::iter::once((String::new(), value as f64));
    family(
        "hbase_txn_table_locks_held",
        "Locks of the table that are held.",
        &mut one(all.held),
    );
    family(
        "hbase_txn_table_lock_waiters",
        "Processes that wait for locks of the table.",
        &mut one(all.waiting),
    );
    let mut waiters = locks.iter().map(|lock| (of_lock(lock), lock.waiting as f64));
    family(
        "hbase_txn_lock_waiters",
        "Processes that wait for the lock.",
        &mut waiters,
    );
    let held = |lock: &LockInfo| Some((of_lock(lock), lock.holder.as_ref()?.age().as_secs_f64()));
    family(
        "hbase_txn_lock_held_seconds",
        "How long the lock has been held.",
        &mut locks.iter().filter_map(held),
    );
    text
}

/// Returns the value of a label.
fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}
