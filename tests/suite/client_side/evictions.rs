//! Forced releases of holds in slots: leaderships, readers and writers, permits.

use std::time::Duration;

use hbase_txn::{
    ErrorKind, Level,
    client::{Connection, TableDescriptor, TableName},
    coordination::{Election, ReadWriteLock, Semaphore},
    lock::{LockGuard, LockHolder, LockLoss, LockManager, LockTableOptions, ReleaseOutcome},
};
use tokio::time::{sleep, timeout};

use crate::support::{
    connect, eventually,
    lock_rows::lock_manager,
    table::{SharedTable, TestTable},
    within,
};

static TABLE: SharedTable = SharedTable::new("evictions", lock_table, &[]);

fn lock_table(name: TableName) -> TableDescriptor {
    LockTableOptions::from(name).descriptor()
}

/// No renewal is due within a test.
const LEASE: Duration = Duration::from_secs(80);
const SHORT: Duration = Duration::from_secs(3);
const SOON: Duration = Duration::from_secs(20);

/// Creates the locks of a separate process.
async fn process(connection: &Connection, table: &TestTable) -> LockManager {
    lock_manager(connection, &table.name, "evict").await
}

/// Asserts that a holder notices its eviction.
async fn learns(guard: LockGuard) {
    assert_eq!(guard.renew().await.unwrap_err().kind(), ErrorKind::LockLost);
    let loss = within(SOON, guard.lost()).await;
    assert!(matches!(loss, LockLoss::Removed | LockLoss::Taken(_)), "{loss:?}");
    assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Lost(loss));
}

fn assert_hit(evicted: Option<LockHolder>, guard: &LockGuard) {
    let evicted = evicted.expect("the holder is evicted");
    assert_eq!(evicted.token, Some(guard.token()));
    assert_eq!(evicted.name.as_deref(), Some("tester"));
}

#[tokio::test]
async fn leader_is_evicted_and_the_next_one_leads() {
    let (connection, table) = (connect().await, TABLE.get().await);
    let (one, other) = (
        process(&connection, &table).await,
        process(&connection, &table).await,
    );
    let election = |locks: &LockManager| Election::new(locks, Level::Dc, "leader").unwrap();
    let (one, other) = (election(&one), election(&other));
    let leadership = one.campaign().ttl(SHORT).lead().await.unwrap();
    let next = tokio::spawn(other.campaign().ttl(LEASE).wait(SOON).lead());
    let leader = other.leader().await.unwrap().unwrap();
    let token = leader.holder.token.unwrap();
    assert_hit(other.force_release(token).await.unwrap(), leadership.guard());
    // The background renewal notices it.
    let loss = within(SOON, leadership.lost()).await;
    assert!(matches!(loss, LockLoss::Removed | LockLoss::Taken(_)), "{loss:?}");
    assert!(!leadership.is_leader());
    let next = within(SOON, next).await.unwrap().unwrap();
    assert!(next.term() > leadership.term());
    // A forced release of the old token does not affect the new leader.
    assert_eq!(one.force_release(token).await.unwrap(), None);
    next.guard().renew().await.unwrap();
    assert!(next.resign().await.unwrap().is_released());
    assert!(!leadership.resign().await.unwrap().is_released());
}

#[tokio::test]
async fn readers_and_writers_are_evicted_one_by_one() {
    let (connection, table) = (connect().await, TABLE.get().await);
    let (one, other) = (
        process(&connection, &table).await,
        process(&connection, &table).await,
    );
    let lock = |locks: &LockManager| ReadWriteLock::new(locks, Level::Dc, "rw").unwrap();
    let (one, other) = (lock(&one), lock(&other));
    let evicted = one.read().ttl(LEASE).acquire().await.unwrap();
    let stays = one.read().ttl(LEASE).acquire().await.unwrap();
    assert_hit(other.force_release(evicted.token()).await.unwrap(), &evicted);
    let readers = other.show().await.unwrap().readers;
    assert_eq!(readers.len(), 1, "{readers:?}");
    assert_eq!(readers[0].token, Some(stays.token()));
    assert_eq!(other.force_release(evicted.token()).await.unwrap(), None);
    let writing = tokio::spawn(other.write().ttl(LEASE).wait(SOON).acquire());
    assert_hit(other.force_release(stays.token()).await.unwrap(), &stays);
    let writer = within(SOON, writing).await.unwrap().unwrap();
    learns(evicted).await;
    learns(stays).await;
    let reading = tokio::spawn(one.read().ttl(LEASE).wait(SOON).acquire());
    assert_hit(one.force_release(writer.token()).await.unwrap(), &writer);
    let reader = within(SOON, reading).await.unwrap().unwrap();
    assert!(reader.fencing() > writer.fencing());
    learns(writer).await;
    assert!(reader.release().await.unwrap().is_released());
}

#[tokio::test]
async fn writer_evicted_while_it_waits_does_not_write_beside_the_next() {
    let (connection, table) = (connect().await, TABLE.get().await);
    let (one, other) = (
        process(&connection, &table).await,
        process(&connection, &table).await,
    );
    let lock = |locks: &LockManager| ReadWriteLock::new(locks, Level::Dc, "waiting").unwrap();
    let (one, other) = (lock(&one), lock(&other));
    let reader = one.read().ttl(LEASE).acquire().await.unwrap();
    let mut first = tokio::spawn(one.write().ttl(LEASE).wait(SOON).acquire());
    let waits = eventually("a writer waits", async || one.show().await.unwrap().writer).await;
    let evicted = one.force_release(waits.token.unwrap()).await.unwrap();
    assert_eq!(evicted.and_then(|holder| holder.token), waits.token);
    let mut second = tokio::spawn(other.write().ttl(LEASE).wait(SOON).acquire());
    eventually("another has its place", async || {
        let writer = one.show().await.unwrap().writer?;
        (writer.token != waits.token).then_some(())
    })
    .await;
    assert!(reader.release().await.unwrap().is_released());
    let (writer, next) = tokio::select! {
        writer = &mut first => (writer, second),
        writer = &mut second => (writer, first),
    };
    let writer = writer.unwrap().unwrap();
    // A waiting writer polls at least twice a second.
    let mut next = next;
    let beside = timeout(Duration::from_millis(1_500), &mut next).await;
    assert!(beside.is_err(), "two write: {writer:?} and {beside:?}");
    assert!(writer.release().await.unwrap().is_released());
    let next = within(SOON, next).await.unwrap().unwrap();
    assert!(next.release().await.unwrap().is_released());
}

#[tokio::test]
async fn holder_of_permits_is_evicted_from_all_of_them() {
    let (connection, table) = (connect().await, TABLE.get().await);
    let (one, other) = (
        process(&connection, &table).await,
        process(&connection, &table).await,
    );
    let semaphore = Semaphore::create(&one, Level::Dc, "permits", 40).await.unwrap();
    let other = Semaphore::open(&other, Level::Dc, "permits").await.unwrap();
    let many = semaphore.acquire_many(30).ttl(LEASE).acquire().await.unwrap();
    // A lease so long that its release deletes the cell instead of overwriting it.
    let few = semaphore
        .acquire_many(10)
        .ttl(10 * LEASE)
        .acquire()
        .await
        .unwrap();
    let waiting = tokio::spawn(other.acquire_many(30).ttl(LEASE).wait(SOON).acquire());
    assert_hit(other.force_release(many.token()).await.unwrap(), &many);
    let next = within(SOON, waiting).await.unwrap().unwrap();
    let holders = other.show().await.unwrap().holders;
    let mut tokens: Vec<_> = holders
        .iter()
        .map(|held| (held.permits, held.holder.token.unwrap()))
        .collect();
    tokens.sort_by_key(|held| held.0);
    assert_eq!(tokens, [(10, few.token()), (30, next.token())]);
    assert_eq!(other.force_release(many.token()).await.unwrap(), None);
    assert_hit(other.force_release(few.token()).await.unwrap(), &few);
    assert_eq!(other.show().await.unwrap().available, 10);
    // A release reports the loss, too, without a renewal before it.
    assert_eq!(
        few.release().await.unwrap(),
        ReleaseOutcome::Lost(LockLoss::Removed)
    );
    learns(many).await;
    assert!(next.release().await.unwrap().is_released());
}

#[tokio::test]
async fn holder_that_has_gone_is_not_reported_as_evicted() {
    let (connection, table) = (connect().await, TABLE.get().await);
    let locks = process(&connection, &table).await;
    let semaphore = Semaphore::create(&locks, Level::Dc, "gone", 2).await.unwrap();
    let expired = semaphore
        .permit()
        .ttl(Duration::from_millis(200))
        .acquire()
        .await
        .unwrap();
    within(SOON, expired.lost()).await;
    eventually("the server's lease is over", async || {
        (semaphore.show().await.unwrap().available == 2).then_some(())
    })
    .await;
    assert_eq!(semaphore.force_release(expired.token()).await.unwrap(), None);
    // Of a concurrent release and eviction, exactly one ends the hold.
    let election = Election::new(&locks, Level::Dc, "gone").unwrap();
    let (mut released, mut evicted) = (0, 0);
    for round in 0..60_u64 {
        let guard = election.campaign().ttl(LEASE).lead().await.unwrap().into_guard();
        let token = guard.token();
        let eviction = async {
            sleep(Duration::from_micros(round % 6 * 200)).await;
            election.force_release(token).await.unwrap()
        };
        let releasing = async {
            // An eviction takes longer on a busy machine, so later rounds wait for longer.
            sleep(Duration::from_millis(round % 5 * round)).await;
            guard.release().await.unwrap()
        };
        let (release, eviction) = tokio::join!(releasing, eviction);
        assert_eq!(
            release.is_released(),
            eviction.is_none(),
            "{release:?} {eviction:?}"
        );
        released += u32::from(release.is_released());
        evicted += u32::from(eviction.is_some());
    }
    assert!(
        released > 0 && evicted > 0,
        "{released} released, {evicted} evicted"
    );
}
