//! Outdated region caches of a client.

use hbase_txn::{ErrorKind, OpenOptions, client::Scan};

use crate::support::{
    connect, keys, put, says, spied,
    table::{TestTable, by_three_of_old},
};

#[tokio::test]
async fn split_in_a_partition_of_an_open_client_is_its_own_error() {
    let (connection, spy) = spied().await;
    let elsewhere = connect().await;
    let table = TestTable::create("stalecut", by_three_of_old, &[]).await;
    let opened = table.open(&connection).await;
    let commit = async |value: &'static str| {
        let transaction = opened
            .transaction("xxx")
            .put(put("xxxa", value))
            .put(put("xxxz", value));
        transaction.commit().await
    };
    assert!(commit("before").await.is_committed());

    table.split_at(&elsewhere, "xxxm").await;
    let outcome = commit("after").await;
    assert_eq!(outcome.name(), "invalid", "{outcome}");
    assert_eq!(outcome.error().unwrap().kind(), ErrorKind::PartitionCut);
    says(
        &outcome,
        &[
            "partition xxx is cut in two",
            "[-∞, xxxm)",
            "merge its regions",
            table.name.qualifier(),
        ],
    );

    // The client knows the split now, and sends nothing.
    let sent = spy.endpoint_calls();
    let outcome = commit("later").await;
    assert_eq!(outcome.error().unwrap().kind(), ErrorKind::PartitionCut);
    assert_eq!(spy.endpoint_calls(), sent);
    for row in opened
        .table()
        .scan(Scan::new())
        .map(crate::support::collect)
        .unwrap()
        .await
    {
        assert_eq!(row.value("f", "q").unwrap(), "before");
    }

    // Other partitions are not affected.
    let transaction = opened.transaction("aaa").put(put("aaa1", "v"));
    assert!(transaction.commit().await.is_committed());
}

#[tokio::test]
async fn stale_map_with_a_cut_is_read_again_after_a_merge() {
    let (connection, elsewhere) = (connect().await, connect().await);
    let table = TestTable::create("stalemerge", by_three_of_old, &["xxxm"]).await;
    let opened = table
        .open_with(&connection, OpenOptions::new().allow_cut_partitions())
        .await;
    let commit = async || {
        let transaction = opened
            .transaction("xxx")
            .put(put("xxxa", "v"))
            .put(put("xxxz", "v"));
        transaction.commit().await
    };
    assert_eq!(commit().await.error().unwrap().kind(), ErrorKind::PartitionCut);
    assert_eq!(keys(opened.table(), Scan::new()).await, [""; 0]);

    table.merge_both(&elsewhere).await;
    let outcome = commit().await;
    assert!(outcome.is_committed(), "{outcome}");
    assert_eq!(keys(opened.table(), Scan::new()).await, ["xxxa", "xxxz"]);
}

#[tokio::test]
async fn split_between_partitions_is_followed_by_an_open_client() {
    let (connection, elsewhere) = (connect().await, connect().await);
    let table = TestTable::create("stalesplit", by_three_of_old, &[]).await;
    let opened = table.open(&connection).await;
    let mut batch = opened.batch();
    for row in ["aaa1", "aaa2", "xxx1", "xxx2"] {
        batch = batch.put(put(row, "before"));
    }
    assert!(
        batch
            .commit()
            .await
            .iter()
            .all(|group| group.outcome.is_committed())
    );

    table.split_at(&elsewhere, "xxx").await;
    let mut batch = opened.batch();
    for row in ["aaa1", "aaa2", "xxx1", "xxx2"] {
        batch = batch.put(put(row, "after"));
    }
    for group in batch.commit().await {
        assert!(group.outcome.is_committed(), "{}", group.outcome);
    }
    for row in crate::support::rows(opened.table(), Scan::new()).await {
        assert_eq!(row.value("f", "q").unwrap(), "after");
    }
}
