//! Locks: their holders, how holds end, and what the managers report.

use std::time::{Duration, Instant};

use hbase_txn::{
    ErrorKind, Level,
    client::{Connection, TableDescriptor, TableName},
    lock::{LockGuard, LockLoss, LockManager, LockManagerOptions, LockTableOptions, ReleaseOutcome},
};

use crate::{
    proxy::{Action, Proxy},
    support::{
        connect, connect_by, eventually, says, standalone,
        table::{SharedTable, TestTable},
        within,
    },
};

static WITH_JAVA: SharedTable = SharedTable::new("locks", shared_with_java, &[]);
static WITHOUT_JAVA: SharedTable = SharedTable::new("locks-ours", without_java_clients, &[]);

fn shared_with_java(name: TableName) -> TableDescriptor {
    LockTableOptions::from(name).descriptor()
}

fn without_java_clients(name: TableName) -> TableDescriptor {
    LockTableOptions::from(name).without_java_clients().descriptor()
}

async fn manager(connection: &Connection, shared: &TestTable, client: &str) -> LockManager {
    LockManagerOptions::new(client)
        .farm("fra")
        .holder("tester")
        .open(connection, shared.name.clone())
        .await
        .unwrap()
}

async fn try_lock(locks: &LockManager, id: &str, ttl: Duration) -> Option<LockGuard> {
    locks
        .lock(Level::Dc, id)
        .unwrap()
        .ttl(ttl)
        .try_acquire()
        .await
        .unwrap()
}

const LEASE: Duration = Duration::from_secs(20);

#[tokio::test]
async fn a_lock_has_one_holder_at_a_time() {
    let connection = connect().await;
    for table in [&WITH_JAVA, &WITHOUT_JAVA] {
        let table = &table.get().await;
        let (one, other) = (
            manager(&connection, table, "one-holder").await,
            manager(&connection, table, "one-holder").await,
        );
        let mut last = 0;
        for _ in 0..50 {
            let guard = try_lock(&one, "a", LEASE).await.expect("it is free");
            assert!(guard.fencing() > last);
            last = guard.fencing();
            assert!(try_lock(&other, "a", LEASE).await.is_none());
            assert!(guard.is_held());
            assert!(guard.release().await.unwrap().is_released());
            let guard = try_lock(&other, "a", LEASE).await.expect("it is free again");
            assert!(guard.fencing() > last);
            last = guard.fencing();
            assert!(guard.release().await.unwrap().is_released());
        }
    }
}

#[tokio::test]
async fn lease_expires_unless_renewed() {
    let connection = connect().await;
    for table in [&WITH_JAVA, &WITHOUT_JAVA] {
        let table = &table.get().await;
        let (one, other) = (
            manager(&connection, table, "leases").await,
            manager(&connection, table, "leases").await,
        );
        let lease = Duration::from_secs(5);
        let request = one.lock(Level::Dc, "renewed").unwrap().ttl(lease).auto_renew();
        let renewed = request.acquire().await.unwrap();
        let short = try_lock(&one, "short", lease).await.unwrap();
        let began = Instant::now();
        let loss = short.lost().await;
        assert_eq!(loss, LockLoss::Expired);
        assert!(began.elapsed() < lease, "{:?}", began.elapsed());
        assert!(!short.is_held());
        let next = eventually("the lease is over", async || {
            try_lock(&other, "short", LEASE).await
        })
        .await;
        assert!(began.elapsed() < lease * 2, "{:?}", began.elapsed());
        assert!(!short.release().await.unwrap().is_released());
        assert!(next.is_held());
        assert!(next.release().await.unwrap().is_released());
        while began.elapsed() < 2 * lease {
            assert!(renewed.is_held());
            assert!(try_lock(&other, "renewed", LEASE).await.is_none());
            renewed.renew().await.unwrap();
        }
        assert!(renewed.release().await.unwrap().is_released());
        assert!(try_lock(&other, "renewed", LEASE).await.is_some());
    }
}

#[tokio::test]
async fn renewal_copes_with_a_margin_above_a_third_of_the_lease() {
    let connection = connect().await;
    let table = &WITH_JAVA.get().await;
    let locks = manager(&connection, table, "margins").await;
    let lease = Duration::from_secs(30);
    let request = locks.lock(Level::Dc, "wide").unwrap().ttl(lease);
    let request = request.skew_margin(Duration::from_secs(22)).auto_renew();
    let guard = request.acquire().await.unwrap();
    let renewed = eventually("it is renewed", async || {
        let holder = locks.show(Level::Dc, "wide").await.unwrap().holder?;
        (holder.lease? > lease).then_some(())
    });
    tokio::select! {
        loss = guard.lost() => panic!("lost before it was renewed: {loss}"),
        () = renewed => {}
    }
    assert!(guard.release().await.unwrap().is_released());
}

#[tokio::test]
async fn loss_is_reported_in_any_runtime_after_the_first_has_ended() {
    let table = &WITHOUT_JAVA.get().await;
    let name = table.name.clone();
    let elsewhere = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let options = LockManagerOptions::new("runtimes").farm("fra");
            let locks = options.open(&connect().await, name).await.unwrap();
            let request = locks.lock(Level::Dc, "gone").unwrap().ttl(Duration::from_secs(2));
            request.acquire().await.unwrap()
        })
    });
    let guard = tokio::task::spawn_blocking(|| elsewhere.join().unwrap())
        .await
        .unwrap();
    assert_eq!(within(LEASE, guard.lost()).await, LockLoss::Expired);
    assert!(!guard.is_held());
}

#[tokio::test]
async fn second_local_waiter_gets_the_holders_name() {
    let connection = connect().await;
    let table = &WITH_JAVA.get().await;
    let (one, other) = (
        manager(&connection, table, "queue").await,
        manager(&connection, table, "queue").await,
    );
    let guard = try_lock(&other, "q", LEASE).await.unwrap();
    let acquire = |max_wait| one.lock(Level::Dc, "q").unwrap().wait(max_wait).acquire();
    let error = tokio::select! {
        biased;
        first = acquire(2 * LEASE) => panic!("{first:?}"),
        second = acquire(Duration::from_secs(3)) => second.unwrap_err(),
    };
    assert_eq!(error.kind(), ErrorKind::LockUnavailable);
    says(&error, &["held by tester", "came first", "DC#fra#queue#q"]);
    assert!(guard.release().await.unwrap().is_released());
}

#[tokio::test]
async fn lost_answer_hints_at_renewal_or_background_release() {
    let table = &WITH_JAVA.get().await;
    let proxy = Proxy::new();
    let config = standalone().config();
    let behind = connect_by(
        proxy.clone(),
        config.with_operation_timeout(Duration::from_secs(3)),
    )
    .await;
    let locks = manager(&behind, table, "unknown").await;
    let guard = try_lock(&locks, "u", LEASE).await.unwrap();
    proxy.once("Multi", Action::CutBeforeAnswer);
    let error = guard.renew().await.unwrap_err();
    assert!(error.is_outcome_unknown(), "{error}");
    says(&error.hint().unwrap(), &["renew it again"]);
    guard.renew().await.unwrap();
    assert!(guard.release().await.unwrap().is_released());
    proxy.once("Multi", Action::CutBeforeAnswer);
    let error = locks.lock(Level::Dc, "u").unwrap().ttl(LEASE).acquire().await;
    let error = error.unwrap_err();
    assert!(error.is_outcome_unknown(), "{error}");
    says(
        &error.hint().unwrap(),
        &["released in the background", "try again"],
    );
    let guard = eventually("the lock is released", async || {
        try_lock(&locks, "u", LEASE).await
    })
    .await;
    assert!(guard.release().await.unwrap().is_released());
    behind.close().await;
}

#[tokio::test]
async fn waiter_gets_a_released_lock_or_the_holders_name() {
    let connection = connect().await;
    let table = &WITH_JAVA.get().await;
    let (one, other) = (
        manager(&connection, table, "waiting").await,
        manager(&connection, table, "waiting").await,
    );
    let guard = try_lock(&one, "w", LEASE).await.unwrap();
    let request = other.lock(Level::Dc, "w").unwrap();
    let began = Instant::now();
    let error = request
        .clone()
        .wait(Duration::from_millis(300))
        .acquire()
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LockUnavailable);
    assert!(error.to_string().contains("tester"), "{error}");
    let took = began.elapsed();
    assert!(
        took >= Duration::from_millis(300) && took < Duration::from_secs(2),
        "{took:?}"
    );
    let waiting = tokio::spawn(request.wait(LEASE).acquire());
    assert!(guard.release().await.unwrap().is_released());
    let guard = waiting.await.unwrap().unwrap();
    let info = one.show(Level::Dc, "w").await.unwrap();
    assert_eq!(info.holder.unwrap().token, Some(guard.token()));
    assert!(guard.release().await.unwrap().is_released());
    assert_eq!(one.show(Level::Dc, "w").await.unwrap().holder, None);
}

#[tokio::test]
async fn try_acquire_fails_only_while_the_lock_is_held() {
    let other = connect().await;
    for table in [&WITH_JAVA, &WITHOUT_JAVA] {
        let table = &table.get().await;
        let others = manager(&other, table, "trying").await;
        let proxy = Proxy::new();
        let config = standalone().config();
        let behind = connect_by(
            proxy.clone(),
            config.with_operation_timeout(Duration::from_secs(5)),
        )
        .await;
        let locks = manager(&behind, table, "trying").await;
        let guard = try_lock(&locks, "t", LEASE).await.expect("nobody has it");
        assert!(guard.release().await.unwrap().is_released());

        // One task has its turn, and its request is held back.
        proxy.once("Multi", Action::Hold);
        let sent = proxy.requests("Multi");
        let first = tokio::spawn(locks.lock(Level::Dc, "t").unwrap().ttl(LEASE).acquire());
        eventually("the first attempt is sent", async || {
            (proxy.requests("Multi") > sent).then_some(())
        })
        .await;
        let guard = try_lock(&locks, "t", LEASE)
            .await
            .expect("the first attempt has no answer yet");
        assert!(guard.is_held());
        assert!(
            try_lock(&locks, "t", LEASE).await.is_none(),
            "a task of the process holds it"
        );
        assert!(guard.release().await.unwrap().is_released());
        // The late result of the first attempt, which no task waits for, is released as well.
        first.abort();
        proxy.release().await;
        let guard = eventually("the lock is released", async || {
            try_lock(&others, "t", LEASE).await
        })
        .await;

        // Another client holds the lock, and one task waits.
        let waiting = tokio::spawn(locks.lock(Level::Dc, "t").unwrap().wait(LEASE).acquire());
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(300) {
            assert!(try_lock(&locks, "t", LEASE).await.is_none());
        }
        assert!(guard.release().await.unwrap().is_released());
        let guard = waiting.await.unwrap().unwrap();
        assert!(guard.release().await.unwrap().is_released());
        behind.close().await;
    }
}

#[tokio::test]
async fn held_locks_are_listed_and_can_be_revoked() {
    let connection = connect().await;
    for table in [&WITH_JAVA, &WITHOUT_JAVA] {
        let table = &table.get().await;
        let locks = manager(&connection, table, "listed").await;
        let one = try_lock(&locks, "one", LEASE).await.unwrap();
        let released = try_lock(&locks, "released", LEASE).await.unwrap();
        assert!(released.release().await.unwrap().is_released());
        let listed: Vec<_> = locks
            .list()
            .await
            .unwrap()
            .into_iter()
            .filter(|lock| lock.name.as_ref().is_some_and(|name| name.client() == "listed"))
            .collect();
        assert_eq!(listed.len(), 1, "{listed:?}");
        assert_eq!(listed[0].name.as_ref().unwrap().id(), "one");
        assert_eq!(listed[0].holder.as_ref().unwrap().token, Some(one.token()));
        assert_eq!(
            locks.show(Level::Dc, "one").await.unwrap().fencing,
            Some(one.fencing())
        );
        assert!(!listed[0].rows_disagree);

        let hit = locks.force_release(Level::Dc, "one").await.unwrap().unwrap();
        assert_eq!(hit.token, Some(one.token()));
        assert_eq!(locks.force_release(Level::Dc, "one").await.unwrap(), None);
        let next = try_lock(&manager(&connection, table, "listed").await, "one", LEASE)
            .await
            .unwrap();
        assert!(next.fencing() > one.fencing());
        assert_eq!(one.renew().await.unwrap_err().kind(), ErrorKind::LockLost);
        match one.lost().await {
            LockLoss::Taken(holder) => assert_eq!(holder.token, Some(next.token())),
            other => panic!("{other:?}"),
        }
        assert!(!one.release().await.unwrap().is_released());
        assert!(next.release().await.unwrap().is_released());
    }
}

#[tokio::test]
async fn a_token_releases_and_renews_from_another_process() {
    let connection = connect().await;
    for table in [&WITH_JAVA, &WITHOUT_JAVA] {
        let table = &table.get().await;
        let (one, other) = (
            manager(&connection, table, "by-token").await,
            manager(&connection, table, "by-token").await,
        );
        let guard = try_lock(&one, "t", LEASE).await.unwrap();
        let token = guard.token();
        let stranger = "0".repeat(32).parse().unwrap();
        for loss in [
            other
                .renew(Level::Dc, "t", stranger, LEASE)
                .await
                .unwrap()
                .unwrap_err(),
            match other.release(Level::Dc, "t", stranger).await.unwrap() {
                ReleaseOutcome::Lost(loss) => loss,
                released => panic!("{released}"),
            },
        ] {
            assert!(matches!(loss, LockLoss::Taken(holder) if holder.token == Some(token)));
        }
        assert_eq!(
            other.renew(Level::Dc, "t", token, 2 * LEASE).await.unwrap(),
            Ok(())
        );
        let lease = one
            .show(Level::Dc, "t")
            .await
            .unwrap()
            .holder
            .unwrap()
            .lease
            .unwrap();
        assert!(lease >= 2 * LEASE, "{lease:?}");
        // The guard does not know of that. Its own renewal notices it.
        guard.renew().await.unwrap();
        let info = one.show(Level::Dc, "t").await.unwrap();
        assert!(
            info.holder.unwrap().lease.unwrap() >= lease,
            "a renewal shortened the lease"
        );
        assert!(other.release(Level::Dc, "t", token).await.unwrap().is_released());
        assert!(!other.release(Level::Dc, "t", token).await.unwrap().is_released());
        assert_eq!(
            other.renew(Level::Dc, "t", token, LEASE).await.unwrap(),
            Err(LockLoss::Expired)
        );
        assert!(!guard.release().await.unwrap().is_released());
    }
}
