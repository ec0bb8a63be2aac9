//! Locks on every release: they depend on the order of a call's actions, timestamps and TTLs.

use std::time::Duration;

use hbase_txn::{
    Level, Outcome, TableDescriptorExt,
    client::{Scan, TableDescriptor, TableName},
    coordination::{Election, ReadWriteLock, Semaphore},
    lock::{LockLoss, LockManagerOptions, LockTableOptions, PartitionLocks},
};

use crate::{
    on_each,
    support::{
        eventually, keys, put,
        table::{TestTable, by_three},
    },
};

const LEASE: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(400);

fn shared_with_java(name: TableName) -> TableDescriptor {
    LockTableOptions::from(name).descriptor()
}

fn without_java_clients(name: TableName) -> TableDescriptor {
    LockTableOptions::from(name).without_java_clients().descriptor()
}

fn with_partition_locks(name: TableName) -> TableDescriptor {
    by_three(name).with_record_family().with_lock_family()
}

#[tokio::test]
async fn a_lock_excludes_expires_is_renewed_and_released() {
    on_each(async |cluster| {
        let connection = cluster.connect().await;
        for descriptor in [shared_with_java, without_java_clients] {
            let table = TestTable::create_on(cluster, "locks", descriptor, &[]).await;
            let manager = async || {
                LockManagerOptions::new("svc")
                    .farm("fra")
                    .open(&connection, table.name.clone())
                    .await
                    .unwrap()
            };
            let (one, other) = (manager().await, manager().await);
            let ask =
                |locks: &hbase_txn::lock::LockManager, ttl| locks.lock(Level::Dc, "a").unwrap().ttl(ttl);
            let mut last = 0;
            for round in 0..40 {
                // When a short lease over a long one expires, the long one must not be visible.
                let ttl = if round % 2 == 0 { LEASE } else { LEASE / 2 };
                let guard = ask(&one, ttl).wait(LEASE).acquire().await.unwrap();
                assert!(guard.fencing() > last);
                last = guard.fencing();
                assert!(ask(&other, LEASE).try_acquire().await.unwrap().is_none());
                guard.renew().await.unwrap();
                assert!(guard.release().await.unwrap().is_released());
            }
            // On a busy machine a short lease may be over before it is answered.
            let crashed = eventually("a short lease has begun", async || {
                ask(&one, SHORT).wait(LEASE).acquire().await.ok()
            })
            .await;
            assert_eq!(crashed.lost().await, LockLoss::Expired);
            let next = eventually("the lease is over", async || {
                ask(&other, LEASE).try_acquire().await.unwrap()
            })
            .await;
            assert!(next.fencing() > crashed.fencing());
            assert!(!crashed.release().await.unwrap().is_released());
            assert!(next.is_held());
            assert!(next.release().await.unwrap().is_released());
        }
    })
    .await;
}

#[tokio::test]
async fn permits_readers_writers_and_leaders_exclude_each_other() {
    on_each(async |cluster| {
        let connection = cluster.connect().await;
        let table = TestTable::create_on(cluster, "coordination", without_java_clients, &[]).await;
        let options = LockManagerOptions::new("svc").farm("fra");
        let locks = options.open(&connection, table.name.clone()).await.unwrap();
        let semaphore = Semaphore::create(&locks, Level::Dc, "a", 3).await.unwrap();
        let lock = ReadWriteLock::new(&locks, Level::Dc, "a").unwrap();
        let election = Election::new(&locks, Level::Dc, "a").unwrap();
        let mut last = [0; 3];
        for _ in 0..10 {
            let two = semaphore.acquire_many(2).ttl(LEASE).acquire().await.unwrap();
            assert!(semaphore.acquire_many(2).try_acquire().await.unwrap().is_none());
            let reader = lock.read().ttl(LEASE).acquire().await.unwrap();
            assert!(lock.write().try_acquire().await.unwrap().is_none());
            let leader = election.campaign().ttl(LEASE).lead().await.unwrap();
            assert_eq!(
                election.leader().await.unwrap().unwrap().term,
                Some(leader.term())
            );
            let numbers = [two.fencing(), reader.fencing(), leader.term()];
            assert!(numbers.iter().zip(last).all(|(number, last)| *number > last));
            for guard in [two, reader, leader.into_guard()] {
                guard.renew().await.unwrap();
                assert!(guard.release().await.unwrap().is_released());
            }
            let writer = lock.write().ttl(LEASE).acquire().await.unwrap();
            assert!(writer.fencing() > numbers[1]);
            assert!(lock.read().try_acquire().await.unwrap().is_none());
            last = [numbers[0], writer.fencing(), numbers[2]];
            assert!(writer.release().await.unwrap().is_released());
        }
        assert!(semaphore.delete().await.unwrap());
    })
    .await;
}

#[tokio::test]
async fn partition_lock_fences_data_and_changes_with_it() {
    on_each(async |cluster| {
        let connection = cluster.connect().await;
        let table = TestTable::create_on(cluster, "partition-locks", with_partition_locks, &[]).await;
        let table = table.open(&connection).await;
        let (one, other) = (
            PartitionLocks::open(&table).await.unwrap(),
            PartitionLocks::open(&table).await.unwrap(),
        );
        let ask = |locks: &PartitionLocks, ttl| locks.lock("xxx", "writer").unwrap().ttl(ttl);
        let fenced = async |guard: &hbase_txn::lock::LockGuard, row: &'static str| {
            let transaction = table.transaction("xxx").fenced_by(guard).put(put(row, "v"));
            transaction.commit().await
        };
        let mut last = 0;
        for round in 0..20 {
            // When a short lease over a long one expires, the long one must not be visible.
            let ttl = if round % 2 == 0 {
                LEASE
            } else {
                Duration::from_secs(5)
            };
            let guard = ask(&one, ttl).wait(LEASE).acquire().await.unwrap();
            assert!(guard.fencing() > last);
            last = guard.fencing();
            assert!(ask(&other, LEASE).try_acquire().await.unwrap().is_none());
            guard.renew().await.unwrap();
            fenced(&guard, "xxx1").await.into_result().unwrap();
            assert!(guard.release().await.unwrap().is_released());
        }
        // On a busy machine a short lease may be over before it is answered.
        let crashed = eventually("a short lease has begun", async || {
            ask(&one, SHORT).wait(LEASE).acquire().await.ok()
        })
        .await;
        assert_eq!(crashed.lost().await, LockLoss::Expired);
        // Acquired with the data, and released with it.
        let next = eventually("the lease is over", async || {
            let mut transaction = table.transaction("xxx");
            let pending = transaction.acquire_lock(ask(&other, LEASE)).unwrap();
            transaction = transaction.put(put("xxx2", "v"));
            match transaction.commit().await {
                Outcome::Committed(_) => Some(pending.claim().await.unwrap()),
                Outcome::Rejected(_) => None,
                outcome => panic!("{outcome}"),
            }
        })
        .await;
        assert!(next.fencing() > crashed.fencing());
        let stale = fenced(&crashed, "xxx3").await;
        assert!(matches!(stale, Outcome::Rejected(_)), "{stale}");
        assert!(!crashed.release().await.unwrap().is_released());
        let transaction = table.transaction("xxx").release_lock(&next).put(put("xxx4", "v"));
        transaction.commit().await.into_result().unwrap();
        assert!(next.release().await.unwrap().is_released());
        assert!(one.show("xxx", "writer").await.unwrap().holder.is_none());
        assert_eq!(
            keys(table.table(), Scan::new().family("f")).await,
            ["xxx1", "xxx2", "xxx4"]
        );
    })
    .await;
}
