//! Sets of locks, acquired all or none.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use hbase_txn::{
    ClientErrorKind, ErrorKind, Level, TableDescriptorExt,
    client::{TableDescriptor, TableName},
    lock::{LockGuard, LockLoss, LockManager, LockRequest, LockSet, LockTableOptions, PartitionLocks},
};

use crate::support::{
    connect, eventually,
    lock_rows::{lock_manager, lock_row, lock_table},
    spied,
    table::{SharedTable, TestTable, by_three},
    within,
};

static SHARED: SharedTable = SharedTable::new("lock-sets", shared_with_java, &[]);
static OURS: SharedTable = SharedTable::new("lock-sets-ours", without_java_clients, &[]);

const LEASE: Duration = Duration::from_secs(20);

fn shared_with_java(name: TableName) -> TableDescriptor {
    LockTableOptions::from(name).descriptor()
}

fn without_java_clients(name: TableName) -> TableDescriptor {
    LockTableOptions::from(name).without_java_clients().descriptor()
}

async fn try_lock(locks: &LockManager, id: &str) -> Option<LockGuard> {
    let request = locks.lock(Level::Dc, id).unwrap().ttl(LEASE);
    request.try_acquire().await.unwrap()
}

async fn release(set: LockSet) {
    let released = set.release().await.unwrap();
    assert!(released.iter().all(|(_, outcome)| outcome.is_released()));
}

fn set(locks: &LockManager, ids: &[&str], wait: Duration) -> Vec<LockRequest> {
    ids.iter()
        .map(|id| locks.lock(Level::Dc, id).unwrap().ttl(LEASE).wait(wait))
        .collect()
}

#[tokio::test]
async fn several_locks_are_all_held_or_none() {
    let connection = connect().await;
    for table in [&SHARED, &OURS] {
        let table = &table.get().await;
        let (one, other) = (
            lock_manager(&connection, &table.name, "several").await,
            lock_manager(&connection, &table.name, "several").await,
        );
        let middle = try_lock(&other, "b").await.unwrap();
        let error = LockSet::acquire(set(&one, &["c", "b", "a"], Duration::ZERO))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LockUnavailable);
        assert!(error.to_string().contains("DC#fra#several#b"), "{error}");
        for id in ["a", "c"] {
            let info = one.show(Level::Dc, id).await.unwrap();
            assert_eq!(info.holder, None, "{id}");
        }
        let waiting = tokio::spawn(LockSet::acquire(set(&one, &["c", "b", "a"], LEASE)));
        assert!(middle.release().await.unwrap().is_released());
        let all = waiting.await.unwrap().unwrap();
        let ids: Vec<_> = all.guards().iter().map(LockGuard::name).collect();
        assert_eq!(ids, ["c", "b", "a"].map(|id| format!("DC#fra#several#{id}")));
        assert!(all.is_held());
        for id in ["a", "b", "c"] {
            assert!(try_lock(&other, id).await.is_none());
        }
        release(all).await;
        for id in ["a", "b", "c"] {
            assert!(try_lock(&other, id).await.is_some());
        }
        let twice = LockSet::acquire(set(&one, &["a", "a"], LEASE)).await.unwrap_err();
        assert_eq!(twice.kind(), ClientErrorKind::InvalidInput);
    }
}

#[tokio::test]
async fn sets_that_overlap_never_wait_for_each_other_for_ever() {
    let connection = connect().await;
    let table = &OURS.get().await;
    let inside = Arc::new([const { AtomicU32::new(0) }; 5]);
    let philosophers = (0..5_usize).map(async |seat| {
        let locks = lock_manager(&connection, &table.name, "philosophers").await;
        let forks = [seat, (seat + 1) % 5];
        for _ in 0..8 {
            let ids = forks.map(|fork| format!("fork-{fork}"));
            let ids: Vec<_> = ids.iter().map(String::as_str).collect();
            let both = LockSet::acquire(set(&locks, &ids, Duration::from_secs(60)))
                .await
                .unwrap();
            for fork in forks {
                assert_eq!(inside[fork].fetch_add(1, Ordering::SeqCst), 0);
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
            for fork in forks {
                inside[fork].fetch_sub(1, Ordering::SeqCst);
            }
            let _ = both.release().await.unwrap();
        }
    });
    futures::future::join_all(philosophers).await;
}

/// Returns two ids in the order of their rows, whose first bytes are ASCII and differ.
fn two_ids(client: &str) -> [String; 2] {
    let first_byte = |id: &String| lock_row(client, id)[0];
    let mut ids = (0..)
        .map(|number| format!("id-{number}"))
        .filter(|id| first_byte(id).is_ascii());
    let one = ids.next().unwrap();
    let mut both = [ids.find(|id| first_byte(id) != first_byte(&one)).unwrap(), one];
    both.sort_by_key(first_byte);
    both
}

#[tokio::test]
async fn set_keeps_its_locks_while_it_waits_beyond_their_lease() {
    const SHORT: Duration = Duration::from_secs(8);
    let connection = connect().await;
    for table in [&SHARED, &OURS] {
        let table = &table.get().await;
        let (one, other) = (
            lock_manager(&connection, &table.name, "patient").await,
            lock_manager(&connection, &table.name, "patient").await,
        );
        let [first, second] = two_ids("patient");
        let in_the_way = other.lock(Level::Dc, &second).unwrap().ttl(LEASE).auto_renew();
        let in_the_way = in_the_way.acquire().await.unwrap();
        let wanted = [&second, &first].map(|id| one.lock(Level::Dc, id).unwrap().ttl(SHORT).wait(3 * LEASE));
        let waiting = tokio::spawn(LockSet::acquire(wanted.into()));
        let token = eventually("the first is held for longer than its lease", async || {
            let holder = other.show(Level::Dc, &first).await.unwrap().holder?;
            (holder.lease? > SHORT * 5 / 4).then_some(holder.token?)
        })
        .await;
        assert!(in_the_way.release().await.unwrap().is_released());
        let set = within(LEASE, waiting).await.unwrap().unwrap();
        assert!(set.is_held());
        assert_eq!(set.guards()[1].token(), token, "it was held all the time");
        // From now on nothing renews them.
        let (_, loss) = within(SHORT, set.lost()).await;
        assert_eq!(loss, LockLoss::Expired);
    }
}

#[tokio::test]
async fn a_set_that_loses_what_it_has_while_it_waits_says_so_at_once() {
    let connection = connect().await;
    let table = &OURS.get().await;
    let (one, other) = (
        lock_manager(&connection, &table.name, "robbed").await,
        lock_manager(&connection, &table.name, "robbed").await,
    );
    let [first, second] = two_ids("robbed");
    let in_the_way = other.lock(Level::Dc, &second).unwrap().ttl(3 * LEASE);
    let in_the_way = in_the_way.acquire().await.unwrap();
    let wanted = [&first, &second].map(|id| one.lock(Level::Dc, id).unwrap().ttl(LEASE / 4).wait(9 * LEASE));
    let waiting = tokio::spawn(LockSet::acquire(wanted.into()));
    let hit = eventually("the first is held and renewed", async || {
        let holder = other.show(Level::Dc, &first).await.unwrap().holder?;
        (holder.lease? > LEASE / 4).then_some(())
    });
    hit.await;
    other.force_release(Level::Dc, &first).await.unwrap().unwrap();
    let error = within(LEASE, waiting).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LockLost, "{error}");
    assert!(
        error.to_string().contains(&first) && error.is_retryable(),
        "{error}"
    );
    assert!(in_the_way.is_held());
}

#[tokio::test]
async fn set_takes_one_call_for_each_region() {
    let other = connect().await;
    for regions in [1, 4] {
        let table = lock_table(&other, "lock-set-regions", regions, false).await;
        let map = table.regions(&other).await;
        assert_eq!(map.len(), regions);
        // Some ids in each region.
        let ids: Vec<String> = map
            .iter()
            .flat_map(|region| {
                let ids = (0..).map(|number| format!("{number}-spread"));
                ids.filter(|id| region.contains(lock_row("spread", id))).take(3)
            })
            .collect();
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        let (connection, spy) = spied().await;
        let locks = lock_manager(&connection, &table.name, "spread").await;
        let others = lock_manager(&other, &table.name, "spread").await;
        for _ in 0..2 {
            let before = spy.multi_calls();
            let all = LockSet::acquire(set(&locks, &ids, Duration::ZERO)).await.unwrap();
            assert_eq!(spy.multi_calls() - before, regions);
            assert!(all.is_held());
            let names: Vec<_> = all.guards().iter().map(LockGuard::name).collect();
            assert_eq!(
                names,
                ids.iter()
                    .map(|id| format!("DC#fra#spread#{id}"))
                    .collect::<Vec<_>>()
            );
            for id in &ids {
                assert!(try_lock(&others, id).await.is_none());
            }
            release(all).await;
        }
        // Another client holds one of them, and no other one stays held, whatever its region.
        let held = try_lock(&others, ids[1]).await.unwrap();
        let error = LockSet::acquire(set(&locks, &ids, Duration::ZERO))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LockUnavailable);
        assert!(error.to_string().contains(ids[1]), "{error}");
        for id in ids.iter().filter(|id| **id != ids[1]) {
            assert!(try_lock(&others, id).await.is_some(), "{id}");
        }
        assert!(held.release().await.unwrap().is_released());
    }
}

#[tokio::test]
async fn set_finds_its_locks_after_a_split_of_the_region() {
    let other = connect().await;
    let table = lock_table(&other, "lock-set-split", 1, false).await;
    let locks = lock_manager(&connect().await, &table.name, "split").await;
    let ids = two_ids("split");
    let ids = [ids[1].as_str(), ids[0].as_str()];
    release(LockSet::acquire(set(&locks, &ids, Duration::ZERO)).await.unwrap()).await;
    let boundary = lock_row("split", ids[0])[0];
    let boundary = String::from_utf8(vec![boundary]).unwrap();
    table.split_at(&other, boundary.leak()).await;
    let both = LockSet::acquire(set(&locks, &ids, Duration::ZERO)).await.unwrap();
    assert!(both.is_held());
    release(both).await;
}

#[tokio::test]
async fn set_in_partitions_finds_its_locks_after_a_split() {
    let other = connect().await;
    let with_locks = |name| by_three(name).with_lock_family();
    let table: TestTable = TestTable::create("lock-set-cut", with_locks, &[]).await;
    let locks = PartitionLocks::open(&table.open(&connect().await).await)
        .await
        .unwrap();
    let both = async || {
        let requests = ["zzz", "aaa"].map(|prefix| locks.lock(prefix, "writer").unwrap().ttl(LEASE));
        LockSet::acquire(requests.into()).await.unwrap()
    };
    release(both().await).await;
    table.split_at(&other, "mmm").await;
    let set = both().await;
    assert!(set.is_held());
    release(set).await;
}
