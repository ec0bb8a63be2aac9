//! Partition owner: one worker at a time owns a shard, keeps its state in memory, and writes
//! without looking.
//!
//! | row | cell | |
//! |---|---|---|
//! | `SHARD/log/NUMBER` | `f:entry` | an entry of the shard's log; numbers have no gaps |
//! | | `f:term` | the fencing number of the owner who wrote it |
//! | `SHARD/head` | `f:length` | how many entries there are |
//!
//! **Conditions.** None on the data: what the next number is, the owner knows. Each write is fenced
//! by the owner's lock, which lives in the partition; so HBase refuses whatever an owner writes
//! that is owner no more.
//!
//! **Invariant.** The log is numbered from 1 to its length without a gap, and terms never fall: no
//! owner wrote after the next one had begun.
//!
//! **When something goes wrong.** The owner dies: its lease ends, and the next one reads the head.
//! It stands still for a while, or an operator moves the shard to another: its next write is
//! rejected, and it stops. The answer of a write is lost for good: the owner does not know its own
//! log any more, gives the shard up, and whoever owns it next reads what is there.
//!
//! Without `fenced_by` a lock would not be enough: between the owner's look at its lease and
//! HBase's write any time may pass.
//!
//! Run: `HBASE_TXN_CONNECT=… cargo run --example partition_owner`

use std::time::Duration;

use hbase_txn::{
    Connection, Get, Outcome, PartitionRule, PartitionedTable, Put, Result,
    lock::{LockGuard, PartitionLocks},
};

mod support;

/// The name of the lock that an owner holds.
pub const OWNER: &str = "owner";
/// How long a shard is without an owner when one dies, at most.
const LEASE: Duration = Duration::from_secs(2);

/// Who owns a shard, as far as he knows.
#[derive(Debug)]
pub struct Owner<'a> {
    shards: &'a PartitionedTable,
    shard: String,
    guard: LockGuard,
    /// The length of the log: nobody else changes it.
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

    /// Begins with a lock that is held: what is there now stays so, as no write of an earlier owner
    /// is applied any more.
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

    /// Writes the next entry, and tells its number; none when somebody else owns the shard by now,
    /// and nothing was written.
    pub async fn append(&mut self, entry: &str) -> Result<Option<i64>> {
        self.write(entry, false).await
    }

    /// Writes a last entry and gives the shard back, both or neither.
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
                    .cell("f", "term", format!("{:020}", self.guard.fencing())),
            )
            .put(Put::new(head(&self.shard)).cell("f", "length", next))
            .recorded();
        let transaction = match is_last {
            true => transaction.release_lock(&self.guard),
            false => transaction.fenced_by(&self.guard),
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

/// The entries of a shard, in their order, at one moment.
///
/// # Panics
///
/// When a number is missing or one too many, or an owner wrote after the next one had begun.
pub async fn checked(shards: &PartitionedTable, shard: &str) -> Result<Vec<String>> {
    let snapshot = shards.snapshot(shard).await?;
    let length: i64 = snapshot.get(head(shard), "f", "length")?.unwrap_or(0);
    let rows = snapshot.range(format!("{shard}/log/"), format!("{shard}/log0"));
    let numbers: Vec<String> = rows.iter().map(|row| support::text(row.key())).collect();
    let expected: Vec<String> = (1..=length)
        .map(|number| format!("{shard}/log/{number:08}"))
        .collect();
    assert_eq!(numbers, expected, "an entry is missing, or one too many");
    let cell = |qualifier: &str| -> Vec<String> {
        let value = |row: &hbase_txn::Row| row.value("f", qualifier).map(|value| support::text(value));
        rows.iter().filter_map(value).collect()
    };
    assert!(
        cell("term").is_sorted(),
        "an owner wrote after the next one had begun"
    );
    Ok(cell("entry"))
}

/// Three workers share the work on one shard; an operator takes it away from its owner now and
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
    // The operator may be done before or after the workers.
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
