//! Time buckets: the events of an hour, with a summary that is always right, and that is final once
//! the hour is closed.
//!
//! | row | cell | |
//! |---|---|---|
//! | `HOUR/event/EVENT` | `f:size` | an event, and its size as an `i64` |
//! | `HOUR/summary` | `f:events`, `f:size` | the number of events, and the sum of their sizes: counters |
//! | | `f:closed` | exists once the bucket is closed |
//!
//! A partition is an hour: the first ten bytes, as in `2026112204` (UTC).
//!
//! **Conditions.** Adding: the bucket is not closed, and the event does not exist.
//!
//! **Invariant.** In every snapshot the summary is that of the events; after `close` has returned
//! it never changes.
//!
//! **Failures.** Additions read nothing, so they do not conflict. One that is too late is rejected:
//! put it into the present bucket, or drop it. After a lost answer or a crash add the event again,
//! with the same name. Closing again is harmless.
//!
//! All events of an hour go to one region, and through one transaction after the other. If that is
//! too much for a region, put a shard in front: `3-2026112204`, one bucket for each shard, and add
//! up their summaries when all are closed.
//!
//! Run: `HBASE_TXN_CONNECT=… cargo run --example time_buckets`

use std::time::{Duration, SystemTime};

use hbase_txn::{
    Outcome, PartitionRule, PartitionedTable, Result, Snapshot,
    client::{Condition, Connection, Increment, Put},
};

mod support;

/// The result of an addition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// This call added the event.
    Now,
    /// An earlier call added it.
    Before,
    /// Nothing was added: the bucket is closed.
    TooLate,
}

/// The summary of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The number of events.
    pub events: i64,
    /// The sum of their sizes.
    pub size: i64,
    /// Whether the summary is final.
    pub closed: bool,
}

/// The label of the condition that the bucket is open.
const IS_OPEN: &str = "the bucket is open";

/// Adds an event to a bucket, once for each name.
pub async fn add(buckets: &PartitionedTable, hour: &str, event: &str, size: u32) -> Result<Added> {
    let size = i64::from(size);
    let (summary, row) = (format!("{hour}/summary"), format!("{hour}/event/{event}"));
    let transaction = buckets
        .transaction(hour)
        .id(event)
        .condition(Condition::absent(&row, "f", "size"))
        .condition(Condition::absent(&summary, "f", "closed").label(IS_OPEN))
        .put(Put::new(row).cell("f", "size", size))
        .increment(
            Increment::new(summary)
                .column("f", "events", 1)
                .column("f", "size", size),
        );
    match transaction.commit().await {
        Outcome::Committed(committed) if committed.replayed => Ok(Added::Before),
        // This comes first, because an existing event was in time.
        Outcome::Rejected(rejection) => match &rejection.failed[..] {
            [only] if only.label == IS_OPEN => Ok(Added::TooLate),
            _ => Ok(Added::Before),
        },
        other => other.into_result().map(|_| Added::Now),
    }
}

/// Closes a bucket, and returns its final summary.
pub async fn close(buckets: &PartitionedTable, hour: &str) -> Result<Summary> {
    let transaction = buckets
        .transaction(hour)
        .recorded()
        .put(Put::new(format!("{hour}/summary")).cell("f", "closed", true));
    transaction.commit().await.into_result()?;
    summary(buckets, hour).await
}

/// Returns the summary of a bucket.
///
/// # Panics
///
/// Panics if its events do not agree.
pub async fn summary(buckets: &PartitionedTable, hour: &str) -> Result<Summary> {
    let bucket: Snapshot = buckets.snapshot(hour).await?;
    let row = format!("{hour}/summary");
    let said = Summary {
        events: bucket.get(&row, "f", "events")?.unwrap_or(0),
        size: bucket.get(&row, "f", "size")?.unwrap_or(0),
        closed: bucket.get(&row, "f", "closed")?.unwrap_or(false),
    };
    let sizes = bucket.rows_with_prefix(format!("{hour}/event/"));
    let sizes = sizes.iter().filter_map(|row| row.get("f", "size").transpose());
    let sizes: Vec<i64> = sizes.collect::<Result<_, _>>()?;
    assert_eq!((said.events, said.size), (sizes.len() as i64, sizes.iter().sum()));
    Ok(said)
}

/// Returns the bucket of a time, such as `2026112204`: year, month, day and hour, UTC.
pub fn hour_of(time: SystemTime) -> String {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let (hours, days) = (since.as_secs() / 3_600, since.as_secs() / 86_400);
    // If years begin in March, the leap day is the last one; an era is 400 years.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    format!("{year:04}{month:02}{day:02}{:02}", hours % 24)
}

/// Eight tasks add events while the bucket of an earlier hour is closed.
pub async fn run(connection: &Connection, table: &str) -> Result<()> {
    let buckets = support::open(connection, table, &PartitionRule::prefix_length(10)?).await?;
    // A random hour of the past, so that the next run finds an open one.
    let past = SystemTime::now() - Duration::from_secs(3_600 * fastrand::u64(1..200_000));
    let (hour, now) = (hour_of(past), hour_of(SystemTime::now()));
    let run_id = support::run_id();
    let produce = async |task: usize| {
        let mut late = 0;
        for number in 0..10 {
            let (event, size) = (format!("{run_id}-{task}-{number}"), fastrand::u32(1..1_000));
            if add(&buckets, &hour, &event, size).await? == Added::TooLate {
                add(&buckets, &now, &event, size).await?;
                late += 1;
            }
        }
        Ok::<_, hbase_txn::Error>(late)
    };
    let (late, closed) =
        futures::future::try_join(futures::future::try_join_all((0..8).map(produce)), async {
            while summary(&buckets, &hour).await?.events < 30 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            close(&buckets, &hour).await
        })
        .await?;

    println!("bucket {hour} was closed: {closed:?}");
    println!(
        "{} events came too late, and went to {now}",
        late.iter().sum::<i32>()
    );
    assert_eq!(
        summary(&buckets, &hour).await?,
        closed,
        "something was added to a closed bucket"
    );
    println!("bucket {now} is open: {:?}", summary(&buckets, &now).await?);
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    let connection = support::connect().await?;
    run(&connection, "pattern_time_buckets").await?;
    connection.close().await;
    Ok(())
}
