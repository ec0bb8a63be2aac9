//! Guarantees of locks beyond their storage layout: one test for each weakness of the layout's own
//! protocol.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use futures::future::join_all;
use hbase_txn::{
    ClientErrorKind, ErrorKind, Level,
    admin::Admin,
    client::{Condition, Connection, Delete, Put, Scan, TableDescriptor, TableName},
    lock::{
        LockGuard, LockLoss, LockManager, LockManagerOptions, LockTableOptions, LockToken, MIN_LEASE,
        ReleaseOutcome,
    },
};

use crate::support::{
    connect,
    lock_rows::{lock_manager, lock_row},
    rows, says, spied,
    table::{SharedTable, TestTable},
};

static SHARED: SharedTable = SharedTable::new("promises", shared_with_java, &[]);
static OURS: SharedTable = SharedTable::new("promises-ours", without_java_clients, &[]);

const LEASE: Duration = Duration::from_secs(30);
const PATIENCE: Duration = Duration::from_secs(20);

fn shared_with_java(name: TableName) -> TableDescriptor {
    LockTableOptions::from(name).descriptor()
}

fn without_java_clients(name: TableName) -> TableDescriptor {
    LockTableOptions::from(name).without_java_clients().descriptor()
}

async fn two(connection: &Connection, table: &TestTable, client: &str) -> (LockManager, LockManager) {
    (
        lock_manager(connection, &table.name, client).await,
        lock_manager(connection, &table.name, client).await,
    )
}

async fn acquire(locks: &LockManager, id: &str, lease: Duration) -> LockGuard {
    let request = locks.lock(Level::Dc, id).unwrap().ttl(lease).wait(PATIENCE);
    request.acquire().await.unwrap()
}

async fn is_refused(locks: &LockManager, id: &str) -> bool {
    let request = locks.lock(Level::Dc, id).unwrap();
    request.try_acquire().await.unwrap().is_none()
}

async fn release(guard: LockGuard) {
    let outcome = guard.release().await.unwrap();
    assert!(outcome.is_released(), "{outcome}");
}

fn millis(time: SystemTime) -> u64 {
    u64::try_from(time.duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

#[tokio::test]
async fn w1_lock_acquired_right_after_a_release_has_one_holder() {
    let connection = connect().await;
    for (shared, java) in [(&SHARED, false), (&SHARED, true), (&OURS, false), (&OURS, true)] {
        let table = shared.get().await;
        let (one, other) = two(&connection, &table, "w1").await;
        for _ in 0..100 {
            if java {
                // Hides puts of the same millisecond.
                let removal = Delete::new(lock_row("w1", "a"));
                table.of(&connection).delete(removal).await.unwrap();
            }
            let guard = acquire(&one, "a", LEASE).await;
            assert!(is_refused(&other, "a").await);
            release(guard).await;
            let guard = acquire(&other, "a", LEASE).await;
            assert!(is_refused(&one, "a").await);
            release(guard).await;
        }
    }
}

/// A Java client's put has the timestamp of its own clock, and the client trusts the result of its
/// check-and-put.
#[tokio::test]
async fn w1_protection_hides_no_java_lock_but_by_an_overtaking_hold() {
    let connection = connect().await;
    for protected in [false, true] {
        let table = TestTable::unmade("w1-java");
        let options = LockTableOptions::from(table.name.clone()).regions(1);
        let options = if protected {
            options.protect_java_clients()
        } else {
            options
        };
        assert!(options.create(&Admin::new(&connection)).await.unwrap());
        let (locks, rows) = (
            lock_manager(&connection, &table.name, "w1").await,
            table.of(&connection),
        );
        let java_acquires = async |id, at| {
            let row = lock_row("w1", id);
            let put = Put::new(row.clone()).cell_at("D", "L", at, "M").ttl(LEASE);
            rows.check_and_mutate(Condition::absent(row, "D", "L"), [put.into()])
                .await
                .unwrap()
                .success
        };

        // Within the millisecond of a release.
        let at = millis(SystemTime::now());
        let release_of_java = Delete::new(lock_row("w1", "deleted")).timestamp(at);
        rows.delete(release_of_java).await.unwrap();
        assert!(java_acquires("deleted", at).await);
        assert_eq!(java_acquires("deleted", at).await, !protected);
        assert_eq!(is_refused(&locks, "deleted").await, protected);

        // In flight for longer than an acquire and a release by this library take.
        let at = millis(SystemTime::now()) - 1;
        release(acquire(&locks, "overtaken", LEASE).await).await;
        assert!(java_acquires("overtaken", at).await);
        assert!(!is_refused(&locks, "overtaken").await);
    }
}

#[tokio::test]
async fn w2_only_its_owner_releases_and_renews_a_lock() {
    let connection = connect().await;
    for shared in [&SHARED, &OURS] {
        let table = shared.get().await;
        let (one, other) = two(&connection, &table, "w2").await;
        let late = acquire(&one, "a", MIN_LEASE * 2).await;
        let next = acquire(&other, "a", LEASE).await;
        let is_next = |loss: &LockLoss| matches!(loss, LockLoss::Taken(by) if by.token == Some(next.token()));
        let renewed = one.renew(Level::Dc, "a", late.token(), LEASE).await.unwrap();
        assert!(renewed.as_ref().is_err_and(is_next), "{renewed:?}");
        match late.release().await.unwrap() {
            ReleaseOutcome::Lost(loss) => assert!(is_next(&loss), "{loss}"),
            other => panic!("{other}"),
        }
        let stranger: LockToken = "00000000000000000000000000000000".parse().unwrap();
        let outcome = one.release(Level::Dc, "a", stranger).await.unwrap();
        assert!(!outcome.is_released());
        next.renew().await.unwrap();
        assert!(is_refused(&one, "a").await);
        release(next).await;
    }
}

/// A put without a timestamp gets one from the server, above the existing cells. A put with its own
/// timestamp does not.
#[tokio::test]
async fn w3_the_servers_clock_decides_when_a_lease_begins_and_ends() {
    let connection = connect().await;
    let table = OURS.get().await;
    let (one, other) = two(&connection, &table, "w3").await;
    let ahead = millis(SystemTime::now()) + 1_000;
    let vacated = Put::new(lock_row("w3", "a"))
        .cell_at("D", "L", ahead, "")
        .ttl(LEASE);
    table.of(&connection).put(vacated).await.unwrap();
    let lease = Duration::from_millis(500);
    let guard = acquire(&one, "a", lease).await;
    let holder = other.show(Level::Dc, "a").await.unwrap().holder.unwrap();
    assert!(millis(holder.since) >= ahead);
    // The client never assumes a longer lease than it requested.
    assert!(guard.remaining() < lease);
    let began = Instant::now();
    assert_eq!(guard.lost().await, LockLoss::Expired);
    assert!(began.elapsed() <= lease);
    let next = acquire(&other, "a", LEASE).await;
    assert!(millis(SystemTime::now()) >= ahead + 500);
    release(next).await;
}

#[tokio::test]
async fn w4_leases_below_a_second_are_exact_or_refused() {
    let connection = connect().await;
    for shared in [&SHARED, &OURS] {
        let table = shared.get().await;
        let (one, other) = two(&connection, &table, "w4").await;
        for lease in [0, 1, 99] {
            let request = one.lock(Level::Dc, "a").unwrap();
            let error = request
                .ttl(Duration::from_millis(lease))
                .try_acquire()
                .await
                .unwrap_err();
            assert_eq!(error.kind(), ClientErrorKind::InvalidInput, "{error}");
        }
        let each = [250, 500, 900, 999].map(async |lease| {
            let id = format!("l{lease}");
            let guard = acquire(&one, &id, Duration::from_millis(lease)).await;
            let holder = other.show(Level::Dc, &id).await.unwrap().holder;
            let end = holder.map(|holder| millis(holder.since) + lease);
            // On a busy machine the lease may be over already.
            let Some(end) = end else { return };
            while millis(SystemTime::now()) < end {
                let refused = is_refused(&other, &id).await;
                assert!(refused || millis(SystemTime::now()) >= end, "{lease} ms");
            }
            // The rows of a lock may be acquired in different milliseconds.
            let next = acquire(&other, &id, LEASE).await;
            assert!(next.fencing() > guard.fencing());
            let taken = millis(other.show(Level::Dc, &id).await.unwrap().holder.unwrap().since);
            assert!(taken < end + 1_000, "{lease} ms: free after {} more", taken - end);
        });
        join_all(each).await;
    }
}

#[tokio::test]
async fn w5_a_lock_is_renewed_its_loss_is_told_and_its_numbers_rise() {
    let connection = connect().await;
    for shared in [&SHARED, &OURS] {
        let table = shared.get().await;
        let (one, other) = two(&connection, &table, "w5").await;
        let lease = Duration::from_secs(3);
        let request = one.lock(Level::Dc, "a").unwrap().ttl(lease).auto_renew();
        let guard = request.wait(PATIENCE).acquire().await.unwrap();
        let began = Instant::now();
        while began.elapsed() < 2 * lease {
            assert!(is_refused(&other, "a").await);
            assert!(guard.is_held());
        }
        // A release by a Java client.
        let removal = Delete::new(lock_row("w5", "a"));
        table.of(&connection).delete(removal).await.unwrap();
        let told = tokio::time::timeout(lease, guard.lost()).await;
        assert_eq!(
            told.expect("it is told before the lease is over"),
            LockLoss::Removed
        );
        let mut last = guard.fencing();
        drop(guard);
        for round in 0..20 {
            let forgotten = round % 3 == 1;
            // Short only for a lease that has to expire. A stall of the server would end one that
            // is to be released.
            let lease = if forgotten {
                Duration::from_millis(400)
            } else {
                LEASE
            };
            let guard = acquire([&one, &other][round % 2], "a", lease).await;
            assert!(guard.fencing() > last);
            last = guard.fencing();
            match round % 3 {
                0 => release(guard).await,
                1 => std::mem::forget(guard),
                _ => {
                    let removal = Delete::new(lock_row("w5", "a"));
                    table.of(&connection).delete(removal).await.unwrap();
                }
            }
        }
    }
}

#[tokio::test]
async fn w6_an_expiry_frees_a_lock_and_never_shows_who_had_it_before() {
    let connection = connect().await;
    let admin = Admin::new(&connection);
    for descriptor in [shared_with_java, without_java_clients] {
        let table = TestTable::create("w6", descriptor, &[]).await;
        let (one, other) = two(&connection, &table, "w6").await;
        let long = acquire(&one, "a", Duration::from_secs(60)).await;
        admin.flush_table(&table.name).await.unwrap();
        release(long).await;
        let short = acquire(&other, "a", Duration::from_secs(1)).await;
        admin.flush_table(&table.name).await.unwrap();
        assert_eq!(short.lost().await, LockLoss::Expired);
        let next = acquire(&one, "a", LEASE).await;
        assert!(next.fencing() > short.fencing());
        release(next).await;
    }
}

#[tokio::test]
async fn w7_hot_lock_leaves_the_same_cells_after_many_cycles() {
    let connection = connect().await;
    for descriptor in [shared_with_java, without_java_clients] {
        let table = TestTable::create("w7", descriptor, &[]).await;
        let locks = lock_manager(&connection, &table.name, "w7").await;
        let cells = async || {
            Admin::new(&connection).flush_table(&table.name).await.unwrap();
            Admin::new(&connection)
                .major_compact_table(&table.name)
                .await
                .unwrap();
            let stored = rows(&table.of(&connection), Scan::new().raw()).await;
            stored.iter().map(|row| row.cells().len()).sum::<usize>()
        };
        release(acquire(&locks, "a", LEASE).await).await;
        let before = cells().await;
        for _ in 0..300 {
            release(acquire(&locks, "a", LEASE).await).await;
        }
        // Not even delete markers, which only a major compaction removes.
        let stored = rows(&table.of(&connection), Scan::new().raw()).await;
        let deletions = stored
            .iter()
            .flat_map(|row| row.cells())
            .filter(|cell| cell.kind != hbase_txn::client::CellKind::Put);
        assert_eq!(deletions.count(), 0);
        assert_eq!(cells().await, before);
    }
}

#[tokio::test]
async fn w8_wait_ends_at_its_deadline_and_many_poll_like_one() {
    let (connection, spy) = spied().await;
    let table = SHARED.get().await;
    let (one, other) = two(&connect().await, &table, "w8").await;
    let held = acquire(&other, "a", LEASE).await;
    let waiting = lock_manager(&connection, &table.name, "w8").await;
    let wait = Duration::from_millis(1_300);
    let asked = async |tasks: usize| {
        let before = spy.multi_calls();
        let each = (0..tasks).map(async |_| {
            let began = Instant::now();
            let request = waiting.lock(Level::Dc, "a").unwrap().wait(wait);
            let error = request.acquire().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::LockUnavailable);
            let took = began.elapsed();
            assert!(took >= wait && took < wait + Duration::from_secs(2), "{took:?}");
        });
        join_all(each).await;
        spy.multi_calls() - before
    };
    let alone = asked(1).await;
    let many = asked(200).await;
    // Each task may make a last attempt when its turn comes at the end.
    assert!(
        alone < 60 && many < 2 * alone + 60,
        "{alone} calls, and {many} of many"
    );

    // A waiter acquires the lock soon after its release.
    let began = Instant::now();
    let next = tokio::spawn(async move { acquire(&one, "a", LEASE).await });
    release(held).await;
    release(next.await.unwrap()).await;
    assert!(began.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn w9_names_errors_and_states_are_exact() {
    let connection = connect().await;
    let table = SHARED.get().await;
    for (client, farm) in [("c#d", "f"), ("c", "f#c")] {
        let options = LockManagerOptions::new(client).farm(farm);
        let error = options.open(&connection, table.name.clone()).await.unwrap_err();
        assert_eq!(error.kind(), ClientErrorKind::InvalidInput);
        says(&error, &["'#'"]);
    }
    let missing: TableName = "no_such_lock_table".parse().unwrap();
    let error = LockManagerOptions::new("w9")
        .open(&connection, missing)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::TableNotFound);

    let (one, _) = two(&connection, &table, "w9").await;
    let guard = acquire(&one, "a", MIN_LEASE * 3).await;
    assert_eq!(guard.lost().await, LockLoss::Expired);
    assert!(!guard.is_held() && guard.remaining().is_zero());
    assert_eq!(guard.renew().await.unwrap_err().kind(), ErrorKind::LockLost);
    let outcome = guard.release().await.unwrap();
    assert_eq!(outcome, ReleaseOutcome::Lost(LockLoss::Expired));
}

#[tokio::test]
async fn w10_a_level_is_a_part_of_the_key_and_no_more() {
    let connection = connect().await;
    let table = SHARED.get().await;
    let manager = async |farm: &str| {
        let options = LockManagerOptions::new("w10").farm(farm);
        options.open(&connection, table.name.clone()).await.unwrap()
    };
    let (fra, nyc) = (manager("fra").await, manager("nyc").await);
    let ask = async |locks: &LockManager, level| {
        let request = locks.lock(level, "a").unwrap();
        request.try_acquire().await.unwrap()
    };
    let here = ask(&fra, Level::Dc).await.unwrap();
    let there = ask(&nyc, Level::Dc).await.unwrap();
    let everywhere = ask(&fra, Level::Xdc).await.unwrap();
    assert!(ask(&nyc, Level::Xdc).await.is_none());
    for guard in [here, there, everywhere] {
        release(guard).await;
    }
    // The family is not replicated. Replication could not make a lock exclusive anyway.
    let descriptor = Admin::new(&connection).descriptor(&table.name).await.unwrap();
    assert_eq!(
        descriptor
            .family("D")
            .unwrap()
            .attribute("REPLICATION_SCOPE")
            .unwrap_or("0"),
        "0"
    );
}
