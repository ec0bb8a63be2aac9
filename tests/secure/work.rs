//! What clients of every guarded cluster do.

use std::time::Duration;

use hbase_txn::{
    Outcome,
    client::{Config, Connection, Get, Put, Scan, WriterOptions},
    lock::{LockManagerOptions, LockTableOptions},
};

use super::{
    support::{Cluster, put, rows, table, table::TestTable},
    transaction,
};

/// The time limit of a large request or answer.
const PATIENCE: Duration = Duration::from_secs(300);

/// The tables of the work on one cluster.
pub(crate) struct Work {
    table: TestTable,
    locks: TestTable,
}

impl Work {
    pub(crate) async fn on(cluster: &Cluster) -> Self {
        let locks = |name| LockTableOptions::from(name).without_java_clients().descriptor();
        Self {
            table: TestTable::create_on(cluster, "guarded", table::recorded, &["m"]).await,
            locks: TestTable::create_on(cluster, "guarded_locks", locks, &[]).await,
        }
    }

    /// Commits a transaction with this id, holds a lock, writes in bulk and scans.
    pub(crate) async fn run(&self, connection: &Connection, id: &str) {
        let partitioned = self.table.open(connection).await;
        let committed = transaction(&partitioned).id(id.to_owned()).commit().await;
        assert!(matches!(committed, Outcome::Committed(..)), "{committed}");

        let manager = LockManagerOptions::new("svc")
            .farm("fra")
            .open(connection, self.locks.name.clone())
            .await
            .unwrap();
        let lock = manager.lock(hbase_txn::Level::Dc, "a").unwrap();
        let guard = lock.ttl(Duration::from_secs(20)).acquire().await.unwrap();
        let _ = guard.release().await.unwrap();

        let plain = self.table.of(connection);
        let writer = plain.writer(WriterOptions::new());
        for row in 0..500 {
            let cell = put(format!("row-{row:04}"), "x".repeat(100));
            writer.write(cell).await.unwrap();
        }
        writer.flush().await.unwrap();
        assert!(writer.take_failures().is_empty());
        assert_eq!(rows(&plain, Scan::prefix("row-")).await.len(), 500);
    }
}

/// Writes cells of 3 MB, and reads six of them in one answer of 18 MB. Ciphers of all clusters keep
/// the processors busy, so an answer takes long.
pub(crate) async fn large(config: Config, table: &TestTable) {
    let config = config
        .with_max_cell_size(usize::MAX)
        .with_read_timeout(PATIENCE)
        .with_operation_timeout(PATIENCE);
    let connection = Connection::builder(config).connect().await.unwrap();
    let cell: Vec<u8> = (0..3 << 20).map(|byte: u32| (byte >> 3) as u8).collect();
    let plain = table.of(&connection);
    let columns = ["a", "b", "c", "d", "e", "f"];
    for column in columns {
        let put = Put::new("row").cell("f", column, cell.clone());
        plain.put(put).await.unwrap();
    }
    let row = plain.get(Get::new("row")).await.unwrap().unwrap();
    for column in columns {
        assert!(*row.value("f", column).unwrap() == cell, "{column}");
    }
}
