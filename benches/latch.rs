//! How soon is a waiter of a latch notified, and what does waiting cost while nothing changes?
//!
//! One process waits for ten latches, which another client counts down, again and again; then for
//! 10,000 at once. The bench measures the longest time from the answer to the last count-down of a
//! latch until its waiter is notified. And, while 10,000 are awaited and no client counts: the
//! calls for the waiters, and the processor time of this process.
//!
//!     make bench
//!
//! or, on a running local cluster: `HBASE_TXN_BENCH_CLUSTER=mine cargo bench --all-features --bench
//! latch`.
//!
//! The exit status is 1 unless ten are notified within 100 ms and 10,000 within a second; each poll
//! is one call for each server and 1,250 latches; at most 20,000 latches a second are polled;
//! waiting takes at most a fifth of a core; and nothing keeps running afterwards. With
//! `-- --short`, fewer latches without these checks.

mod setup;

use std::{process::ExitCode, time::Duration};

use futures::{StreamExt, TryStreamExt, stream};
use hbase_test_support::spy::Spy;
use hbase_txn::{
    Level,
    admin::Admin,
    client::{Connection, TableName},
    latch::{Latch, LatchManager, LatchManagerOptions, LatchTableOptions, WaitOutcome},
};
use tokio::{
    runtime::Handle,
    task::JoinHandle,
    time::{Instant, sleep},
};

use self::setup::{Bench, Failure, is_short};

const LIFE: Duration = Duration::from_secs(3_600);
/// The number of concurrent calls of the counting client.
const AT_ONCE: usize = 32;
/// The number of latches that one call reads.
const ONE_CALL: usize = 1_250;
/// The shortest pause between two polls of a few latches.
const MIN_PAUSE: Duration = Duration::from_millis(25);
const FEW_WITHIN: Duration = Duration::from_millis(100);
const MANY_WITHIN: Duration = Duration::from_secs(1);
const CORE_SHARE: f64 = 0.2;
/// The documented limit of polling.
const LATCHES_A_SECOND: f64 = 20_000.0;

/// The extent of the measurement.
struct Length {
    rounds: usize,
    many: usize,
    idle: Duration,
}

#[tokio::main]
async fn main() -> Result<ExitCode, Failure> {
    let short = is_short();
    let length = if short {
        Length {
            rounds: 2,
            many: 200,
            idle: Duration::from_secs(1),
        }
    } else {
        Length {
            rounds: 50,
            many: 10_000,
            idle: Duration::from_secs(10),
        }
    };
    let bench = Bench::begin("latch").await?;
    let name: TableName = format!("bench_latches_{:08x}", fastrand::u32(..)).parse()?;
    let admin = Admin::new(&bench.connection);
    LatchTableOptions::from(name.clone())
        .regions(8)
        .create(&admin)
        .await?;
    let measured = measure(&bench.connection, &name, &length).await;
    admin.delete_table(&name).await?;
    bench.end().await?;
    let passed = measured?;
    Ok(if short || passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

async fn measure(connection: &Connection, name: &TableName, length: &Length) -> Result<bool, Failure> {
    let spy = Spy::default();
    let watched = Connection::builder(connection.config().clone())
        .connector(spy.clone())
        .connect()
        .await?;
    let latches = async |connection: &Connection| {
        LatchManagerOptions::new("bench", "fra")
            .open(connection, name.clone())
            .await
    };
    let (here, there) = (latches(&watched).await?, latches(connection).await?);
    // The first round opens the connections of both clients, so that they do not count as left
    // behind.
    Awaited::begin(&here, &there, "first", 10)
        .await?
        .count_down()
        .await?;
    let before = Running::now()?;

    let mut longest = Duration::ZERO;
    for round in 0..length.rounds {
        let few = Awaited::begin(&here, &there, &format!("few-{round}"), 10).await?;
        longest = longest.max(few.count_down().await?);
    }
    println!(
        "10 latches that are awaited: told {longest:.1?} after the last count-down at the latest, at most {FEW_WITHIN:?} is asked for"
    );
    let mut passed = longest <= FEW_WITHIN;

    let few = Awaited::begin(&here, &there, "idle", 10).await?;
    let (share, looks) = idle(&spy, length.idle).await?;
    few.count_down().await?;
    let most = length.idle.div_duration_f64(MIN_PAUSE);
    println!(
        "10 while nothing happens: {looks} calls in {:?}, at most {most:.0} is asked for; {:.1} % of a core, at most {:.0} % is asked for",
        length.idle,
        share * 100.0,
        CORE_SHARE * 100.0
    );
    passed &= looks as f64 <= most && share <= CORE_SHARE;

    let many = Awaited::begin(&here, &there, "many", length.many).await?;
    let (share, calls) = idle(&spy, length.idle).await?;
    // A poll of so many latches takes a while, so there are few polls.
    let calls_a_look = length.many.div_ceil(ONE_CALL);
    let looks = calls.div_ceil(calls_a_look);
    // A poll that had begun before may end in this time.
    let most = (length.idle.as_secs_f64() * LATCHES_A_SECOND / length.many as f64).ceil() + 1.0;
    println!(
        "{} while nothing happens: {calls} calls, which are {looks} looks, at most {most:.0} is asked for, in {:?}; {:.1} % of a core, at most {:.0} % is asked for",
        length.many,
        length.idle,
        share * 100.0,
        CORE_SHARE * 100.0
    );
    passed &= looks as f64 <= most && share <= CORE_SHARE;
    let longest = many.count_down().await?;
    println!(
        "{} latches that are awaited: told {longest:.1?} after the last count-down at the latest, at most {MANY_WITHIN:?} is asked for",
        length.many
    );
    let calls = spy.multi_calls();
    sleep(Duration::from_secs(1)).await;
    let after = spy.multi_calls() - calls;
    let left = Running::now()?;
    println!(
        "when nobody waits: {after} calls in a second, none is asked for; {} tasks and {} threads, at most {} and {} are asked for",
        left.tasks, left.threads, before.tasks, before.threads
    );
    let none_left = left.tasks <= before.tasks && left.threads <= before.threads;
    Ok(passed && longest <= MANY_WITHIN && after == 0 && none_left)
}

/// The tasks and threads of this process.
struct Running {
    tasks: usize,
    threads: usize,
}

impl Running {
    fn now() -> Result<Self, Failure> {
        Ok(Self {
            tasks: Handle::current().metrics().num_alive_tasks(),
            threads: std::fs::read_dir("/proc/self/task")?.count(),
        })
    }
}

/// Latches and their waiters.
struct Awaited {
    /// The latches of another client.
    latches: Vec<Latch>,
    waiting: Vec<JoinHandle<Result<Instant, Failure>>>,
}

impl Awaited {
    async fn begin(
        here: &LatchManager,
        there: &LatchManager,
        what: &str,
        count: usize,
    ) -> Result<Self, Failure> {
        let of = |latches: &LatchManager| -> Result<Vec<Latch>, Failure> {
            let one = |number| Ok(latches.latch(Level::Dc, &format!("{what}-{number}"))?);
            (0..count).map(one).collect()
        };
        let latches = of(there)?;
        stream::iter(latches.clone())
            .map(|latch| async move { latch.init(1, LIFE).await })
            .buffer_unordered(AT_ONCE)
            .try_collect::<()>()
            .await?;
        let wait = |latch: Latch| {
            tokio::spawn(async move {
                match latch.wait(LIFE).await? {
                    WaitOutcome::Reached => Ok(Instant::now()),
                    other => Err(format!("a waiter was told {other:?}").into()),
                }
            })
        };
        let waiting = of(here)?.into_iter().map(wait).collect();
        // Until all were polled, and nothing has changed for a while.
        sleep(Duration::from_secs(if count > 10 { 2 } else { 0 }) + Duration::from_millis(500)).await;
        Ok(Self { latches, waiting })
    }

    /// Counts all down, and waits for the waiters. Returns the longest time from the answer to a
    /// count-down until its notification.
    async fn count_down(self) -> Result<Duration, Failure> {
        let began = Instant::now();
        let counted: Vec<Instant> = stream::iter(&self.latches)
            .map(|latch| async move { latch.count_down(1).await.map(|_| Instant::now()) })
            .buffered(AT_ONCE)
            .try_collect()
            .await?;
        if counted.len() > 10 {
            println!("{} were counted down in {:.1?}", counted.len(), began.elapsed());
        }
        let mut longest = Duration::ZERO;
        for (waiting, counted) in self.waiting.into_iter().zip(counted) {
            let told = waiting.await??;
            longest = longest.max(told.saturating_duration_since(counted));
        }
        Ok(longest)
    }
}

/// Returns the share of a core, and the number of calls, while nothing changes.
async fn idle(spy: &Spy, time: Duration) -> Result<(f64, usize), Failure> {
    let (began, calls, before) = (Instant::now(), spy.multi_calls(), processor_time()?);
    sleep(time).await;
    let used = processor_time()?.saturating_sub(before);
    Ok((used.div_duration_f64(began.elapsed()), spy.multi_calls() - calls))
}

/// Returns the processor time of this process, in user and kernel mode.
fn processor_time() -> Result<Duration, Failure> {
    /// The unit of the numbers in `/proc/self/stat`.
    const TICKS_PER_SECOND: u64 = 100;
    let text = std::fs::read_to_string("/proc/self/stat")?;
    // The name in parentheses may have blanks.
    let (_, rest) = text.rsplit_once(')').ok_or("no process has such a line")?;
    let mut fields = rest.split_ascii_whitespace().skip(11);
    let mut next =
        || -> Result<u64, Failure> { Ok(fields.next().ok_or("a line that is too short")?.parse()?) };
    let ticks = next()? + next()?;
    Ok(Duration::from_millis(ticks * 1_000 / TICKS_PER_SECOND))
}
