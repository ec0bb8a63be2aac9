//! Invalid parts of transactions, and cells that are no lock.

use std::time::Duration;

use hbase_txn::{
    ClientErrorKind, ErrorKind, Level, OpenOptions, Outcome,
    client::Durability,
    lock::{LockManagerOptions, LockTableOptions, PartitionLocks},
};

use super::{LEASE, SHARED, client, held, is_free, with_locks};
use crate::support::{
    connect, invalid, put, says,
    table::{TestTable, by_three},
};

#[tokio::test]
async fn locks_out_of_the_servers_reach_are_refused() {
    let connection = connect().await;
    let shared = &SHARED.get().await;
    let (table, locks) = client(&connection, shared).await;
    let begin = || table.transaction("bad").put(put("bada", "v"));
    let mut transaction = begin();

    let other_partition = held(locks.lock("bae", "l").unwrap()).await;
    let error = invalid(begin().fenced_by(&other_partition)).await;
    assert_eq!(error.kind(), ErrorKind::OtherPartition, "{error}");
    let error = invalid(begin().release_lock(&other_partition)).await;
    assert_eq!(error.kind(), ErrorKind::OtherPartition);
    let error = transaction
        .acquire_lock(locks.lock("bae", "m").unwrap())
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OtherPartition);

    let other = TestTable::create("other-locks", with_locks, &[]).await;
    let (_, others) = client(&connection, &other).await;
    let other_table = held(others.lock("bad", "l").unwrap()).await;
    let error = invalid(begin().fenced_by(&other_table)).await;
    assert_eq!(error.kind(), ClientErrorKind::InvalidInput);
    says(&error, &["lock bad#l", "is in table", "PartitionLocks"]);

    let lock_table = TestTable::create(
        "lock-table",
        |name| LockTableOptions::from(name).without_java_clients().descriptor(),
        &[],
    )
    .await;
    let manager = LockManagerOptions::new("c").farm("f");
    let manager = manager.open(&connection, lock_table.name.clone()).await.unwrap();
    let request = manager.lock(Level::Dc, "l").unwrap();
    let error = transaction.acquire_lock(request.clone()).unwrap_err();
    says(&error, &["lock DC#f#c#l", "lock table", "fencing number"]);
    let guard = request.acquire().await.unwrap();
    for error in [
        invalid(begin().fenced_by(&guard)).await,
        invalid(begin().release_lock(&guard)).await,
    ] {
        assert_eq!(error.kind(), ClientErrorKind::InvalidInput);
        says(&error, &["lock table"]);
    }
    let error = table
        .update("bad", |view| view.fenced_by(&guard).map(|_| ()))
        .await
        .unwrap_err();
    says(&error, &["lock table"]);
    // The transaction is unchanged.
    transaction.commit().await.into_result().unwrap();
}

#[tokio::test]
async fn one_lock_is_in_a_transaction_once() {
    let connection = connect().await;
    let table = &SHARED.get().await;
    let (table, locks) = client(&connection, table).await;
    let guard = held(locks.lock("twi", "l").unwrap()).await;
    let fenced = || table.transaction("twi").fenced_by(&guard);
    for error in [
        invalid(fenced().fenced_by(&guard)).await,
        invalid(fenced().release_lock(&guard)).await,
        fenced()
            .acquire_lock(locks.lock("twi", "l").unwrap())
            .unwrap_err(),
    ] {
        assert_eq!(error.kind(), ClientErrorKind::InvalidInput);
        says(&error, &["lock twi#l", "twice", "fenced by"]);
    }
    let transaction = table.transaction("twi").release_lock(&guard);
    says(
        &invalid(transaction.fenced_by(&guard)).await,
        &["operation 2: lock twi#l", "twice", "release"],
    );
    let mut transaction = table.transaction("twi");
    let _pending = transaction.acquire_lock(locks.lock("twi", "m").unwrap()).unwrap();
    let again = transaction.acquire_lock(locks.lock("twi", "m").unwrap());
    says(&again.unwrap_err(), &["twice", "acquire"]);
}

#[tokio::test]
async fn invalid_locks_are_refused_before_any_call() {
    let connection = connect().await;
    let shared = &SHARED.get().await;
    let (table, locks) = client(&connection, shared).await;
    let refused = |prefix: &'static str, id: &str| {
        let error = locks.lock(prefix, id).unwrap_err();
        assert_eq!(error.kind(), ClientErrorKind::InvalidInput, "{error}");
        error.to_string()
    };
    says(&refused("xxx", ""), &["empty lock id"]);
    says(&refused("xxx", &"i".repeat(40_000)), &["40000 bytes"]);
    refused("xx", "too short for a prefix");
    refused("xxxx", "too long for one");
    let request = || locks.lock("xxx", "ttl").unwrap();
    for ttl in [
        Duration::ZERO,
        Duration::from_millis(99),
        Duration::from_secs(31 * 86_400),
    ] {
        let error = request().ttl(ttl).acquire().await.unwrap_err();
        assert_eq!(error.kind(), ClientErrorKind::InvalidInput);
        let mut transaction = table.transaction("xxx");
        let error = transaction.acquire_lock(request().ttl(ttl)).unwrap_err();
        assert_eq!(error.kind(), ClientErrorKind::InvalidInput);
        says(&error, &["lock xxx#ttl", "a lease of"]);
    }
    let mut transaction = table.transaction("xxx");
    says(
        &transaction.acquire_lock(request().wait(LEASE)).unwrap_err(),
        &["does not wait"],
    );
    // The pending lock is dropped before the commit, so that nothing could claim it.
    drop(transaction.acquire_lock(request()).unwrap());
    transaction = transaction.put(put("xxxa", "v"));
    match transaction.commit().await {
        Outcome::Aborted(error) => says(&error, &["PendingLock"]),
        other => panic!("{other}"),
    }
    assert!(is_free(&locks, "xxx", "ttl").await);
    // Never committed.
    let mut transaction = table.transaction("xxx");
    let pending = transaction.acquire_lock(request()).unwrap();
    drop(transaction);
    let error = pending.claim().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LockLost);
    says(&error, &["no transaction was committed"]);
}

#[tokio::test]
async fn tables_and_durabilities_that_could_lose_a_lock_are_refused() {
    let connection = connect().await;
    let without = TestTable::create("no-locks", by_three, &[]).await;
    let error = PartitionLocks::open(&without.open(&connection).await)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::FamilyNotFound);
    says(&error, &["_lock", "add the family"]);

    let shared = &SHARED.get().await;
    let (table, locks) = client(&connection, shared).await;
    let guard = held(locks.lock("dur", "l").unwrap()).await;
    let transaction = table
        .transaction("dur")
        .release_lock(&guard)
        .put(put("dura", "v").durability(Durability::AsyncWal));
    match transaction.commit().await {
        Outcome::Invalid(error) => assert_eq!(error.kind(), ErrorKind::WeakDurability),
        other => panic!("{other}"),
    }
    assert!(guard.is_held());
    // A fence writes nothing that could be lost.
    let transaction = table
        .transaction("dur")
        .fenced_by(&guard)
        .put(put("dura", "v").durability(Durability::AsyncWal));
    transaction.commit().await.into_result().unwrap();

    let options = OpenOptions::new().without_endpoint();
    let without_endpoint = shared.open_with(&connection, options).await;
    let transaction = without_endpoint
        .transaction("dur")
        .fenced_by(&guard)
        .put(put("dura", "w"));
    match transaction.commit().await {
        Outcome::Invalid(error) => says(&error, &["locks", "need the endpoint"]),
        other => panic!("{other}"),
    }
}
