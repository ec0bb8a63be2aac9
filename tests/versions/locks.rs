//! Locks on every release: the order of a call's actions, timestamps and TTLs are what they rely on.

use std::time::Duration;

use hbase_txn::{LockLevel, LockLoss, LockManagerOptions, LockTableOptions, TableDescriptor, TableName};

use crate::{
    on_each,
    support::{eventually, table::TestTable},
};

const LEASE: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(400);

fn shared_with_java(name: TableName) -> TableDescriptor {
    LockTableOptions::new(name).descriptor()
}

fn ours_alone(name: TableName) -> TableDescriptor {
    LockTableOptions::new(name).ours_alone().descriptor()
}

#[tokio::test]
async fn a_lock_excludes_expires_is_renewed_and_released() {
    on_each(async |cluster| {
        let connection = cluster.connect().await;
        for descriptor in [shared_with_java, ours_alone] {
            let table = TestTable::create_on(cluster, "locks", descriptor, &[]).await;
            let manager = async || {
                LockManagerOptions::new("svc")
                    .farm("fra")
                    .open(&connection, table.name.clone())
                    .await
                    .unwrap()
            };
            let (one, other) = (manager().await, manager().await);
            let ask = |locks: &hbase_txn::LockManager, ttl| locks.lock(LockLevel::Dc, "a").unwrap().ttl(ttl);
            let mut last = 0;
            for round in 0..40 {
                // A short lease above a long one must not end with the long one in sight.
                let ttl = if round % 2 == 0 {
                    LEASE
                } else {
                    Duration::from_secs(2)
                };
                let guard = ask(&one, ttl).wait(LEASE).acquire().await.unwrap();
                assert!(guard.fencing() > last);
                last = guard.fencing();
                assert!(ask(&other, LEASE).try_acquire().await.unwrap().is_none());
                guard.renew().await.unwrap();
                assert!(guard.release().await.unwrap().is_released());
            }
            let crashed = ask(&one, SHORT).acquire().await.unwrap();
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
