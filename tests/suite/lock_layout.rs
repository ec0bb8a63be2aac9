//! The behaviour of HBase's cells in the layout of locks, and how this library's protocol uses it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use hbase_txn::{
    Level,
    admin::Admin,
    client::{Condition, Connection, Delete, Get, Increment, Mutation, Put, Row, Table},
    lock::LockManager,
};

use crate::support::{
    connect,
    lock_rows::{lock_manager, lock_row, lock_table},
    table::TestTable,
};

const CLIENT: &str = "layout";
/// The precision of a server's clock and expiries, in milliseconds. A busy machine may answer
/// later; the time of the request counts.
const EXACT: u64 = 5;

struct Rig {
    connection: Connection,
    table: TestTable,
}

impl Rig {
    async fn new(what: &str, without_java_clients: bool) -> Self {
        let connection = connect().await;
        let table = lock_table(&connection, what, 1, without_java_clients).await;
        Self { connection, table }
    }

    fn table(&self) -> Table {
        self.table.of(&self.connection)
    }

    async fn flush(&self) {
        Admin::new(&self.connection)
            .flush_table(&self.table.name)
            .await
            .unwrap();
    }

    async fn locks(&self) -> LockManager {
        lock_manager(&self.connection, &self.table.name, CLIENT).await
    }

    async fn put(&self, put: Put) {
        self.table().put(put).await.unwrap();
    }

    /// Writes a marker with a timestamp and a TTL, both in milliseconds.
    async fn mark(&self, row: &Bytes, value: &'static str, at: u64, ttl: u64) {
        let put = Put::new(row.clone()).cell_at("D", "L", at, value);
        self.put(put.ttl(Duration::from_millis(ttl))).await;
    }

    async fn marker(&self, row: &Bytes) -> Option<(u64, Bytes)> {
        let found = self.table().get(Get::new(row.clone())).await.unwrap()?;
        let cell = found.cell("D", "L")?;
        Some((cell.timestamp, cell.value.clone()))
    }

    async fn is_marked(&self, row: &Bytes) -> bool {
        let marker = self.marker(row).await;
        marker.is_some_and(|(_, value)| !value.is_empty())
    }

    /// Acquires as a Java client with this clock does, and returns whether that client believes
    /// that it holds the lock.
    async fn java_acquires(&self, row: &Bytes, at: u64, ttl: u64) -> bool {
        let put = Put::new(row.clone())
            .cell("D", "L", "M")
            .timestamp(at)
            .ttl(Duration::from_millis(ttl));
        self.if_absent(row, [put.into()]).await
    }

    async fn java_releases(&self, row: &Bytes) {
        self.table().delete(Delete::new(row.clone())).await.unwrap();
    }

    async fn if_absent<const N: usize>(&self, row: &Bytes, mutations: [Mutation; N]) -> bool {
        let condition = Condition::absent(row.clone(), "D", "L");
        self.table()
            .check_and_mutate(condition, mutations)
            .await
            .unwrap()
            .success
    }
}

fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(now.as_millis()).unwrap()
}

/// Sleeps until the clock, which is also the server's, is past the moment.
async fn sleep_until(moment: u64) {
    while now() <= moment {
        tokio::time::sleep(Duration::from_millis(moment + 1 - now().min(moment))).await;
    }
}

#[tokio::test]
async fn cells_are_gone_within_milliseconds_of_their_ttl() {
    let rig = &Rig::new("ttl", true).await;
    let one = async |ttl: u64| {
        let row = Bytes::from(format!("r{ttl}"));
        let put = Put::new(row.clone()).cell("D", "L", "M");
        rig.put(put.ttl(Duration::from_millis(ttl))).await;
        let Some((at, _)) = rig.marker(&row).await else {
            assert!(ttl < 200, "{ttl} ms were over before they began");
            return;
        };
        loop {
            let asked = now();
            let seen = rig.marker(&row).await.is_some();
            let answered = now();
            assert!(
                !seen || asked <= at + ttl + EXACT,
                "{ttl} ms: there after {}",
                asked - at
            );
            assert!(
                seen || answered + EXACT >= at + ttl,
                "{ttl} ms: gone after {}",
                answered - at
            );
            if !seen {
                return;
            }
        }
    };
    futures::future::join_all([1, 2, 10, 100, 500, 999, 1_000, 1_500].map(one)).await;
}

#[tokio::test]
async fn slow_java_clock_holds_nothing_after_our_release_unaware() {
    let rig = Rig::new("behind", false).await;
    let locks = rig.locks().await;
    for behind in [5_000, 60_000] {
        let id = format!("b{behind}");
        let row = lock_row(CLIENT, &id);
        assert!(rig.java_acquires(&row, now() - behind, 90_000).await);
        assert!(rig.is_marked(&row).await, "on an empty row it works");
        assert!(!rig.java_acquires(&row, now() - behind, 90_000).await);
        rig.java_releases(&row).await;
        assert!(rig.java_acquires(&row, now() - behind, 90_000).await);
        assert!(!rig.is_marked(&row).await, "after its own release it does not");

        let id = format!("o{behind}");
        let row = lock_row(CLIENT, &id);
        let guard = locks.lock(Level::Dc, &id).unwrap().acquire().await.unwrap();
        assert!(!rig.java_acquires(&row, now() - behind, 90_000).await);
        assert!(guard.release().await.unwrap().is_released());
        assert!(rig.java_acquires(&row, now() - behind, 90_000).await);
        assert!(!rig.is_marked(&row).await);
    }
}

#[tokio::test]
async fn slow_java_clock_is_hidden_by_a_release_stamped_now_only() {
    let rig = Rig::new("ownstamp", true).await;
    let (held_for, behind) = (1_500, 1_000);
    for (id, at_now) in [("now", true), ("own", false)] {
        let row = lock_row(CLIENT, id);
        let taken = now() - held_for;
        rig.mark(&row, "M", taken, 30_000).await;
        rig.mark(&row, "", if at_now { now() } else { taken }, 30_000)
            .await;
        let told = [
            rig.java_acquires(&row, now() - behind, 30_000).await,
            rig.java_acquires(&row, now() - behind, 30_000).await,
        ];
        assert_eq!(told, [true, at_now], "{id}");
    }
    // This library's release keeps the timestamp of the marker.
    let locks = rig.locks().await;
    let guard = locks.lock(Level::Dc, "ours").unwrap().acquire().await.unwrap();
    let row = lock_row(CLIENT, "ours");
    let (taken, value) = rig.marker(&row).await.unwrap();
    assert_eq!(value, "M");
    sleep_until(taken + 20).await;
    assert!(guard.release().await.unwrap().is_released());
    assert_eq!(rig.marker(&row).await.unwrap(), (taken, Bytes::new()));
}

#[tokio::test]
async fn fast_java_clock_excludes_ours_and_cannot_release() {
    let rig = Rig::new("ahead", false).await;
    let locks = rig.locks().await;
    for ahead in [1_500, 60_000] {
        let id = ahead.to_string();
        let row = lock_row(CLIENT, &id);
        let stamped = now() + ahead;
        assert!(rig.java_acquires(&row, stamped, 500).await);
        rig.java_releases(&row).await;
        let request = locks.lock(Level::Dc, &id).unwrap();
        assert!(request.clone().try_acquire().await.unwrap().is_none());
        if ahead < 10_000 {
            let guard = request.wait(Duration::from_secs(20)).acquire().await.unwrap();
            assert!(now() >= stamped + 500);
            assert!(guard.release().await.unwrap().is_released());
        }
    }
}

#[tokio::test]
async fn fast_java_cycle_ends_with_a_lock_that_no_client_sees() {
    let rig = Rig::new("masked", true).await;
    let row = lock_row(CLIENT, "masked");
    for cycle in 0_u32.. {
        assert!(cycle < 5_000, "no lock was hidden");
        rig.java_releases(&row).await;
        assert!(rig.java_acquires(&row, now(), 90_000).await);
        if !rig.is_marked(&row).await {
            break;
        }
    }
    assert!(
        rig.java_acquires(&row, now() + 10, 90_000).await,
        "the next is told so too"
    );
}

#[tokio::test]
async fn fencing_numbers_rise_whatever_deletes_the_lock_row() {
    for without_java_clients in [false, true] {
        let rig = Rig::new("fencing", without_java_clients).await;
        let locks = rig.locks().await;
        let row = lock_row(CLIENT, "f");
        let (mut last, mut removed) = (0, 0);
        for cycle in 0..400 {
            let request = locks.lock(Level::Dc, "f").unwrap();
            let guard = request.wait(Duration::from_secs(20)).acquire().await.unwrap();
            assert!(guard.fencing() > last, "{} after {last}", guard.fencing());
            last = guard.fencing();
            if cycle % 4 != 0 {
                rig.java_releases(&row).await;
                removed += 1;
            }
            let outcome = guard.release().await.unwrap();
            assert_eq!(outcome.is_released(), cycle % 4 == 0, "{outcome}");
        }
        assert_eq!(removed, 300);
    }
}

#[tokio::test]
async fn renewal_at_a_new_timestamp_would_outlive_a_release() {
    let rig = Rig::new("newstamp", true).await;
    let row = lock_row(CLIENT, "n");
    let taken = now() - 100;
    rig.mark(&row, "M", taken, 30_000).await;
    rig.mark(&row, "M", taken + 50, 30_000).await;
    rig.mark(&row, "", taken, 30_000).await;
    assert!(rig.is_marked(&row).await);

    // Hence this library renews at the timestamp of the marker.
    let locks = rig.locks().await;
    let guard = locks.lock(Level::Dc, "ours").unwrap().acquire().await.unwrap();
    let row = lock_row(CLIENT, "ours");
    let (taken, _) = rig.marker(&row).await.unwrap();
    sleep_until(taken + 20).await;
    guard.renew().await.unwrap();
    assert_eq!(rig.marker(&row).await.unwrap().0, taken);
    assert!(guard.release().await.unwrap().is_released());
    assert!(!rig.is_marked(&row).await);
}

#[tokio::test]
async fn shorter_release_uncovers_the_lease_below_it() {
    let rig = Rig::new("shorter", true).await;
    let row = lock_row(CLIENT, "s");
    let taken = now();
    rig.mark(&row, "M", taken, 20_000).await;
    rig.mark(&row, "M", taken, 60_000).await;
    rig.flush().await;
    let ttl = now() - taken + 1_000;
    rig.mark(&row, "", taken, ttl).await;
    assert!(!rig.is_marked(&row).await);
    rig.flush().await;
    sleep_until(taken + ttl + EXACT).await;
    assert!(rig.is_marked(&row).await);
}

#[tokio::test]
async fn a_renewal_can_not_shorten_a_lease() {
    let rig = Rig::new("shorten", true).await;
    let row = lock_row(CLIENT, "s");
    let taken = now();
    rig.mark(&row, "M", taken, 60_000).await;
    rig.mark(&row, "M", taken, 500).await;
    sleep_until(taken + 500 + EXACT).await;
    assert!(rig.is_marked(&row).await);

    // Hence this library does not report a shorter lease.
    let locks = rig.locks().await;
    let guard = locks.lock(Level::Dc, "ours").unwrap().acquire().await.unwrap();
    let shorter = Duration::from_millis(200);
    let loss = locks.renew(Level::Dc, "ours", guard.token(), shorter).await;
    assert_eq!(loss.unwrap(), Ok(()));
    let holder = locks.show(Level::Dc, "ours").await.unwrap().holder.unwrap();
    assert_eq!(holder.lease, Some(Duration::from_secs(30)));
}

/// A Java client does not clear away the cells under its own marker.
#[tokio::test]
async fn java_lease_over_our_longer_one_uncovers_a_marker() {
    let rig = Rig::new("uncovered", false).await;
    let locks = rig.locks().await;
    let row = lock_row(CLIENT, "u");
    let lease = Duration::from_secs(6);
    let request = locks.lock(Level::Dc, "u").unwrap().ttl(lease);
    let guard = request.clone().acquire().await.unwrap();
    let (taken, _) = rig.marker(&row).await.unwrap();
    rig.flush().await;
    assert!(guard.release().await.unwrap().is_released());
    let java = now() + 1;
    assert!(rig.java_acquires(&row, java, 1_000).await);
    rig.flush().await;
    sleep_until(java + 1_000 + EXACT).await;
    if now() < taken + 5_500 {
        assert_eq!(rig.marker(&row).await, Some((taken, "M".into())));
        assert!(request.clone().try_acquire().await.unwrap().is_none());
    }
    let guard = request.wait(Duration::from_secs(20)).acquire().await.unwrap();
    assert!(now() >= taken + 6_000);
    assert!(guard.is_held());
}

#[tokio::test]
async fn lease_over_a_cell_ahead_is_longer_with_a_present_number() {
    let rig = Rig::new("lifted", true).await;
    let locks = rig.locks().await;
    let row = lock_row(CLIENT, "l");
    let ahead = now() + 2_000;
    rig.mark(&row, "", ahead, 60_000).await;
    let request = locks.lock(Level::Dc, "l").unwrap().ttl(Duration::from_secs(1));
    let before = now();
    let guard = request.clone().acquire().await.unwrap();
    assert!(guard.remaining() <= Duration::from_secs(1));
    let fencing = u64::try_from(guard.fencing()).unwrap();
    assert!((before..=now()).contains(&fencing), "{fencing}");
    let (taken, value) = rig.marker(&row).await.unwrap();
    assert_eq!(value, "M");
    assert!((ahead..ahead + 10).contains(&taken));
    std::mem::forget(guard);
    let other = rig.locks().await;
    let request = other.lock(Level::Dc, "l").unwrap();
    let next = request.wait(Duration::from_secs(20)).acquire().await.unwrap();
    assert!(now() >= taken + 1_000);
    assert!(u64::try_from(next.fencing()).unwrap() > before);
}

#[tokio::test]
async fn increment_has_its_own_ttl_and_restarts_an_old_one() {
    let rig = Rig::new("increment", true).await;
    let row = lock_row(CLIENT, "i");
    let short = Duration::from_millis(1_000);
    let put: Mutation = Put::new(row.clone()).cell("D", "L", "M").ttl(short).into();
    let count = |qualifier: &'static str| Increment::new(row.clone()).column("D", qualifier, 1);
    assert!(rig.if_absent(&row, [put, count("F").into()]).await);
    let first = rig.table().increment(count("own").ttl(short)).await.unwrap();
    let began = first.cell("D", "own").unwrap().timestamp;
    sleep_until(began + 500).await;
    let again = rig.table().increment(count("own")).await.unwrap();
    let anew = again.cell("D", "own").unwrap().timestamp;
    assert!(anew >= began + 500);
    let look = async || rig.table().get(Get::new(row.clone())).await.unwrap().unwrap();
    let has = |row: &Row, qualifier: &'static str| row.cell("D", qualifier).is_some();
    sleep_until(began + 1_000 + EXACT).await;
    let found = look().await;
    assert!(has(&found, "own") || now() >= anew + 1_000, "it begins anew");
    assert!(!has(&found, "L"), "the put is over");
    sleep_until(anew + 1_000 + EXACT).await;
    let found = look().await;
    assert!(!has(&found, "own"), "it has its old one");
    assert!(has(&found, "F"), "it never had one");
}
