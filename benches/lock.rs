//! What does a lock cost, and does one that is taken again and again become slower?
//!
//! One owner acquires and releases the same lock 30,000 times: the median of the last thousand
//! cycles is compared with that of the second thousand. And uncontended acquisitions take turns
//! with conditional puts of one row on the same table. Both on a table of our own, and on one that
//! is shared with Java clients, where a lock has a companion row.
//!
//!     make bench
//!
//! or, on a local cluster that is there: `HBASE_TXN_BENCH_CLUSTER=mine cargo bench --all-features --bench
//! lock`.
//!
//! The late cycles may take 1.5 times as long as the early ones; an acquisition 1.5 times as long
//! as a conditional put, 2.2 times with the companion row; else the exit status is 1. With `-- --short`,
//! a few cycles and no judgement.

mod setup;

use std::{process::ExitCode, time::Duration};

use hbase_txn::{
    Condition, Connection, Level, Put, Table, TableName,
    lock::{LockManager, LockManagerOptions, LockTableOptions},
};
use tokio::time::Instant;

use self::setup::{Bench, Failure, Millis, Times, is_short, median};

/// The late cycles may take so many times as long.
const LATER: f64 = 1.5;
const LEASE: Duration = Duration::from_secs(30);

/// A sort of lock table, and how many times a conditional put an acquisition may take on it.
struct Sort {
    name: &'static str,
    options: fn(LockTableOptions) -> LockTableOptions,
    allowed: f64,
}

const SORTS: [Sort; 2] = [
    Sort {
        name: "ours alone",
        options: LockTableOptions::without_java_clients,
        allowed: 1.5,
    },
    Sort {
        name: "with companion rows",
        options: |options| options,
        allowed: 2.2,
    },
];

/// How much is measured.
struct Length {
    rounds: usize,
    calls: usize,
    cycles: usize,
    /// How many cycles make one median.
    window: usize,
}

#[tokio::main]
async fn main() -> Result<ExitCode, Failure> {
    let short = is_short();
    let length = match short {
        true => Length {
            rounds: 1,
            calls: 50,
            cycles: 300,
            window: 50,
        },
        false => Length {
            rounds: 5,
            calls: 2_000,
            cycles: 30_000,
            window: 1_000,
        },
    };
    let bench = Bench::begin("lock").await?;
    let mut passed = true;
    for sort in &SORTS {
        let name: TableName = format!("bench_locks_{:08x}", fastrand::u32(..)).parse()?;
        let admin = bench.connection.admin();
        let options = LockTableOptions::from(name.clone()).regions(1);
        (sort.options)(options).create(&admin).await?;
        let measured = measure(&bench.connection, &name, sort, &length).await;
        admin.delete_table(&name).await?;
        passed &= measured?;
    }
    bench.end().await?;
    Ok(match short || passed {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

async fn measure(
    connection: &Connection,
    name: &TableName,
    sort: &Sort,
    length: &Length,
) -> Result<bool, Failure> {
    let locks = LockManagerOptions::new("bench")
        .open(connection, name.clone())
        .await?;
    let table = connection.table(name)?;
    // The region's location, the connection, the server's code.
    uncontended(&locks, &table, length.calls).await?;
    let mut seen = Vec::new();
    for _ in 0..length.rounds {
        seen.push(uncontended(&locks, &table, length.calls).await?);
    }
    let of = |figure: fn(&Seen) -> f64| median(seen.iter().map(figure));
    let ratio = of(|seen| seen.acquire.0 / seen.put.0);
    println!(
        "{}: a conditional put takes {}, to acquire {}, to release {} (medians); {ratio:.2} times, at most {} is asked for",
        sort.name,
        Millis(of(|seen| seen.put.0)),
        Millis(of(|seen| seen.acquire.0)),
        Millis(of(|seen| seen.release.0)),
        sort.allowed
    );

    let mut cycles = Vec::with_capacity(length.cycles);
    for _ in 0..length.cycles {
        let (acquire, release) = cycle(&locks, "hot").await?;
        cycles.push(acquire + release);
    }
    let window = length.window;
    let early = Times::of([cycles[window..2 * window].to_vec()])?.median();
    let late = Times::of([cycles[length.cycles - window..].to_vec()])?.median();
    let later = late.0 / early.0;
    println!(
        "{}: cycles {} to {} of one lock take {early}, cycles {} to {} {late}; {later:.2} times, at most {LATER} is asked for",
        sort.name,
        window,
        2 * window,
        length.cycles - window,
        length.cycles
    );
    Ok(ratio <= sort.allowed && later <= LATER)
}

/// The medians of one round.
struct Seen {
    put: Millis,
    acquire: Millis,
    release: Millis,
}

/// Conditional puts and cycles of a lock, in turn.
async fn uncontended(locks: &LockManager, table: &Table, calls: usize) -> Result<Seen, Failure> {
    let (mut puts, mut acquires, mut releases) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..calls {
        let began = Instant::now();
        let put = Put::new("bare").cell("D", "M", "M");
        if !table
            .check_and_mutate(Condition::absent("bare", "D", "L"), [put.into()])
            .await?
        {
            return Err("a condition that holds did not".into());
        }
        puts.push(began.elapsed());
        let (acquire, release) = cycle(locks, "uncontended").await?;
        acquires.push(acquire);
        releases.push(release);
    }
    Ok(Seen {
        put: Times::of([puts])?.median(),
        acquire: Times::of([acquires])?.median(),
        release: Times::of([releases])?.median(),
    })
}

/// How long it took to acquire a lock, and to release it.
async fn cycle(locks: &LockManager, id: &str) -> Result<(Duration, Duration), Failure> {
    let request = locks.lock(Level::Xdc, id)?.ttl(LEASE);
    let began = Instant::now();
    let guard = request.acquire().await?;
    let acquired = began.elapsed();
    match guard.release().await?.is_released() {
        true => Ok((acquired, began.elapsed() - acquired)),
        false => Err("a lock was lost".into()),
    }
}
