//! Fenced partitions: one lock protects several partitions.
//!
//! A publisher gives all shops the same prices, one edition after the other. Each shop is a
//! partition, so no transaction changes two of them.
//!
//! | row | cell | |
//! |---|---|---|
//! | `SHOP/head` | `f:fence` | the fencing number of the publisher that has taken the shop over |
//! | | `f:edition`, `f:cents` | the current edition and its price |
//! | `SHOP/edition/NUMBER` | `f:cents` | the price of an edition; numbers have no gaps |
//! | | `f:fence` | the fencing number of the publisher that wrote it |
//!
//! **Conditions.** Taking over: the fence of the shop is not higher; it is raised. Publishing: the
//! fence is still the publisher's own number.
//!
//! **Invariant.** Editions are numbered from 1 without a gap, and an edition has the same price in all
//! shops. In each shop fences never fall: no publisher wrote there after the next one had taken the
//! shop over.
//!
//! **Failures.** A publisher that was suspended, or revoked by an operator, is refused in every shop
//! that the next one has taken over. If it crashes, its lease expires. The next one takes all shops
//! over before it publishes, and completes the edition that only some of them have.
//!
//! `fenced_by` would protect one partition alone: that of the lock. Any lock with a fencing number
//! will do here, also one of a lock table, or the term of a leadership.
//!
//! Run: `HBASE_TXN_CONNECT=… cargo run --example fenced_partitions`

use std::{collections::BTreeMap, convert::Infallible, time::Duration};

use hbase_txn::{
    Outcome, PartitionRule, PartitionedTable, Result, UpdateOptions,
    client::{Condition, Connection, Put},
    lock::{LockGuard, PartitionLocks},
};

mod support;

/// The partition and the name of the lock that the publisher holds.
pub const LOCK: (&str, &str) = ("publisher", "lock");
/// The longest time without a publisher after one has crashed.
const LEASE: Duration = Duration::from_secs(2);

/// An edition of the prices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edition {
    /// Its number, counted from 1; 0 before the first.
    pub number: i64,
    /// The price in all shops.
    pub cents: i64,
}

/// The publisher, as far as it knows.
#[derive(Debug)]
pub struct Publisher<'a> {
    table: &'a PartitionedTable,
    shops: &'a [&'a str],
    guard: LockGuard,
    /// The last edition, which all shops have. No other process changes it.
    last: Edition,
}

impl<'a> Publisher<'a> {
    /// Takes over all shops with a lock that is held, and completes the last edition. Returns `None`
    /// if a later publisher has one of them.
    pub async fn take_over(
        table: &'a PartitionedTable,
        shops: &'a [&'a str],
        guard: LockGuard,
    ) -> Result<Option<Self>> {
        let mut editions = Vec::new();
        for shop in shops {
            match raise_fence(table, shop, guard.fencing()).await? {
                Some(edition) => editions.push(edition),
                None => return Ok(None),
            }
        }
        // From here on no write of an earlier publisher is applied in any shop.
        let Some(last) = editions.iter().max().copied() else {
            return Ok(None);
        };
        let publisher = Self {
            table,
            shops,
            guard,
            last,
        };
        for (shop, edition) in shops.iter().zip(editions) {
            if edition.number < last.number && !publisher.write(shop, last).await? {
                return Ok(None);
            }
        }
        Ok(Some(publisher))
    }

    /// Publishes the next edition in all shops. Returns `None` if a later publisher has one of them;
    /// it completes or replaces the edition.
    pub async fn publish(&mut self, cents: i64) -> Result<Option<Edition>> {
        let next = Edition {
            number: self.last.number + 1,
            cents,
        };
        for shop in self.shops {
            if !self.write(shop, next).await? {
                return Ok(None);
            }
        }
        self.last = next;
        Ok(Some(next))
    }

    /// Writes an edition in one shop. Returns `false`, and nothing was written, if a later publisher
    /// has the shop.
    pub async fn write(&self, shop: &str, edition: Edition) -> Result<bool> {
        let Edition { number, cents } = edition;
        let fence = self.guard.fencing();
        let writing = self
            .table
            .transaction(shop)
            .condition(Condition::equal(head(shop), "f", "fence", fence).label("no later publisher"))
            .put(
                Put::new(head(shop))
                    .cell("f", "edition", number)
                    .cell("f", "cents", cents),
            )
            .put(
                Put::new(format!("{shop}/edition/{number:08}"))
                    .cell("f", "cents", cents)
                    .cell("f", "fence", fence),
            )
            .recorded();
        match writing.commit().await {
            Outcome::Rejected(_) => Ok(false),
            other => other.into_result().map(|_| true),
        }
    }
}

/// Raises the fence of a shop, unless it is higher. Returns the shop's last edition, or `None` if the
/// fence is higher.
async fn raise_fence(table: &PartitionedTable, shop: &str, fence: i64) -> Result<Option<Edition>> {
    let row = head(shop);
    let only_head = UpdateOptions::new().rows_with_prefix(&row);
    let raised = table
        .update_with(shop, only_head, |view| -> Result<_> {
            if view
                .get::<i64>(&row, "f", "fence")?
                .is_some_and(|found| found > fence)
            {
                return Ok(None);
            }
            let number = view.get(&row, "f", "edition")?.unwrap_or(0);
            let cents = view.get(&row, "f", "cents")?.unwrap_or(0);
            view.put(Put::new(&row).cell("f", "fence", fence))?;
            Ok(Some(Edition { number, cents }))
        })
        .await?;
    Ok(raised.into_value().flatten())
}

fn head(shop: &str) -> String {
    format!("{shop}/head")
}

/// Returns the number of editions of each shop.
///
/// # Panics
///
/// Panics if numbers have a gap, if two shops have different prices for an edition, or if a publisher
/// wrote in a shop after the next one had taken it over.
pub async fn checked(table: &PartitionedTable, shops: &[&str]) -> Result<Vec<usize>> {
    let (mut prices, mut numbers) = (BTreeMap::new(), Vec::new());
    for shop in shops {
        let snapshot = table.snapshot(shop).await?;
        let rows = snapshot.rows_with_prefix(format!("{shop}/edition/"));
        let mut fences = Vec::new();
        for (index, row) in rows.iter().enumerate() {
            let number = index + 1;
            assert_eq!(
                support::text(row.key()),
                format!("{shop}/edition/{number:08}"),
                "an edition is missing"
            );
            let cents = row.get::<i64>("f", "cents")?;
            let known = *prices.entry(number).or_insert(cents);
            assert_eq!(cents, known, "edition {number} has another price in {shop}");
            fences.push(row.get::<i64>("f", "fence")?);
        }
        assert!(
            fences.is_sorted(),
            "a publisher wrote in {shop} after the next one had taken it over"
        );
        numbers.push(rows.len());
    }
    Ok(numbers)
}

/// Three processes compete to publish; an operator revokes the lock of the publisher now and then.
pub async fn run(connection: &Connection, table: &str) -> Result<()> {
    const SHOPS: [&str; 3] = ["amsterdam", "berlin", "cork"];
    let table = support::open(connection, table, &PartitionRule::delimiter("/")?).await?;
    let (partition, id) = LOCK;
    let work = async |process: i64| -> Result<()> {
        let locks = PartitionLocks::open_as(&table, format!("process {process}")).await?;
        let mut published = 0;
        while published < 10 {
            let request = locks.lock(partition, id)?.ttl(LEASE);
            let guard = request
                .wait(Duration::from_secs(30))
                .auto_renew()
                .acquire()
                .await?;
            let Some(mut publisher) = Publisher::take_over(&table, &SHOPS, guard).await? else {
                continue;
            };
            for _ in 0..4 {
                match publisher.publish(100 * process + published).await? {
                    Some(_) => published += 1,
                    None => break,
                }
            }
            publisher.guard.release().await.map(drop)?;
        }
        Ok(())
    };
    let operator = async || -> Result<Infallible> {
        let locks = PartitionLocks::open_as(&table, "operator").await?;
        loop {
            tokio::time::sleep(Duration::from_millis(40)).await;
            if let Some(publisher) = locks.force_release(partition, id).await? {
                println!("the operator revokes the lock of {publisher}");
            }
        }
    };
    tokio::select! {
        ended = futures::future::try_join_all((1..=3).map(work)) => drop(ended?),
        ended = operator() => drop(ended?),
    }
    // A last publisher completes what a revoked one has left.
    let locks = PartitionLocks::open(&table).await?;
    let request = locks.lock(partition, id)?.wait(Duration::from_secs(30));
    let last = Publisher::take_over(&table, &SHOPS, request.acquire().await?).await?;
    assert!(last.is_some(), "no later publisher");
    let editions = checked(&table, &SHOPS).await?;
    assert!(
        editions.iter().all(|number| *number == editions[0]),
        "the shops have {editions:?} editions"
    );
    println!(
        "{} editions, each with one price in {} shops",
        editions[0],
        SHOPS.len()
    );
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    let connection = support::connect().await?;
    run(&connection, "pattern_fenced_partitions").await?;
    connection.close().await;
    Ok(())
}
