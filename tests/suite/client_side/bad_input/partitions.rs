//! Tables without transactions, and rows of different partitions.

use bytes::Bytes;
use hbase_txn::{
    ClientErrorKind, ErrorKind, OpenOptions, PartitionedTable,
    admin::Admin,
    client::{Condition, Connection, Delete, Put, Scan, TableDescriptor, TableName},
};
use rstest::rstest;

use crate::support::{
    connect, invalid, keys, put, says, spied,
    table::{SharedTable, TestTable, by_three, by_three_of_old, plain, ruled, with_endpoint},
};

static BY_THREE: SharedTable = SharedTable::new("partitions", by_three, &[]);

const RESTRICTION: &str = "hbase.regionserver.region.split_restriction";

#[tokio::test]
async fn row_of_another_partition_is_refused_when_it_is_added() {
    let connection = connect().await;
    let shared = BY_THREE.get().await;
    let table = shared.open(&connection).await;
    let mut transaction = table.transaction("foo").put(put("foo1", "v"));
    let error = transaction.try_add(put("bar1", "v")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OtherPartition);
    says(
        &error,
        &[
            "row bar1 is in partition bar",
            "this transaction is in partition foo",
            shared.name.qualifier(),
            "batch",
        ],
    );
    let error = transaction.try_add(put("fo", "v")).unwrap_err();
    says(&error, &["row fo is in partition fo (a row of its own)"]);
    assert!(transaction.commit().await.is_committed());
    assert_eq!(keys(table.table(), Scan::prefix("foo")).await, ["foo1"]);
    assert_eq!(keys(table.table(), Scan::prefix("bar")).await, [""; 0]);
}

#[tokio::test]
async fn commit_names_the_first_invalid_operation_and_sends_nothing() {
    let (connection, spy) = spied().await;
    let shared = BY_THREE.get().await;
    let table = shared.open(&connection).await;
    let opened = spy.endpoint_calls();
    let mut transaction = table
        .transaction("kep")
        .put(put("kep1", "v"))
        .condition(Condition::absent("kep2", "f", "q"))
        .put(put("oth1", "v"))
        .put(put("another", "v"))
        .put(put("kep3", "v"))
        .recorded();
    assert!(transaction.transaction_id().is_some());
    for _ in 0..2 {
        let error = transaction.try_add(put("kep4", "v")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OtherPartition);
        says(&error, &["operation 3: put", "row oth1"]);
    }
    let error = invalid(transaction).await;
    assert_eq!(error.kind(), ErrorKind::OtherPartition);
    says(&error, &["operation 3: put", "row oth1", shared.name.qualifier()]);

    for id in [String::new(), "x".repeat(65)] {
        let error = invalid(table.transaction("kep").put(put("kep1", "v")).id(id)).await;
        assert_eq!(error.kind(), ClientErrorKind::InvalidInput);
        says(&error, &["transaction id", shared.name.qualifier()]);
    }
    assert_eq!(spy.endpoint_calls(), opened);
    assert_eq!(keys(table.table(), Scan::prefix("kep")).await, [""; 0]);
}

#[tokio::test]
async fn operations_refused_by_try_add_are_not_counted() {
    let connection = connect().await;
    let table = BY_THREE.get().await.open(&connection).await;
    let mut transaction = table.transaction("cnt").put(put("cnt1", "v"));
    transaction.try_add(put("oth1", "v")).unwrap_err();
    transaction
        .try_add(Condition::absent("oth1", "f", "q"))
        .unwrap_err();
    transaction.try_add(put("cnt2", "v")).unwrap();
    says(
        &invalid(transaction.delete(Delete::new("oth2"))).await,
        &["operation 3: delete", "row oth2"],
    );
}

#[rstest]
#[case::empty("", "empty partition prefix")]
#[case::too_long("abcd", "has 4 bytes; this table's partitions have 3")]
#[tokio::test]
async fn transaction_of_an_invalid_prefix_is_refused(#[case] prefix: &'static str, #[case] why: &str) {
    let connection = connect().await;
    let shared = BY_THREE.get().await;
    let table = shared.open(&connection).await;
    let mut transaction = table.transaction(prefix).put(put("foo1", "v"));
    for _ in 0..2 {
        let error = transaction.try_add(put("foo2", "v")).unwrap_err();
        assert_eq!(error.kind(), ClientErrorKind::InvalidInput);
        says(&error, &[why]);
    }
    says(&invalid(transaction).await, &[why, shared.name.qualifier()]);
}

fn misspelt_type(name: TableName) -> TableDescriptor {
    with_endpoint(name)
        .with_attribute(format!("{RESTRICTION}.type"), "KeyPrefx")
        .with_attribute(format!("{RESTRICTION}.prefix_length"), "3")
}

fn length_under_another_name(name: TableName) -> TableDescriptor {
    with_endpoint(name)
        .with_attribute(format!("{RESTRICTION}.type"), "KeyPrefix")
        .with_attribute(format!("{RESTRICTION}.length"), "3")
}

fn length_of_words(name: TableName) -> TableDescriptor {
    with_endpoint(name)
        .with_attribute(format!("{RESTRICTION}.type"), "KeyPrefix")
        .with_attribute(format!("{RESTRICTION}.prefix_length"), "three")
}

#[rstest]
#[case::none(with_endpoint, &["the table has no partition rule", "with a rule"])]
#[case::misspelt_type(misspelt_type, &["\"KeyPrefx\", which HBase takes for None", "with a rule"])]
#[case::misspelt_length(length_under_another_name, &["prefix_length is not set", "with a rule"])]
#[case::length_of_words(length_of_words, &["\"three\", which is no prefix length", "with a rule"])]
#[tokio::test]
async fn table_without_a_usable_rule_is_refused_on_open_with_a_fix(
    #[case] descriptor: fn(TableName) -> TableDescriptor,
    #[case] words: &[&str],
) {
    let connection = connect().await;
    let table = TestTable::create("norule", descriptor, &[]).await;
    let error = PartitionedTable::open(&connection, table.name.clone())
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoPartitionRule, "{error}");
    says(&error, words);
    says(&error, &["opening for transactions", table.name.qualifier()]);
}

#[tokio::test]
async fn table_without_the_endpoint_is_refused_on_open_with_a_fix() {
    let connection = connect().await;
    let table = TestTable::create(
        "noendpoint",
        |name| {
            plain(name)
                .with_attribute(format!("{RESTRICTION}.type"), "KeyPrefix")
                .with_attribute(format!("{RESTRICTION}.prefix_length"), "3")
        },
        &[],
    )
    .await;
    let error = PartitionedTable::open(&connection, table.name.clone())
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::EndpointMissing, "{error}");
    says(
        &error,
        &["does not answer on the table", "attach MultiRowMutationEndpoint"],
    );
}

async fn refused_for_a_cut(connection: &Connection, table: &TestTable) -> String {
    let error = PartitionedTable::open(connection, table.name.clone())
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PartitionCut, "{error}");
    says(&error, &["merge the regions", "allow_cut_partitions"]);
    error.to_string()
}

#[tokio::test]
async fn pre_split_in_a_partition_disables_only_that_partition() {
    let connection = connect().await;
    let table = TestTable::create("presplit", by_three, &["mmm", "xxxm"]).await;
    says(
        &refused_for_a_cut(&connection, &table).await,
        &["partition xxx by the boundary xxxm"],
    );

    let opened = table
        .open_with(&connection, OpenOptions::new().allow_cut_partitions())
        .await;
    let mut batch = opened.batch();
    for row in ["aaa1", "xxxa", "xxxz", "mmm1"] {
        batch = batch.put(put(row, "v"));
    }
    says(&batch.explain().await.unwrap(), &["partition is cut in two"]);
    let outcomes = batch.commit().await;
    let names: Vec<_> = outcomes.iter().map(|group| group.outcome.name()).collect();
    assert_eq!(names, ["committed", "invalid", "committed"]);
    let error = outcomes[1].outcome.error().unwrap();
    assert_eq!(error.kind(), ErrorKind::PartitionCut);
    says(error, &["partition xxx is cut in two"]);
    assert_eq!(keys(opened.table(), Scan::new()).await, ["aaa1", "mmm1"]);
}

#[tokio::test]
async fn several_cut_partitions_are_counted_and_the_first_is_named() {
    let connection = connect().await;
    let slash = |name| ruled(name, &hbase_txn::PartitionRule::delimiter("/").unwrap());
    let table = TestTable::create("cuts", slash, &["abc!", "abc/", "abc/5", "b/", "b/1/2"]).await;
    says(
        &refused_for_a_cut(&connection, &table).await,
        &[
            "2 region boundaries cut partitions",
            "partition abc by the boundary abc/5",
        ],
    );
}

#[tokio::test]
async fn manual_split_in_a_partition_is_found_on_open() {
    let connection = connect().await;
    let table = TestTable::create("oldsplit", by_three_of_old, &[]).await;
    let rows = table.open(&connection).await;
    for row in ["aaa1", "xxxa", "xxxz"] {
        rows.table().put(put(row, "v")).await.unwrap();
    }
    table.split_at(&connection, "xxxm").await;
    says(
        &refused_for_a_cut(&connection, &table).await,
        &["partition xxx by the boundary xxxm"],
    );
}

#[tokio::test]
async fn manual_split_is_moved_to_the_beginning_of_the_partition() {
    let connection = connect().await;
    let table = TestTable::create("restricted", by_three, &[]).await;
    let rows = table.of(&connection);
    for row in ["aaa1", "xxxa", "xxxz"] {
        rows.put(put(row, "v")).await.unwrap();
    }
    let region = table.regions(&connection).await.remove(0);
    let admin = Admin::new(&connection);
    admin
        .split_region(&region, Some(Bytes::from("xxxm")))
        .await
        .unwrap();
    let regions = table.regions(&connection).await;
    assert_eq!(regions.last().unwrap().start_key, "xxx");
    let opened = table.open(&connection).await;
    let transaction = opened
        .transaction("xxx")
        .put(Put::new("xxxa").cell("f", "q", "w"))
        .put(Put::new("xxxz").cell("f", "q", "w"));
    assert!(transaction.commit().await.is_committed());
}
