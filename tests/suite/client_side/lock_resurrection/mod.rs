//! An ended hold stays ended: no earlier hold under it becomes visible again when it is gone.

mod generated;
mod sequence;

use std::time::Duration;

use bytes::Bytes;
use hbase_txn::{
    Level,
    admin::Admin,
    client::{Delete, Get, Put},
};

use crate::support::{
    connect,
    lock_rows::{companion_row, free_cell, held_cell, lock_manager, lock_row, lock_table, ttl_of},
};
use sequence::{sleep_past_end, try_acquire};

const CLIENT: &str = "over";
/// A release deletes a lease of an hour, and overwrites the rest of one of a minute.
const LONG: [Duration; 2] = [Duration::from_secs(3_600), Duration::from_secs(60)];
const SHORT: Duration = Duration::from_millis(300);

#[tokio::test]
async fn a_short_lease_over_a_long_one_that_was_given_back_ends_free() {
    let connection = connect().await;
    for without_java_clients in [false, true] {
        let table = lock_table(&connection, "over", 1, without_java_clients).await;
        let (first, second, third) = (
            lock_manager(&connection, &table.name, CLIENT).await,
            lock_manager(&connection, &table.name, CLIENT).await,
            lock_manager(&connection, &table.name, CLIENT).await,
        );
        let flush = async || Admin::new(&connection).flush_table(&table.name).await.unwrap();
        let cases: Vec<_> = LONG
            .into_iter()
            .flat_map(|long| [true, false].map(|vacated| (long, vacated)))
            .map(|(long, vacated)| (format!("{}-{vacated}", long.as_secs()), long, vacated))
            .collect();

        let mut long = Vec::new();
        for (id, lease, _) in &cases {
            long.push(try_acquire(&first, id, *lease).await.unwrap());
        }
        flush().await;
        for guard in long {
            assert!(guard.release().await.unwrap().is_released());
        }
        let mut last = 0;
        for (id, _, vacated) in &cases {
            let guard = try_acquire(&second, id, SHORT).await.unwrap();
            last = sequence::server_end(&second, id, guard.token())
                .await
                .unwrap_or(last);
            if *vacated {
                drop(guard.release().await.unwrap());
            } else {
                std::mem::forget(guard);
            }
        }
        flush().await;
        sleep_past_end(last).await;
        for (id, ..) in &cases {
            let info = third.show(Level::Dc, id).await.unwrap();
            assert_eq!(info.holder, None, "{id}");
            assert!(try_acquire(&third, id, SHORT).await.is_some(), "{id}");
        }
    }
}

/// A flush keeps the newer of two holds, and drops the other one and the delete marker under both.
#[tokio::test]
async fn two_short_leases_over_a_released_long_one_end_free() {
    const SHORT: Duration = Duration::from_secs(2);
    let connection = connect().await;
    for without_java_clients in [false, true] {
        let table = lock_table(&connection, "overtwo", 1, without_java_clients).await;
        let mut owners = Vec::new();
        for _ in 0..5 {
            owners.push(lock_manager(&connection, &table.name, CLIENT).await);
        }
        let flush = async || Admin::new(&connection).flush_table(&table.name).await.unwrap();
        // Whether another holder dies before the two leases.
        for dies in [false, true] {
            let ids = LONG.map(|long| format!("{}-{dies}", long.as_secs()));
            let mut guards = Vec::new();
            for (id, long) in ids.iter().zip(LONG) {
                guards.push(try_acquire(&owners[0], id, long).await.unwrap());
            }
            flush().await;
            for guard in guards {
                assert!(guard.release().await.unwrap().is_released());
            }
            let mut last = 0;
            for id in ids.iter().filter(|_| dies) {
                let guard = try_acquire(&owners[1], id, SHORT).await.unwrap();
                last = sequence::server_end(&owners[1], id, guard.token()).await.unwrap();
                std::mem::forget(guard);
            }
            sleep_past_end(last).await;
            for id in &ids {
                let guard = try_acquire(&owners[2], id, SHORT).await.unwrap();
                assert!(guard.release().await.unwrap().is_released());
                let guard = try_acquire(&owners[3], id, SHORT).await.unwrap();
                last = sequence::server_end(&owners[3], id, guard.token()).await.unwrap();
                std::mem::forget(guard);
            }
            flush().await;
            sleep_past_end(last).await;
            for id in &ids {
                let info = owners[4].show(Level::Dc, id).await.unwrap();
                assert_eq!(info.holder, None, "{id}, {without_java_clients}");
                assert!(try_acquire(&owners[4], id, SHORT).await.is_some(), "{id}");
            }
        }
    }
}

/// An attempt that wins the companion row but not the lock row leaves the companion as it was: the
/// cell that it overwrote there may have to outlive the requested lease.
#[tokio::test]
async fn attempt_refused_half_way_revives_no_earlier_holder() {
    let connection = connect().await;
    let table = lock_table(&connection, "halfway", 1, false).await;
    let (first, second) = (
        lock_manager(&connection, &table.name, CLIENT).await,
        lock_manager(&connection, &table.name, CLIENT).await,
    );
    let flush = async || Admin::new(&connection).flush_table(&table.name).await.unwrap();
    let guard = try_acquire(&first, "a", LONG[1]).await.unwrap();
    flush().await;
    assert!(guard.release().await.unwrap().is_released());

    let row = lock_row(CLIENT, "a");
    let marker = Put::new(row.clone()).cell("D", "L", "M");
    table.of(&connection).put(marker).await.unwrap();
    assert!(try_acquire(&second, "a", SHORT).await.is_none());
    let refused = sequence::now();
    flush().await;
    table.of(&connection).delete(Delete::new(row)).await.unwrap();
    sleep_past_end(refused + 300).await;
    let info = second.show(Level::Dc, "a").await.unwrap();
    assert_eq!(info.holder, None);
    assert!(try_acquire(&second, "a", SHORT).await.is_some());
}

/// A forced release may hit a holder that has not yet cleared the cells under its hold.
#[tokio::test]
async fn hold_revoked_before_its_cleanup_revives_no_earlier_holder() {
    let connection = connect().await;
    for without_java_clients in [false, true] {
        let table = lock_table(&connection, "bare", 1, without_java_clients).await;
        let (first, second) = (
            lock_manager(&connection, &table.name, CLIENT).await,
            lock_manager(&connection, &table.name, CLIENT).await,
        );
        let flush = async || Admin::new(&connection).flush_table(&table.name).await.unwrap();
        let guard = try_acquire(&first, "a", LONG[1]).await.unwrap();
        flush().await;
        assert!(guard.release().await.unwrap().is_released());

        // As the first call of an attempt writes it.
        const LEASE: Duration = Duration::from_secs(2);
        let held = held_cell(7, 2_000, "tester");
        let rows = if without_java_clients {
            vec![lock_row(CLIENT, "a")]
        } else {
            vec![companion_row(CLIENT, "a"), lock_row(CLIENT, "a")]
        };
        for row in rows {
            let put = Put::new(row)
                .cell("D", "L", "M")
                .cell("D", "O", held.clone())
                .ttl(LEASE);
            table.of(&connection).put(put).await.unwrap();
        }
        let taken = sequence::now();
        let hit = second.force_release(Level::Dc, "a").await.unwrap();
        assert_eq!(hit.unwrap().name.as_deref(), Some("tester"));
        flush().await;
        sleep_past_end(taken + 2_000).await;
        let info = second.show(Level::Dc, "a").await.unwrap();
        assert_eq!(info.holder, None, "{without_java_clients}");
        assert!(try_acquire(&second, "a", SHORT).await.is_some());
    }
}

/// A hold with the timestamp of an earlier, released hold gets the TTL of that hold, because a
/// delete could not tell the two apart. The lock's other row keeps the requested lease.
#[tokio::test]
async fn only_the_row_over_a_released_lease_is_held_longer() {
    const LEASE: Duration = Duration::from_secs(5);
    let connection = connect().await;
    let table = lock_table(&connection, "lieson", 1, false).await;
    let locks = lock_manager(&connection, &table.name, CLIENT).await;
    let rows = table.of(&connection);
    let (companion, row) = (companion_row(CLIENT, "a"), lock_row(CLIENT, "a"));
    // The server stamps a put no earlier than the cells that its condition read.
    let ahead = sequence::now() + 60_000;
    let given_back = Put::new(companion.clone())
        .cell_at("D", "L", ahead, "")
        .cell_at("D", "O", ahead, free_cell(60_000))
        .ttl(LONG[1]);
    rows.put(given_back).await.unwrap();
    let guard = try_acquire(&locks, "a", LEASE).await.unwrap();
    let ttl = async |row: &Bytes| {
        let found = rows.get(Get::new(row.clone())).await.unwrap().unwrap();
        ttl_of(&found.cell("D", "O").unwrap().value)
    };
    assert_eq!((ttl(&companion).await, ttl(&row).await), (60_000, 5_000));
    assert!(guard.release().await.unwrap().is_released());
    assert!(try_acquire(&locks, "a", LEASE).await.is_some());
}

/// A deleting release hides puts up to its own millisecond, so that an attempt writes them again
/// above it. The attempt must not hide how long the deleted marker would have lived.
#[tokio::test]
async fn attempt_at_the_millisecond_of_a_release_keeps_its_horizon() {
    const ROUNDS: u32 = 10;
    /// How far the release's timestamp lies ahead of its write, in milliseconds.
    const AHEAD: u64 = 20;
    const LIFE: u64 = 3_600_000;
    const LEASE: Duration = Duration::from_secs(10);
    let connection = connect().await;
    let table = lock_table(&connection, "instant", 1, true).await;
    let locks = lock_manager(&connection, &table.name, CLIENT).await;
    let rows = table.of(&connection);
    for round in 0..ROUNDS {
        let id = round.to_string();
        let row = lock_row(CLIENT, &id);
        let released = sequence::now() + AHEAD;
        let free = Put::new(row.clone()).cell_at("D", "O", released, free_cell(LIFE));
        rows.put(free.ttl(LONG[0])).await.unwrap();
        let delete = Delete::new(row.clone()).column("D", "L").timestamp(released);
        rows.delete(delete).await.unwrap();
        loop {
            let is_last = sequence::now() > released;
            let guard = try_acquire(&locks, &id, LEASE).await.unwrap();
            assert!(guard.release().await.unwrap().is_released());
            let found = rows.get(Get::new(row.clone())).await.unwrap().unwrap();
            assert!(found.value("D", "L").is_none_or(|marker| marker.is_empty()));
            let owner = found.cell("D", "O").unwrap();
            let rest = released + LIFE - owner.timestamp;
            assert_eq!(owner.value, free_cell(rest), "at {}", owner.timestamp);
            if is_last {
                break;
            }
        }
    }
}

#[tokio::test]
async fn no_order_of_three_leases_revives_a_holder_beside_java() {
    generated::run(false).await;
}

#[tokio::test]
async fn no_order_of_three_leases_revives_a_holder_of_ours() {
    generated::run(true).await;
}
