//! What do a record, a guard and a delete cost, and what does group commit gain?
//!
//! Transactions of ten rows without a record, with a record under a generated id, and with one
//! under the caller's id, from one task and from 16, each in its own partition. Transactions of two
//! rows without a delete, with guarded timestamps, and with deletes, one after the other, so that
//! each writes what was written just before. And transactions of one row, from 64 tasks in one
//! partition, with admission, which sends queued transactions in one call, and without.
//!
//!     make bench
//!
//! or, on a running local cluster: `HBASE_TXN_BENCH_CLUSTER=mine cargo bench --all-features --bench
//! record_cost`.
//!
//! The rounds of all variants take turns. The bench prints the medians of the rounds, and the
//! median of each round's ratio to the first variant. There is no limit, but every commit must
//! succeed. With `-- --short`, one short round.

mod setup;

use std::time::Duration;

use futures::future::try_join_all;
use hbase_txn::{
    OpenOptions, PartitionedTable, Transaction, TransactionId,
    client::{Delete, Put},
};
use tokio::time::Instant;

use self::setup::{Bench, Failure, Millis, Times, is_short, median};

const ROWS: usize = 10;
/// A row that the first task writes, and a row of its partition that no task writes.
const FIRST_ROW: &str = "p00000";
const ABSENT_ROW: &str = "p00absent";
const VALUE: [u8; 100] = [b'v'; 100];
/// The warm-up time of each variant: the region's location, the connection, the server's code.
const WARM: Duration = Duration::from_secs(1);

/// The way in which the tasks of one variant commit.
#[derive(Clone)]
struct Sort {
    name: &'static str,
    table: PartitionedTable,
    rows: usize,
    partitions: Partitions,
    /// What comes before the puts.
    prepare: fn(Transaction) -> Transaction,
}

#[derive(Clone, Copy)]
enum Partitions {
    One,
    OneEach,
}

/// The result of one round.
struct Round {
    per_second: f64,
    times: Times,
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let (rounds, length) = if is_short() {
        (1, Duration::from_millis(500))
    } else {
        (5, Duration::from_secs(5))
    };
    let bench = Bench::begin("record_cost").await?;
    let measured = measure(&bench, rounds, length).await;
    bench.end().await?;
    measured
}

async fn measure(bench: &Bench, rounds: usize, length: Duration) -> Result<(), Failure> {
    let open = |options: OpenOptions| options.open(&bench.connection, bench.table.clone());
    let table = open(OpenOptions::new()).await?;
    let unadmitted = open(OpenOptions::new().without_admission()).await?;
    println!("{rounds} rounds of {length:?} for each sort; medians");

    let alone = |name, rows, prepare| Sort {
        name,
        table: table.clone(),
        rows,
        partitions: Partitions::OneEach,
        prepare,
    };
    let sorts = [
        alone("no record", ROWS, |transaction| transaction),
        alone("an id of its own", ROWS, |transaction| transaction.recorded()),
        alone("the caller's id", ROWS, |transaction| {
            transaction.id(TransactionId::unique())
        }),
    ];
    for tasks in [1, 16] {
        let what = format!("{ROWS} rows, {tasks} at a time, in partitions of their own");
        compare(&what, &sorts, tasks, rounds, length).await?;
    }

    let sorts = [
        alone("no delete", 2, |transaction| transaction),
        alone("guarded timestamps", 2, |transaction| {
            transaction.guard_timestamps()
        }),
        alone("a deleted column", 2, |transaction| {
            transaction.delete(Delete::new(FIRST_ROW).column("f", "old"))
        }),
        alone("a replaced row", 2, |transaction| {
            transaction.delete(Delete::new(FIRST_ROW))
        }),
        alone("a row that is absent", 2, |transaction| {
            transaction.delete(Delete::new(ABSENT_ROW))
        }),
    ];
    compare("2 rows, one after the other", &sorts, 1, rounds, length).await?;

    let grouped = |name, table| Sort {
        name,
        table,
        rows: 1,
        partitions: Partitions::One,
        prepare: |transaction| transaction,
    };
    let sorts = [
        grouped("without admission", unadmitted),
        grouped("in groups", table.clone()),
    ];
    compare(
        "1 row, 64 at a time, in one partition",
        &sorts,
        64,
        rounds,
        length,
    )
    .await
}

/// Lets the variants take turns, and prints their results.
async fn compare(
    what: &str,
    sorts: &[Sort],
    tasks: usize,
    rounds: usize,
    length: Duration,
) -> Result<(), Failure> {
    for sort in sorts {
        run(sort, tasks, WARM.min(length)).await?;
    }
    let mut seen: Vec<Vec<Round>> = sorts.iter().map(|_| Vec::new()).collect();
    for round in 0..rounds {
        // The first place rotates too.
        for turn in 0..sorts.len() {
            let place = (turn + round) % sorts.len();
            seen[place].push(run(&sorts[place], tasks, length).await?);
        }
    }
    println!("\n{what}");
    println!(
        "{:<20}  {:>12}  {:>10}  {:>15}  the same to the first sort's",
        "", "commits / s", "median", "99th percentile"
    );
    for (sort, rounds) in sorts.iter().zip(&seen) {
        let of = |figure: fn(&Round) -> f64| median(rounds.iter().map(figure));
        let to_first = |figure: fn(&Round) -> f64| {
            let pairs = rounds.iter().zip(&seen[0]);
            median(pairs.map(|(own, first)| figure(own) / figure(first)))
        };
        println!(
            "{:<20}  {:>12.0}  {:>10}  {:>15}  {:.2} / {:.2} / {:.2}",
            sort.name,
            of(per_second),
            Millis(of(middle)),
            Millis(of(high)),
            to_first(per_second),
            to_first(middle),
            to_first(high),
        );
    }
    Ok(())
}

fn per_second(round: &Round) -> f64 {
    round.per_second
}

fn middle(round: &Round) -> f64 {
    round.times.median().0
}

fn high(round: &Round) -> f64 {
    round.times.high().0
}

/// Runs all tasks of a variant at once, each as fast as it can.
async fn run(sort: &Sort, tasks: usize, length: Duration) -> Result<Round, Failure> {
    let (began, end) = (Instant::now(), Instant::now() + length);
    let tasks: Vec<_> = (0..tasks)
        .map(|task| tokio::spawn(write(sort.clone(), task, end)))
        .collect();
    let times = try_join_all(tasks).await?;
    let times = Times::of(times.into_iter().collect::<Result<Vec<_>, _>>()?)?;
    Ok(Round {
        per_second: times.count() as f64 / began.elapsed().as_secs_f64(),
        times,
    })
}

/// Commits the same rows again and again, and returns the time of each commit.
async fn write(sort: Sort, task: usize, end: Instant) -> Result<Vec<Duration>, Failure> {
    let prefix = match sort.partitions {
        Partitions::One => "one".to_owned(),
        Partitions::OneEach => format!("p{task:02}"),
    };
    let rows: Vec<String> = (0..sort.rows)
        .map(|row| format!("{prefix}{task:02}{row}"))
        .collect();
    let mut times = Vec::new();
    while Instant::now() < end {
        let began = Instant::now();
        let mut transaction = (sort.prepare)(sort.table.transaction(prefix.clone()));
        for row in &rows {
            transaction = transaction.put(Put::new(row.clone()).cell("f", "q", &VALUE[..]));
        }
        transaction.commit().await.into_result()?;
        times.push(began.elapsed());
    }
    Ok(times)
}
