//! Calls of which a part is left where nothing drives it any more, in an idle runtime or in a future that
//! is not polled: they end in their time, and others do not wait for them.

use std::{future::Future, sync::Arc, time::Duration};

use futures::poll;
use hbase_txn::{ClientErrorKind, Get, Scan, Table};
use tokio::{
    runtime::{Builder, Runtime},
    task::spawn_blocking,
};

use crate::support::{
    connect, key, keys, put,
    table::{SharedTable, TestTable, plain},
    within,
};

static TABLE: SharedTable = SharedTable::new("idle-runtimes", plain, &["c"]);

const ROWS: [&str; 4] = ["a", "b", "c", "d"];
const SOON: Duration = Duration::from_secs(20);

/// Returns a table with rows. Calls of it are short, and its connections are those of this runtime.
async fn filled() -> (Table, Arc<TestTable>) {
    let shared = TABLE.get().await;
    let table = shared.of(&connect().await);
    for row in ROWS {
        table.put(put(row, "v")).await.unwrap();
    }
    assert_eq!(keys(&table, Scan::new()).await, ROWS);
    (table.with_operation_timeout(Duration::from_secs(4)), shared)
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
    let (_, shared) = filled().await;
    let table = shared.of(&connect().await);
    let mut get = Box::pin(table.get(Get::new("a")));
    assert!(poll!(&mut get).is_pending());
    within(SOON, table.put(put("a", "v"))).await.unwrap();
    assert!(within(SOON, get).await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scan_goes_on_where_its_first_runtime_is_idle() {
    let (table, _shared) = filled().await;
    let mut scanner = table.scan(Scan::new().caching(1)).unwrap();
    let begun = async move {
        assert_eq!(key(&scanner.next().await.unwrap().unwrap()), ROWS[0]);
        scanner
    };
    let (mut scanner, idle) = in_idle_runtime(begun).await;
    let (mut left, mut failures) = (Vec::new(), 0);
    while left.len() < ROWS.len() - 1 {
        match within(SOON, scanner.next()).await {
            Ok(row) => left.push(key(&row.unwrap())),
            // The time of one call may be over when the answer counts as lost.
            Err(error) => {
                assert_eq!(error.kind(), ClientErrorKind::DeadlineExceeded, "{error}");
                failures += 1;
            }
        }
    }
    assert_eq!(left, ROWS[1..]);
    assert!(failures < ROWS.len(), "{failures}");
    assert!(scanner.next().await.unwrap().is_none());
    idle.shutdown_background();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_is_not_renewed_by_a_call_in_an_idle_runtime() {
    let (table, _shared) = filled().await;
    let mut scanner = table.scan(Scan::new().caching(1)).unwrap();
    let begun = async move {
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
    assert_eq!(key(&scanner.next().await.unwrap().unwrap()), ROWS[1]);
    idle.shutdown_background();
}

/// No row is left out silently.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scan_of_several_regions_is_not_complete_without_its_first_runtime() {
    let (table, _shared) = filled().await;
    for in_order in [false, true] {
        let scanner = table.scan_regions(Scan::new().caching(1), 2).unwrap();
        let mut scanner = match in_order {
            true => scanner.in_order(),
            false => scanner,
        };
        let begun = async move {
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
            assert_eq!(ended.kind(), ClientErrorKind::ConnectionLost, "{ended}");
            assert_eq!(ended.hint(), Some("begin the scan again"));
        }
    }
}
