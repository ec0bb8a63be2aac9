//! Throttles and space quotas, on clusters whose servers read changed quotas every second.

use std::time::{Duration, Instant};

use hbase_txn::{QuotaTarget, SpaceQuota, SpaceViolationPolicy, Throttle, ThrottleInterval, ThrottleType};

use super::*;
use support::eventually;

/// Waits until a table's server throttles a hasty put.
async fn until_throttled(table: &hbase_txn::Table) {
    let hasty = table.clone().with_operation_timeout(Duration::from_millis(300));
    eventually("the table is throttled", async || {
        let error = hasty.put(put("r", "v")).await.err()?;
        error.to_string().contains("RpcThrottlingException").then_some(())
    })
    .await;
}

#[tokio::test]
async fn throttled_table_is_slow_and_loses_nothing() {
    on_each(async |cluster| {
        // A region server of 3.0.0-alpha-4 applies the throttle of a table only sometimes.
        if cluster.status.version == Some(HBaseVersion::V3_0) {
            return;
        }
        let connection = cluster.connect().await;
        let admin = connection.admin();
        let shared = TestTable::create_on(cluster, "throttled", plain, &[]).await;
        let table = shared.of(&connection);
        let target = QuotaTarget::Table(shared.name.clone());
        let slow = Throttle::new(ThrottleType::WriteNumber, 2, ThrottleInterval::Second);
        admin.set_throttle(&target, &slow).await.unwrap();
        until_throttled(&table).await;

        let began = Instant::now();
        for number in 0..8 {
            table.put(put(format!("r{number}"), "v")).await.unwrap();
        }
        let took = began.elapsed();
        assert!(took > Duration::from_millis(1500), "{took:?}");
        // Reads are not throttled.
        for number in 0..8 {
            assert_eq!(value(&table, format!("r{number}")).await.as_deref(), Some("v"));
        }

        // The server asks to wait for longer than the call may take.
        let slower = Throttle::new(ThrottleType::WriteNumber, 1, ThrottleInterval::Hour);
        admin.set_throttle(&target, &slower).await.unwrap();
        let patient = table.clone().with_operation_timeout(Duration::from_secs(20));
        let began = Instant::now();
        let error = eventually("an hour is too long", async || {
            patient.put(put("late", "v")).await.err()
        })
        .await;
        assert_eq!(error.kind(), ClientErrorKind::DeadlineExceeded, "{error}");
        says(&error, &["RpcThrottlingException", &shared.name.to_string()]);
        assert!(!error.is_outcome_unknown(), "{error}");
        assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());

        admin.remove_throttle(&target, None).await.unwrap();
        eventually("the throttle is gone", async || {
            let hasty = table.clone().with_operation_timeout(Duration::from_millis(300));
            hasty.put(put("after", "v")).await.ok()
        })
        .await;
    })
    .await;
}

#[tokio::test]
async fn throttles_are_set_listed_and_removed() {
    on_each(async |cluster| {
        let admin = cluster.connect().await.admin();
        let table = unique_name("quota");
        let user = format!("user_{:08x}", fastrand::u32(..));
        let namespace = format!("ns_{:08x}", fastrand::u32(..));
        admin.create_namespace(namespace.as_str()).await.unwrap();
        let in_namespace: TableName = format!("{namespace}:orders").parse().unwrap();
        let targets = [
            QuotaTarget::User(user.clone()),
            QuotaTarget::UserTable {
                user: user.clone(),
                table: in_namespace,
            },
            QuotaTarget::UserNamespace {
                user: user.clone(),
                namespace: namespace.clone(),
            },
            QuotaTarget::Table(table),
            QuotaTarget::Namespace(namespace.clone()),
        ];
        let own = async |target: &QuotaTarget| {
            let all = admin.throttles().await.unwrap().into_iter();
            let own = all.filter(|found| found.target == *target);
            own.map(|found| found.throttle).collect::<Vec<_>>()
        };
        for target in &targets {
            let reads = Throttle::new(ThrottleType::ReadSize, 1 << 20, ThrottleInterval::Minute);
            let requests =
                Throttle::new(ThrottleType::RequestNumber, 50, ThrottleInterval::Day).for_cluster();
            admin.set_throttle(target, &reads).await.unwrap();
            admin.set_throttle(target, &requests).await.unwrap();
            assert_eq!(own(target).await, [requests, reads], "{target:?}");
            let fewer = Throttle::new(ThrottleType::ReadSize, 1 << 10, ThrottleInterval::Second);
            admin.set_throttle(target, &fewer).await.unwrap();
            assert_eq!(own(target).await, [requests, fewer]);
            let one = Some(ThrottleType::RequestNumber);
            admin.remove_throttle(target, one).await.unwrap();
            assert_eq!(own(target).await, [fewer]);
            for _ in 0..2 {
                admin.remove_throttle(target, None).await.unwrap();
            }
            assert_eq!(own(target).await, []);
        }
        admin.delete_namespace(&namespace).await.unwrap();
        let nothing = Throttle::new(ThrottleType::ReadSize, 0, ThrottleInterval::Second);
        let error = admin.set_throttle(&targets[0], &nothing).await.unwrap_err();
        assert_eq!(error.kind(), ClientErrorKind::InvalidInput);
    })
    .await;
}

#[tokio::test]
async fn space_quotas_are_set_listed_and_removed() {
    on_each(async |cluster| {
        let connection = cluster.connect().await;
        let admin = connection.admin();
        let shared = TestTable::create_on(cluster, "space", plain, &[]).await;
        let namespace = format!("ns_{:08x}", fastrand::u32(..));
        admin.create_namespace(namespace.as_str()).await.unwrap();
        let on_table = QuotaTarget::Table(shared.name.clone());
        let own = async |target: &QuotaTarget| {
            let all = admin.space_quotas().await.unwrap().into_iter();
            let own = all.filter(|found| found.target == *target);
            own.map(|found| found.quota).collect::<Vec<_>>()
        };
        for target in [&on_table, &QuotaTarget::Namespace(namespace.clone())] {
            for policy in [
                SpaceViolationPolicy::Disable,
                SpaceViolationPolicy::NoWritesCompactions,
                SpaceViolationPolicy::NoWrites,
                SpaceViolationPolicy::NoInserts,
            ] {
                let quota = SpaceQuota::new(1 << 40, policy);
                admin.set_space_quota(target, &quota).await.unwrap();
                assert_eq!(own(target).await, [quota]);
            }
            // A target has throttles and a space quota.
            let throttle = Throttle::new(ThrottleType::ReadSize, 1 << 30, ThrottleInterval::Second);
            admin.set_throttle(target, &throttle).await.unwrap();
            admin.remove_throttle(target, None).await.unwrap();
            assert_eq!(own(target).await.len(), 1);
            for _ in 0..2 {
                admin.remove_space_quota(target).await.unwrap();
                assert_eq!(own(target).await, []);
            }
        }
        admin.delete_namespace(&namespace).await.unwrap();
        let quota = SpaceQuota::new(1, SpaceViolationPolicy::NoWrites);
        let of_user = QuotaTarget::User("eve".to_owned());
        let nothing = SpaceQuota::new(0, SpaceViolationPolicy::NoWrites);
        for result in [
            admin.set_space_quota(&of_user, &quota).await,
            admin.remove_space_quota(&of_user).await,
            admin.set_space_quota(&on_table, &nothing).await,
        ] {
            let error = result.unwrap_err();
            assert_eq!(error.kind(), ClientErrorKind::InvalidInput, "{error}");
        }
    })
    .await;
}
