//! Partition owner: one worker at a time owns a shard, keeps its state in memory, and writes
//! without reading.
//!
//! | row | cell | |
//! |---|---|---|
//! | `SHARD/log/NUMBER` | `f:entry` | an entry of the shard's log; numbers have no gaps |
//! | | `f:term` | the fencing number of the owner that wrote it |
//! | `SHARD/head` | `f:length` | the number of entries |
//!
//! **Conditions.** None on the data: the owner knows the next number. Each write is fenced by the
//! owner's lock, which is in the partition, so HBase refuses the writes of a former owner.
//!
//! **Invariant.** The log is numbered from 1 to its length without a gap, and terms never fall: no
//! owner wrote after the next one had begun.
//!
//! **Failures.** If the owner crashes, its lease expires, and the next one reads the head. If it is
//! suspended for a while, or an operator moves the shard to another owner, its next write is
//! rejected, and it stops. If the answer of a write is lost permanently, the owner no longer knows
//! its own log and gives the shard up; the next owner reads it.
//!
//! A lock without `fenced_by` would not be enough: any time may pass between the owner's check of
//! its lease and HBase's write.
//!
//! Run: `HBASE_TXN_CONNECT=… cargo run --example partition_owner`

use std::time::Duration;

use hbase_txn::{
    Outcome, PartitionRule, PartitionedTable, Result,
    client::{Connection, Get, Put},
    lock::{LockGuard, PartitionLocks},
};

mod support;

/// The name of the lock that an owner holds.
pub const OWNER: &str = "owner";
/// The longest time that a shard has no owner after one has crashed.
const LEASE: Duration = Duration::from_secs(2);

/// The owner of a shard, as far as it knows.
#[derive(Debug)]
pub struct Owner<'a> {
    shards: &'a PartitionedTable,
    shard: String,
    guard: LockGuard,
    /// The length of the log. No other client changes it.
    length: i64,
}

impl<'a> Owner<'a> {
    /// Waits until the shard is free, and becomes its owner.
    pub async fn become_owner(
        shards: &'a PartitionedTable,
        locks: &PartitionLocks,
        shard: &str,
        patience: Duration,
    ) -> Result<Self> {
        let request = locks.lock(shard, OWNER)?.ttl(LEASE).wait(patience);
        Self::with(shards, shard, request.auto_renew().acquire().await?).await
    }

    /// Begins with a lock that is held. The data read here can't change, because no write of an
    /// earlier owner is applied any more.
    pub async fn with(shards: &'a PartitionedTable, shard: &str, guard: LockGuard) -> Result<Self> {
        let head = shards.table().get(Get::new(head(shard))).await?;
        let length = head.map_or(Ok(None), |row| row.get("f", "length"))?;
        Ok(Self {
            shards,
            shard: shard.into(),
            guard,
            length: length.unwrap_or(0),
        })
    }

    /// Writes the next entry and returns its number. Returns `None`, and nothing was written, if
    /// another worker owns the shard.
    pub async fn append(&mut self, entry: &str) -> Result<Option<i64>> {
        self.write(entry, false).await
    }

    /// Writes a last entry and releases the shard, both or neither.
    pub async fn finish(mut self, entry: &str) -> Result<Option<i64>> {
        self.write(entry, true).await
    }

    async fn write(&mut self, entry: &str, is_last: bool) -> Result<Option<i64>> {
        let next = self.length + 1;
        let transaction = self
            .shards
            .transaction(&self.shard)
            .put(
                Put::new(format!("{}/log/{next:08}", self.shard))
                    .cell("f", "entry", entry)
                    .cell("f", "term", self.guard.fencing()),
            )
            .put(Put::new(head(&self.shard)).cell("f", "length", next))
            .recorded();
        let transaction = if is_last {
            transaction.release_lock(&self.guard)
        } else {
            transaction.fenced_by(&self.guard)
        };
        match transaction.commit().await {
            Outcome::Rejected(_) => Ok(None),
            other => {
                other.into_result()?;
                self.length = next;
                Ok(Some(next))
            }
        }
    }
}

fn head(shard: &str) -> String {
    format!("{shard}/head")
}

/// Returns the entries of a shard in order, at one moment.
///
/// # Panics
///
/// Panics if numbers have a gap or a duplicate, or if an owner wrote after the next one had begun.
pub async fn checked(shards: &PartitionedTable, shard: &str) -> Result<Vec<String>> {
    let snapshot = shards.snapshot(shard).await?;
    let length: i64 = snapshot.get(head(shard), "f", "length")?.unwrap_or(0);
    let rows = snapshot.rows_with_prefix(format!("{shard}/log/"));
    let numbers: Vec<String> = rows.iter().map(|row| support::text(row.key())).collect();
    let expected: Vec<String> = (1..=length)
        .map(|number| format!("{shard}/log/{number:08}"))
        .collect();
    assert_eq!(numbers, expected, "an entry is missing, or one too many");
    let (mut terms, mut entries) = (Vec::new(), Vec::new());
    for row in rows {
        terms.push(row.get::<i64>("f", "term")?);
        entries.extend(row.get::<String>("f", "entry")?);
    }
    assert!(terms.is_sorted(), "an owner wrote after the next one had begun");
    Ok(entries)
}

/// Three workers share the work on one shard; an operator revokes the lock of its owner now and
/// then.
pub async fn run(connection: &Connection, table: &str) -> Result<()> {
    let shards = support::open(connection, table, &PartitionRule::delimiter("/")?).await?;
    let before = checked(&shards, "mail").await?.len();
    let work = async |worker: usize| -> Result<usize> {
        let locks = PartitionLocks::open_as(&shards, format!("worker {worker}")).await?;
        let mut written = 0;
        while written < 20 {
            let mut owner = Owner::become_owner(&shards, &locks, "mail", Duration::from_secs(30)).await?;
            for _ in 0..9 {
                match owner.append(&format!("by worker {worker}")).await? {
                    Some(_) => written += 1,
                    None => break,
                }
            }
            written += usize::from(owner.finish(&format!("worker {worker} goes")).await?.is_some());
        }
        Ok(written)
    };
    let operator = async {
        let locks = PartitionLocks::open_as(&shards, "operator").await?;
        let mut moved = 0;
        while moved < 3 {
            tokio::time::sleep(Duration::from_millis(15)).await;
            if let Some(owner) = locks.force_release("mail", OWNER).await? {
                println!("the operator takes the shard from {owner}");
                moved += 1;
            }
        }
        Ok::<_, hbase_txn::Error>(())
    };
    let workers = futures::future::try_join_all((0..3).map(work));
    tokio::pin!(workers);
    // The operator may finish before or after the workers.
    let written = tokio::select! {
        moved = operator => { moved?; workers.await? }
        written = &mut workers => written?,
    };
    let entries = checked(&shards, "mail").await?.len() - before;
    assert_eq!(
        entries,
        written.iter().sum::<usize>(),
        "an entry was lost, or written twice"
    );
    println!("{entries} entries, numbered without a gap");
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    let connection = support::connect().await?;
    run(&connection, "pattern_partition_owner").await?;
    connection.close().await;
    Ok(())
}
