//! Attempts whose answers were lost and that may still acquire their lock.

use std::time::{Duration, Instant};

use hbase_txn::{
    Level,
    client::{Connection, TableDescriptor, TableName},
    lock::{LockManager, LockManagerOptions, LockTableOptions},
};

use crate::{
    proxy::{Action, Proxy, Request},
    support::{
        connect, connect_by, eventually, standalone,
        table::{SharedTable, TestTable},
    },
};

static LOCKS: SharedTable = SharedTable::new("lock-abandoned", without_java_clients, &[]);

fn without_java_clients(name: TableName) -> TableDescriptor {
    LockTableOptions::from(name).without_java_clients().descriptor()
}

const LEASE: Duration = Duration::from_secs(3_600);

async fn manager(connection: &Connection, table: &TestTable) -> LockManager {
    LockManagerOptions::new("abandoned")
        .open(connection, table.name.clone())
        .await
        .unwrap()
}

/// Connects through a proxy, with a short timeout.
async fn behind(proxy: &Proxy) -> Connection {
    let config = standalone().config();
    connect_by(
        proxy.clone(),
        config.with_operation_timeout(Duration::from_secs(2)),
    )
    .await
}

async fn lose_an_attempt(locks: &LockManager, id: &str) {
    let request = locks.lock(Level::Xdc, id).unwrap().ttl(LEASE);
    let error = request.acquire().await.unwrap_err();
    assert!(error.is_outcome_unknown(), "{error}");
}

/// Applies `first` to the first `Multi`, and `then` to all later ones.
fn first_and_then(first: Action, then: Action) -> impl FnMut(&Request) -> Action {
    let mut first = Some(first);
    move |request| {
        if request.method == "Multi" {
            first.take().unwrap_or(then)
        } else {
            Action::Pass
        }
    }
}

#[tokio::test]
async fn attempt_is_given_back_however_long_the_network_is_down() {
    let table = LOCKS.get().await;
    let others = manager(&connect().await, &table).await;
    let proxy = Proxy::new();
    let locks = manager(&behind(&proxy).await, &table).await;
    proxy.rule(first_and_then(Action::CutBeforeAnswer, Action::CutBeforeRequest));
    lose_an_attempt(&locks, "outage").await;
    // Every check fails meanwhile. A longer outage would make no difference.
    tokio::time::pause();
    for _ in 0..20 {
        tokio::time::advance(Duration::from_secs(10)).await;
    }
    tokio::time::resume();
    let request = || others.lock(Level::Xdc, "outage").unwrap();
    assert!(request().try_acquire().await.unwrap().is_none());
    proxy.pass_all();
    let guard = eventually("the lost attempt is given back", async || {
        request().try_acquire().await.unwrap()
    })
    .await;
    assert!(guard.release().await.unwrap().is_released());
}

#[tokio::test]
async fn attempt_that_changes_its_rows_while_they_are_released_is_given_back() {
    let table = LOCKS.get().await;
    let others = manager(&connect().await, &table).await;
    let proxy = Proxy::new();
    let locks = manager(&behind(&proxy).await, &table).await;
    let request = |lease| others.lock(Level::Xdc, "changed").unwrap().ttl(lease);
    // A shorter hold clears, by a second call, what a longer one left.
    let long = request(LEASE).acquire().await.unwrap();
    assert!(long.release().await.unwrap().is_released());
    let before = proxy.requests("Multi");
    proxy.rule(
        move |request| match (&*request.method, request.earlier - before) {
            ("Multi", 1) => Action::Hold,
            // The release, after a read of the rows.
            ("Multi", 3) => Action::DelayRequest(Duration::from_secs(1)),
            _ => Action::Pass,
        },
    );
    let attempt = locks.lock(Level::Xdc, "changed").unwrap().ttl(LEASE / 2);
    let error = attempt.acquire().await.unwrap_err();
    assert!(error.is_outcome_unknown(), "{error}");
    eventually("the lost attempt is released", async || {
        (proxy.requests("Multi") == before + 4).then_some(())
    })
    .await;
    assert_eq!(proxy.release().await, 1);
    let guard = eventually("the lost attempt is given back", async || {
        request(LEASE).try_acquire().await.unwrap()
    })
    .await;
    assert!(guard.release().await.unwrap().is_released());
}

#[tokio::test]
async fn many_lost_attempts_at_one_lock_are_watched_as_one() {
    const ATTEMPTS: usize = 12;
    let table = LOCKS.get().await;
    let proxy = Proxy::new();
    let locks = manager(&behind(&proxy).await, &table).await;
    for _ in 0..ATTEMPTS {
        // None of them reaches the server.
        proxy.rule(first_and_then(Action::CutInRequest, Action::Pass));
        lose_an_attempt(&locks, "many").await;
    }
    let (began, before) = (Instant::now(), proxy.requests("Multi"));
    eventually("ten looks are made", async || {
        (proxy.requests("Multi") >= before + 10).then_some(())
    })
    .await;
    // The pauses of one watcher grow to 2 s. Each of twelve watchers would check at least once in
    // that time.
    assert!(
        began.elapsed() >= Duration::from_secs(2),
        "10 looks in {:?}",
        began.elapsed()
    );
}
