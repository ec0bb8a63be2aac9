//! Mutations that the client rejects before it sends anything; each error names the mutation.

use std::time::Duration;

use hbase_txn::{
    ClientErrorKind, OpenOptions,
    client::{Append, Delete, Durability, Increment, Mutation, Put, Scan, Table},
};
use rstest::rstest;

use crate::support::{
    connect, put, rows, says, spied,
    table::{SharedTable, TestTable, by_three},
};

static TABLE: SharedTable = SharedTable::new("mutations", by_three, &[]);

fn long_row() -> Vec<u8> {
    let mut row = b"bad".to_vec();
    row.resize(32_768, b'x');
    row
}

/// Mutations that no transaction accepts, each with the kind and texts of its error.
fn refused() -> Vec<(Mutation, ClientErrorKind, &'static [&'static str])> {
    use ClientErrorKind::{FamilyNotFound, InvalidInput};
    let secret = put("bad1", "v").cell_visibility("secret");
    let ttl = 1_000_u64.to_be_bytes().to_vec();
    vec![
        (
            Put::new("bad1").cell("g", "q", "v").into(),
            FamilyNotFound,
            &["put", "row bad1", "no family g; it has f"],
        ),
        (
            Delete::new("bad1").column("g", "q").into(),
            FamilyNotFound,
            &["delete", "row bad1", "no family g"],
        ),
        (put("", "v").into(), InvalidInput, &["put", "empty row key"]),
        (Delete::new("").into(), InvalidInput, &["delete", "empty row key"]),
        (
            put(long_row(), "v").into(),
            InvalidInput,
            &["put", "row badxxx", "32768 bytes; HBase takes 32767"],
        ),
        (
            put("bad1", vec![0; 10 << 20]).into(),
            InvalidInput,
            &["put", "row bad1", "cell f:q", "over the limit of 10485760"],
        ),
        (
            Delete::new("bad1").attribute("_ttl", ttl).into(),
            InvalidInput,
            &["delete", "row bad1", "can't have a TTL"],
        ),
        (
            put("bad1", "v").ttl(Duration::from_nanos(1)).into(),
            InvalidInput,
            &["row bad1", "at least one whole millisecond"],
        ),
        (
            secret.into(),
            InvalidInput,
            &["put", "row bad1", "visibility labels"],
        ),
        (
            Put::new("bad1").into(),
            InvalidInput,
            &["row bad1", "put without cells"],
        ),
        (
            put("bad1", "v").timestamp(u64::MAX).into(),
            InvalidInput,
            &["row bad1", "out of range"],
        ),
    ]
}

async fn nothing_was_written(table: &Table, prefix: &'static str) {
    assert_eq!(rows(table, Scan::prefix(prefix)).await, []);
}

#[tokio::test]
async fn a_transaction_refuses_each_when_it_is_added_and_names_it() {
    let (connection, spy) = spied().await;
    let shared = TestTable::create("refused", by_three, &[]).await;
    let table = shared.open(&connection).await;
    let opened = spy.endpoint_calls();
    for (mutation, kind, words) in refused() {
        let mut transaction = table.transaction_for_row(mutation.row().clone());
        let error = transaction.try_add(mutation).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().len() < 600, "{error}");
        says(&error, words);
        // The transaction is left empty, which is rejected as well.
        says(&transaction.commit().await, &["invalid", "without mutations"]);
    }
    assert_eq!(spy.endpoint_calls(), opened);
    nothing_was_written(table.table(), "bad").await;
}

#[tokio::test]
async fn batch_refuses_invalid_groups_and_sends_the_others() {
    let (connection, spy) = spied().await;
    let shared = TestTable::create("refused", by_three, &[]).await;
    let table = shared.open(&connection).await;
    for (at, (mutation, kind, words)) in refused().into_iter().enumerate() {
        let opened = spy.endpoint_calls();
        let mut batch = table.batch();
        let good = format!("ok{at:x}");
        batch = batch.put(put("bad0", "beside it")).put(put(good.clone(), "v"));
        let alone = mutation.row().is_empty();
        batch = batch.add(mutation);
        let groups = batch.commit().await;
        let refused = if alone { 2 } else { 0 };
        assert_eq!(groups[1].outcome.name(), "committed", "{}", groups[1].outcome);
        assert_eq!(
            groups[refused].outcome.name(),
            "invalid",
            "{}",
            groups[refused].outcome
        );
        let error = groups[refused].outcome.error().unwrap();
        assert_eq!(error.kind(), kind, "{error}");
        says(error, words);
        let sent = if alone { 2 } else { 1 };
        assert_eq!(spy.endpoint_calls(), opened + sent);
        if alone {
            table.table().delete(Delete::new("bad0")).await.unwrap();
        }
    }
    nothing_was_written(table.table(), "bad").await;
}

#[rstest]
#[case::beside_the_default(Durability::UseDefault)]
#[case::beside_async(Durability::AsyncWal)]
#[case::beside_sync(Durability::SyncWal)]
#[case::beside_fsync(Durability::FsyncWal)]
#[tokio::test]
async fn skip_wal_beside_anything_else_is_refused_and_nothing_is_sent(#[case] other: Durability) {
    let (connection, spy) = spied().await;
    let shared = TABLE.get().await;
    let table = shared.open(&connection).await;
    let opened = spy.endpoint_calls();
    let transaction = table
        .transaction("wal")
        .put(put("wal1", "v").durability(other))
        .put(put("wal2", "v").durability(Durability::SkipWal));
    let outcome = transaction.commit().await;
    assert_eq!(outcome.name(), "invalid");
    says(
        &outcome,
        &["row wal2", "SKIP_WAL next to mutations that are logged"],
    );
    assert_eq!(spy.endpoint_calls(), opened);
    nothing_was_written(table.table(), "wal").await;
}

#[tokio::test]
async fn operations_without_a_sequential_form_are_refused() {
    let connection = connect().await;
    let shared = TABLE.get().await;
    let table = shared.open(&connection).await;
    let transaction = table
        .transaction("ord")
        .increment(Increment::new("ord1").column("f", "q", 1))
        .append(Append::new("ord1").cell("f", "q", "v"));
    let outcome = transaction.commit().await;
    assert_eq!(outcome.name(), "invalid");
    says(&outcome, &["row ord1", "f:q"]);
    let delete = Delete::new("ord1").family_version("f", 7);
    let transaction = table
        .transaction("ord")
        .put(put("ord1", "v"))
        .delete(delete.clone());
    let outcome = transaction.commit().await;
    assert_eq!(outcome.name(), "invalid");
    says(&outcome, &["row ord1", "family f at 7"]);
    let alone = table.transaction("ord").delete(delete).commit().await;
    assert!(alone.is_committed(), "{alone}");
    nothing_was_written(table.table(), "ord").await;
}

#[tokio::test]
async fn a_transaction_over_the_limits_it_was_opened_with_is_refused() {
    let connection = connect().await;
    let options = OpenOptions::new().max_mutations(2).max_bytes(100);
    let shared = TABLE.get().await;
    let table = shared.open_with(&connection, options).await;
    let mut many = table.transaction("lim");
    for row in ["lim1", "lim2", "lim3"] {
        many = many.put(put(row, "v"));
    }
    let large = table.transaction("lim").put(put("lim1", vec![0; 100]));
    for (transaction, why) in [
        (many, "of 3 mutations; the limit is 2"),
        (large, "the limit is 100"),
    ] {
        let outcome = transaction.commit().await;
        assert_eq!(outcome.error().unwrap().kind(), ClientErrorKind::LimitExceeded);
        says(&outcome, &["invalid", why]);
    }
    nothing_was_written(table.table(), "lim").await;
}

#[tokio::test]
async fn single_mutations_are_refused_like_transactions() {
    let connection = connect().await;
    let shared = TestTable::create("refused", by_three, &[]).await;
    let table = shared.of(&connection);
    for (mutation, kind, words) in refused() {
        let result = match mutation {
            Mutation::Put(put) => table.put(put).await,
            Mutation::Delete(delete) => table.delete(delete).await,
            other => panic!("{other:?}"),
        };
        if words.contains(&"visibility labels") {
            // The client leaves visibility labels to the server, which does not support them here.
            let _ = result;
            table.delete(Delete::new("bad1")).await.unwrap();
            continue;
        }
        let error = result.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(!error.is_outcome_unknown(), "{error}");
        let named: Vec<_> = words
            .iter()
            .filter(|word| !word.contains("it has"))
            .copied()
            .collect();
        if kind == ClientErrorKind::InvalidInput {
            says(&error, &named);
        }
    }
    nothing_was_written(&table, "bad").await;
}
