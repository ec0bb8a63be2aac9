//! Locks whose futures are dropped at each of their wait points: no lock stays held without a
//! guard.

use std::time::Duration;

use hbase_txn::{
    Level, TableDescriptorExt,
    client::{Connection, TableDescriptor, TableName},
    lock::{LockGuard, LockManager, LockManagerOptions, LockSet, LockTableOptions, PartitionLocks},
};

use crate::{
    client_side::dropped::{at_every_wait, polled},
    support::{
        connect, put,
        table::{SharedTable, TestTable, by_three},
        within,
    },
};

static SHARED: SharedTable = SharedTable::new("dropped-locks", shared_with_java, &[]);
static OURS: SharedTable = SharedTable::new("dropped-locks-ours", without_java_clients, &[]);
static PARTITIONS: SharedTable = SharedTable::new("dropped-locks-in", with_locks, &[]);

fn shared_with_java(name: TableName) -> TableDescriptor {
    LockTableOptions::from(name).descriptor()
}

fn without_java_clients(name: TableName) -> TableDescriptor {
    LockTableOptions::from(name).without_java_clients().descriptor()
}

fn with_locks(name: TableName) -> TableDescriptor {
    by_three(name).with_lock_family()
}

/// Far longer than any test takes, so that an expired lease is not mistaken for a release.
const LEASE: Duration = Duration::from_secs(80);
/// How soon an abandoned hold is released.
const SOON: Duration = Duration::from_secs(20);

async fn manager(connection: &Connection, table: &TestTable) -> LockManager {
    LockManagerOptions::new("dropped")
        .open(connection, table.name.clone())
        .await
        .unwrap()
}

async fn acquire(locks: &LockManager, id: &str) -> LockGuard {
    let request = locks.lock(Level::Xdc, id).unwrap();
    let acquired = request.ttl(LEASE).wait(SOON).acquire();
    within(SOON, acquired).await.unwrap()
}

/// Polls an acquire this many times, drops it, and checks that both sides can acquire the lock
/// then. Returns whether the acquire had completed.
async fn drop_acquire(locks: &LockManager, others: &LockManager, id: &str, times: usize) -> bool {
    let request = locks.lock(Level::Xdc, id).unwrap().ttl(LEASE);
    let done = polled(request.acquire(), times).await;
    let over = done.is_some();
    if let Some(guard) = done {
        assert!(guard.unwrap().release().await.unwrap().is_released());
    }
    assert!(acquire(others, id).await.release().await.unwrap().is_released());
    // The queue of the process's tasks is free as well.
    assert!(acquire(locks, id).await.release().await.unwrap().is_released());
    over
}

#[tokio::test]
async fn a_dropped_acquire_leaves_no_lock_held() {
    let other = connect().await;
    for table in [&SHARED, &OURS] {
        let table = table.get().await;
        let others = manager(&other, &table).await;
        at_every_wait(async |times, connection| {
            let id = format!("acquire-{times}");
            drop_acquire(&manager(&connection, &table).await, &others, &id, times).await
        })
        .await;
    }
}

#[tokio::test]
async fn a_dropped_acquire_over_a_longer_lease_leaves_no_lock_held() {
    let other = connect().await;
    for table in [&SHARED, &OURS] {
        let table = table.get().await;
        let others = manager(&other, &table).await;
        at_every_wait(async |times, connection| {
            let id = format!("over-{times}");
            // Leaves a cell that would outlive the next hold, which clears it with an extra call.
            let longer = others
                .lock(Level::Xdc, &id)
                .unwrap()
                .ttl(3 * LEASE)
                .acquire()
                .await;
            assert!(longer.unwrap().release().await.unwrap().is_released());
            drop_acquire(&manager(&connection, &table).await, &others, &id, times).await
        })
        .await;
    }
}

#[tokio::test]
async fn a_dropped_acquire_of_several_leaves_none_of_them_held() {
    let other = connect().await;
    for table in [&SHARED, &OURS] {
        let table = table.get().await;
        let others = manager(&other, &table).await;
        for in_the_way in [false, true] {
            at_every_wait(async |times, connection| {
                let ids = ["one", "two"].map(|id| format!("several-{id}-{in_the_way}-{times}"));
                let locks = manager(&connection, &table).await;
                let held = if in_the_way {
                    Some(acquire(&others, &ids[1]).await)
                } else {
                    None
                };
                let request = |id: &String| locks.lock(Level::Xdc, id).unwrap().ttl(LEASE);
                let requests = ids.each_ref().map(request).into();
                let done = polled(LockSet::acquire(requests), times).await;
                let over = done.is_some();
                match done {
                    Some(set) if held.is_none() => {
                        let released = set.unwrap().release().await.unwrap();
                        assert!(released.iter().all(|(_, outcome)| outcome.is_released()));
                    }
                    done => assert!(done.is_none_or(|refused| refused.is_err())),
                }
                if let Some(held) = held {
                    assert!(held.release().await.unwrap().is_released());
                }
                for id in &ids {
                    assert!(acquire(&others, id).await.release().await.unwrap().is_released());
                    assert!(acquire(&locks, id).await.release().await.unwrap().is_released());
                }
                over
            })
            .await;
        }
    }
}

#[tokio::test]
async fn a_dropped_claim_leaves_no_lock_held() {
    let table = PARTITIONS.get().await;
    let other = connect().await;
    let others = PartitionLocks::open(&table.open(&other).await).await.unwrap();
    let acquire = async |id: &str, lease| {
        let request = others.lock("dcl", id).unwrap().ttl(lease).wait(SOON);
        within(SOON, request.acquire()).await.unwrap()
    };
    at_every_wait(async |times, connection| {
        let id = format!("claim-{times}");
        // Leaves something for the claim to clear.
        assert!(
            acquire(&id, 3 * LEASE)
                .await
                .release()
                .await
                .unwrap()
                .is_released()
        );
        let data = table.open(&connection).await;
        let locks = PartitionLocks::open(&data).await.unwrap();
        let mut transaction = data.transaction("dcl");
        let request = locks.lock("dcl", &id).unwrap().ttl(LEASE);
        let pending = transaction.acquire_lock(request).unwrap();
        transaction = transaction.put(put(format!("dcl{times}"), "v"));
        transaction.commit().await.into_result().unwrap();
        let done = polled(pending.claim(), times).await;
        let over = done.is_some();
        if let Some(guard) = done {
            assert!(guard.unwrap().release().await.unwrap().is_released());
        }
        assert!(acquire(&id, LEASE).await.release().await.unwrap().is_released());
        over
    })
    .await;
}

#[tokio::test]
async fn dropped_waiting_acquire_leaves_no_lock_held() {
    let other = connect().await;
    let table = SHARED.get().await;
    let others = manager(&other, &table).await;
    let connection = connect().await;
    let locks = manager(&connection, &table).await;
    for times in (1..40).step_by(3) {
        let held = acquire(&others, "waited-for").await;
        let request = locks.lock(Level::Xdc, "waited-for").unwrap().ttl(LEASE);
        let done = polled(request.wait(SOON).acquire(), times).await;
        assert!(done.is_none(), "it is held");
        assert!(held.release().await.unwrap().is_released());
    }
    assert!(acquire(&others, "waited-for").await.is_held());
}

#[tokio::test]
async fn a_dropped_renewal_leaves_the_lock_as_it_was_or_renewed() {
    let other = connect().await;
    for table in [&SHARED, &OURS] {
        let table = table.get().await;
        let others = manager(&other, &table).await;
        at_every_wait(async |times, connection| {
            let id = format!("renew-{times}");
            let locks = manager(&connection, &table).await;
            let guard = acquire(&locks, &id).await;
            let done = polled(guard.renew(), times).await;
            let over = done.map(Result::unwrap).is_some();
            assert!(guard.is_held());
            let request = others.lock(Level::Xdc, &id).unwrap();
            assert!(request.try_acquire().await.unwrap().is_none());
            // The next renewal finds the outcome of the dropped one, and a release frees both rows.
            if times % 2 == 0 {
                guard.renew().await.unwrap();
            }
            assert!(guard.release().await.unwrap().is_released());
            assert!(acquire(&others, &id).await.release().await.unwrap().is_released());
            over
        })
        .await;
    }
}

#[tokio::test]
async fn dropped_release_goes_on_in_the_background_like_a_drop() {
    let other = connect().await;
    for table in [&SHARED, &OURS] {
        let table = table.get().await;
        let others = manager(&other, &table).await;
        at_every_wait(async |times, connection| {
            let id = format!("release-{times}");
            let locks = manager(&connection, &table).await;
            let done = polled(acquire(&locks, &id).await.release(), times).await;
            let over = done.is_some();
            assert!(done.is_none_or(|outcome| outcome.unwrap().is_released()));
            let next = acquire(&others, &id).await;
            drop(next);
            assert!(acquire(&locks, &id).await.is_held());
            over
        })
        .await;
    }
}
