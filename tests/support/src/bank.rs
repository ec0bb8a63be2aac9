//! Accounts in partitions of two tables, whose sum transactions across partitions keep.

use std::time::Duration;

use hbase_txn::{
    CrossPartitions, Error, PartitionedTable, Result, TableDescriptorExt,
    client::{Connection, Put, Scan},
};
use tokio::runtime::{self, Runtime};

use super::{
    Cluster, rows,
    table::{TestTable, by_three},
};

/// The accounts: a table and a prefix of it.
const ACCOUNTS: [(usize, &str); 4] = [(0, "a00"), (0, "b00"), (1, "a00"), (1, "b00")];
const CENTS: i64 = 1_000;
/// The sum of all accounts.
pub const SUM: i64 = CENTS * ACCOUNTS.len() as i64;

/// The tables of a bank.
pub struct Bank {
    tables: [TestTable; 2],
}

/// A bank, opened by one client.
#[derive(Clone)]
pub struct OpenBank {
    tables: [PartitionedTable; 2],
}

impl Bank {
    /// Creates a bank, with each account in a region of its own.
    pub async fn create(cluster: &Cluster, what: &str) -> Self {
        let describe = |name| by_three(name).with_cross_partition();
        let bank = Self {
            tables: [
                TestTable::create_on(cluster, what, describe, &["b"]).await,
                TestTable::create_on(cluster, what, describe, &["b"]).await,
            ],
        };
        let open = bank.open(&cluster.connect().await).await;
        for (table, prefix) in ACCOUNTS {
            let put = Put::new(account(prefix)).cell("f", "cents", CENTS);
            let outcome = open.tables[table].transaction(prefix).put(put).commit().await;
            outcome.into_result().unwrap();
        }
        bank
    }

    pub async fn open(&self, connection: &Connection) -> OpenBank {
        let [one, other] = &self.tables;
        OpenBank {
            tables: [one.open(connection).await, other.open(connection).await],
        }
    }

    /// Lets another client transfer money, and stops it for good after this time, wherever it is. Call it
    /// outside of asynchronous code.
    pub async fn stop_a_client(&self, cluster: &Cluster, after: Duration) {
        let config = cluster.config();
        let names = self.tables.each_ref().map(|table| table.name.clone());
        let runtime: Runtime = runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let (ready, is_ready) = tokio::sync::oneshot::channel();
        runtime.spawn(async move {
            let connection = Connection::builder(config).connect().await.unwrap();
            let mut tables = Vec::new();
            for name in names {
                tables.push(PartitionedTable::open(&connection, name).await.unwrap());
            }
            let bank = OpenBank {
                tables: tables.try_into().unwrap(),
            };
            bank.transfer().await.unwrap();
            ready.send(()).unwrap();
            loop {
                bank.transfer().await.unwrap();
            }
        });
        is_ready.await.unwrap();
        tokio::time::sleep(after).await;
        runtime.shutdown_background();
    }
}

impl OpenBank {
    /// Moves a drawn amount from one account to another one, if there is enough.
    pub async fn transfer(&self) -> Result<()> {
        let from = fastrand::usize(..ACCOUNTS.len());
        let to = (from + fastrand::usize(1..ACCOUNTS.len())) % ACCOUNTS.len();
        let amount = fastrand::i64(1..100);
        let both = CrossPartitions::new([self.partition(from), self.partition(to)])?;
        let moved = both.update(|[one, other]| {
            let [(_, from), (_, to)] = [ACCOUNTS[from], ACCOUNTS[to]];
            let left = one.get::<i64>(account(from), "f", "cents")?.unwrap_or(0);
            let there = other.get::<i64>(account(to), "f", "cents")?.unwrap_or(0);
            if left >= amount {
                one.put(Put::new(account(from)).cell("f", "cents", left - amount))?;
                other.put(Put::new(account(to)).cell("f", "cents", there + amount))?;
            }
            Ok::<_, Error>(())
        });
        moved.await.map(drop)
    }

    /// Returns the sum of all accounts at one moment.
    pub async fn sum(&self) -> Result<i64> {
        let all: Vec<_> = (0..ACCOUNTS.len())
            .map(|account| self.partition(account))
            .collect();
        let Ok(all) = <[_; ACCOUNTS.len()]>::try_from(all) else {
            unreachable!()
        };
        let mut sum = 0;
        for (snapshot, (_, prefix)) in CrossPartitions::new(all)?.snapshot().await?.iter().zip(ACCOUNTS) {
            sum += snapshot.get::<i64>(account(prefix), "f", "cents")?.unwrap_or(0);
        }
        Ok(sum)
    }

    /// Changes each partition by a transaction of its own, which frees it.
    pub async fn visit(&self) -> Result<()> {
        for (table, prefix) in ACCOUNTS {
            let put = Put::new(format!("{prefix}visited")).cell("f", "q", "v");
            self.tables[table]
                .transaction(prefix)
                .put(put)
                .commit()
                .await
                .into_result()?;
        }
        Ok(())
    }

    /// Returns the number of partitions that a transaction holds.
    pub async fn held(&self) -> usize {
        let mut held = 0;
        for table in &self.tables {
            let states = rows(table.table(), Scan::new().column("_version", "s")).await;
            held += states
                .iter()
                .filter(|row| !row.cells()[0].value.is_empty())
                .count();
        }
        held
    }

    fn partition(&self, account: usize) -> (&PartitionedTable, &'static str) {
        let (table, prefix) = ACCOUNTS[account];
        (&self.tables[table], prefix)
    }
}

fn account(prefix: &str) -> String {
    format!("{prefix}balance")
}
