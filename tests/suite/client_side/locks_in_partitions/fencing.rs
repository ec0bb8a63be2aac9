//! Only the present holder can write.

use std::time::Duration;

use futures::future::{join, join_all};
use hbase_txn::{
    ErrorKind, Outcome, TransactionId,
    admin::Admin,
    client::{Condition, Increment},
    lock::LockLoss,
};

use super::{LEASE, SHARED, client, held, refused_by, with_locks};
use crate::support::{connect, eventually, put, table::TestTable, value};

#[tokio::test]
async fn overtaken_holders_write_is_refused_in_200_rounds() {
    let connection = connect().await;
    let table = &SHARED.get().await;
    let (table, locks) = client(&connection, table).await;
    let lane = async |lane: usize| {
        let row = format!("sta{lane}");
        let id = format!("lane-{lane}");
        for round in 0..10 {
            // Not renewed, as if the process were suspended from here on.
            let request = locks
                .lock("sta", &id)
                .unwrap()
                .ttl(Duration::from_millis(800))
                .wait(LEASE);
            let stale = request.acquire().await.unwrap();
            let late = table
                .transaction("sta")
                .fenced_by(&stale)
                .put(put(row.clone(), "stale"));
            let next = locks.lock("sta", &id).unwrap().ttl(LEASE).wait(LEASE);
            let next = next.acquire().await.unwrap();
            assert!(next.fencing() > stale.fencing());
            let current = format!("{round}");
            let write = table
                .transaction("sta")
                .fenced_by(&next)
                .put(put(row.clone(), current.clone()));
            let (write, late) = join(write.commit(), late.commit()).await;
            write.into_result().unwrap();
            let label = format!("lock sta#{id} is no longer held by this guard");
            assert_eq!(refused_by(late), [label], "round {round}");
            assert_eq!(value(table.table(), row.clone()).await, Some(current));
            assert!(matches!(
                stale.lost().await,
                LockLoss::Expired | LockLoss::Taken(_)
            ));
            assert!(next.release().await.unwrap().is_released());
        }
    };
    join_all((0..20).map(lane)).await;
}

#[tokio::test]
async fn renewals_at_any_rate_are_in_no_way_of_fenced_commits() {
    let connection = connect().await;
    let table = &SHARED.get().await;
    let (table, locks) = client(&connection, table).await;
    let guard = held(locks.lock("ren", "l").unwrap()).await;
    let mut renewals = 0;
    let renew = async {
        loop {
            guard.renew().await.unwrap();
            renewals += 1;
        }
    };
    let commit = async |task: usize| {
        for number in 0..250 {
            let transaction = table
                .transaction("ren")
                .fenced_by(&guard)
                .put(put(format!("ren{task}"), format!("{number}")))
                .increment(Increment::new("rencount").column("f", "n", 1));
            let outcome = transaction.commit().await;
            assert!(outcome.is_committed(), "task {task}, number {number}: {outcome}");
        }
    };
    tokio::select! {
        () = renew => unreachable!("renews for ever"),
        _ = join_all((0..4).map(commit)) => {}
    }
    assert!(renewals > 100, "{renewals} renewals");
    let row = table
        .table()
        .get(hbase_txn::client::Get::new("rencount"))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(row.value("f", "n").unwrap()[..], 1_000_u64.to_be_bytes());
    assert!(guard.is_held());
    assert!(guard.release().await.unwrap().is_released());
}

#[tokio::test]
async fn an_update_is_fenced_too() {
    let connection = connect().await;
    let table = &SHARED.get().await;
    let (table, locks) = client(&connection, table).await;
    let guard = held(locks.lock("upd", "l").unwrap()).await;
    let append = async |guard: &hbase_txn::lock::LockGuard| {
        table
            .update("upd", |view| {
                let before = view.value("upda", "f", "q")?.cloned().unwrap_or_default();
                view.fenced_by(guard)?;
                view.put(put("upda", [&before[..], b"x"].concat()))?;
                Ok::<_, hbase_txn::Error>(())
            })
            .await
    };
    append(&guard).await.unwrap();
    append(&guard).await.unwrap();
    locks.force_release("upd", "l").await.unwrap().unwrap();
    let error = append(&guard).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConditionNotMet, "{error}");
    let lost = "lock upd#l is no longer held by this guard; nothing was written";
    assert!(error.to_string().contains(lost), "{error}");
    assert_eq!(value(table.table(), "upda").await.as_deref(), Some("xx"));
    assert!(!guard.is_held());
}

#[tokio::test]
async fn other_conditions_are_named_beside_the_lock_and_do_not_end_it() {
    let connection = connect().await;
    let table = &SHARED.get().await;
    let (table, locks) = client(&connection, table).await;
    let guard = held(locks.lock("con", "l").unwrap()).await;
    let commit = || {
        let transaction = table
            .transaction("con")
            .condition(Condition::present("cona", "f", "q").label("a is there"))
            .fenced_by(&guard)
            .put(put("conb", "v"));
        transaction.commit()
    };
    assert_eq!(refused_by(commit().await), ["a is there"]);
    assert!(guard.is_held());
    locks.force_release("con", "l").await.unwrap().unwrap();
    let lock = "lock con#l is no longer held by this guard";
    let outcome = commit().await;
    let text = "lock con#l is no longer held by this guard; not met: a is there; nothing was written";
    assert!(outcome.to_string().contains(text), "{outcome}");
    assert_eq!(refused_by(outcome), ["a is there", lock]);
    assert!(!guard.is_held());
    assert_eq!(guard.lost().await, LockLoss::Removed);
    assert_eq!(value(table.table(), "conb").await, None);
}

#[tokio::test]
async fn splits_and_merges_keep_partition_locks() {
    let connection = connect().await;
    let made = TestTable::create("split", with_locks, &[]).await;
    let (table, locks) = client(&connection, &made).await;
    let guard = held(locks.lock("ppp", "l").unwrap()).await;
    let work = async {
        for number in 0.. {
            let transaction = table
                .transaction("ppp")
                .recorded()
                .fenced_by(&guard)
                .put(put("pppa", format!("{number}")));
            let outcome = transaction.commit().await;
            assert!(outcome.is_committed(), "{outcome}");
            let mut taking = table.transaction("ppp").recorded();
            let pending = taking
                .acquire_lock(locks.lock("ppp", "other").unwrap().ttl(LEASE))
                .unwrap();
            taking = taking.put(put("pppb", format!("{number}")));
            let outcome = taking.commit().await;
            assert!(outcome.is_committed(), "{outcome}");
            let other = pending.claim().await.unwrap();
            let giving_back = table
                .transaction("ppp")
                .recorded()
                .release_lock(&other)
                .put(put("pppc", format!("{number}")));
            let outcome = giving_back.commit().await;
            assert!(outcome.is_committed(), "{outcome}");
        }
    };
    let regions = async {
        made.split_at(&connection, "mmm").await;
        made.merge_both(&connection).await;
        Admin::new(&connection)
            .major_compact_table(&made.name)
            .await
            .unwrap();
    };
    tokio::select! {
        () = work => unreachable!("works for ever"),
        () = regions => {}
    }
    eventually("the guard's renewal finds the region", async || {
        guard.renew().await.ok()
    })
    .await;
    assert!(guard.release().await.unwrap().is_released());
}

#[tokio::test]
async fn an_id_is_replayed_whoever_holds_the_lock_by_then() {
    let connection = connect().await;
    let table = &SHARED.get().await;
    let (table, locks) = client(&connection, table).await;
    let id = TransactionId::new("job-1").unwrap();
    let commit = async |guard: &hbase_txn::lock::LockGuard, value: &'static str| {
        let transaction = table
            .transaction("rep")
            .id(id.clone())
            .fenced_by(guard)
            .put(put("repa", value));
        transaction.commit().await
    };
    let first = held(locks.lock("rep", "l").unwrap()).await;
    assert!(!commit(&first, "v").await.into_result().unwrap().replayed);
    assert!(first.release().await.unwrap().is_released());
    let second = held(locks.lock("rep", "l").unwrap()).await;
    assert!(commit(&second, "v").await.into_result().unwrap().replayed);
    locks.force_release("rep", "l").await.unwrap().unwrap();
    // The lock has no holder any more.
    assert!(commit(&second, "v").await.into_result().unwrap().replayed);
    match commit(&second, "other").await {
        Outcome::Invalid(error) => assert_eq!(error.kind(), ErrorKind::IdReused),
        other => panic!("{other}"),
    }
    // The same contents without the fence, or with another lock, count as other contents.
    let without = table.transaction("rep").id(id.clone()).put(put("repa", "v"));
    let error = without.commit().await.into_result().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::IdReused);
    let other = held(locks.lock("rep", "other").unwrap()).await;
    assert_eq!(
        commit(&other, "v").await.into_result().unwrap_err().kind(),
        ErrorKind::IdReused
    );
}
