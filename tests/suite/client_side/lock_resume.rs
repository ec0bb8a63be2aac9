//! Guards from a token: locks that another process, or an earlier run, acquired and detached.

use std::time::{Duration, Instant};

use hbase_txn::{
    Error, ErrorKind, Level,
    client::{Connection, TableDescriptor, TableName},
    lock::{LockGuard, LockManager, LockTableOptions, LockToken, MIN_LEASE},
};
use tokio::time::sleep;

use crate::{
    client_side::dropped::{at_every_wait, polled},
    support::{
        connect,
        lock_rows::lock_manager,
        says,
        table::{SharedTable, TestTable},
        within,
    },
};

static SHARED: SharedTable = SharedTable::new("resume", shared_with_java, &[]);
static OURS: SharedTable = SharedTable::new("resume-ours", without_java_clients, &[]);

const LEASE: Duration = Duration::from_secs(20);

fn shared_with_java(name: TableName) -> TableDescriptor {
    LockTableOptions::from(name).descriptor()
}

fn without_java_clients(name: TableName) -> TableDescriptor {
    LockTableOptions::from(name).without_java_clients().descriptor()
}

/// Opens the lock managers of two processes on one table.
async fn two(connection: &Connection, table: &TestTable) -> [LockManager; 2] {
    [
        lock_manager(connection, &table.name, "resume").await,
        lock_manager(&connect().await, &table.name, "resume").await,
    ]
}

async fn acquire(locks: &LockManager, id: &str, lease: Duration) -> LockGuard {
    let request = locks.lock(Level::Dc, id).unwrap().ttl(lease);
    request.acquire().await.unwrap()
}

async fn resume(locks: &LockManager, id: &str, token: LockToken) -> Result<LockGuard, Error> {
    locks.lock(Level::Dc, id).unwrap().ttl(LEASE).resume(token).await
}

async fn holder(locks: &LockManager, id: &str) -> Option<LockToken> {
    locks.show(Level::Dc, id).await.unwrap().holder?.token
}

#[tokio::test]
async fn resumed_guard_has_the_remaining_lease_and_a_higher_number() {
    const ELAPSED: Duration = Duration::from_millis(1_500);
    let connection = connect().await;
    for shared in [&SHARED, &OURS] {
        let table = &shared.get().await;
        let [one, other] = two(&connection, table).await;
        let acquired = Instant::now();
        let guard = acquire(&one, "a", LEASE).await;
        let fencing = guard.fencing();
        let token = guard.detach();
        sleep(ELAPSED).await;

        let request = other.lock(Level::Dc, "a").unwrap().ttl(3 * LEASE);
        let guard = request.skew_margin(Duration::ZERO).resume(token).await.unwrap();
        let (remaining, elapsed) = (guard.remaining(), acquired.elapsed());
        assert!(remaining <= LEASE - ELAPSED, "{remaining:?}");
        assert!(
            remaining + elapsed + Duration::from_secs(1) > LEASE,
            "{remaining:?} of {LEASE:?} after {elapsed:?}"
        );
        assert!(guard.token() == token && guard.fencing() > fencing);
        assert!(
            one.lock(Level::Dc, "a")
                .unwrap()
                .try_acquire()
                .await
                .unwrap()
                .is_none()
        );

        // From here on the lease is that of the request.
        guard.renew().await.unwrap();
        assert!(guard.remaining() > 2 * LEASE);
        assert!(guard.release().await.unwrap().is_released());
        assert_eq!(holder(&one, "a").await, None);
    }
}

#[tokio::test]
async fn resumed_guard_is_lost_before_another_process_acquires() {
    const SHORT: Duration = Duration::from_secs(3);
    let connection = connect().await;
    for shared in [&SHARED, &OURS] {
        let table = &shared.get().await;
        let [one, other] = two(&connection, table).await;
        let token = acquire(&one, "end", SHORT).await.detach();
        sleep(SHORT / 3).await;
        let guard = resume(&other, "end", token).await.unwrap();
        let lost = async {
            guard.lost().await;
            Instant::now()
        };
        let next = async {
            let request = one.lock(Level::Dc, "end").unwrap().wait(2 * LEASE);
            (request.acquire().await.unwrap(), Instant::now())
        };
        let (lost, (next, since)) = within(2 * SHORT, async { tokio::join!(lost, next) }).await;
        assert!(lost <= since, "held {:?} beside the next", lost - since);
        assert!(next.release().await.unwrap().is_released());
    }
}

#[tokio::test]
async fn resumed_guard_is_renewed_as_requested() {
    const SHORT: Duration = Duration::from_secs(2);
    let (connection, table) = (connect().await, OURS.get().await);
    let [one, other] = two(&connection, &table).await;
    let token = acquire(&one, "renewed", SHORT).await.detach();
    let request = other.lock(Level::Dc, "renewed").unwrap().ttl(SHORT).auto_renew();
    let guard = request.resume(token).await.unwrap();
    sleep(2 * SHORT).await;
    assert!(guard.is_held());
    assert_eq!(holder(&one, "renewed").await, Some(token));
    assert!(guard.release().await.unwrap().is_released());
}

#[tokio::test]
async fn tokens_that_do_not_hold_the_lock_are_not_resumed() {
    let connection = connect().await;
    for shared in [&SHARED, &OURS] {
        let table = &shared.get().await;
        let [one, other] = two(&connection, table).await;
        let is_lost = |resumed: Result<LockGuard, Error>, texts: &[&str]| {
            let error = resumed.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::LockLost, "{error}");
            says(&error, texts);
        };
        let expired = acquire(&one, "b", MIN_LEASE).await.detach();
        sleep(3 * MIN_LEASE).await;
        is_lost(resume(&other, "b", expired).await, &["lease", "DC#fra#resume#b"]);

        let guard = acquire(&one, "b", LEASE).await;
        is_lost(resume(&other, "b", expired).await, &["taken by tester"]);
        let stranger: LockToken = "0".repeat(32).parse().unwrap();
        is_lost(resume(&other, "b", stranger).await, &["taken by tester"]);
        assert!(guard.is_held());
        assert_eq!(holder(&one, "b").await, Some(guard.token()));

        let released = guard.token();
        assert!(guard.release().await.unwrap().is_released());
        is_lost(resume(&other, "b", released).await, &["lease"]);
        assert_eq!(holder(&one, "b").await, None);
    }
}

#[tokio::test]
async fn lease_ending_within_the_margin_is_neither_resumed_nor_released() {
    let (connection, table) = (connect().await, OURS.get().await);
    let [one, other] = two(&connection, &table).await;
    let token = acquire(&one, "margin", LEASE / 2).await.detach();
    let request = other.lock(Level::Dc, "margin").unwrap().ttl(LEASE);
    let resumed = request.clone().skew_margin(LEASE / 2).resume(token).await;
    assert_eq!(resumed.unwrap_err().kind(), ErrorKind::LockLost);
    let error = request
        .clone()
        .ttl(Duration::ZERO)
        .resume(token)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), hbase_txn::ClientErrorKind::InvalidInput);
    assert_eq!(holder(&one, "margin").await, Some(token));
    let guard = request.resume(token).await.unwrap();
    assert!(guard.release().await.unwrap().is_released());
}

#[tokio::test]
async fn dropped_resume_leaves_the_lock_held() {
    let (connection, table) = (connect().await, OURS.get().await);
    let locks = lock_manager(&connection, &table.name, "resume").await;
    let token = acquire(&locks, "dropped", 3 * LEASE).await.detach();
    at_every_wait(async |times, connection| {
        let mine = lock_manager(&connection, &table.name, "resume").await;
        let done = polled(resume(&mine, "dropped", token), times).await;
        let over = done.map(|resumed| resumed.unwrap().detach()).is_some();
        assert_eq!(holder(&locks, "dropped").await, Some(token));
        over
    })
    .await;
    assert!(
        locks
            .release(Level::Dc, "dropped", token)
            .await
            .unwrap()
            .is_released()
    );
}
