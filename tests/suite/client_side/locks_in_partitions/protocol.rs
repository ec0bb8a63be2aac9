//! The server behaviour that the format of the cells relies on, with plain cells and with locks.

use std::time::{Duration, SystemTime};

use hbase_txn::{
    TableDescriptorExt,
    admin::Admin,
    client::{Append, Condition, Get, Put, TableDescriptor},
};

use super::{LEASE, SHARED, client, held, is_free, is_taken_now, with_locks};
use crate::support::{
    connect, eventually, put,
    table::{TestTable, by_three},
};

fn now() -> u64 {
    let since = SystemTime::UNIX_EPOCH.elapsed().unwrap();
    u64::try_from(since.as_millis()).unwrap()
}

/// Returns the row of a lock.
fn lock_row(prefix: &str, id: &str) -> Vec<u8> {
    [prefix.as_bytes(), b"\xff_txn\xffl", id.as_bytes()].concat()
}

#[tokio::test]
async fn append_and_checked_put_are_seen_over_an_empty_cell_ahead() {
    let connection = connect().await;
    let table = TestTable::create("ahead", by_three, &[]).await;
    let table = table.open(&connection).await;
    let ahead = now() + 20_000;
    for row in ["xxxput", "xxxappend"] {
        let vacated = Put::new(row).cell_at("f", "q", ahead, "");
        table.table().put(vacated).await.unwrap();
    }
    // A blind put stays hidden.
    table.table().put(put("xxxput", "M")).await.unwrap();
    let checked_put = || {
        let transaction = table
            .transaction("xxx")
            .condition(Condition::absent("xxxput", "f", "q"))
            .put(put("xxxput", "M"));
        transaction.commit()
    };
    checked_put().await.into_result().unwrap();
    assert!(checked_put().await.is_not_applied());
    let append = || {
        let transaction = table
            .transaction("xxx")
            .condition(Condition::absent("xxxappend", "f", "q"))
            .append(
                Append::new("xxxappend")
                    .cell("f", "q", "M")
                    .cell("f", "p", "1")
                    .ttl(Duration::from_secs(9)),
            );
        transaction.commit()
    };
    append().await.into_result().unwrap();
    assert!(append().await.is_not_applied());
    let row = table.table().get(Get::new("xxxappend")).await.unwrap().unwrap();
    let cell = row.cell("f", "q").unwrap();
    assert_eq!((&cell.value[..], cell.timestamp), (&b"M"[..], ahead + 1));
    assert!(
        row.cell("f", "p").unwrap().timestamp < ahead,
        "an absent cell is stamped now"
    );
}

#[tokio::test]
async fn lock_is_acquired_over_a_release_with_a_stamp_ahead() {
    let connection = connect().await;
    let table = &SHARED.get().await;
    let (table, locks) = client(&connection, table).await;
    for (id, alone) in [("ahead-alone", true), ("ahead-with", false)] {
        // As a holder leaves it on a server whose clock is 20 s ahead: "free", for a minute.
        let owner = [&[0_u8][..], &60_000_u64.to_be_bytes()].concat();
        let vacated = Put::new(lock_row("aha", id))
            .cell_at(TableDescriptor::LOCK_FAMILY, "L", now() + 20_000, "")
            .cell_at(TableDescriptor::LOCK_FAMILY, "O", now() + 20_000, owner)
            .ttl(Duration::from_secs(60));
        // The library's own table refuses a reserved row.
        let rows = connection.table(table.name().clone()).unwrap();
        rows.put(vacated).await.unwrap();
        assert!(is_free(&locks, "aha", id).await);
        let mut last = 0;
        for _ in 0..3 {
            let request = locks.lock("aha", id).unwrap().ttl(LEASE);
            let guard = if alone {
                request.acquire().await.unwrap()
            } else {
                let mut transaction = table.transaction("aha");
                let pending = transaction.acquire_lock(request).unwrap();
                transaction.commit().await.into_result().unwrap();
                pending.claim().await.unwrap()
            };
            assert!(guard.fencing() > last);
            last = guard.fencing();
            let mut other = table.transaction("aha");
            let _pending = other.acquire_lock(locks.lock("aha", id).unwrap()).unwrap();
            assert!(is_taken_now(other.commit().await, &format!("aha#{id}")));
            let fenced = table.transaction("aha").fenced_by(&guard);
            fenced.commit().await.into_result().unwrap();
            assert!(guard.release().await.unwrap().is_released());
            assert!(is_free(&locks, "aha", id).await);
        }
    }
}

#[tokio::test]
async fn next_holder_is_alone_however_the_lock_changes_hands() {
    let connection = connect().await;
    let table = &SHARED.get().await;
    let (table, locks) = client(&connection, table).await;
    let mut last = 0;
    for round in 0..200 {
        let request = locks.lock("mix", "l").unwrap().ttl(LEASE);
        let guard = if round % 2 == 0 {
            held(request).await
        } else {
            let mut transaction = table.transaction("mix");
            let pending = transaction.acquire_lock(request).unwrap();
            transaction.commit().await.into_result().unwrap();
            pending.claim().await.unwrap()
        };
        assert!(guard.fencing() > last, "round {round}");
        last = guard.fencing();
        assert!(
            locks
                .lock("mix", "l")
                .unwrap()
                .try_acquire()
                .await
                .unwrap()
                .is_none()
        );
        let mut other = table.transaction("mix");
        let _pending = other.acquire_lock(locks.lock("mix", "l").unwrap()).unwrap();
        assert!(is_taken_now(other.commit().await, "mix#l"));
        if round % 4 < 2 {
            assert!(guard.release().await.unwrap().is_released());
        } else {
            let transaction = table.transaction("mix").release_lock(&guard);
            transaction.commit().await.into_result().unwrap();
            assert!(!guard.is_held());
            assert!(guard.release().await.unwrap().is_released());
        }
    }
}

#[tokio::test]
async fn a_long_lease_does_not_come_back_from_under_a_short_one() {
    let connection = connect().await;
    let made = TestTable::create("beneath", with_locks, &[]).await;
    let (table, locks) = client(&connection, &made).await;
    let admin = Admin::new(&connection);
    let short = Duration::from_millis(800);
    for (id, alone) in [("alone", true), ("with", false)] {
        let long = locks.lock("xxx", id).unwrap().ttl(Duration::from_secs(3_600));
        let long = long.acquire().await.unwrap();
        admin.flush_table(&made.name).await.unwrap();
        let giving_back = table.transaction("xxx").release_lock(&long);
        giving_back.commit().await.into_result().unwrap();
        let request = locks.lock("xxx", id).unwrap().ttl(short);
        let guard = if alone {
            request.acquire().await.unwrap()
        } else {
            let mut transaction = table.transaction("xxx");
            let pending = transaction.acquire_lock(request).unwrap();
            transaction.commit().await.into_result().unwrap();
            pending.claim().await.unwrap()
        };
        // The flush leaves only the newest version, so that the note of the long lease's release is
        // gone.
        admin.flush_table(&made.name).await.unwrap();
        let loss = guard.lost().await;
        eventually("the short lease is over", async || {
            is_free(&locks, "xxx", id).await.then_some(())
        })
        .await;
        let next = locks.lock("xxx", id).unwrap().try_acquire().await.unwrap();
        assert!(next.is_some(), "{id}: {loss}");
    }
}

#[tokio::test]
async fn unclaimed_lock_is_released_for_the_life_of_the_cells_below() {
    let connection = connect().await;
    let made = TestTable::create("unclaimed", with_locks, &[]).await;
    let (table, locks) = client(&connection, &made).await;
    let admin = Admin::new(&connection);
    let long = locks.lock("xxx", "u").unwrap().ttl(Duration::from_secs(3_600));
    let long = long.acquire().await.unwrap();
    admin.flush_table(&made.name).await.unwrap();
    assert!(long.release().await.unwrap().is_released());
    let short = Duration::from_millis(1_500);
    let mut transaction = table.transaction("xxx");
    let pending = transaction
        .acquire_lock(locks.lock("xxx", "u").unwrap().ttl(short))
        .unwrap();
    transaction.commit().await.into_result().unwrap();
    let committed = std::time::Instant::now();
    drop(pending);
    eventually("it is given back", async || {
        is_free(&locks, "xxx", "u").await.then_some(())
    })
    .await;
    admin.flush_table(&made.name).await.unwrap();
    while committed.elapsed() < short * 3 / 2 {
        assert!(is_free(&locks, "xxx", "u").await, "the long lease is back");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(is_free(&locks, "xxx", "u").await);
}

#[tokio::test]
async fn readers_do_not_see_locks_and_nobody_writes_into_their_family() {
    let connection = connect().await;
    let table = &SHARED.get().await;
    let (table, locks) = client(&connection, table).await;
    let guard = held(locks.lock("see", "l").unwrap()).await;
    assert_eq!(table.snapshot("see").await.unwrap().rows().len(), 0);
    let mut transaction = table.transaction("see");
    let error = transaction
        .try_add(Put::new("seea").cell(TableDescriptor::LOCK_FAMILY, "L", ""))
        .unwrap_err();
    assert!(error.to_string().contains("_lock is reserved"), "{error}");
    let error = transaction.try_add(put(lock_row("see", "l"), "v")).unwrap_err();
    assert!(error.to_string().contains("the row is reserved"), "{error}");
    let shown = locks.show("see", "l").await.unwrap();
    assert_eq!(shown.key, "see#l");
    assert_eq!(shown.fencing, Some(guard.fencing()));
    assert_eq!(shown.holder.unwrap().name.as_deref(), Some("tester"));
    let hit = locks.force_release("see", "l").await.unwrap().unwrap();
    assert_eq!(hit.token, Some(guard.token()));
    assert!(is_free(&locks, "see", "l").await);
}
