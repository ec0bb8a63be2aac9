//! Silent connections and regions, and a gateway that restarts while a lock is waited for.

use std::time::{Duration, Instant};

use hbase_txn::{
    ClientErrorKind, ErrorKind, Level,
    thrift::{ThriftConnection, ThriftConnectionBuilder, ThriftLockManager},
};
use tokio::{task::JoinSet, time::timeout};

use super::{GATEWAY, latches_of, locks_of, port, try_lock};
use crate::support::{
    connect, eventually,
    forwarder::Forwarder,
    latch_rows::latch_table,
    lock_rows::{lock_manager, lock_table},
    says,
    table::TestTable,
    within,
};

const LEASE: Duration = Duration::from_secs(20);
/// The time limit of one call.
const CALL: Duration = Duration::from_secs(3);
/// The limit for the most consecutive silent calls of one acquire or release, plus a margin for a
/// busy machine.
const SOON: Duration = Duration::from_secs(12);
/// The number of connections.
const CONNECTIONS: usize = 8;
const LONG: Duration = Duration::from_secs(3_600);
/// A lease whose renewal is sent again after four seconds: a busy machine takes long for its calls.
const SHORT: Duration = Duration::from_secs(12);

/// Starts a forwarder to the gateway, and opens the locks of a process through it.
async fn behind_forwarder(
    table: &TestTable,
    options: impl FnOnce(ThriftConnectionBuilder) -> ThriftConnectionBuilder,
) -> (Forwarder, ThriftLockManager) {
    let forwarder = Forwarder::to(port()).await;
    let builder = ThriftConnection::builder(format!("127.0.0.1:{}", forwarder.port));
    let gateway = options(builder).connect().await.unwrap();
    let locks = locks_of(&gateway, &table.name, "silence", true).await;
    (forwarder, locks)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Thrift gateway"]
async fn silent_connection_ends_a_call_within_its_bound() {
    let _gateway = GATEWAY.read().await;
    let connection = connect().await;
    let table = lock_table(&connection, "thrift-silent", 1, true).await;
    let (forwarder, locks) = behind_forwarder(&table, |builder| builder.call_timeout(CALL)).await;
    forwarder.silence_existing();
    let began = Instant::now();
    let error = locks.show(Level::Dc, "a").await.unwrap_err();
    assert!(
        began.elapsed() >= CALL / 2 && began.elapsed() < SOON,
        "{:?}",
        began.elapsed()
    );
    assert_eq!(error.kind(), ClientErrorKind::DeadlineExceeded, "{error:?}");
    assert!(error.is_retryable() && !error.is_outcome_unknown(), "{error}");
    says(
        &error,
        &["did not answer in time", "call_timeout", "reading rows"],
    );
    // The next call opens a connection.
    within(CALL, locks.show(Level::Dc, "a")).await.unwrap();

    // A wait of an hour is not delayed longer either.
    forwarder.silence_existing();
    let request = locks.lock(Level::Dc, "a").unwrap().ttl(LEASE).wait(LONG);
    let guard = within(SOON, request.acquire()).await.unwrap();
    assert!(guard.release().await.unwrap().is_released());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Thrift gateway"]
async fn silent_connections_are_dropped_together() {
    let _gateway = GATEWAY.read().await;
    let connection = connect().await;
    let table = lock_table(&connection, "thrift-silent-all", 1, true).await;
    let (forwarder, locks) = behind_forwarder(&table, |builder| builder.call_timeout(CALL)).await;
    let look = || locks.show(Level::Dc, "a");
    futures::future::try_join_all((0..6).map(|_| look()))
        .await
        .unwrap();
    assert!(forwarder.accepted() > 1);
    forwarder.silence_existing();
    look().await.unwrap_err();
    for _ in 0..6 {
        within(CALL, look()).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Thrift gateway"]
async fn renewed_lock_outlives_its_silent_connections() {
    let _gateway = GATEWAY.read().await;
    let connection = connect().await;
    let table = lock_table(&connection, "thrift-renewed", 1, true).await;
    let (forwarder, locks) = behind_forwarder(&table, |builder| builder).await;
    let request = locks.lock(Level::Dc, "a").unwrap().ttl(SHORT).auto_renew();
    let guard = request.acquire().await.unwrap();
    forwarder.silence_existing();
    let beyond = timeout(SHORT * 2, guard.lost()).await;
    assert!(
        beyond.is_err(),
        "lost although the gateway is healthy: {beyond:?}"
    );
    assert!(guard.release().await.unwrap().is_released());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Thrift gateway"]
async fn renewal_that_arrives_late_changes_nothing() {
    let _gateway = GATEWAY.read().await;
    let connection = connect().await;
    for without_java_clients in [true, false] {
        let table = lock_table(&connection, "thrift-late", 1, without_java_clients).await;
        let native = lock_manager(&connection, &table.name, "silence").await;
        let forwarder = Forwarder::to(port()).await;
        let gateway = ThriftConnection::connect(format!("127.0.0.1:{}", forwarder.port))
            .await
            .unwrap();
        let locks = locks_of(&gateway, &table.name, "silence", without_java_clients).await;
        let guard = try_lock(&locks, "a", SHORT).await.unwrap();
        // Dials for renewals.
        guard.renew().await.unwrap();
        // The first call of this one waits in the forwarder; the renewal is sent again without it.
        forwarder.stop_behind(0);
        guard.renew().await.unwrap();
        let answered = forwarder.answered();
        forwarder.go_on();
        eventually("the gateway answers the late call", async || {
            (forwarder.answered() > answered).then_some(())
        })
        .await;
        let holder = native.show(Level::Dc, "a").await.unwrap().holder;
        assert!(
            holder
                .as_ref()
                .is_some_and(|holder| holder.token == Some(guard.token())),
            "{holder:?}"
        );
        let released = native.release(Level::Dc, "a", guard.detach()).await.unwrap();
        assert!(released.is_released(), "{released:?}");
        assert_eq!(native.show(Level::Dc, "a").await.unwrap().holder, None);
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Thrift gateway"]
async fn calls_to_a_dead_region_do_not_hold_up_renewals_and_releases() {
    let _gateway = GATEWAY.read().await;
    let connection = connect().await;
    let table = lock_table(&connection, "thrift-dead", 1, true).await;
    let (forwarder, locks) = behind_forwarder(&table, |builder| builder).await;
    let other = try_lock(&locks, "other", SHORT * 5).await.unwrap();
    let request = locks.lock(Level::Dc, "healthy").unwrap().ttl(SHORT).auto_renew();
    let guard = request.acquire().await.unwrap();
    forwarder.lose("#dead");
    let mut stuck = JoinSet::new();
    for number in 0..16 {
        let locks = locks.clone();
        stuck.spawn(async move { locks.show(Level::Dc, &format!("dead-{number}")).await });
    }
    eventually("all connections are in use", async || {
        (forwarder.accepted() >= CONNECTIONS).then_some(())
    })
    .await;
    let beyond = timeout(SHORT * 2, guard.lost()).await;
    assert!(beyond.is_err(), "lost to calls of other locks: {beyond:?}");
    assert!(stuck.try_join_next().is_none_or(|first| first.unwrap().is_err()));
    assert!(within(CALL, other.release()).await.unwrap().is_released());
    assert!(within(CALL, guard.release()).await.unwrap().is_released());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Thrift gateway"]
async fn lock_is_acquired_when_the_gateway_is_back() {
    let _gateway = GATEWAY.read().await;
    let connection = connect().await;
    let table = lock_table(&connection, "thrift-back", 1, true).await;
    let native = lock_manager(&connection, &table.name, "silence").await;
    let (mut forwarder, locks) = behind_forwarder(&table, |builder| builder).await;
    let held = native.lock(Level::Dc, "a").unwrap().ttl(LEASE).try_acquire();
    let held = held.await.unwrap().unwrap();
    let request = locks.lock(Level::Dc, "a").unwrap().ttl(LEASE).wait(LEASE);
    let mut waiting = tokio::spawn(request.acquire());
    let asked = forwarder.asked();
    eventually("it waits", async || (forwarder.asked() > asked + 2).then_some(())).await;
    forwarder.refuse().await;
    assert!(held.release().await.unwrap().is_released());
    let early = timeout(CALL, &mut waiting).await;
    assert!(early.is_err(), "{early:?}");
    forwarder.accept_again().await;
    let guard = within(SOON, waiting).await.unwrap().unwrap();
    assert!(guard.release().await.unwrap().is_released());

    // The same if the gateway is unavailable from the start; without a wait, the call fails at
    // once.
    forwarder.refuse().await;
    let request = locks.lock(Level::Dc, "a").unwrap().ttl(LEASE);
    // The client may find its connection closed before or during a call.
    let gone = [ClientErrorKind::Unreachable, ClientErrorKind::ConnectionLost].map(ErrorKind::from);
    let error = within(CALL, request.clone().acquire()).await.unwrap_err();
    assert!(gone.contains(&error.kind()), "{error:?}");
    let error = within(CALL * 2, request.clone().wait(CALL).acquire())
        .await
        .unwrap_err();
    assert!(gone.contains(&error.kind()), "{error:?}");
    let mut waiting = tokio::spawn(request.wait(LEASE).acquire());
    let early = timeout(CALL, &mut waiting).await;
    assert!(early.is_err(), "{early:?}");
    forwarder.accept_again().await;
    let guard = within(SOON, waiting).await.unwrap().unwrap();
    assert!(guard.release().await.unwrap().is_released());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Thrift gateway"]
async fn wait_ends_with_an_error_that_will_not_pass() {
    let _gateway = GATEWAY.read().await;
    let connection = connect().await;
    let table = lock_table(&connection, "thrift-final", 1, true).await;
    let native = lock_manager(&connection, &table.name, "silence").await;
    let (forwarder, locks) = behind_forwarder(&table, |builder| builder).await;
    let held = native.lock(Level::Dc, "a").unwrap().ttl(LEASE).try_acquire();
    let held = held.await.unwrap().unwrap();
    let request = locks.lock(Level::Dc, "a").unwrap().ttl(LEASE).wait(LONG);
    let waiting = tokio::spawn(request.acquire());
    let asked = forwarder.asked();
    eventually("it waits", async || (forwarder.asked() > asked + 2).then_some(())).await;
    forwarder.garble();
    let error = within(SOON, waiting).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::Protocol, "{error:?}");
    assert!(held.release().await.unwrap().is_released());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Thrift gateway"]
async fn count_comes_to_its_end_when_the_gateway_is_back() {
    let _gateway = GATEWAY.read().await;
    let connection = connect().await;
    let table = latch_table(&connection, "thrift-count", 1, true).await;
    let mut forwarder = Forwarder::to(port()).await;
    let gateway = ThriftConnection::connect(format!("127.0.0.1:{}", forwarder.port));
    let latches = latches_of(&gateway.await.unwrap(), &table.name, "svc", "fra").await;
    let latch = latches.latch(Level::Dc, "a").unwrap();
    latch.init(10, LONG).await.unwrap();
    // The count has read the latch, and its note is about to be written.
    forwarder.stop_behind(1);
    let mut counting = tokio::spawn({
        let latch = latches.latch(Level::Dc, "a").unwrap();
        async move { latch.count_down(1).await }
    });
    eventually("it writes", async || forwarder.has_stopped().then_some(())).await;
    forwarder.refuse().await;
    forwarder.go_on();
    let early = timeout(CALL, &mut counting).await;
    assert!(early.is_err(), "{early:?}");
    forwarder.accept_again().await;
    assert_eq!(within(SOON, counting).await.unwrap().unwrap().left, 9);
    assert_eq!(latch.count_down(1).await.unwrap().left, 8);
}
