//! Locks acquired atomically with data.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use futures::future::join_all;
use hbase_txn::{ErrorKind, Outcome, TransactionId, client::Condition, lock::LockLoss};

use super::{LEASE, SHARED, client, held, is_free, is_taken_now, refused_by};
use crate::support::{connect, put, value};

#[tokio::test]
async fn of_many_that_acquire_at_once_one_writes() {
    let table = &SHARED.get().await;
    let clients = join_all((0..8).map(async |_| {
        let connection = connect().await;
        client(&connection, table).await
    }))
    .await;
    let inside = AtomicUsize::new(0);
    let mut won = 0;
    let race = async |task: usize, round: usize| {
        let (table, locks) = &clients[task];
        let mut transaction = table.transaction("one");
        if task.is_multiple_of(2) {
            transaction = transaction.recorded();
        }
        let request = locks.lock("one", "l").unwrap().ttl(LEASE);
        let pending = transaction.acquire_lock(request).unwrap();
        let mine = format!("{round}/{task}");
        transaction = transaction.put(put("onea", mine.clone()));
        match transaction.commit().await {
            Outcome::Committed(_) => {}
            outcome => {
                assert!(is_taken_now(outcome, "one#l"));
                let error = pending.claim().await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::LockLost, "{error}");
                return 0;
            }
        }
        let guard = pending.claim().await.unwrap();
        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two hold it");
        assert_eq!(value(table.table(), "onea").await, Some(mine));
        inside.fetch_sub(1, Ordering::SeqCst);
        let done = table
            .transaction("one")
            .release_lock(&guard)
            .put(put("oneb", "done"));
        done.commit().await.into_result().unwrap();
        1
    };
    for round in 0..40 {
        let ended: Vec<usize> = join_all((0..8).map(|task| race(task, round))).await;
        won += ended.iter().sum::<usize>();
        assert!(
            ended.contains(&1),
            "round {round}: nobody got a lock that was free"
        );
    }
    assert!(won >= 40);
}

#[tokio::test]
async fn failed_condition_leaves_the_lock_and_held_lock_the_data() {
    let connection = connect().await;
    let table = &SHARED.get().await;
    let (table, locks) = client(&connection, table).await;
    let mut transaction = table.transaction("acq");
    let pending = transaction.acquire_lock(locks.lock("acq", "l").unwrap()).unwrap();
    transaction = transaction
        .condition(Condition::present("acqa", "f", "q").label("a is there"))
        .put(put("acqb", "v"));
    assert_eq!(refused_by(transaction.commit().await), ["a is there"]);
    pending.claim().await.unwrap_err();
    assert!(is_free(&locks, "acq", "l").await);
    let guard = held(locks.lock("acq", "l").unwrap()).await;
    let mut transaction = table.transaction("acq");
    let _pending = transaction.acquire_lock(locks.lock("acq", "l").unwrap()).unwrap();
    transaction = transaction.put(put("acqb", "v"));
    assert!(is_taken_now(transaction.commit().await, "acq#l"));
    assert_eq!(value(table.table(), "acqb").await, None);
    assert!(guard.release().await.unwrap().is_released());
}

#[tokio::test]
async fn claimed_lock_is_renewed_and_late_claim_is_lost() {
    let connection = connect().await;
    let table = &SHARED.get().await;
    let (table, locks) = client(&connection, table).await;
    // A busy machine claims and renews late; leases that are too short for it would be lost.
    let lease = Duration::from_secs(6);
    let acquire = async |id: &str, renewed: bool| {
        let request = locks.lock("lat", id).unwrap().ttl(lease);
        let request = if renewed { request.auto_renew() } else { request };
        let mut transaction = table.transaction("lat");
        let pending = transaction.acquire_lock(request).unwrap();
        transaction = transaction.put(put("lata", "v"));
        transaction.commit().await.into_result().unwrap();
        pending
    };
    let renewed = acquire("renewed", true).await.claim().await.unwrap();
    let short = acquire("short", false).await.claim().await.unwrap();
    let late = acquire("late", false).await;
    assert_eq!(short.lost().await, LockLoss::Expired);
    tokio::time::timeout(lease, renewed.lost()).await.unwrap_err();
    assert!(renewed.is_held());
    let error = late.claim().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LockLost);
    assert!(error.to_string().contains("its lease expired"), "{error}");
    assert!(renewed.release().await.unwrap().is_released());
}

#[tokio::test]
async fn a_replayed_acquisition_holds_nothing_and_says_so() {
    let connection = connect().await;
    let table = &SHARED.get().await;
    let (table, locks) = client(&connection, table).await;
    let id = TransactionId::new("start-1").unwrap();
    let commit = async || {
        let mut transaction = table.transaction("rpa").id(id.clone());
        let pending = transaction
            .acquire_lock(locks.lock("rpa", "l").unwrap().ttl(LEASE))
            .unwrap();
        transaction = transaction.put(put("rpaa", "v"));
        (
            transaction.commit().await.into_result().unwrap().replayed,
            pending,
        )
    };
    let (replayed, pending) = commit().await;
    assert!(!replayed);
    let guard = pending.claim().await.unwrap();
    for _ in 0..2 {
        let (replayed, pending) = commit().await;
        assert!(replayed);
        assert_eq!(pending.claim().await.unwrap_err().kind(), ErrorKind::LockLost);
        let _ = guard.renew().await;
    }
    assert!(guard.release().await.unwrap().is_released());
    let (replayed, pending) = commit().await;
    assert!(replayed);
    assert_eq!(pending.claim().await.unwrap_err().kind(), ErrorKind::LockLost);
    assert!(is_free(&locks, "rpa", "l").await);
}
