//! Locks released atomically with the result.

use hbase_txn::{
    TransactionId,
    client::Condition,
    lock::{LockLoss, PartitionLocks},
};

use super::{LEASE, SHARED, client, held, is_free, refused_by};
use crate::support::{connect, put, value};

#[tokio::test]
async fn a_result_is_written_and_the_lock_given_back_or_neither() {
    let connection = connect().await;
    let table = &SHARED.get().await;
    let (table, locks) = client(&connection, table).await;
    let guard = held(locks.lock("rel", "l").unwrap()).await;
    let finish = async |condition: Option<Condition>| {
        let mut transaction = table
            .transaction("rel")
            .release_lock(&guard)
            .put(put("rela", "done"));
        if let Some(condition) = condition {
            transaction = transaction.condition(condition);
        }
        transaction.commit().await
    };
    let missing = Condition::present("relb", "f", "q").label("b is there");
    assert_eq!(refused_by(finish(Some(missing)).await), ["b is there"]);
    assert!(guard.is_held());
    guard.renew().await.unwrap();
    assert!(!is_free(&locks, "rel", "l").await);
    assert_eq!(value(table.table(), "rela").await, None);
    finish(None).await.into_result().unwrap();
    assert!(is_free(&locks, "rel", "l").await);
    assert_eq!(value(table.table(), "rela").await.as_deref(), Some("done"));
    assert!(!guard.is_held());
    assert_eq!(guard.lost().await, LockLoss::Released);
    guard.renew().await.unwrap_err();
    // A second release is rejected.
    assert_eq!(
        refused_by(finish(None).await),
        ["lock rel#l is no longer held by this guard"]
    );
    // None of that affects the next holder's lock.
    let next = held(locks.lock("rel", "l").unwrap()).await;
    assert!(guard.release().await.unwrap().is_released());
    assert!(next.is_held());
    next.renew().await.unwrap();
    assert!(next.release().await.unwrap().is_released());
}

#[tokio::test]
async fn renewals_meanwhile_neither_fail_the_release_nor_outlive_it() {
    let connection = connect().await;
    let table = &SHARED.get().await;
    let (table, locks) = client(&connection, table).await;
    for round in 0..100 {
        let guard = held(locks.lock("rnr", "l").unwrap()).await;
        let renew = async { while guard.renew().await.is_ok() {} };
        let finish = async {
            // At a different moment of a renewal each time.
            tokio::time::sleep(std::time::Duration::from_micros(fastrand::u64(..4_000))).await;
            let transaction = table
                .transaction("rnr")
                .release_lock(&guard)
                .put(put("rnra", format!("{round}")));
            transaction.commit().await
        };
        let ((), outcome) = futures::join!(renew, finish);
        assert!(outcome.is_committed(), "round {round}: {outcome}");
        assert!(is_free(&locks, "rnr", "l").await, "round {round}");
    }
}

#[tokio::test]
async fn lost_lock_is_not_released_and_next_holder_keeps_it() {
    let connection = connect().await;
    let table = &SHARED.get().await;
    let (table, locks) = client(&connection, table).await;
    let guard = held(locks.lock("los", "l").unwrap()).await;
    locks.force_release("los", "l").await.unwrap().unwrap();
    // Tasks that share a `PartitionLocks` wait for each other's guards.
    let others = PartitionLocks::open(&table).await.unwrap();
    let next = held(others.lock("los", "l").unwrap()).await;
    let transaction = table
        .transaction("los")
        .release_lock(&guard)
        .put(put("losa", "late"));
    refused_by(transaction.commit().await);
    match guard.lost().await {
        LockLoss::Taken(holder) => assert_eq!(holder.token, Some(next.token())),
        other => panic!("{other}"),
    }
    assert_eq!(value(table.table(), "losa").await, None);
    next.renew().await.unwrap();
    assert!(next.release().await.unwrap().is_released());
}

#[tokio::test]
async fn a_replayed_release_leaves_the_lock_of_whoever_sends_it_again() {
    let connection = connect().await;
    let table = &SHARED.get().await;
    let (table, locks) = client(&connection, table).await;
    let id = TransactionId::new("finish-1").unwrap();
    let finish = async |guard: &hbase_txn::lock::LockGuard| {
        let transaction = table
            .transaction("rpr")
            .id(id.clone())
            .release_lock(guard)
            .put(put("rpra", "done"));
        transaction.commit().await.into_result().unwrap().replayed
    };
    let first = held(locks.lock("rpr", "l").unwrap()).await;
    assert!(!finish(&first).await);
    let second = held(locks.lock("rpr", "l").unwrap()).await;
    assert!(finish(&second).await);
    assert!(second.is_held());
    second.renew().await.unwrap();
    assert!(!is_free(&locks, "rpr", "l").await);
    assert!(second.release().await.unwrap().is_released());
}

#[tokio::test]
async fn work_goes_from_one_lock_to_another_in_one_transaction() {
    let connection = connect().await;
    let table = &SHARED.get().await;
    let (table, locks) = client(&connection, table).await;
    let chief = held(locks.lock("two", "chief").unwrap()).await;
    let first = held(locks.lock("two", "1").unwrap()).await;
    let mut hand_over = table
        .transaction("two")
        .fenced_by(&chief)
        .release_lock(&first)
        .put(put("twoa", "1 done"));
    let pending = hand_over
        .acquire_lock(locks.lock("two", "2").unwrap().ttl(LEASE))
        .unwrap();
    hand_over.commit().await.into_result().unwrap();
    let second = pending.claim().await.unwrap();
    assert!(second.is_held() && !first.is_held() && chief.is_held());
    assert!(is_free(&locks, "two", "1").await && !is_free(&locks, "two", "2").await);
}
