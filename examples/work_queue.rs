//! Work queue: workers claim the oldest job first, each job is done once, and none is lost with its
//! worker.
//!
//! | row | cell | |
//! |---|---|---|
//! | `QUEUE/job/JOB` | `f:payload` | a job; the names of jobs sort by age |
//! | | `f:lease` | the end of the lease and the name of its claim: `MILLISECONDS/CLAIM` |
//! | `QUEUE/done/JOB` | `f:result` | a job that was done |
//! | `QUEUE/count` | `f:done` | the number of jobs that were done, a counter |
//!
//! **Conditions.** Claiming: the job exists, and its lease is unchanged since it was read (absent
//! or expired). Finishing: the lease is still the worker's own.
//!
//! **Invariant.** A job is in `job` or in `done`, never in both or neither; `f:done` is the number
//! of rows in `done`.
//!
//! **Failures.** If two workers claim one job, one is rejected, and claims the next. If a worker
//! crashes, or the answer of its claim is lost, the lease expires, and another one claims the job.
//! If a worker is slow, its finishing is rejected, because the job has another lease. Different
//! clocks only make leases longer or shorter.
//!
//! `finish` writes once. Effects of a worker outside of the partition may happen twice, as with
//! every lease.
//!
//! `update` would be the wrong tool: it depends on all rows that it reads, so all claims would
//! conflict.
//!
//! Run: `HBASE_TXN_CONNECT=… cargo run --example work_queue`

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use hbase_txn::{
    Outcome, PartitionRule, PartitionedTable, Result, TransactionId,
    client::{Condition, Connection, Delete, Increment, IntoValue, Put, Scan},
};

mod support;

/// A job that a worker has claimed.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The job's name.
    pub job: String,
    /// The payload.
    pub payload: Bytes,
    lease: String,
}

/// Adds a job, once for each name. Returns whether this call added it.
pub async fn enqueue(
    queues: &PartitionedTable,
    queue: &str,
    job: &str,
    payload: impl IntoValue,
) -> Result<bool> {
    let row = format!("{queue}/job/{job}");
    let transaction = queues
        .transaction(queue)
        .id(job)
        .condition(Condition::absent(&row, "f", "payload"))
        .condition(Condition::absent(format!("{queue}/done/{job}"), "f", "result"))
        .put(Put::new(row).cell("f", "payload", payload));
    match transaction.commit().await {
        Outcome::Rejected(_) => Ok(false),
        other => other.into_result().map(|committed| !committed.replayed),
    }
}

/// Claims the oldest free job for a time. Returns `None` if no job is free.
pub async fn claim(queues: &PartitionedTable, queue: &str, time: Duration) -> Result<Option<Claim>> {
    let jobs = format!("{queue}/job/");
    let mut scanner = queues.table().scan(Scan::prefix(&jobs).caching(32))?;
    while let Some(row) = scanner.next().await? {
        let (Some(payload), seen) = (row.value("f", "payload"), row.value("f", "lease")) else {
            continue;
        };
        let now = now();
        if seen.is_some_and(|lease| lease[..] > *now.as_bytes()) {
            continue;
        }
        // The claim's own name makes each lease a different value, also for the same worker.
        let lease = format!("{}/{}", millis(SystemTime::now() + time), TransactionId::unique());
        let take = queues
            .transaction(queue)
            .recorded()
            .condition(Condition::present(row.key(), "f", "payload"))
            .condition(match seen {
                None => Condition::absent(row.key(), "f", "lease"),
                Some(seen) => Condition::equal(row.key(), "f", "lease", seen),
            })
            .put(Put::new(row.key()).cell("f", "lease", &lease));
        match take.commit().await {
            Outcome::Committed(_) => {
                return Ok(Some(Claim {
                    job: support::text(&row.key()[jobs.len()..]),
                    payload: payload.clone(),
                    lease,
                }));
            }
            // Another worker was faster.
            Outcome::Rejected(_) => {}
            other => return other.into_result().map(|_| None),
        }
    }
    Ok(None)
}

/// Removes a job and stores its result. Returns `false`, and nothing is written, if the lease had
/// expired and another worker has claimed the job.
pub async fn finish(
    queues: &PartitionedTable,
    queue: &str,
    claim: &Claim,
    result: impl IntoValue,
) -> Result<bool> {
    let row = format!("{queue}/job/{}", claim.job);
    let transaction = queues
        .transaction(queue)
        .recorded()
        .condition(Condition::equal(&row, "f", "lease", &claim.lease))
        .delete(Delete::new(row))
        .put(Put::new(format!("{queue}/done/{}", claim.job)).cell("f", "result", result))
        .increment(Increment::new(format!("{queue}/count")).column("f", "done", 1));
    match transaction.commit().await {
        Outcome::Rejected(_) => Ok(false),
        other => other.into_result().map(|_| true),
    }
}

/// The time in milliseconds, as digits that compare like the time.
fn now() -> String {
    millis(SystemTime::now())
}

fn millis(time: SystemTime) -> String {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    format!("{:013}", since.as_millis())
}

/// Returns the names of the jobs that are to be done, and of those that are done, at one moment.
///
/// # Panics
///
/// Panics if a job is both or the count is wrong.
pub async fn checked(queues: &PartitionedTable, queue: &str) -> Result<(Vec<String>, Vec<String>)> {
    let snapshot = queues.snapshot(queue).await?;
    let names = |kind: &str| -> Vec<String> {
        let rows = snapshot.rows_with_prefix(format!("{queue}/{kind}/"));
        let skip = format!("{queue}/{kind}/").len();
        rows.iter().map(|row| support::text(&row.key()[skip..])).collect()
    };
    let (waiting, done) = (names("job"), names("done"));
    let counted = snapshot
        .get::<i64>(format!("{queue}/count"), "f", "done")?
        .unwrap_or(0);
    assert_eq!(
        counted,
        done.len() as i64,
        "a job was done twice, or its row is lost"
    );
    assert!(
        waiting.iter().all(|job| !done.contains(job)),
        "a job is to be done again"
    );
    Ok((waiting, done))
}

/// Four workers do twenty jobs; now and then one crashes while it has a job.
pub async fn run(connection: &Connection, table: &str) -> Result<()> {
    let queues = support::open(connection, table, &PartitionRule::delimiter("/")?).await?;
    let (_, before) = checked(&queues, "mail").await?;
    let run_id = support::run_id();
    for number in 0..20 {
        enqueue(&queues, "mail", &format!("{run_id}-{number:06}"), "write to ann").await?;
    }
    let work = async |worker: usize| {
        while !checked(&queues, "mail").await?.0.is_empty() {
            let Some(claim) = claim(&queues, "mail", Duration::from_millis(300)).await? else {
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            if fastrand::u8(..5) == 0 {
                println!("worker {worker} dies with job {}", claim.job);
                continue;
            }
            finish(&queues, "mail", &claim, format!("done by {worker}")).await?;
        }
        Ok::<_, hbase_txn::Error>(())
    };
    futures::future::try_join_all((0..4).map(work)).await?;

    let (waiting, done) = checked(&queues, "mail").await?;
    assert_eq!(
        (waiting.len(), done.len()),
        (0, before.len() + 20),
        "a job was lost"
    );
    println!("20 jobs, each done once");
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    let connection = support::connect().await?;
    run(&connection, "pattern_work_queue").await?;
    connection.close().await;
    Ok(())
}
