//! Connections whose runtime has ended, or is not driven: calls from other runtimes end in their time. And
//! futures that are not polled: others do not wait for them.

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use futures::{future::join_all, poll};
use hbase_txn::{
    ClientErrorKind, Error, Level, PartitionedTable,
    client::{Connection, Get, Put, Scan, Table, TcpConnector, WriterOptions},
    latch::Latch,
    lock::LockManager,
};
use tokio::{
    runtime::{Builder, Runtime},
    task::spawn_blocking,
};

use crate::support::{
    connect, connect_by, key, keys,
    latch_rows::{latch_manager, latch_table},
    lock_rows::{lock_manager, lock_table},
    put, standalone,
    table::{SharedTable, TestTable, by_three, plain},
    within,
};

static TABLE: SharedTable = SharedTable::new("idle-runtimes", plain, &["c"]);

const ROWS: [&str; 4] = ["a", "b", "c", "d"];
const SOON: Duration = Duration::from_secs(20);
const TIMEOUT: Duration = Duration::from_secs(2);

/// Returns a table with rows.
async fn filled() -> Arc<TestTable> {
    let shared = TABLE.get().await;
    let table = shared.of(&connect().await);
    for row in ROWS {
        table.put(put(row, "v")).await.unwrap();
    }
    assert_eq!(keys(&table, Scan::new()).await, ROWS);
    shared
}

/// Returns a connection with short calls.
async fn hasty() -> Connection {
    connect_by(
        TcpConnector,
        standalone().config().with_operation_timeout(TIMEOUT),
    )
    .await
}

/// Runs a future in a runtime that lives on afterwards, but that nothing drives.
async fn in_idle_runtime<F: Future<Output: Send> + Send + 'static>(future: F) -> (F::Output, Runtime) {
    let run = move || {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        (runtime.block_on(future), runtime)
    };
    spawn_blocking(run).await.unwrap()
}

#[tokio::test]
async fn a_location_that_is_not_read_any_more_is_read_by_another_call() {
    let shared = filled().await;
    let table = shared.of(&connect().await);
    let mut get = Box::pin(table.get(Get::new("a")));
    assert!(poll!(&mut get).is_pending());
    within(SOON, table.put(put("a", "v"))).await.unwrap();
    assert!(within(SOON, get).await.unwrap().is_some());
}

/// What a connection has opened.
struct Opened {
    table: Table,
    orders: PartitionedTable,
    locks: LockManager,
    latch: Latch,
}

type Call<'a> = Pin<Box<dyn Future<Output = Result<(), Error>> + Send + 'a>>;

impl Opened {
    async fn by(connection: &Connection, tables: &[Arc<TestTable>; 4], latch: &str) -> Self {
        let [plain, partitioned, locks, latches] = tables;
        let latches = latch_manager(connection, &latches.name, "idle", "fra").await;
        let opened = Self {
            table: plain.of(connection),
            orders: partitioned.open(connection).await,
            locks: lock_manager(connection, &locks.name, "idle").await,
            latch: latches.latch(Level::Dc, latch).unwrap(),
        };
        // The connections to all servers are open, and all proofs are made.
        opened.put("a").await.unwrap();
        opened.commit(0).await.unwrap();
        opened.acquire().await.unwrap();
        opened.latch.init(5, Duration::from_secs(3_600)).await.unwrap();
        opened
    }

    async fn put(&self, row: &'static str) -> Result<(), Error> {
        Ok(self.table.put(put(row, "v")).await?)
    }

    async fn commit(&self, number: usize) -> Result<(), Error> {
        let put = Put::new(format!("xxx{number}")).cell("f", "q", "v");
        let outcome = self.orders.transaction("xxx").put(put).commit().await;
        outcome.into_result().map(drop)
    }

    async fn acquire(&self) -> Result<(), Error> {
        let guard = self.locks.lock(Level::Dc, "one")?.acquire().await?;
        assert!(guard.release().await?.is_released());
        Ok(())
    }

    async fn scan(&self) -> Result<(), Error> {
        Ok(self.table.scan(Scan::new())?.next().await.map(drop)?)
    }

    async fn scan_regions(&self) -> Result<(), Error> {
        Ok(self.table.scan_regions(Scan::new(), 2)?.next().await.map(drop)?)
    }

    async fn write(&self) -> Result<(), Error> {
        let writer = self.table.writer(WriterOptions::new());
        writer.write(put("a", "v")).await?;
        let flushed = writer.flush().await;
        let failed = writer.take_failures();
        assert!(failed.iter().all(|failed| !failed.error.is_outcome_unknown()));
        Ok(flushed?)
    }

    fn calls(&self) -> Vec<(&'static str, Call<'_>)> {
        let mut calls: Vec<(_, Call<'_>)> = vec![
            (
                "get",
                Box::pin(async { Ok(self.table.get(Get::new("a")).await.map(drop)?) }),
            ),
            ("put", Box::pin(self.put("a"))),
            ("scan", Box::pin(self.scan())),
            ("scan_regions", Box::pin(self.scan_regions())),
            ("writer", Box::pin(self.write())),
            ("lock", Box::pin(self.acquire())),
            (
                "count_down",
                Box::pin(async { self.latch.count_down(1).await.map(drop) }),
            ),
            (
                "wait",
                Box::pin(async { self.latch.wait(TIMEOUT).await.map(drop) }),
            ),
        ];
        // More than are sent alone.
        for number in 0..8 {
            calls.push(("shared put", Box::pin(self.put("b"))));
            calls.push(("commit", Box::pin(self.commit(number))));
        }
        calls
    }
}

/// No call hangs, guesses an outcome, or is sent later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_name_the_runtime_of_the_connection_that_does_not_run() {
    let connection = connect().await;
    let tables = [
        filled().await,
        Arc::new(TestTable::create("idle-runtimes-in", by_three, &[]).await),
        Arc::new(lock_table(&connection, "idle_runtimes_locks", 1, false).await),
        Arc::new(latch_table(&connection, "idle_runtimes_latches", 1, true).await),
    ];
    for (has_ended, latch) in [(true, "ended"), (false, "idle")] {
        let tables = tables.clone();
        let opened = async move { Opened::by(&hasty().await, &tables, latch).await };
        let (opened, idle) = in_idle_runtime(opened).await;
        let mut idle = Some(idle);
        let (kind, cause) = if has_ended {
            idle.take().unwrap().shutdown_background();
            (ClientErrorKind::Closed, "the runtime of the connection has ended")
        } else {
            (
                ClientErrorKind::DeadlineExceeded,
                "the runtime of the connection is not driven",
            )
        };
        let calls = opened.calls().into_iter();
        let ended = calls.map(async |(name, call)| (name, within(SOON, call).await));
        for (name, ended) in join_all(ended).await {
            let error = ended.expect_err(name);
            assert_eq!(error.kind(), kind, "{name}: {error}");
            assert!(error.to_string().contains(cause), "{name}: {error}");
            assert!(!error.is_outcome_unknown(), "{name}: {error}");
        }
        drop(opened);
        if let Some(idle) = idle {
            idle.shutdown_background();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scan_continues_where_its_first_runtime_is_idle() {
    let shared = filled().await;
    let mut scanner = shared.of(&connect().await).scan(Scan::new().caching(1)).unwrap();
    let begun = async move {
        assert_eq!(key(&scanner.next().await.unwrap().unwrap()), ROWS[0]);
        scanner
    };
    let (mut scanner, idle) = in_idle_runtime(begun).await;
    for row in &ROWS[1..] {
        assert_eq!(key(&within(SOON, scanner.next()).await.unwrap().unwrap()), *row);
    }
    assert!(scanner.next().await.unwrap().is_none());
    idle.shutdown_background();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_is_not_renewed_by_a_call_in_an_idle_runtime() {
    let shared = filled().await;
    let begun = async move {
        let mut scanner = shared.of(&hasty().await).scan(Scan::new().caching(1)).unwrap();
        scanner.next().await.unwrap();
        scanner
    };
    let (mut scanner, idle) = in_idle_runtime(begun).await;
    let is_lost = async {
        while scanner.renew_lease().await.unwrap() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    within(SOON, is_lost).await;
    idle.shutdown_background();
}

/// No row is left out silently.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scan_of_several_regions_is_not_complete_without_the_runtime_of_its_connection() {
    let shared = filled().await;
    for in_order in [false, true] {
        let shared = Arc::clone(&shared);
        let begun = async move {
            let table = shared.of(&hasty().await);
            let scanner = table.scan_regions(Scan::new().caching(1), 2).unwrap();
            let mut scanner = if in_order { scanner.in_order() } else { scanner };
            assert!(scanner.next().await.unwrap().is_some());
            scanner
        };
        let (mut scanner, idle) = in_idle_runtime(begun).await;
        // Rows that were read before come first.
        let mut rows = 1;
        let late = loop {
            match within(SOON, scanner.next()).await {
                Ok(row) => assert!(row.is_some()),
                Err(error) => break error,
            }
            rows += 1;
        };
        assert!(rows < ROWS.len(), "{rows}");
        assert_eq!(late.kind(), ClientErrorKind::DeadlineExceeded, "{late}");
        idle.shutdown_background();
        for _ in 0..2 {
            let ended = within(SOON, scanner.next()).await.unwrap_err();
            assert_eq!(ended.kind(), ClientErrorKind::Closed, "{ended}");
        }
    }
}
