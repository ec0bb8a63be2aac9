//! What does a lock cost, and does a lock that is acquired again and again become slower?
//!
//! One owner acquires and releases the same lock 30,000 times: the median of the last thousand
//! cycles is compared with that of the second thousand. And uncontended acquisitions take turns
//! with conditional puts of one row on the same table. Both are done on a table without Java
//! clients, and on one that is shared with them, where a lock has a companion row.
//!
//!     make bench
//!
//! or, on a running local cluster: `HBASE_TXN_BENCH_CLUSTER=mine cargo bench --all-features --bench
//! lock`.
//!
//! The exit status is 1 if the late cycles take more than 1.5 times as long as the early ones, or
//! an acquisition more than 1.5 times as long as a conditional put, 2.2 times with the companion
//! row. With `-- --short`, a few cycles without these checks.

mod setup;

use std::{process::ExitCode, time::Duration};

use hbase_txn::{
    Level,
    admin::Admin,
    client::{Condition, Connection, Put, Table, TableName},
    lock::{LockManager, LockManagerOptions, LockTableOptions},
};
use tokio::time::Instant;

use self::setup::{Bench, Failure, Millis, Times, is_short, median};

/// The largest ratio of late to early cycles.
const LATER: f64 = 1.5;
const LEASE: Duration = Duration::from_secs(30);

/// A kind of lock table, and the largest ratio of an acquisition to a conditional put on it.
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

/// The extent of the measurement.
struct Length {
    rounds: usize,
    calls: usize,
    cycles: usize,
    /// The number of cycles of one median.
    window: usize,
}

#[tokio::main]
async fn main() -> Result<ExitCode, Failure> {
    let short = is_short();
    let length = if short {
        Length {
            rounds: 1,
            calls: 50,
            cycles: 300,
            window: 50,
        }
    } else {
        Length {
            rounds: 5,
            calls: 2_000,
            cycles: 30_000,
            window: 1_000,
        }
    };
    let bench = Bench::begin("lock").await?;
    let mut passed = true;
    for sort in &SORTS {
        let name: TableName = format!("bench_locks_{:08x}", fastrand::u32(..)).parse()?;
        let admin = Admin::new(&bench.connection);
        let options = LockTableOptions::from(name.clone()).regions(1);
        (sort.options)(options).create(&admin).await?;
        let measured = measure(&bench.connection, &name, sort, &length).await;
        admin.delete_table(&name).await?;
        passed &= measured?;
    }
    bench.end().await?;
    Ok(if short || passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
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
    // Warm up: the region's location, the connection, the server's code.
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
            .success
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

/// Returns the times of acquiring and of releasing a lock.
async fn cycle(locks: &LockManager, id: &str) -> Result<(Duration, Duration), Failure> {
    let request = locks.lock(Level::Xdc, id)?.ttl(LEASE);
    let began = Instant::now();
    let guard = request.acquire().await?;
    let acquired = began.elapsed();
    if guard.release().await?.is_released() {
        Ok((acquired, began.elapsed() - acquired))
    } else {
        Err("a lock was lost".into())
    }
}
