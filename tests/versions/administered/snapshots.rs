//! Snapshots that expire, on clusters whose masters look for expired ones every second.

use std::time::Duration;

use crate::*;
use hbase_txn::admin::Admin;
use support::eventually;

#[tokio::test]
async fn snapshot_with_a_ttl_is_deleted_unless_that_is_switched_off() {
    on_each(async |cluster| {
        let connection = cluster.connect().await;
        let admin = Admin::new(&connection);
        let shared = TestTable::create_on(cluster, "expiring", plain, &[]).await;
        let name = |label: &str| format!("{label}_{:x}", fastrand::u64(..));
        let found = async |name: &str| {
            let all = admin.snapshots().await.unwrap();
            all.into_iter().find(|snapshot| snapshot.name == name)
        };
        let (later, soon, kept) = (name("later"), name("soon"), name("kept"));
        let take = async |name: &str, ttl| admin.snapshot_with_ttl(name, &shared.name, ttl).await;
        take(&later, Duration::from_secs(3_600)).await.unwrap();
        let snapshot = found(&later).await.unwrap();
        assert_eq!(snapshot.ttl, Some(Duration::from_secs(3_600)));
        admin.snapshot(&kept, &shared.name).await.unwrap();
        assert_eq!(found(&kept).await.unwrap().ttl, None);

        // The chores of the master run behind each other, so a cleanup that has begun does not count.
        assert!(admin.snapshot_cleanup_switch(false).await.unwrap());
        assert!(!admin.is_snapshot_cleanup_enabled().await.unwrap());
        take(&soon, Duration::from_secs(1)).await.unwrap();
        tokio::time::sleep(Duration::from_secs(4)).await;
        assert!(found(&soon).await.is_some());
        assert!(!admin.snapshot_cleanup_switch(true).await.unwrap());
        assert!(admin.is_snapshot_cleanup_enabled().await.unwrap());
        eventually("the expired snapshot is deleted", async || {
            found(&soon).await.is_none().then_some(())
        })
        .await;
        for name in [&later, &kept] {
            assert!(found(name).await.is_some(), "{name}");
            admin.delete_snapshot(name).await.unwrap();
        }
        for ttl in [Duration::ZERO, Duration::from_millis(999), Duration::MAX] {
            let error = take(&soon, ttl).await.unwrap_err();
            assert_eq!(error.kind(), ClientErrorKind::InvalidInput, "{error}");
        }
    })
    .await;
}
