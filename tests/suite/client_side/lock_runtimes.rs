//! Guards that leave the runtime that acquired them, or outlive that of their connection.

use std::{thread, time::Duration};

use hbase_txn::{
    ClientErrorKind, Level, TableDescriptorExt,
    client::{Connection, TableDescriptor, TableName},
    coordination::Semaphore,
    lock::{LockGuard, LockManager, LockManagerOptions, LockRequest, LockTableOptions, PartitionLocks},
};
use tokio::runtime::{Builder, Runtime};

use crate::support::{
    connect, put,
    table::{SharedTable, TestTable, by_three},
    within,
};

static LOCKS: SharedTable = SharedTable::new("lock-runtimes", without_java_clients, &[]);
static PARTITIONS: SharedTable = SharedTable::new("lock-runtimes-in", with_locks, &[]);

fn without_java_clients(name: TableName) -> TableDescriptor {
    LockTableOptions::from(name).without_java_clients().descriptor()
}

fn with_locks(name: TableName) -> TableDescriptor {
    by_three(name).with_lock_family()
}

/// Far longer than any test takes, so that an expired lease is not mistaken for a release.
const LEASE: Duration = Duration::from_secs(80);
const SOON: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_secs(3);

async fn manager(connection: &Connection, table: &TestTable) -> LockManager {
    LockManagerOptions::new("runtimes")
        .open(connection, table.name.clone())
        .await
        .unwrap()
}

fn request(locks: &LockManager, id: &str) -> LockRequest {
    locks.lock(Level::Xdc, id).unwrap().ttl(LEASE)
}

async fn is_released(locks: &LockManager, id: &str) {
    let acquired = request(locks, id).wait(SOON).acquire().await.unwrap();
    assert!(acquired.release().await.unwrap().is_released());
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Drops the guard outside of any runtime.
fn drop_on_a_thread(guard: impl Send + 'static) {
    thread::spawn(move || drop(guard)).join().unwrap();
}

/// Acquires a lock in a runtime that is gone when the guard is returned.
async fn acquired_elsewhere(request: LockRequest) -> LockGuard {
    let acquire = move || runtime().block_on(request.acquire()).unwrap();
    tokio::task::spawn_blocking(acquire).await.unwrap()
}

/// Connects, and acquires a lock, in a runtime that is gone when the guard is returned.
async fn connected_elsewhere(table: TableName, id: &'static str) -> LockGuard {
    let acquire = move || {
        runtime().block_on(async {
            let connection = connect().await;
            let locks = LockManagerOptions::new("runtimes").open(&connection, table);
            let request = request(&locks.await.unwrap(), id).ttl(SHORT);
            request.auto_renew().acquire().await.unwrap()
        })
    };
    tokio::task::spawn_blocking(acquire).await.unwrap()
}

#[tokio::test]
async fn guard_dropped_outside_a_runtime_is_released() {
    let table = LOCKS.get().await;
    let (connection, other) = (connect().await, connect().await);
    let (locks, others) = (manager(&connection, &table).await, manager(&other, &table).await);
    drop_on_a_thread(request(&locks, "thread").auto_renew().acquire().await.unwrap());
    is_released(&others, "thread").await;
    // The same if the runtime of the drop ends at once.
    let guard = request(&locks, "brief").acquire().await.unwrap();
    let brief = thread::spawn(move || runtime().block_on(async move { drop(guard) }));
    brief.join().unwrap();
    is_released(&others, "brief").await;
}

#[tokio::test]
async fn permit_dropped_outside_a_runtime_is_released() {
    let table = LOCKS.get().await;
    let (connection, other) = (connect().await, connect().await);
    let (locks, others) = (manager(&connection, &table).await, manager(&other, &table).await);
    let permit = async |locks: &LockManager| {
        let semaphore = Semaphore::create(locks, Level::Xdc, "permits", 1).await.unwrap();
        let request = semaphore.permit().ttl(LEASE).wait(SOON);
        request.acquire().await.unwrap()
    };
    drop_on_a_thread(permit(&locks).await);
    drop(permit(&others).await);
}

#[tokio::test]
async fn pending_lock_dropped_outside_a_runtime_is_released() {
    let table = PARTITIONS.get().await;
    let (connection, other) = (connect().await, connect().await);
    let (data, others) = (table.open(&connection).await, table.open(&other).await);
    let locks = PartitionLocks::open(&data).await.unwrap();
    let mut transaction = data.transaction("aaa");
    let request = locks.lock("aaa", "pending").unwrap().ttl(LEASE);
    let pending = transaction.acquire_lock(request).unwrap();
    transaction = transaction.put(put("aaa1", "v"));
    transaction.commit().await.into_result().unwrap();
    drop_on_a_thread(pending);
    let others = PartitionLocks::open(&others).await.unwrap();
    let request = others.lock("aaa", "pending").unwrap().ttl(LEASE);
    drop(request.wait(SOON).acquire().await.unwrap());
}

#[tokio::test]
async fn guard_outlives_the_runtime_that_acquired_it() {
    let table = LOCKS.get().await;
    let (connection, other) = (connect().await, connect().await);
    let (locks, others) = (manager(&connection, &table).await, manager(&other, &table).await);
    let guard = acquired_elsewhere(request(&locks, "released").ttl(SHORT).auto_renew()).await;
    tokio::time::sleep(SHORT).await;
    assert!(guard.is_held());
    assert!(within(SOON, guard.release()).await.unwrap().is_released());
    is_released(&others, "released").await;
    drop(acquired_elsewhere(request(&locks, "dropped")).await);
    is_released(&others, "dropped").await;
}

#[tokio::test]
async fn guard_ends_with_its_lease_without_the_runtime_of_its_connection() {
    let table = LOCKS.get().await;
    let others = manager(&connect().await, &table).await;
    let guard = connected_elsewhere(table.name.clone(), "left").await;
    let error = within(SOON, guard.renew()).await.unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::Closed, "{error}");
    assert!(!error.is_outcome_unknown(), "{error}");
    within(SOON, guard.lost()).await;
    drop(guard);
    is_released(&others, "left").await;
}

/// The lease of the guard is over, and nothing drives the runtime that acquired it.
#[tokio::test]
async fn guard_of_a_runtime_that_is_not_driven_keeps_no_other_task_waiting() {
    let table = LOCKS.get().await;
    let connection = connect().await;
    let locks = manager(&connection, &table).await;
    let short = request(&locks, "stopped").ttl(Duration::from_secs(2));
    let acquired = tokio::task::spawn_blocking(|| {
        let stopped = runtime();
        let guard = stopped.block_on(short.acquire()).unwrap();
        (guard, stopped)
    });
    let (guard, stopped) = acquired.await.unwrap();
    let waited = request(&locks, "stopped").wait(SOON).acquire().await.unwrap();
    assert!(!guard.is_held() && waited.is_held());
    assert!(waited.release().await.unwrap().is_released());
    // The guard that is over does not speak for the one that is held.
    let held = request(&locks, "stopped").acquire().await.unwrap();
    drop(guard);
    let refused = request(&locks, "stopped").try_acquire().await.unwrap();
    assert!(refused.is_none());
    drop(held);
    stopped.shutdown_background();
}
