//! The partition rule in all its forms in a table's descriptor.

use hbase_txn::{
    OpenOptions, PartitionRule,
    client::{RegionInfo, Scan, TableDescriptor, TableName},
};
use rstest::rstest;

use crate::support::{
    connect, keys, put, says,
    table::{TestTable, by_three, by_three_of_old, ruled, with_endpoint},
};

const RESTRICTION: &str = "hbase.regionserver.region.split_restriction";
const POLICY: &str = "org.apache.hadoop.hbase.regionserver";

fn restriction_length(name: TableName) -> TableDescriptor {
    with_endpoint(name)
        .with_attribute(format!("{RESTRICTION}.type"), "KeyPrefix")
        .with_attribute(format!("{RESTRICTION}.prefix_length"), "3")
}

fn restriction_delimiter(name: TableName) -> TableDescriptor {
    with_endpoint(name)
        .with_attribute(format!("{RESTRICTION}.type"), "DelimitedKeyPrefix")
        .with_attribute(format!("{RESTRICTION}.delimiter"), "/")
}

fn policy_length_of_long_ago(name: TableName) -> TableDescriptor {
    with_endpoint(name)
        .with_attribute("SPLIT_POLICY", format!("{POLICY}.KeyPrefixRegionSplitPolicy"))
        .with_attribute("prefix_split_key_policy.prefix_length", "3")
}

fn policy_delimiter(name: TableName) -> TableDescriptor {
    with_endpoint(name)
        .with_attribute(
            "SPLIT_POLICY",
            format!("{POLICY}.DelimitedKeyPrefixRegionSplitPolicy"),
        )
        .with_attribute("DelimitedKeyPrefixRegionSplitPolicy.delimiter", "/")
}

/// HBase reads settings in `CONFIGURATION` as attributes.
fn restriction_in_the_configuration(name: TableName) -> TableDescriptor {
    let mut descriptor = with_endpoint(name);
    for (key, value) in [("type", "KeyPrefix"), ("prefix_length", "3")] {
        descriptor
            .configuration
            .insert(format!("{RESTRICTION}.{key}"), value.into());
    }
    descriptor
}

fn by_slash(name: TableName) -> TableDescriptor {
    ruled(name, &PartitionRule::delimiter("/").unwrap())
}

#[rstest]
#[case::restriction_length(restriction_length, "the first 3 bytes")]
#[case::restriction_delimiter(restriction_delimiter, "the bytes before the first /")]
#[case::policy_length(by_three_of_old, "the first 3 bytes")]
#[case::policy_length_of_long_ago(policy_length_of_long_ago, "the first 3 bytes")]
#[case::policy_delimiter(policy_delimiter, "the bytes before the first /")]
#[case::configuration(restriction_in_the_configuration, "the first 3 bytes")]
#[case::all_attributes_of_a_length(by_three, "the first 3 bytes")]
#[case::all_attributes_of_a_delimiter(by_slash, "the bytes before the first /")]
#[tokio::test]
async fn a_table_opens_by_its_rule_however_that_is_written(
    #[case] descriptor: fn(TableName) -> TableDescriptor,
    #[case] rule: &str,
) {
    let connection = connect().await;
    let table = TestTable::create("rule", descriptor, &[]).await;
    let opened = table.open(&connection).await;
    assert_eq!(opened.rule().to_string(), rule);
    let mut transaction = opened
        .transaction("abc")
        .put(put("abc/1", "v"))
        .put(put("abc/2", "v"));
    says(
        &transaction.try_add(put("xyz/1", "v")).unwrap_err(),
        &["xyz/1 is in partition xyz", "in partition abc"],
    );
    let committed = transaction.commit().await.into_result().unwrap();
    assert_eq!((committed.rows, committed.mutations), (2, 2));
    assert_eq!(committed.partition.prefix(), "abc");
    assert_eq!(keys(opened.table(), Scan::new()).await, ["abc/1", "abc/2"]);
}

#[tokio::test]
async fn a_bare_prefix_locates_its_partition_without_any_such_row() {
    let connection = connect().await;
    let table = TestTable::create("bare", by_three, &["mmm", "xxx"]).await;
    let opened = table.open(&connection).await;
    for (prefix, region) in [("aaa", "[-∞, mmm)"), ("mmm", "[mmm, xxx)"), ("xxx", "[xxx, ∞)")] {
        let row = format!("{prefix}9");
        let batch = opened.batch().put(put(row.clone(), "v"));
        says(&batch.explain().await.unwrap(), &[region]);
        let transaction = opened.transaction(prefix).put(put(row, "v"));
        assert!(transaction.commit().await.is_committed());
    }
    assert_eq!(keys(opened.table(), Scan::new()).await, ["aaa9", "mmm9", "xxx9"]);
}

/// `!` sorts before `/`, so a boundary fits between the row `abc` and the rows of the partition
/// `abc`.
#[tokio::test]
async fn delimiter_allows_a_boundary_after_the_row_without_it() {
    let connection = connect().await;
    let table = TestTable::create("delimiter", by_slash, &["abc!"]).await;
    let opened = table.open(&connection).await;
    let mut batch = opened.batch();
    for row in ["abc", "abc/1", "abc/2", "abc!", "abc!/1"] {
        batch = batch.put(put(row, "v"));
    }
    let explanation = batch.explain().await.unwrap();
    let groups: Vec<_> = explanation
        .groups
        .iter()
        .map(|group| {
            let region = group.region.as_ref().map(RegionInfo::range_text);
            (group.partition.to_string(), region.unwrap(), group.rows)
        })
        .collect();
    let expected = [
        ("abc (a row of its own)", "[-∞, abc!)", 1),
        ("abc", "[abc!, ∞)", 2),
        ("abc! (a row of its own)", "[abc!, ∞)", 1),
        ("abc!", "[abc!, ∞)", 1),
    ];
    assert_eq!(
        groups,
        expected.map(|(partition, region, rows)| (partition.to_owned(), region.to_owned(), rows))
    );
    for group in batch.commit().await {
        assert!(group.outcome.is_committed(), "{}", group.outcome);
    }

    // The bare prefix means the partition; the row of the same bytes has its own transaction.
    let mut transaction = opened.transaction("abc").put(put("abc/3", "v"));
    let error = transaction.try_add(put("abc", "v")).unwrap_err();
    says(&error, &["row abc is in partition abc (a row of its own)"]);
    assert!(transaction.commit().await.is_committed());
    let lone = opened.transaction_for_row("abc").put(put("abc", "w"));
    assert!(lone.commit().await.is_committed());
}

#[tokio::test]
async fn rows_shorter_than_the_prefix_are_partitions_of_their_own() {
    let connection = connect().await;
    let table = TestTable::create("short", by_three, &["ab"]).await;
    let opened = table.open_with(&connection, OpenOptions::new()).await;
    assert!(opened.rule().partition("ab").unwrap().is_lone_row());
    let mut transaction = opened.transaction("ab").put(put("ab", "v"));
    says(
        &transaction.try_add(put("abc", "v")).unwrap_err(),
        &[
            "row abc is in partition abc",
            "in partition ab (a row of its own)",
        ],
    );
    assert!(transaction.commit().await.is_committed());
}
