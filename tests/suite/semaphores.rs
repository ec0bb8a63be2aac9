//! Semaphores: the number of held permits never exceeds the limit, whatever happens to the holders.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use hbase_txn::{
    ClientErrorKind, ErrorKind, Level,
    client::{Connection, Get, Scan, TableDescriptor, TableName},
    coordination::Semaphore,
    lock::{LockGuard, LockLoss, LockManager, LockTableOptions, ReleaseOutcome},
};
use tokio::task::JoinSet;

use crate::{
    client_side::dropped::{at_every_wait, polled},
    proxy::{Action, Proxy},
    support::{
        connect, connect_by, eventually, forwarded,
        lock_rows::lock_manager,
        spied, standalone,
        table::{SharedTable, TestTable},
        within,
    },
};

static TABLE: SharedTable = SharedTable::new("semaphores", lock_table, &[]);

fn lock_table(name: TableName) -> TableDescriptor {
    LockTableOptions::from(name).descriptor()
}

const CLIENT: &str = "sem";
/// Longer than a test, so that an expired lease is not mistaken for a release.
const LEASE: Duration = Duration::from_secs(80);
const SOON: Duration = Duration::from_secs(20);

async fn locks(connection: &Connection, table: &TestTable) -> LockManager {
    lock_manager(connection, &table.name, CLIENT).await
}

async fn create(connection: &Connection, table: &TestTable, id: &str, permits: u32) -> Semaphore {
    let locks = locks(connection, table).await;
    Semaphore::create(&locks, Level::Dc, id, permits).await.unwrap()
}

async fn take(semaphore: &Semaphore, count: u32) -> Option<LockGuard> {
    let request = semaphore.acquire_many(count).ttl(LEASE);
    request.try_acquire().await.unwrap()
}

async fn give(guard: LockGuard) {
    assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
}

/// Returns the table's row with this key, which follows a salt byte.
async fn find_row(connection: &Connection, table: &TestTable, key: &str) -> Bytes {
    let mut scanner = table.of(connection).scan(Scan::new()).unwrap();
    while let Some(row) = scanner.next().await.unwrap() {
        if row.key()[1..] == *key.as_bytes() {
            return row.key().clone();
        }
    }
    panic!("no row has the key {key}");
}

async fn available(semaphore: &Semaphore) -> u32 {
    semaphore.show().await.unwrap().available
}

#[tokio::test]
async fn semaphore_has_its_number_of_permits_and_rising_numbers() {
    let (connection, table) = (connect().await, TABLE.get().await);
    let one = create(&connection, &table, "counted", 3).await;
    let other = create(&connection, &table, "counted", 3).await;
    let mut last = 0;
    for _ in 0..5 {
        let mut held = Vec::new();
        for semaphore in [&one, &other, &one] {
            let guard = take(semaphore, 1).await.expect("there is a permit");
            assert!(guard.fencing() > last);
            last = guard.fencing();
            held.push(guard);
        }
        assert!(take(&other, 1).await.is_none());
        let info = one.show().await.unwrap();
        assert_eq!((info.permits, info.available, info.holders.len()), (3, 0, 3));
        assert_eq!(info.fencing, Some(last));
        assert_eq!(info.holders[0].holder.name.as_deref(), Some("tester"));
        for guard in held {
            give(guard).await;
        }
    }
    assert_eq!(available(&one).await, 3);
}

#[tokio::test]
async fn several_permits_are_had_together_or_not_at_all() {
    let (connection, table) = (connect().await, TABLE.get().await);
    let semaphore = create(&connection, &table, "together", 4).await;
    let three = take(&semaphore, 3).await.unwrap();
    assert!(take(&semaphore, 2).await.is_none());
    assert_eq!(
        available(&semaphore).await,
        1,
        "nothing is kept of what was not had"
    );
    let one = take(&semaphore, 1).await.unwrap();
    let info = semaphore.show().await.unwrap();
    let mut counts: Vec<u32> = info.holders.iter().map(|holder| holder.permits).collect();
    counts.sort_unstable();
    assert_eq!(counts, [1, 3]);
    three.renew().await.unwrap();
    give(one).await;
    assert_eq!(available(&semaphore).await, 1);
    give(three).await;
    give(take(&semaphore, 4).await.unwrap()).await;
}

#[tokio::test]
async fn waiter_gets_a_released_permit_or_the_holders_names() {
    let (connection, table) = (connect().await, TABLE.get().await);
    let one = create(&connection, &table, "waited", 2).await;
    let other = create(&connection, &table, "waited", 2).await;
    let (first, second) = (take(&one, 1).await.unwrap(), take(&one, 1).await.unwrap());
    let error = other
        .permit()
        .wait(Duration::from_millis(300))
        .acquire()
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LockUnavailable);
    let text = error.to_string();
    for part in [
        "SEM#DC#fra#sem#waited",
        "tester",
        "2 are held",
        &table.name.to_string(),
    ] {
        assert!(text.contains(part), "{text}");
    }
    let waiting = tokio::spawn(other.permit().ttl(LEASE).wait(SOON).acquire());
    let behind = tokio::spawn(other.permit().ttl(LEASE).wait(SOON).acquire());
    give(first).await;
    give(second).await;
    for waiter in [waiting, behind] {
        give(waiter.await.unwrap().unwrap()).await;
    }
}

#[tokio::test]
async fn a_lease_ends_by_itself_and_a_renewed_one_does_not() {
    let (connection, table) = (connect().await, TABLE.get().await);
    let semaphore = create(&connection, &table, "leases", 2).await;
    // A busy machine renews late, and would lose a shorter lease.
    let lease = Duration::from_secs(12);
    let renewed = semaphore
        .permit()
        .ttl(lease)
        .auto_renew()
        .acquire()
        .await
        .unwrap();
    let short = semaphore.permit().ttl(lease / 2).acquire().await.unwrap();
    let began = Instant::now();
    assert!(take(&semaphore, 1).await.is_none());
    assert_eq!(short.lost().await, LockLoss::Expired);
    let next = eventually("the lease is over", async || take(&semaphore, 1).await).await;
    assert!(next.fencing() > short.fencing());
    while began.elapsed() < lease * 3 / 2 {
        if !renewed.is_held() {
            panic!("{}, after {:?}", renewed.lost().await, began.elapsed());
        }
        assert!(take(&semaphore, 1).await.is_none());
    }
    assert!(!short.release().await.unwrap().is_released());
    give(renewed).await;
    give(next).await;
}

#[tokio::test]
async fn a_holder_that_crashes_leaves_its_permits_to_their_leases() {
    let (connection, table) = (connect().await, TABLE.get().await);
    let semaphore = create(&connection, &table, "crash", 2).await;
    let crashing = connect().await;
    let theirs = create(&crashing, &table, "crash", 2).await;
    let lease = Duration::from_secs(2);
    let guard = theirs
        .acquire_many(2)
        .ttl(lease)
        .auto_renew()
        .acquire()
        .await
        .unwrap();
    let began = Instant::now();
    // Nothing that it sends reaches the server any more, not even a release.
    crashing.close().await;
    drop(guard);
    let next = semaphore.acquire_many(2).ttl(LEASE).wait(SOON).acquire();
    let next = next.await.unwrap();
    assert!(
        began.elapsed() < lease + Duration::from_secs(2),
        "{:?}",
        began.elapsed()
    );
    give(next).await;
}

#[tokio::test]
async fn a_token_renews_and_releases_permits_of_another_process() {
    let (connection, table) = (connect().await, TABLE.get().await);
    let semaphore = create(&connection, &table, "tokens", 3).await;
    let token = take(&semaphore, 2).await.unwrap().detach();
    assert_eq!(available(&semaphore).await, 1);
    assert_eq!(semaphore.renew(token, 3 * LEASE).await.unwrap(), Ok(()));
    let info = semaphore.show().await.unwrap();
    assert_eq!((info.holders.len(), info.holders[0].permits), (1, 2));
    assert!(info.holders[0].holder.lease >= Some(3 * LEASE));
    let error = semaphore.renew(token, Duration::ZERO).await.unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::InvalidInput);
    assert_eq!(semaphore.release(token).await.unwrap(), ReleaseOutcome::Released);
    assert_eq!(
        semaphore.renew(token, LEASE).await.unwrap(),
        Err(LockLoss::Expired)
    );
    assert_eq!(
        semaphore.release(token).await.unwrap(),
        ReleaseOutcome::Lost(LockLoss::Expired)
    );
    assert_eq!(available(&semaphore).await, 3);
}

#[tokio::test]
async fn a_smaller_semaphore_hands_out_nothing_until_enough_has_ended() {
    let (connection, table) = (connect().await, TABLE.get().await);
    let semaphore = create(&connection, &table, "resized", 3).await;
    let other = create(&connection, &table, "resized", 3).await;
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(take(&other, 1).await.unwrap());
    }
    // Permits within and beyond the new number end in random order.
    fastrand::shuffle(&mut held);
    semaphore.resize(1).await.unwrap();
    // A client that does not know of the new number reads it with the result of its own write.
    assert!(take(&other, 1).await.is_none());
    assert_eq!(other.permits(), 1);
    assert!(held.iter().all(LockGuard::is_held));
    for guard in held {
        assert!(take(&semaphore, 1).await.is_none());
        give(guard).await;
    }
    give(take(&other, 1).await.unwrap()).await;
    let error = other.acquire_many(2).acquire().await.unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::InvalidInput);
    semaphore.resize(5).await.unwrap();
    give(take(&other, 5).await.unwrap()).await;
    semaphore.resize(5).await.unwrap();
}

#[tokio::test]
async fn deleted_semaphore_is_gone_for_all_and_can_be_created_again() {
    let (connection, table) = (connect().await, TABLE.get().await);
    let locks = locks(&connection, &table).await;
    for round in 1..=20 {
        let semaphore = Semaphore::create(&locks, Level::Dc, "again", round)
            .await
            .unwrap();
        let held = take(&semaphore, 1).await.unwrap();
        assert!(semaphore.delete().await.unwrap());
        assert!(!semaphore.delete().await.unwrap());
        let error = semaphore.permit().acquire().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::SemaphoreAbsent, "{error}");
        let error = Semaphore::open(&locks, Level::Dc, "again").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::SemaphoreAbsent, "{error}");
        give(held).await;
    }
}

/// Other tasks create it again as soon as it is gone, with the same number of permits. A deletion
/// deletes one of them and no more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn semaphore_created_during_a_delete_stays() {
    let (connection, table) = (connect().await, TABLE.get().await);
    let locks = locks(&connection, &table).await;
    let semaphore = Semaphore::create(&locks, Level::Dc, "anew", 4).await.unwrap();
    let row = find_row(&connection, &table, semaphore.key()).await;
    for _ in 0..20 {
        let is_deleted = Arc::new(AtomicBool::new(false));
        let defined = {
            let (locks, rows, row) = (locks.clone(), table.of(&connection), row.clone());
            async move || {
                Semaphore::create(&locks, Level::Dc, "anew", 4).await.unwrap();
                let found = rows.get(Get::new(row.clone())).await.unwrap()?;
                Some(found.cell("D", "P")?.timestamp)
            }
        };
        let mut seen = BTreeSet::from_iter(defined().await);
        let mut creators = JoinSet::new();
        for _ in 0..8 {
            let (defined, is_deleted) = (defined.clone(), Arc::clone(&is_deleted));
            creators.spawn(async move {
                let mut seen = BTreeSet::new();
                while !is_deleted.load(Ordering::Relaxed) {
                    seen.extend(defined().await);
                }
                seen.extend(defined().await);
                seen
            });
        }
        assert!(semaphore.delete().await.unwrap());
        is_deleted.store(true, Ordering::Relaxed);
        seen.extend(creators.join_all().await.into_iter().flatten());
        assert!(seen.len() <= 2, "it was deleted more than once: {seen:?}");
    }
}

/// A request that gets only some of its permits holds none, and does not block its own retry.
#[tokio::test]
async fn request_with_a_part_of_its_permits_retries_and_holds_none() {
    let (connection, table) = (connect().await, TABLE.get().await);
    let semaphore = create(&connection, &table, "part", 3).await;
    let held = take(&semaphore, 1).await.unwrap();
    for _ in 0..10 {
        // The request has not read the row yet, and so may try a held permit.
        let both = take(&semaphore, 2).await.expect("two of three permits are free");
        give(both).await;
        let error = semaphore.acquire_many(3).acquire().await.unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("3 of 3 permits are not available: 1 are held"),
            "{text}"
        );
    }
    give(held).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permits_are_never_exceeded_by_many_who_come_and_go() {
    const PERMITS: u32 = 3;
    /// Longer only on a machine that is too busy for a few cycles.
    const SPINS: Duration = Duration::from_secs(4);
    let table = TABLE.get().await;
    let inside = Arc::new(AtomicUsize::new(0));
    let cycles = Arc::new(AtomicUsize::new(0));
    let mut owners = JoinSet::new();
    let began = Instant::now();
    for owner in 0..6_u32 {
        // Each owner has a connection, and counts as a process of its own.
        let connection = connect().await;
        let semaphore = create(&connection, &table, "spinning", PERMITS).await;
        let (inside, cycles) = (Arc::clone(&inside), Arc::clone(&cycles));
        owners.spawn(async move {
            let mut last = 0;
            while began.elapsed() < SPINS || (cycles.load(Ordering::Relaxed) <= 50 && began.elapsed() < SOON)
            {
                let count = 1 + (owner + fastrand::u32(..)) % 2;
                let request = semaphore.acquire_many(count).ttl(LEASE).wait(SOON);
                let guard = request.acquire().await.unwrap();
                let now = inside.fetch_add(count as usize, Ordering::SeqCst) + count as usize;
                assert!(now <= PERMITS as usize, "{now} permits are held");
                assert!(guard.fencing() > last);
                last = guard.fencing();
                if fastrand::bool() {
                    tokio::task::yield_now().await;
                }
                inside.fetch_sub(count as usize, Ordering::SeqCst);
                give(guard).await;
                cycles.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    while let Some(ended) = owners.join_next().await {
        ended.unwrap();
    }
    let cycles = cycles.load(Ordering::Relaxed);
    println!("{cycles} cycles");
    assert!(cycles > 50, "{cycles}");
}

#[tokio::test]
async fn a_free_permit_costs_one_call_to_take_and_one_to_give_back() {
    let table = TABLE.get().await;
    let (connection, spy) = spied().await;
    let semaphore = create(&connection, &table, "cost", 64).await;
    for count in [1, 10] {
        let before = spy.multi_calls();
        let guard = take(&semaphore, count).await.unwrap();
        assert_eq!(spy.multi_calls() - before, 1);
        give(guard).await;
        assert_eq!(spy.multi_calls() - before, 2);
    }
}

#[tokio::test]
async fn a_dropped_acquire_leaves_no_permit_held() {
    let (other, table) = (connect().await, TABLE.get().await);
    at_every_wait(async |times, connection| {
        let id = format!("dropped-{times}");
        let semaphore = create(&connection, &table, &id, 2).await;
        let done = polled(semaphore.acquire_many(2).ttl(LEASE).acquire(), times).await;
        let over = done.is_some();
        drop(done);
        let others = create(&other, &table, &id, 2).await;
        let all = others.acquire_many(2).ttl(LEASE).wait(SOON).acquire();
        give(within(SOON, all).await.unwrap()).await;
        // The queue of the process's tasks is free as well.
        let again = semaphore.acquire_many(2).ttl(LEASE).wait(SOON).acquire();
        give(within(SOON, again).await.unwrap()).await;
        over
    })
    .await;
}

#[tokio::test]
async fn a_dropped_acquire_that_waits_leaves_no_permit_held() {
    let (connection, table) = (connect().await, TABLE.get().await);
    let semaphore = create(&connection, &table, "dropped-waiting", 1).await;
    for times in (1..40).step_by(3) {
        let held = semaphore.permit().ttl(LEASE).wait(SOON).acquire().await.unwrap();
        let done = polled(semaphore.permit().ttl(LEASE).wait(SOON).acquire(), times).await;
        assert!(done.is_none(), "it is held");
        give(held).await;
    }
    let last = semaphore.permit().ttl(LEASE).wait(SOON).acquire();
    give(within(SOON, last).await.unwrap()).await;
}

#[tokio::test]
async fn semaphore_is_created_within_one_timeout_or_not_at_all() {
    const TIMEOUT: Duration = Duration::from_secs(4);
    let table = TABLE.get().await;
    let config = standalone().config().with_operation_timeout(TIMEOUT);
    let (connection, forwarder) = forwarded(config).await;
    let locks = locks(&connection, &table).await;
    let absent = Semaphore::open(&locks, Level::Dc, "silent").await.unwrap_err();
    assert_eq!(absent.kind(), ErrorKind::SemaphoreAbsent);
    // The read of the row takes most of the time, and the next call is never answered.
    forwarder.stop_behind(0);
    let until = Instant::now() + TIMEOUT * 3 / 4;
    let passing = async {
        eventually("most of the time is over", async || {
            (forwarder.has_stopped() && Instant::now() >= until).then_some(())
        })
        .await;
        forwarder.stop_behind(0);
    };
    let creating = Semaphore::create(&locks, Level::Dc, "silent", 3);
    let (created, ()) = within(TIMEOUT, async { tokio::join!(creating, passing) }).await;
    let error = created.unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::DeadlineExceeded, "{error:?}");
    assert!(forwarder.has_stopped());
}

#[tokio::test]
async fn late_request_of_a_resize_does_not_change_what_a_later_one_set() {
    let (connection, table) = (connect().await, TABLE.get().await);
    let semaphore = create(&connection, &table, "late", 3).await;
    let proxy = Proxy::new();
    let config = standalone()
        .config()
        .with_write_timeout(Duration::from_millis(300));
    let behind = connect_by(proxy.clone(), config).await;
    let other = Semaphore::open(&locks(&behind, &table).await, Level::Dc, "late")
        .await
        .unwrap();
    proxy.once("Multi", Action::Hold);
    let error = other.resize(4).await.unwrap_err();
    assert!(error.is_outcome_unknown(), "{error}");
    // The number that it has already.
    semaphore.resize(3).await.unwrap();
    assert_eq!(proxy.release().await, 1);
    assert_eq!(semaphore.show().await.unwrap().permits, 3);
    behind.close().await;
}
