//! Does a hot partition slow down the others?
//!
//! 256 writers commit transactions that all have one row in common, while others commit at an even
//! pace to their own partitions. The measure is the 99th percentile of these others, compared with
//! the same load where each writer has its own partition. It is also printed without admission,
//! where the writers wait for the row on the server's handlers.
//!
//!     make bench
//!
//! or, on a running local cluster: `HBASE_TXN_BENCH_CLUSTER=mine cargo bench --all-features --bench
//! hot_partition`.
//!
//! The exit status is 1 if the median of the rounds' ratios is above 1.5. With `-- --short`, one
//! short round without that check.

mod setup;

use std::{process::ExitCode, sync::Arc, time::Duration};

use futures::future::try_join_all;
use hbase_txn::{OpenOptions, PartitionedTable, client::Put};
use tokio::time::{Instant, MissedTickBehavior, interval};

use self::setup::{Bench, Failure, Times, is_short, median};

const WRITERS: usize = 256;
/// The shortest interval between two commits of a writer.
const WRITER_PACE: Duration = Duration::from_millis(100);
const OTHERS: usize = 8;
const OTHERS_PACE: Duration = Duration::from_millis(5);
/// The largest ratio of the others' times with a hot partition.
const ALLOWED: f64 = 1.5;

/// The result of one load.
struct Seen {
    others: Times,
    written: usize,
}

/// The rows of the writers.
#[derive(Clone, Copy)]
enum Load {
    Spread,
    Hot,
}

#[tokio::main]
async fn main() -> Result<ExitCode, Failure> {
    let short = is_short();
    let (rounds, length) = if short {
        (1, Duration::from_secs(2))
    } else {
        (5, Duration::from_secs(10))
    };
    let bench = Bench::begin("hot_partition").await?;
    let measured = measure(&bench, rounds, length).await;
    bench.end().await?;
    let Ratios { hot: ratio, without } = measured?;
    println!("median of the ratios hot : spread: {ratio:.2}; at most {ALLOWED} is asked for");
    println!("median of the ratios hot without admission : spread: {without:.2}");
    Ok(if short || ratio <= ALLOWED {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Returns the medians of the rounds' ratios between the others' 99th percentiles, hot to spread.
struct Ratios {
    hot: f64,
    without: f64,
}

async fn measure(bench: &Bench, rounds: usize, length: Duration) -> Result<Ratios, Failure> {
    let open = |options: OpenOptions| options.open(&bench.connection, bench.table.clone());
    let admitted = open(OpenOptions::new()).await?;
    let unadmitted = open(OpenOptions::new().without_admission()).await?;
    // Warm up: the region's location, the connection, the server's code.
    run(&admitted, Load::Spread, length / 2).await?;
    println!("{WRITERS} writers beside {OTHERS} others, {rounds} rounds of {length:?} a load");
    println!("round  load                      others' median  99th percentile  writers' commits a second");
    let (mut with_admission, mut without_admission) = (Vec::new(), Vec::new());
    for round in 1..=rounds {
        let spread = run(&admitted, Load::Spread, length).await?;
        let hot = run(&admitted, Load::Hot, length).await?;
        let without = run(&unadmitted, Load::Hot, length).await?;
        for (load, seen) in [
            ("spread", &spread),
            ("hot", &hot),
            ("hot, without admission", &without),
        ] {
            println!(
                "{round:>5}  {load:<24}  {:>14}  {:>15}  {:>25.0}",
                seen.others.median(),
                seen.others.high(),
                seen.written as f64 / length.as_secs_f64()
            );
        }
        let ratio = |seen: &Seen| seen.others.high().0 / spread.others.high().0;
        println!(
            "{round:>5}  ratio to spread: {:.2}, without admission {:.2}",
            ratio(&hot),
            ratio(&without)
        );
        with_admission.push(ratio(&hot));
        without_admission.push(ratio(&without));
    }
    Ok(Ratios {
        hot: median(with_admission),
        without: median(without_admission),
    })
}

/// Runs all writers and all others at once.
async fn run(table: &PartitionedTable, load: Load, length: Duration) -> Result<Seen, Failure> {
    let end = Instant::now() + length;
    let writers = (0..WRITERS).map(|writer| {
        let prefix = match load {
            Load::Hot => "hot".to_owned(),
            Load::Spread => format!("s{writer:02x}"),
        };
        let rows = [format!("{prefix}common"), format!("{prefix}own{writer}")];
        tokio::spawn(write(table.clone(), prefix, rows.into(), WRITER_PACE, end))
    });
    let writers = try_join_all(writers.collect::<Vec<_>>());
    let others = (0..OTHERS).map(|other| {
        let prefix = format!("o{other:02}");
        let rows = [format!("{prefix}a"), format!("{prefix}b")];
        tokio::spawn(write(table.clone(), prefix, rows.into(), OTHERS_PACE, end))
    });
    let others = try_join_all(others.collect::<Vec<_>>());
    let (writers, others) = futures::try_join!(writers, others)?;
    let mut written = 0;
    for times in writers {
        written += times?.len();
    }
    let others = others.into_iter().collect::<Result<Vec<_>, _>>()?;
    Ok(Seen {
        others: Times::of(others)?,
        written,
    })
}

/// Commits the same rows again and again, and returns the time of each commit.
async fn write(
    table: PartitionedTable,
    prefix: String,
    rows: Arc<[String]>,
    pace: Duration,
    end: Instant,
) -> Result<Vec<Duration>, Failure> {
    let mut times = Vec::new();
    let mut pace = interval(pace);
    pace.set_missed_tick_behavior(MissedTickBehavior::Skip);
    // The writers do not start at the same instant.
    tokio::time::sleep(pace.period().mul_f64(fastrand::f64())).await;
    while Instant::now() < end {
        pace.tick().await;
        let began = Instant::now();
        let mut transaction = table.transaction(prefix.clone());
        for row in rows.iter() {
            transaction = transaction.put(Put::new(row.clone()).cell("f", "q", "v"));
        }
        transaction.commit().await.into_result()?;
        times.push(began.elapsed());
    }
    Ok(times)
}
