//! Tables that transactions are not possible on, and rows that don't belong together.

use bytes::Bytes;
use hbase_txn::{Connection, ErrorKind, OpenOptions, PartitionedTable, Put, TableDescriptor, TableName};
use rstest::rstest;

use crate::support::{
    connect, keys, put, says,
    table::{SharedTable, TestTable, by_three, by_three_of_old, plain, ruled, with_endpoint},
};

static BY_THREE: SharedTable = SharedTable::new("partitions", by_three, &[]);

const RESTRICTION: &str = "hbase.regionserver.region.split_restriction";

#[tokio::test]
async fn a_row_of_another_partition_is_refused_when_it_is_added_and_the_transaction_goes_on_without() {
    let connection = connect().await;
    let shared = BY_THREE.get().await;
    let table = shared.open(&connection).await;
    let mut transaction = table.at("foo").unwrap();
    transaction.put(put("foo1", "v")).unwrap();
    let error = transaction.put(put("bar1", "v")).unwrap_err();
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
    let error = transaction.put(put("fo", "v")).unwrap_err();
    says(&error, &["row fo is in partition fo (a row of its own)"]);
    assert!(transaction.commit().await.is_committed());
    assert_eq!(
        keys(table.table(), hbase_txn::Scan::prefix("foo")).await,
        ["foo1"]
    );
    assert_eq!(keys(table.table(), hbase_txn::Scan::prefix("bar")).await, [""; 0]);
}

#[rstest]
#[case::empty("", "empty partition prefix")]
#[case::too_long("abcd", "has 4 bytes; this table's partitions have 3")]
#[tokio::test]
async fn what_is_no_prefix_under_the_rule_starts_no_transaction(
    #[case] prefix: &'static str,
    #[case] why: &str,
) {
    let connection = connect().await;
    let shared = BY_THREE.get().await;
    let table = shared.open(&connection).await;
    let error = table.at(prefix).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    says(&error, &[why]);
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
#[case::none(with_endpoint, &["neither a split restriction nor a prefix split policy", "hbase-txn table alter"])]
#[case::misspelt_type(misspelt_type, &["\"KeyPrefx\", which HBase takes for None", "alter"])]
#[case::misspelt_length(length_under_another_name, &["prefix_length is not set", "alter"])]
#[case::length_of_words(length_of_words, &["\"three\", which is no prefix length", "alter"])]
#[tokio::test]
async fn a_table_without_a_usable_rule_is_refused_on_opening_and_told_what_mends_it(
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
async fn a_table_without_the_endpoint_is_refused_on_opening_and_told_how_to_attach_it() {
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
    assert_eq!(error.kind(), ErrorKind::EndpointMissing, "{error}");
    says(
        &error,
        &[
            "does not answer on the table",
            "hbase-txn table alter",
            "--endpoint",
        ],
    );
}

async fn refused_for_a_cut(connection: &Connection, table: &TestTable) -> String {
    let error = PartitionedTable::open(connection, table.name.clone())
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PartitionCut, "{error}");
    says(&error, &["hbase-txn table repair", "allow_cut_partitions"]);
    error.to_string()
}

#[tokio::test]
async fn a_pre_split_inside_a_partition_is_found_on_opening_and_only_that_partition_is_out_of_use() {
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
        batch.put(put(row, "v"));
    }
    says(&batch.explain().await.unwrap(), &["partition is cut in two"]);
    let outcomes = batch.commit().await;
    let names: Vec<_> = outcomes.iter().map(|group| group.outcome.name()).collect();
    assert_eq!(names, ["committed", "refused", "committed"]);
    let error = outcomes[1].outcome.error().unwrap();
    assert_eq!(error.kind(), ErrorKind::PartitionCut);
    says(error, &["partition xxx is cut in two"]);
    assert_eq!(
        keys(opened.table(), hbase_txn::Scan::new()).await,
        ["aaa1", "mmm1"]
    );
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
async fn a_manual_split_inside_a_partition_of_an_old_table_is_found_on_opening() {
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
async fn a_manual_split_under_the_restriction_is_moved_to_the_partitions_beginning() {
    let connection = connect().await;
    let table = TestTable::create("restricted", by_three, &[]).await;
    let rows = table.of(&connection);
    for row in ["aaa1", "xxxa", "xxxz"] {
        rows.put(put(row, "v")).await.unwrap();
    }
    let region = table.regions(&connection).await.remove(0);
    let admin = connection.admin();
    admin
        .split_region(&region, Some(Bytes::from("xxxm")))
        .await
        .unwrap();
    let regions = table.regions(&connection).await;
    assert_eq!(regions.last().unwrap().start_key, "xxx");
    let opened = table.open(&connection).await;
    let mut transaction = opened.at("xxx").unwrap();
    transaction.put(Put::new("xxxa").cell("f", "q", "w")).unwrap();
    transaction.put(Put::new("xxxz").cell("f", "q", "w")).unwrap();
    assert!(transaction.commit().await.is_committed());
}
