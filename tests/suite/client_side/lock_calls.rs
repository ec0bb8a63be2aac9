//! The number of calls that locks make.

use std::{
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    time::Duration,
};

use futures::future::join_all;
use hbase_txn::{
    Level,
    client::{Connection, TableDescriptor, TableName},
    lock::{LockManager, LockManagerOptions, LockTableOptions},
};
use tokio::time::Instant;

use crate::support::{
    connect, eventually, spied,
    spy::Spy,
    table::{SharedTable, TestTable},
};

static SHARED: SharedTable = SharedTable::new("lock-calls", shared_with_java, &[]);
static OURS: SharedTable = SharedTable::new("lock-calls-ours", without_java_clients, &[]);

fn shared_with_java(name: TableName) -> TableDescriptor {
    LockTableOptions::from(name).descriptor()
}

fn without_java_clients(name: TableName) -> TableDescriptor {
    LockTableOptions::from(name).without_java_clients().descriptor()
}

const LEASE: Duration = Duration::from_secs(60);

async fn manager(connection: &Connection, table: &TestTable) -> LockManager {
    LockManagerOptions::new("calls")
        .open(connection, table.name.clone())
        .await
        .unwrap()
}

async fn watched() -> (Spy, Connection) {
    let (connection, spy) = spied().await;
    (spy, connection)
}

#[tokio::test]
async fn an_uncontended_acquire_is_one_round_trip_and_so_is_a_release() {
    let (spy, connection) = watched().await;
    for table in [&SHARED, &OURS] {
        let table = table.get().await;
        let locks = manager(&connection, &table).await;
        let request = || locks.lock(Level::Xdc, "alone").unwrap().ttl(LEASE);
        for _ in 0..20 {
            let before = spy.multi_calls();
            let guard = request().acquire().await.unwrap();
            assert_eq!(spy.multi_calls(), before + 1, "to acquire");
            assert!(request().try_acquire().await.unwrap().is_none());
            assert_eq!(
                spy.multi_calls(),
                before + 1,
                "another task of the process is refused without a call"
            );
            assert!(guard.release().await.unwrap().is_released());
            assert_eq!(spy.multi_calls(), before + 2, "to release");
        }
        let guard = request().acquire().await.unwrap();
        let before = spy.multi_calls();
        guard.renew().await.unwrap();
        assert_eq!(spy.multi_calls(), before + 1, "to renew");
        assert!(guard.release().await.unwrap().is_released());
        assert_eq!(spy.multi_calls(), before + 2, "to release");
    }
    assert_eq!(spy.endpoint_calls(), 0);
}

#[tokio::test]
async fn one_of_a_thousand_waiting_tasks_polls_and_all_get_the_lock() {
    const TASKS: usize = 1_000;
    /// The pauses of a single poller grow to half a second, so that this many polls take seconds.
    const LOOKS: usize = 24;
    let other = connect().await;
    for table in [&SHARED, &OURS] {
        let table = table.get().await;
        let (spy, connection) = watched().await;
        let holder = manager(&other, &table).await;
        let held = holder.lock(Level::Xdc, "crowd").unwrap().ttl(LEASE);
        let held = held.acquire().await.unwrap();
        let locks = manager(&connection, &table).await;
        let (inside, entered) = (AtomicBool::new(false), AtomicUsize::new(0));
        let before = spy.multi_calls();
        let crowd = join_all((0..TASKS).map(async |_| {
            let request = locks.lock(Level::Xdc, "crowd").unwrap().ttl(LEASE);
            let guard = request.wait(2 * LEASE).acquire().await.unwrap();
            assert!(!inside.swap(true, Ordering::SeqCst), "two are inside");
            tokio::task::yield_now().await;
            inside.store(false, Ordering::SeqCst);
            entered.fetch_add(1, Ordering::SeqCst);
            assert!(guard.release().await.unwrap().is_released());
        }));
        let began = Instant::now();
        let release = async {
            eventually("the lock was looked at often", async || {
                (spy.multi_calls() >= before + LOOKS).then_some(())
            })
            .await;
            let took = began.elapsed();
            assert!(
                took > Duration::from_secs(2),
                "{LOOKS} looks in {took:?}: more than one polls"
            );
            assert_eq!(entered.load(Ordering::SeqCst), 0);
            let polls = spy.multi_calls();
            assert!(held.release().await.unwrap().is_released());
            polls
        };
        let (_, polls) = futures::join!(crowd, release);
        assert_eq!(entered.load(Ordering::SeqCst), TASKS);
        // The polling task may poll twice more; each next task finds the lock free.
        let calls = spy.multi_calls() - polls;
        assert!(calls <= 2 * TASKS + 2, "{calls} calls for {TASKS} turns");
    }
}
