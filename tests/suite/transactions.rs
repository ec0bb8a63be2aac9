//! The server stores a transaction's cells, timestamps and TTLs as written, all of it or nothing.

use std::time::Duration;

use hbase_txn::{
    ClientErrorKind,
    client::{Delete, Durability, FamilyDescriptor, Get, Put, Scan, TableDescriptor, TableName},
};
use rstest::rstest;

use crate::support::{
    connect, eventually, forge, keys, put, rows, says,
    table::{SharedTable, TestTable, by_three},
    value,
};

static TABLE: SharedTable = SharedTable::new("transactions", two_families, &["mmm"]);

fn two_families(name: TableName) -> TableDescriptor {
    by_three(name).with_family(FamilyDescriptor::new("g"))
}

#[tokio::test]
async fn puts_and_deletes_of_a_partition_are_applied_together() {
    let connection = connect().await;
    let shared = TABLE.get().await;
    let table = shared.open(&connection).await;
    table.table().put(put("xxxzzz", "old")).await.unwrap();
    let two_columns = Put::new("xxxcol").cell("f", "q", "1").cell("g", "q", "2");
    table.table().put(two_columns).await.unwrap();

    let transaction = table
        .transaction("xxx")
        .put(put("xxxabc", "1"))
        .put(put("xxx123", "2"))
        .delete(Delete::new("xxxzzz"))
        .delete(Delete::new("xxxcol").family("g"));
    let committed = transaction.commit().await.into_result().unwrap();
    assert_eq!((committed.rows, committed.mutations), (4, 4));
    assert_eq!(
        keys(table.table(), Scan::prefix("xxx")).await,
        ["xxx123", "xxxabc", "xxxcol"]
    );
    let row = table.table().get(Get::new("xxxcol")).await.unwrap().unwrap();
    assert_eq!(row.cells().len(), 1);

    let mut transaction = table.transaction("xxx");
    for row in ["xxxabc", "xxx123", "xxxcol"] {
        transaction = transaction.delete(Delete::new(row));
    }
    assert!(transaction.commit().await.is_committed());
    assert_eq!(keys(table.table(), Scan::prefix("xxx")).await, [""; 0]);
}

#[tokio::test]
async fn several_mutations_of_one_row_are_one() {
    let connection = connect().await;
    let shared = TABLE.get().await;
    let table = shared.open(&connection).await;
    let transaction = table
        .transaction("one")
        .put(put("one1", "v"))
        .put(Put::new("one1").cell("f", "other", "w"))
        .delete(Delete::new("one1").family("g"));
    let committed = transaction.commit().await.into_result().unwrap();
    assert_eq!((committed.rows, committed.mutations), (1, 3));
    let row = table.table().get(Get::new("one1")).await.unwrap().unwrap();
    assert_eq!(row.cells().len(), 2);
}

#[tokio::test]
async fn timestamps_are_kept_and_cells_without_one_get_the_servers() {
    let connection = connect().await;
    let shared = TABLE.get().await;
    let table = shared.open(&connection).await;
    let transaction = table
        .transaction("tim")
        .put(put("tim1", "v").timestamp(77))
        .put(Put::new("tim2").cell_at("f", "q", 88, "v").cell("f", "now", "v"))
        .put(put("tim3", "v"));
    assert!(transaction.commit().await.is_committed());
    let rows = rows(table.table(), Scan::prefix("tim")).await;
    assert_eq!(rows[0].cell("f", "q").unwrap().timestamp, 77);
    assert_eq!(rows[1].cell("f", "q").unwrap().timestamp, 88);
    let stamped = rows[1].cell("f", "now").unwrap().timestamp;
    assert!(stamped > 1_600_000_000_000, "{stamped}");
    assert_eq!(rows[2].cell("f", "q").unwrap().timestamp, stamped);

    // A delete up to a timestamp deletes only cells up to that age.
    let transaction = table
        .transaction("tim")
        .delete(Delete::new("tim1").timestamp(76))
        .delete(Delete::new("tim2").version("f", "q", 88));
    assert!(transaction.commit().await.is_committed());
    assert_eq!(value(table.table(), "tim1").await.as_deref(), Some("v"));
    assert_eq!(value(table.table(), "tim2").await, None);
}

#[tokio::test]
async fn a_ttl_expires_its_row_and_no_other_of_the_transaction() {
    let connection = connect().await;
    let shared = TABLE.get().await;
    let table = shared.open(&connection).await;
    let transaction = table
        .transaction("ttl")
        .put(put("ttl1", "v").ttl(Duration::from_millis(1_500)))
        .put(put("ttl2", "v"));
    assert!(transaction.commit().await.is_committed());
    assert_eq!(keys(table.table(), Scan::prefix("ttl")).await, ["ttl1", "ttl2"]);
    eventually("the first row has expired", async || {
        (keys(table.table(), Scan::prefix("ttl")).await == ["ttl2"]).then_some(())
    })
    .await;
}

#[rstest]
#[tokio::test]
async fn every_durability_is_taken_when_all_mutations_have_it(
    #[values(
        Durability::UseDefault,
        Durability::SkipWal,
        Durability::AsyncWal,
        Durability::SyncWal,
        Durability::FsyncWal
    )]
    durability: Durability,
) {
    let connection = connect().await;
    let shared = TABLE.get().await;
    let table = shared.open(&connection).await;
    let prefix = format!("d{:02}", durability as u8);
    let mut transaction = table.transaction(prefix.clone());
    for row in ["1", "2"] {
        transaction = transaction.put(put(format!("{prefix}{row}"), "v").durability(durability));
    }
    assert!(transaction.commit().await.is_committed());
    assert_eq!(keys(table.table(), Scan::prefix(prefix)).await.len(), 2);
}

#[tokio::test]
async fn a_large_transaction_is_applied_whole() {
    let connection = connect().await;
    let shared = TABLE.get().await;
    let table = shared.open(&connection).await;
    let mut transaction = table.transaction("big");
    for row in 0..5_000 {
        transaction = transaction.put(put(format!("big{row:04}"), vec![b'v'; 500]));
    }
    let committed = transaction.commit().await.into_result().unwrap();
    assert_eq!(committed.rows, 5_000);
    assert_eq!(rows(table.table(), Scan::prefix("big")).await.len(), 5_000);
}

/// The library never sends such requests. The server must not apply a part of them either.
#[rstest]
#[case::a_row_of_another_region(&[("fora1", "f"), ("fora2", "f"), ("zzz1", "f")], ClientErrorKind::Server)]
#[case::an_unknown_family_last(&[("forb1", "f"), ("forb2", "nope")], ClientErrorKind::FamilyNotFound)]
#[case::an_unknown_family_first(&[("forc1", "nope"), ("forc2", "f")], ClientErrorKind::FamilyNotFound)]
#[tokio::test]
async fn forged_transaction_is_never_applied_in_part(
    #[case] puts: &'static [(&'static str, &'static str)],
    #[case] kind: ClientErrorKind,
) {
    let connection = connect().await;
    // A separate table, because on some releases such a failure disturbs the region.
    let table = TestTable::create("forged", by_three, &["mmm"]).await;
    let rows = table
        .of(&connection)
        .with_operation_timeout(Duration::from_secs(5));
    let error = rows
        .call_endpoint(&forge::transaction(puts[0].0, puts))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    assert_eq!(keys(&rows, Scan::new()).await, [""; 0]);
    // The forgery itself is valid: with rows of one partition it works.
    rows.call_endpoint(&forge::transaction("aaa1", &[("aaa1", "f"), ("aaa2", "f")]))
        .await
        .unwrap();
    assert_eq!(keys(&rows, Scan::new()).await, ["aaa1", "aaa2"]);
}

#[tokio::test]
async fn an_endpoint_or_a_method_that_is_not_there_is_named() {
    let connection = connect().await;
    let shared = TABLE.get().await;
    let table = shared.of(&connection);
    let call = hbase_txn::client::EndpointCall::new("r", "NoSuchService", "Anything", "");
    let error = table.call_endpoint(&call).await.unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::EndpointMissing, "{error}");
    says(&error, &["endpoint call", "NoSuchService", "attempt 1"]);
    let call = hbase_txn::client::EndpointCall::new("r", "MultiRowMutationService", "NoSuchMethod", "");
    let error = table.call_endpoint(&call).await.unwrap_err();
    says(&error, &["NoSuchMethod"]);
}
