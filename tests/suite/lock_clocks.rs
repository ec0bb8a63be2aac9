//! Locks that were released on a server whose clock was ahead of the present server's.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hbase_txn::{
    ErrorKind, Level,
    client::{Connection, Delete, Get, Put, Table},
    coordination::Semaphore,
    lock::{LockGuard, LockManager},
};
use rstest::rstest;

use crate::support::{
    connect,
    lock_rows::{companion_row, free_cell, lock_manager, lock_row, lock_table},
    table::TestTable,
};

const CLIENT: &str = "clocks";
/// HBase accepts a server whose clock is this far ahead.
const AHEAD: Duration = Duration::from_secs(30);
/// A release deletes a lease with more than 90 s left, and overwrites a shorter one.
const LONG: Duration = Duration::from_secs(600);
const SHORT: Duration = Duration::from_secs(60);

/// Returns a timestamp of such a server.
fn ahead() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from((now + AHEAD).as_millis()).unwrap()
}

struct Case {
    _table: TestTable,
    rows: Table,
    locks: LockManager,
    others: LockManager,
}

impl Case {
    async fn new(connection: &Connection, what: &str, without_java_clients: bool) -> Self {
        let table = lock_table(connection, what, 1, without_java_clients).await;
        Self {
            rows: table.of(connection),
            locks: lock_manager(connection, &table.name, CLIENT).await,
            others: lock_manager(connection, &table.name, CLIENT).await,
            _table: table,
        }
    }

    /// Makes a row look released by a server that is ahead.
    async fn give_back_ahead(&self, row: &bytes::Bytes, slot: &str, lease: Duration) {
        let at = ahead();
        let [marker, owner] = ["L", "O"].map(|column| format!("{column}{slot}"));
        if lease == LONG {
            let delete = Delete::new(row.clone()).column("D", marker).timestamp(at);
            self.rows.delete(delete).await.unwrap();
        } else {
            let blank = Put::new(row.clone()).cell_at("D", marker, at, "").ttl(lease);
            self.rows.put(blank).await.unwrap();
        }
        let free = free_cell(u64::try_from(lease.as_millis()).unwrap());
        let put = Put::new(row.clone()).cell_at("D", owner, at, free).ttl(lease);
        self.rows.put(put).await.unwrap();
    }

    /// Deletes a row as a Java client does, on a server that is ahead.
    async fn delete_ahead(&self, row: &bytes::Bytes) {
        let delete = Delete::new(row.clone()).timestamp(ahead() + 1_000);
        self.rows.delete(delete).await.unwrap();
    }

    async fn acquire(&self, lease: Duration) -> LockGuard {
        let request = self.locks.lock(Level::Dc, "lock").unwrap();
        request.ttl(lease).acquire().await.unwrap()
    }

    async fn is_held(&self) {
        let request = self.others.lock(Level::Dc, "lock").unwrap();
        assert!(request.try_acquire().await.unwrap().is_none());
    }
}

#[rstest]
#[tokio::test]
async fn lock_given_back_ahead_of_the_clock_is_acquired_at_once(
    #[values(false, true)] without_java_clients: bool,
    #[values(SHORT, LONG)] lease: Duration,
) {
    let connection = connect().await;
    let case = Case::new(&connection, "lock_clocks", without_java_clients).await;
    let first = case.acquire(lease).await;
    let mut fencing = first.fencing();
    assert!(first.release().await.unwrap().is_released());
    let row = lock_row(CLIENT, "lock");
    case.give_back_ahead(&row, "", lease).await;
    if !without_java_clients {
        case.give_back_ahead(&companion_row(CLIENT, "lock"), "", lease)
            .await;
        case.delete_ahead(&row).await;
    }
    // Repeated, because the cells of each of these holds are ahead as well.
    for lease in [LONG, SHORT, LONG, LONG, SHORT] {
        let guard = case.acquire(lease).await;
        assert!(guard.fencing() > fencing);
        fencing = guard.fencing();
        case.is_held().await;
        guard.renew().await.unwrap();
        case.is_held().await;
        assert!(guard.release().await.unwrap().is_released());
    }
}

#[tokio::test]
async fn permit_given_back_ahead_of_the_clock_is_acquired_at_once() {
    let connection = connect().await;
    let case = Case::new(&connection, "permit_clocks", true).await;
    let semaphore = Semaphore::create(&case.locks, Level::Dc, "permits", 1)
        .await
        .unwrap();
    let permit = || semaphore.permit().ttl(LONG).acquire();
    assert!(permit().await.unwrap().release().await.unwrap().is_released());
    let mut rows = case.rows.scan(hbase_txn::client::Scan::new()).unwrap();
    let row = rows.next().await.unwrap().unwrap().key().clone();
    case.give_back_ahead(&row, "0", LONG).await;
    let guard = permit().await.unwrap();
    let error = permit().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LockUnavailable);
    assert!(guard.release().await.unwrap().is_released());
    let found = case.rows.get(Get::new(row)).await.unwrap().unwrap();
    assert!(found.value("D", "L0").is_none_or(|marker| marker.is_empty()));
}
