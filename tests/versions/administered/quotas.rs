//! Throttles and space quotas, on clusters whose servers look at quotas and sizes every second.

use std::time::{Duration, Instant};

use hbase_txn::{
    OpenOptions,
    admin::{Admin, QuotaTarget, SpaceQuota, SpaceViolationPolicy, Throttle, ThrottleInterval, ThrottleType},
    client::{Append, Condition, Increment, Table, TableState},
};

use crate::*;
use support::eventually;
use tokio::sync::RwLock;

/// Read by tests that need throttles to apply, and written by the one that switches them off.
static THROTTLES: RwLock<()> = RwLock::const_new(());

/// Waits until a table's server throttles a hasty put.
async fn until_throttled(table: &Table) {
    let hasty = table.clone().with_operation_timeout(Duration::from_millis(300));
    eventually("the table is throttled", async || {
        let error = hasty.put(put("r", "v")).await.err()?;
        error.to_string().contains("RpcThrottlingException").then_some(())
    })
    .await;
}

#[tokio::test]
async fn throttled_table_is_slow_and_loses_nothing() {
    let _on = THROTTLES.read().await;
    on_each(async |cluster| {
        // A region server of 3.0.0-alpha-4 applies the throttle of a table only sometimes.
        if cluster.status.version == Some(HBaseVersion::V3_0) {
            return;
        }
        let connection = cluster.connect().await;
        let admin = Admin::new(&connection);
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
async fn throttles_apply_unless_they_are_switched_off() {
    let _alone = THROTTLES.write().await;
    on_each(async |cluster| {
        let connection = cluster.connect().await;
        let admin = Admin::new(&connection);
        assert!(admin.is_rpc_throttle_enabled().await.unwrap());
        let shared = TestTable::create_on(cluster, "switched", plain, &[]).await;
        let table = shared.of(&connection);
        let target = QuotaTarget::Table(shared.name.clone());
        let slow = Throttle::new(ThrottleType::WriteNumber, 1, ThrottleInterval::Hour);
        admin.set_throttle(&target, &slow).await.unwrap();
        // A region server of 3.0.0-alpha-4 applies the throttle of a table only sometimes.
        if cluster.status.version != Some(HBaseVersion::V3_0) {
            until_throttled(&table).await;
        }
        assert!(admin.rpc_throttle_switch(false).await.unwrap());
        assert!(!admin.is_rpc_throttle_enabled().await.unwrap());
        let hasty = table.clone().with_operation_timeout(Duration::from_secs(2));
        for row in ["a", "b", "c"] {
            hasty.put(put(row, "v")).await.unwrap();
        }
        assert!(!admin.rpc_throttle_switch(true).await.unwrap());
        assert!(admin.is_rpc_throttle_enabled().await.unwrap());
        admin.remove_throttle(&target, None).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn requests_exceed_throttles_only_if_servers_have_a_capacity() {
    on_each(async |cluster| {
        let admin = Admin::new(&cluster.connect().await);
        let error = admin.exceed_throttle_quota_switch(true).await.unwrap_err();
        assert_eq!(error.kind(), ClientErrorKind::Server, "{error}");
        says(&error, &["switching the excess of throttles"]);
        let server = QuotaTarget::RegionServer;
        for kind in [ThrottleType::ReadNumber, ThrottleType::WriteNumber] {
            let enough = Throttle::new(kind, 1_000_000, ThrottleInterval::Second);
            admin.set_throttle(&server, &enough).await.unwrap();
        }
        assert!(!admin.exceed_throttle_quota_switch(true).await.unwrap());
        assert!(admin.exceed_throttle_quota_switch(false).await.unwrap());
        admin.remove_throttle(&server, None).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn throttles_are_set_listed_and_removed() {
    on_each(async |cluster| {
        let admin = Admin::new(&cluster.connect().await);
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
        let admin = Admin::new(&connection);
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

/// Waits until a put of the table fails, and returns the error.
async fn until_full(table: &Table) -> hbase_client::Error {
    eventually("the table is full", async || {
        table.put(put("bbb1", "v")).await.err()
    })
    .await
}

/// Waits until a put of the table succeeds.
async fn until_writable(table: &Table) {
    eventually("the table takes writes again", async || {
        table.put(put("bbb1", "v")).await.ok()
    })
    .await;
}

/// Puts 200 kB, which are in a file then.
async fn fill(admin: &Admin, table: &Table) {
    table.put(put("aaa1", "v".repeat(200_000))).await.unwrap();
    admin.flush_table(table.name()).await.unwrap();
}

#[tokio::test]
async fn full_table_refuses_inserts_until_there_is_space() {
    on_each(async |cluster| {
        let connection = cluster.connect().await;
        let admin = Admin::new(&connection);
        let shared = TestTable::create_on(cluster, "full", by_three, &[]).await;
        let (partitioned, table) = (shared.open(&connection).await, shared.of(&connection));
        let alone = shared
            .open_with(&connection, OpenOptions::new().without_endpoint())
            .await;
        let own = QuotaTarget::Table(shared.name.clone());
        let limit = |bytes| SpaceQuota::new(bytes, SpaceViolationPolicy::NoInserts);
        let is_clear = |error: &hbase_client::Error| {
            assert_eq!(error.kind(), ClientErrorKind::QuotaExceeded, "{error}");
            assert!(!error.is_outcome_unknown() && !error.is_retryable(), "{error}");
            assert!(error.attempts() <= Some(1), "{error}");
            says(error, &[&shared.name.to_string(), "space quota", "raise"]);
        };
        admin.set_space_quota(&own, &limit(100_000)).await.unwrap();
        fill(&admin, &table).await;
        is_clear(&until_full(&table).await);
        let increment = Increment::new("aaa2").column("f", "n", 1);
        is_clear(&table.increment(increment.clone()).await.unwrap_err());
        let append = Append::new("aaa2").cell("f", "q", "v");
        is_clear(&table.append(append).await.unwrap_err());
        let absent = Condition::absent("aaa2", "f", "q");
        let change = table.check_and_mutate(absent, [put("aaa2", "v").into()]).await;
        is_clear(&change.unwrap_err());
        let change = table
            .mutate_row([put("aaa2", "v").into(), increment.into()])
            .await;
        is_clear(&change.unwrap_err());
        for result in table.mutate_many([put("aaa2", "v"), put("aaa3", "v")]).await {
            is_clear(&result.unwrap_err());
        }
        let outcome = alone.transaction("aaa").put(put("aaa2", "v")).commit().await;
        assert_eq!(outcome.name(), "aborted", "{outcome}");
        let error = outcome.into_result().unwrap_err();
        assert_eq!(
            error.kind(),
            ErrorKind::Client(ClientErrorKind::QuotaExceeded),
            "{error}"
        );
        says(&error, &[&shared.name.to_string(), "space quota", "raise"]);
        assert_eq!(keys(&table, Scan::prefix("aaa")).await, ["aaa1"]);
        // HBase does not check calls of endpoints.
        let outcome = partitioned
            .transaction("aaa")
            .put(put("aaa9", "v"))
            .commit()
            .await;
        assert!(outcome.is_committed(), "{outcome}");

        for row in ["aaa1", "aaa9"] {
            table.delete(Delete::new(row)).await.unwrap();
        }
        admin.flush_table(&shared.name).await.unwrap();
        admin.major_compact_table(&shared.name).await.unwrap();
        until_writable(&table).await;

        fill(&admin, &table).await;
        is_clear(&until_full(&table).await);
        admin.set_space_quota(&own, &limit(1 << 40)).await.unwrap();
        until_writable(&table).await;
    })
    .await;
}

#[tokio::test]
async fn table_that_its_space_quota_disables_stays_so_until_there_is_space() {
    on_each(async |cluster| {
        let connection = cluster.connect().await;
        let admin = Admin::new(&connection);
        let shared = TestTable::create_on(cluster, "full", plain, &[]).await;
        let table = shared.of(&connection);
        let own = QuotaTarget::Table(shared.name.clone());
        let quota = SpaceQuota::new(100_000, SpaceViolationPolicy::Disable);
        admin.set_space_quota(&own, &quota).await.unwrap();
        fill(&admin, &table).await;
        // The server refuses writes shortly before it has the master disable the table.
        let error = until_full(&table).await;
        let kinds = [ClientErrorKind::TableDisabled, ClientErrorKind::QuotaExceeded];
        assert!(kinds.contains(&error.kind()), "{error}");
        eventually("the master has disabled the table", async || {
            let state = admin.state(&shared.name).await.unwrap();
            (state == TableState::Disabled).then_some(())
        })
        .await;
        let error = table.put(put("bbb1", "v")).await.unwrap_err();
        assert_eq!(error.kind(), ClientErrorKind::TableDisabled, "{error}");
        let error = admin.enable_table(&shared.name).await.unwrap_err();
        assert_eq!(error.kind(), ClientErrorKind::QuotaExceeded, "{error}");
        says(&error, &[&shared.name.to_string(), "enabling", "raise"]);
        admin.remove_space_quota(&own).await.unwrap();
        until_writable(&table).await;
    })
    .await;
}
