//! Java clients and this library on the same locks.

use std::time::Duration;

use bytes::Bytes;
use hbase_txn::{
    ErrorKind, Level,
    admin::Admin,
    client::{CellKind, Connection, Get, Scan, TableName},
    lock::{LockGuard, LockLoss, LockManager, LockManagerOptions, LockTableOptions, ReleaseOutcome},
};

use crate::support::{
    connect,
    java::{JavaLock, JavaSide},
    lock_rows::{FARM, lock_manager, lock_row, lock_table},
    rows, says, standalone,
    table::TestTable,
};

const CLIENT: &str = "svc";
const LEVELS: [Level; 2] = [Level::Dc, Level::Xdc];
const LEASE: Duration = Duration::from_secs(60);
const PATIENCE: Duration = Duration::from_secs(20);

fn java_lock<'a>(table: &'a TableName, level: &'a str) -> JavaLock<'a> {
    JavaLock {
        table,
        level,
        farm: FARM,
        client: CLIENT,
        id: "order-1",
    }
}

async fn acquire(locks: &LockManager, level: Level) -> LockGuard {
    let request = locks.lock(level, "order-1").unwrap();
    request.ttl(LEASE).wait(PATIENCE).acquire().await.unwrap()
}

async fn is_refused(locks: &LockManager, level: Level) -> bool {
    let request = locks.lock(level, "order-1").unwrap();
    request.try_acquire().await.unwrap().is_none()
}

#[tokio::test]
async fn java_and_ours_exclude_each_other_until_the_release() {
    let (java, connection) = (JavaSide::start(&standalone()).await, connect().await);
    for without_java_clients in [false, true] {
        let table = lock_table(&connection, "bothsides", 4, without_java_clients).await;
        let locks = lock_manager(&connection, &table.name, CLIENT).await;
        for level in LEVELS {
            let text = level.to_string();
            let theirs = java_lock(&table.name, &text);
            for _ in 0..5 {
                assert!(java.acquire(theirs, 60).await.unwrap());
                assert!(is_refused(&locks, level).await);
                let request = locks.lock(level, "order-1").unwrap();
                let error = request
                    .wait(Duration::from_millis(20))
                    .acquire()
                    .await
                    .unwrap_err();
                assert_eq!(error.kind(), ErrorKind::LockUnavailable);
                says(&error, &["a client that leaves no name"]);
                let shown = locks.show(level, "order-1").await.unwrap();
                let holder = shown.holder.unwrap();
                assert_eq!((holder.name, holder.token, holder.lease), (None, None, None));
                assert!(holder.since.elapsed().unwrap_or_default() < PATIENCE);
                assert!(!shown.rows_disagree);
                java.release(theirs).await.unwrap();

                // A put in the millisecond of the deletion is hidden.
                let guard = acquire(&locks, level).await;
                assert!(!java.acquire(theirs, 60).await.unwrap());
                assert!(guard.is_held());
                guard.renew().await.unwrap();
                assert!(guard.release().await.unwrap().is_released());
            }
        }
    }
}

#[tokio::test]
async fn our_waiter_gets_in_on_a_java_release_or_expiry() {
    let (java, connection) = (JavaSide::start(&standalone()).await, connect().await);
    let table = lock_table(&connection, "javafirst", 1, false).await;
    let locks = lock_manager(&connection, &table.name, CLIENT).await;
    for released in [true, false] {
        let theirs = java_lock(&table.name, "DC");
        assert!(java.acquire(theirs, if released { 60 } else { 1 }).await.unwrap());
        let waiter = locks.clone();
        let waiting = tokio::spawn(async move { acquire(&waiter, Level::Dc).await });
        if released {
            java.release(theirs).await.unwrap();
        }
        let guard = waiting.await.unwrap();
        assert!(guard.release().await.unwrap().is_released());
    }
}

#[tokio::test]
async fn java_release_of_our_lock_admits_none_of_ours_and_is_seen() {
    let (java, connection) = (JavaSide::start(&standalone()).await, connect().await);
    let table = lock_table(&connection, "removed", 1, false).await;
    let locks = lock_manager(&connection, &table.name, CLIENT).await;
    let other = lock_manager(&connection, &table.name, CLIENT).await;
    let theirs = java_lock(&table.name, "DC");
    let level = Level::Dc;

    // Removed by a Java client: a renewal reports it, and so does a release.
    for renewed in [true, false] {
        let guard = acquire(&locks, level).await;
        java.release(theirs).await.unwrap();
        for _ in 0..3 {
            assert!(is_refused(&other, level).await);
        }
        let shown = other.show(level, "order-1").await.unwrap();
        assert!(shown.rows_disagree);
        assert_eq!(shown.holder.unwrap().token, Some(guard.token()));
        let listed = other.list().await.unwrap();
        assert!(listed.len() == 1 && listed[0].rows_disagree, "{listed:?}");
        if renewed {
            let error = guard.renew().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::LockLost, "{error}");
            says(&error, &["revoked before its lease expired"]);
            assert_eq!(guard.lost().await, LockLoss::Removed);
            assert!(!guard.is_held());
        }
        let outcome = guard.release().await.unwrap();
        assert_eq!(outcome, ReleaseOutcome::Lost(LockLoss::Removed));
        let shown = other.show(level, "order-1").await.unwrap();
        assert!(shown.holder.is_none() && !shown.rows_disagree);
    }

    // Acquired by a Java client, which sees only the lock row: the Java client and the holder both
    // believe that they hold the lock, and no other client of this library acquires it.
    let guard = acquire(&locks, level).await;
    java.release(theirs).await.unwrap();
    crate::support::eventually("Java gets the row", async || {
        java.acquire(theirs, 60).await.unwrap();
        let row = table
            .of(&connection)
            .get(Get::new(lock_row(CLIENT, "order-1")))
            .await;
        row.unwrap()?.value("D", "L").map(drop)
    })
    .await;
    assert!(is_refused(&other, level).await);
    assert!(other.show(level, "order-1").await.unwrap().rows_disagree);
    let error = guard.renew().await.unwrap_err();
    says(&error, &["taken by a client that leaves no name"]);
    assert!(matches!(guard.lost().await, LockLoss::Taken(holder) if holder.name.is_none()));
    assert!(!guard.release().await.unwrap().is_released());
    let shown = other.show(level, "order-1").await.unwrap();
    assert!(shown.holder.is_some_and(|holder| holder.token.is_none()) && !shown.rows_disagree);
    java.release(theirs).await.unwrap();
    assert!(
        acquire(&other, level)
            .await
            .release()
            .await
            .unwrap()
            .is_released()
    );
}

#[tokio::test]
async fn forced_java_lock_with_a_stamp_ahead_is_free_at_once() {
    let (java, connection) = (JavaSide::start(&standalone()).await, connect().await);
    let table = lock_table(&connection, "forced", 1, false).await;
    let locks = lock_manager(&connection, &table.name, CLIENT).await;
    let theirs = java_lock(&table.name, "DC");
    // Stamped ahead of the server's clock, so that the Java client's own release removes nothing.
    assert!(java.acquire_by_clock(theirs, 60, 60_000).await.unwrap());
    java.release(theirs).await.unwrap();
    assert!(is_refused(&locks, Level::Dc).await);
    let hit = locks.force_release(Level::Dc, "order-1").await.unwrap().unwrap();
    assert_eq!((hit.name, hit.token), (None, None));
    assert_eq!(locks.show(Level::Dc, "order-1").await.unwrap().holder, None);
    let guard = locks.lock(Level::Dc, "order-1").unwrap().acquire().await.unwrap();
    assert!(!java.acquire(theirs, 60).await.unwrap());
    assert!(guard.release().await.unwrap().is_released());
    assert_eq!(locks.show(Level::Dc, "order-1").await.unwrap().holder, None);
}

/// The keys among the Java vectors that are valid lock names, and their rows.
fn named_rows() -> Vec<(Level, Vec<String>, Bytes)> {
    let byte = |hex: &str| u8::from_str_radix(hex, 16).unwrap();
    let bytes = |hex: &str| -> Vec<u8> {
        (0..hex.len())
            .step_by(2)
            .map(|at| byte(&hex[at..at + 2]))
            .collect()
    };
    include_str!("../../hash_vectors.tsv")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| {
            let (prefix, key) = line.split_once('\t').unwrap();
            let key = String::from_utf8(bytes(key)).ok()?;
            let (level, rest) = key.split_once('#')?;
            let (level, parts) = match level {
                "DC" => (Level::Dc, 3),
                "XDC" => (Level::Xdc, 2),
                _ => return None,
            };
            let parts: Vec<_> = rest.splitn(parts, '#').map(str::to_owned).collect();
            let complete = parts.iter().all(|part| !part.is_empty());
            let count = if level == Level::Dc { 3 } else { 2 };
            let row = [&bytes(prefix)[..], key.as_bytes()].concat();
            (complete && parts.len() == count).then(|| (level, parts, row.into()))
        })
        .collect()
}

async fn take(connection: &Connection, table: &TableName, level: Level, parts: &[String]) -> LockGuard {
    let (client, id) = (&parts[parts.len() - 2], &parts[parts.len() - 1]);
    let options = LockManagerOptions::new(client).farm(&parts[0]);
    let locks = options.open(connection, table.clone()).await.unwrap();
    locks.lock(level, id).unwrap().acquire().await.unwrap()
}

#[tokio::test]
async fn our_locks_are_in_the_rows_that_java_puts_them_in() {
    let connection = connect().await;
    let table = lock_table(&connection, "rows", 1, true).await;
    let vectors = named_rows();
    assert!(vectors.len() >= 10, "{vectors:?}");
    for (level, parts, row) in vectors {
        let guard = take(&connection, &table.name, level, &parts).await;
        let stored = rows(&table.of(&connection), Scan::new()).await;
        let marked: Vec<_> = stored
            .iter()
            .filter(|row| row.value("D", "L").is_some_and(|value| value == "M"))
            .map(|row| row.key().clone())
            .collect();
        assert_eq!(marked, [row], "{parts:?}");
        assert!(guard.release().await.unwrap().is_released());
    }
}

/// Tables as the Java library creates them: 257 regions, which keep a real server busy for 20 seconds. `make test`
/// creates them on the fake cluster only.
mod of_257_regions {
    use super::*;

    #[tokio::test]
    async fn lock_table_is_javas_with_a_split_restriction() {
        let (java, connection) = (JavaSide::start(&standalone()).await, connect().await);
        let (theirs, ours) = (TestTable::unmade("javamade"), TestTable::unmade("ourmade"));
        java.create_lock_table(&theirs.name).await.unwrap();
        let options = LockTableOptions::from(ours.name.clone()).java_layout();
        assert!(options.create(&Admin::new(&connection)).await.unwrap());
        assert!(
            !options.create(&Admin::new(&connection)).await.unwrap(),
            "it is there"
        );
        let (theirs, ours_now) = (
            java.descriptor(&theirs.name).await.unwrap(),
            java.descriptor(&ours.name).await.unwrap(),
        );
        assert_eq!(ours_now.start_keys, theirs.start_keys);
        assert_eq!(ours_now.families, theirs.families);
        ours_now.adds_whole_buckets_to(&theirs);

        // The Java client accepts the table as it is.
        let lock = java_lock(&ours.name, "DC");
        assert!(java.acquire(lock, 60).await.unwrap());
        java.release(lock).await.unwrap();
        let stored = rows(&ours.of(&connection), Scan::new().raw()).await;
        assert_eq!(stored[0].cells()[0].kind, CellKind::DeleteFamily);
    }
}
