//! Leases whose renewals are answered late or not at all.

use std::time::{Duration, Instant};

use futures::future::join_all;

use hbase_txn::{
    ErrorKind, Level,
    client::{TableDescriptor, TableName},
    coordination::{Election, ReadWriteLock, Semaphore},
    lock::{LockLoss, LockManager, LockTableOptions},
};

use crate::{
    proxy::{Action, Proxy},
    support::{
        connect, connect_by, eventually, forwarded,
        lock_rows::lock_manager,
        standalone,
        table::{SharedTable, TestTable},
        within,
    },
};

static OURS: SharedTable = SharedTable::new("lock-leases", without_java_clients, &[]);

fn without_java_clients(name: TableName) -> TableDescriptor {
    LockTableOptions::from(name)
        .without_java_clients()
        .regions(1)
        .descriptor()
}

/// Opens a manager whose calls go through a proxy.
async fn behind(proxy: &Proxy, table: &TestTable, client: &str) -> LockManager {
    let connection = connect_by(proxy.clone(), standalone().config()).await;
    lock_manager(&connection, &table.name, client).await
}

/// Lets `behind` `Multi` calls pass and delays the answer to the next one.
fn delay_answer(proxy: &Proxy, behind: usize, delay: Duration) {
    let mut left = behind;
    proxy.rule(move |request| match request.method.as_str() {
        "Multi" if left > 0 => {
            left -= 1;
            Action::Pass
        }
        "Multi" => {
            left = usize::MAX;
            Action::DelayAnswer(delay)
        }
        _ => Action::Pass,
    });
}

/// Delays the answer to every `Multi`.
fn delay_answers(proxy: &Proxy, delay: Duration) {
    proxy.rule(move |request| match request.method.as_str() {
        "Multi" => Action::DelayAnswer(delay),
        _ => Action::Pass,
    });
}

#[tokio::test]
async fn renewal_answered_after_the_lease_is_an_error() {
    const LEASE: Duration = Duration::from_secs(2);
    let (table, proxy) = (OURS.get().await, Proxy::new());
    let locks = behind(&proxy, &table, "late-guard").await;
    for watched in [false, true] {
        let guard = locks
            .lock(Level::Dc, "a")
            .unwrap()
            .ttl(LEASE)
            .acquire()
            .await
            .unwrap();
        delay_answers(&proxy, 2 * LEASE);
        let renewed = async {
            if watched {
                futures::join!(guard.renew(), guard.lost()).0
            } else {
                guard.renew().await
            }
        };
        let error = within(4 * LEASE, renewed).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LockLost, "{error}");
        assert!(!guard.is_held());
        assert_eq!(guard.lost().await, LockLoss::Expired);
        proxy.pass_all();
        let _ = guard.release().await.unwrap();
    }
}

#[tokio::test]
async fn renewal_by_token_answered_after_the_lease_is_a_loss() {
    const LEASE: Duration = Duration::from_secs(2);
    let (table, proxy) = (OURS.get().await, Proxy::new());
    let direct = lock_manager(&connect().await, &table.name, "late-token").await;
    let locks = behind(&proxy, &table, "late-token").await;

    let guard = direct
        .lock(Level::Dc, "a")
        .unwrap()
        .ttl(LEASE)
        .acquire()
        .await
        .unwrap();
    // Two calls read the lock and the server's time; the third one renews.
    delay_answer(&proxy, 2, 2 * LEASE);
    let renewed = locks.renew(Level::Dc, "a", guard.token(), LEASE).await.unwrap();
    assert_eq!(renewed, Err(LockLoss::Expired));

    let name = "late-permit";
    let semaphore = Semaphore::create(&direct, Level::Dc, name, 1).await.unwrap();
    let permit = semaphore.permit().ttl(LEASE).acquire().await.unwrap();
    let behind = Semaphore::open(&locks, Level::Dc, name).await.unwrap();
    delay_answer(&proxy, 2, 2 * LEASE);
    let renewed = behind.renew(permit.token(), LEASE).await.unwrap();
    assert_eq!(renewed, Err(LockLoss::Expired));
}

#[tokio::test]
async fn permits_and_readers_renewed_too_late_are_lost() {
    const LEASE: Duration = Duration::from_secs(2);
    let (table, proxy) = (OURS.get().await, Proxy::new());
    let locks = behind(&proxy, &table, "late-others").await;
    let reading = ReadWriteLock::new(&locks, Level::Dc, "a").unwrap().read();
    let campaign = Election::new(&locks, Level::Dc, "a").unwrap().campaign();
    let reader = reading.ttl(LEASE).acquire().await.unwrap();
    delay_answers(&proxy, 2 * LEASE);
    let error = within(4 * LEASE, reader.renew()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LockLost, "{error}");

    proxy.pass_all();
    let leader = campaign.ttl(LEASE).lead().await.unwrap();
    // The answers to its background renewals are late as well.
    delay_answers(&proxy, 2 * LEASE);
    let error = within(4 * LEASE, leader.guard().renew()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LockLost, "{error}");
    assert!(!leader.is_leader());
}

/// A network that drops a connection silently, as a firewall does when it has forgotten it.
#[tokio::test]
async fn silent_connection_does_not_cost_renewed_locks() {
    let table = OURS.get().await;
    let (connection, forwarder) = forwarded(standalone().config()).await;
    let locks = lock_manager(&connection, &table.name, "silent").await;
    let held = [10, 30].map(async |seconds| {
        let lease = Duration::from_secs(seconds);
        let request = locks.lock(Level::Dc, &format!("lock-{seconds}")).unwrap();
        let guard = request.ttl(lease).auto_renew().acquire().await.unwrap();
        (Instant::now(), lease, guard)
    });
    let held = join_all(held).await;
    forwarder.silence_existing();
    join_all(held.into_iter().map(async |(acquired, lease, guard)| {
        eventually("the lock was renewed", async || {
            assert!(
                guard.is_held(),
                "a lock of {lease:?} was lost after {:?}",
                acquired.elapsed()
            );
            (acquired.elapsed() + guard.remaining() > lease).then_some(())
        })
        .await;
        assert!(guard.release().await.unwrap().is_released());
    }))
    .await;
}

#[tokio::test]
async fn renewal_by_its_caller_survives_a_silent_connection() {
    const LEASE: Duration = Duration::from_secs(12);
    let table = OURS.get().await;
    let (connection, forwarder) = forwarded(standalone().config()).await;
    let locks = lock_manager(&connection, &table.name, "silent-caller").await;
    for renewed in [false, true] {
        let request = locks.lock(Level::Dc, "a").unwrap().ttl(LEASE);
        let request = if renewed { request.auto_renew() } else { request };
        let guard = request.acquire().await.unwrap();
        forwarder.silence_existing();
        // Background renewals wait for the caller's renewal.
        within(LEASE / 2, guard.renew()).await.unwrap();
        assert!(guard.remaining() > LEASE / 2);
        assert!(guard.release().await.unwrap().is_released());
    }
}
