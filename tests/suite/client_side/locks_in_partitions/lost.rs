//! Lost answers and dropped futures: a hold is claimed or released, never forgotten.

use std::time::{Duration, Instant};

use hbase_txn::{
    ClientErrorKind, ErrorKind, Outcome, PartitionedTable, Settled,
    client::{Condition, Connection},
    lock::LockLoss,
};

use super::{LEASE, SHARED, client, held, is_free};
use crate::{
    proxy::{Action, Proxy},
    support::{connect, connect_by, eventually, put, says, standalone, value, within},
};

const COMMIT: &str = "ExecService";
const SOON: Duration = Duration::from_secs(2);

async fn behind(proxy: &Proxy) -> Connection {
    connect_by(proxy.clone(), standalone().config()).await
}

/// Runs the first transaction of a client, which proves the server's abilities with calls of its
/// own.
async fn try_server(table: &PartitionedTable, partition: &'static str) {
    let mut transaction = table.transaction(partition).recorded();
    let missing = Condition::absent(format!("{partition}x"), "f", "q");
    transaction = transaction.condition(missing);
    transaction.commit().await.into_result().unwrap();
}

#[tokio::test]
async fn of_an_acquisition_whose_answer_was_lost_the_claim_tells() {
    let table = &SHARED.get().await;
    let proxy = Proxy::new();
    let connection = behind(&proxy).await;
    let (table, locks) = client(&connection, table).await;
    try_server(&table, "una").await;
    let table = table.with_operation_timeout(SOON);
    for (id, action, applied) in [
        ("applied", Action::DropAnswer, true),
        ("not-applied", Action::DropRequest, false),
    ] {
        for recorded in [false, true] {
            let id = format!("{id}-{recorded}");
            let mut transaction = table.transaction("una");
            if recorded {
                transaction = transaction.recorded();
            }
            let pending = transaction
                .acquire_lock(locks.lock("una", &id).unwrap().ttl(LEASE))
                .unwrap();
            transaction = transaction.put(put(format!("una{id}"), "v"));
            proxy.rule(move |request| {
                if request.method == COMMIT {
                    action
                } else {
                    Action::Pass
                }
            });
            let outcome = transaction.commit().await;
            proxy.pass_all();
            let Outcome::Unknown(unsettled) = outcome else {
                panic!("{id}: {outcome}");
            };
            if recorded {
                let settled = unsettled.settle().await.unwrap();
                assert_eq!(settled == Settled::Committed, applied, "{id}");
            }
            let claimed = pending.claim().await;
            assert_eq!(claimed.is_ok(), applied, "{id}: {claimed:?}");
            let written = value(table.table(), format!("una{id}")).await;
            assert_eq!(written.is_some(), applied, "{id}");
            match claimed {
                Ok(guard) => assert!(guard.release().await.unwrap().is_released()),
                Err(error) => assert_eq!(error.kind(), ErrorKind::LockLost, "{error}"),
            }
            assert!(is_free(&locks, "una", &id).await, "{id}");
        }
    }
}

#[tokio::test]
async fn late_unclaimed_acquisition_is_released() {
    let table = &SHARED.get().await;
    let proxy = Proxy::new();
    let connection = behind(&proxy).await;
    let (table, locks) = client(&connection, table).await;
    try_server(&table, "unl").await;
    let table = table.with_operation_timeout(SOON);
    let mut transaction = table.transaction("unl");
    let pending = transaction
        .acquire_lock(locks.lock("unl", "l").unwrap().ttl(LEASE))
        .unwrap();
    proxy.once(COMMIT, Action::Hold);
    let outcome = transaction.commit().await;
    assert!(matches!(outcome, Outcome::Unknown(_)), "{outcome}");
    pending.claim().await.unwrap_err();
    // Now the server receives the request.
    assert_eq!(proxy.release().await, 1);
    eventually("the commit has arrived and its lock was given back", async || {
        let shown = locks.show("unl", "l").await.unwrap();
        let is_next = shown.fencing.is_some() && shown.holder.is_none();
        let next = locks.lock("unl", "l").unwrap().try_acquire().await.unwrap();
        (is_next && next.is_some()).then_some(())
    })
    .await;
}

#[tokio::test]
async fn release_with_a_lost_answer_is_unknown_to_the_guard() {
    let table = &SHARED.get().await;
    let proxy = Proxy::new();
    let connection = behind(&proxy).await;
    let (table, locks) = client(&connection, table).await;
    try_server(&table, "unr").await;
    let table = table.with_operation_timeout(SOON);
    for action in [Action::DropAnswer, Action::DropRequest] {
        let guard = locks
            .lock("unr", "l")
            .unwrap()
            .ttl(LEASE)
            .auto_renew()
            .acquire()
            .await
            .unwrap();
        let transaction = table
            .transaction("unr")
            .release_lock(&guard)
            .put(put("unra", "v"));
        proxy.rule(move |request| {
            if request.method == COMMIT {
                action
            } else {
                Action::Pass
            }
        });
        let outcome = transaction.commit().await;
        proxy.pass_all();
        assert!(matches!(outcome, Outcome::Unknown(_)), "{outcome}");
        assert!(!guard.is_held());
        assert_eq!(guard.lost().await, LockLoss::Unknown);
        assert!(guard.release().await.unwrap().is_released());
        assert!(is_free(&locks, "unr", "l").await);
    }
}

#[tokio::test]
async fn wait_for_an_unpolled_commit_ends_in_time() {
    let table = &SHARED.get().await;
    let proxy = Proxy::new();
    let config = standalone().config().with_operation_timeout(SOON);
    let connection = connect_by(proxy.clone(), config).await;
    let (table, locks) = client(&connection, table).await;
    try_server(&table, "unp").await;
    let guard = held(locks.lock("unp", "l").unwrap()).await;
    let transaction = table
        .transaction("unp")
        .release_lock(&guard)
        .put(put("unpa", "v"));
    proxy.once(COMMIT, Action::DropRequest);
    let sent = proxy.requests(COMMIT);
    let mut commit = Box::pin(transaction.commit());
    eventually("the commit is sent", async || {
        assert!(futures::poll!(&mut commit).is_pending());
        (proxy.requests(COMMIT) > sent).then_some(())
    })
    .await;
    let says_why = |error: hbase_txn::Error| {
        assert_eq!(error.kind(), ClientErrorKind::DeadlineExceeded, "{error}");
        says(&error, &["commit of a transaction", "unp#l"]);
    };
    says_why(within(SOON, guard.renew()).await.unwrap_err());
    says_why(within(SOON, guard.release()).await.unwrap_err());
    drop(commit);
    eventually("the background gives it back", async || {
        is_free(&locks, "unp", "l").await.then_some(())
    })
    .await;
}

#[tokio::test]
async fn late_release_takes_nothing_from_the_next_holder() {
    let table = &SHARED.get().await;
    let proxy = Proxy::new();
    let connection = behind(&proxy).await;
    let (table, locks) = client(&connection, table).await;
    try_server(&table, "lar").await;
    let table = table.with_operation_timeout(SOON);
    let guard = held(locks.lock("lar", "l").unwrap()).await;
    let transaction = table
        .transaction("lar")
        .release_lock(&guard)
        .put(put("lara", "late"));
    proxy.once(COMMIT, Action::Hold);
    let outcome = transaction.commit().await;
    assert!(matches!(outcome, Outcome::Unknown(_)), "{outcome}");
    // The client releases it in the background.
    drop(guard);
    let next = locks
        .lock("lar", "l")
        .unwrap()
        .ttl(LEASE)
        .wait(LEASE)
        .acquire()
        .await
        .unwrap();
    assert_eq!(proxy.release().await, 1);
    for _ in 0..20 {
        next.renew().await.unwrap();
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(value(table.table(), "lara").await, None);
    assert!(next.release().await.unwrap().is_released());
}

#[tokio::test]
async fn a_commit_that_is_dropped_anywhere_leaves_no_lock_behind() {
    let connection = connect().await;
    let table = &SHARED.get().await;
    let (table, locks) = client(&connection, table).await;
    try_server(&table, "dro").await;
    let began = Instant::now();
    try_server(&table, "dro").await;
    // The delays range over the time of two commits.
    let step = began.elapsed() / 30;
    let (mut taken, mut given_back) = (0, 0);
    for round in 0..60_u32 {
        let id = format!("acquire-{}", round % 6);
        let mut transaction = table.transaction("dro");
        let pending = transaction
            .acquire_lock(locks.lock("dro", &id).unwrap().ttl(LEASE))
            .unwrap();
        transaction = transaction.put(put("droa", "v"));
        let time = step * round;
        let ended = tokio::time::timeout(time, transaction.commit()).await;
        let is_committed = ended.as_ref().is_ok_and(Outcome::is_committed);
        match pending.claim().await {
            Ok(guard) => {
                taken += 1;
                let transaction = table.transaction("dro").release_lock(&guard);
                let ended = tokio::time::timeout(time, transaction.commit()).await;
                given_back += usize::from(ended.is_ok());
                match ended {
                    Ok(outcome) => assert!(outcome.is_committed(), "{outcome}"),
                    // The commit may not have been sent yet.
                    Err(_) => assert!(guard.is_held() || guard.lost().await == LockLoss::Unknown),
                }
            }
            Err(error) => {
                assert!(!is_committed, "{error}");
                assert_eq!(error.kind(), ErrorKind::LockLost, "{error}");
            }
        }
        eventually("the lock is free again", async || {
            is_free(&locks, "dro", &id).await.then_some(())
        })
        .await;
    }
    assert!(
        taken > 0 && given_back > 0 && given_back < 60,
        "{taken} {given_back}, {step:?}"
    );
}
