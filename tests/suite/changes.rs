//! Tables that change under an open client.

use std::time::Duration;

use hbase_txn::{
    Connection, ErrorKind, OpenOptions, Outcome, PartitionRule, PartitionedTable, Scan, TableDescriptor,
};
use rstest::rstest;

use crate::support::{
    connect, keys, put, says, spied,
    table::{TestTable, by_three, ruled},
};

async fn commit(table: &PartitionedTable, value: &'static str) -> Outcome {
    let mut transaction = table.at("xxx").unwrap();
    transaction.put(put("xxx1", value)).unwrap();
    transaction.put(put("xxx2", value)).unwrap();
    transaction.commit().await
}

async fn modify(connection: &Connection, table: &TestTable, descriptor: TableDescriptor) {
    assert_eq!(descriptor.name, table.name);
    connection.admin().modify_table(&descriptor).await.unwrap();
}

/// A change is noticed by the next commit once the interval is over, and from then on by every one.
#[rstest]
#[case::another_length(
    |table: &TestTable| ruled(table.name.clone(), &PartitionRule::prefix_length(4).unwrap()),
    "now it is the first 4 bytes"
)]
#[case::another_kind(
    |table: &TestTable| ruled(table.name.clone(), &PartitionRule::delimiter("/").unwrap()),
    "now it is the bytes before the first /"
)]
#[case::none(
    |table: &TestTable| crate::support::table::with_endpoint(table.name.clone()),
    "now there is none"
)]
#[tokio::test]
async fn a_rule_that_was_changed_under_an_open_client_stops_it_until_it_is_opened_again(
    #[case] changed: fn(&TestTable) -> TableDescriptor,
    #[case] why: &str,
) {
    let connection = connect().await;
    let table = TestTable::create("rulechange", by_three, &[]).await;
    let options = OpenOptions::new().rule_interval(Duration::ZERO);
    let opened = table.open_with(&connection, options).await;
    assert!(commit(&opened, "before").await.is_committed());

    modify(&connect().await, &table, changed(&table)).await;
    for _ in 0..3 {
        let outcome = commit(&opened, "after").await;
        assert_eq!(outcome.name(), "refused", "{outcome}");
        assert_eq!(outcome.error().unwrap().kind(), ErrorKind::PartitionRuleChanged);
        says(
            &outcome,
            &[
                "opened with the partition rule the first 3 bytes",
                why,
                "open the table again",
            ],
        );
    }
    assert_eq!(
        crate::support::value(opened.table(), "xxx1").await.as_deref(),
        Some("before")
    );

    // With its old rule it works again.
    modify(&connect().await, &table, by_three(table.name.clone())).await;
    assert!(commit(&opened, "again").await.is_committed());
}

#[tokio::test]
async fn a_changed_rule_is_noticed_at_once_when_the_region_is_found_reopened() {
    let connection = connect().await;
    let table = TestTable::create("reopened", by_three, &[]).await;
    // So long that only the region can tell.
    let options = OpenOptions::new().rule_interval(Duration::from_secs(3600));
    let opened = table.open_with(&connection, options).await;
    assert!(commit(&opened, "before").await.is_committed());
    let elsewhere = connect().await;
    let other = ruled(table.name.clone(), &PartitionRule::prefix_length(4).unwrap());
    modify(&elsewhere, &table, other).await;
    // The region is cut, so that the client has to look it up again.
    table.split_at(&elsewhere, "mmmm").await;
    for _ in 0..2 {
        let outcome = commit(&opened, "after").await;
        assert_eq!(outcome.name(), "refused", "{outcome}");
        assert_eq!(outcome.error().unwrap().kind(), ErrorKind::PartitionRuleChanged);
    }
}

#[tokio::test]
async fn a_change_that_leaves_the_rule_alone_stops_nobody() {
    let connection = connect().await;
    let table = TestTable::create("otherchange", by_three, &[]).await;
    let options = OpenOptions::new().rule_interval(Duration::ZERO);
    let opened = table.open_with(&connection, options).await;
    let descriptor = by_three(table.name.clone()).with_attribute("MAX_FILESIZE", "10737418240");
    modify(&connect().await, &table, descriptor).await;
    assert!(commit(&opened, "v").await.is_committed());
}

#[tokio::test]
async fn an_endpoint_that_was_removed_under_an_open_client_fails_the_transaction_and_says_how_to_attach_it() {
    let connection = connect().await;
    let table = TestTable::create("unplugged", by_three, &[]).await;
    let opened = table.open(&connection).await;
    let mut descriptor = by_three(table.name.clone());
    descriptor
        .attributes
        .retain(|key, _| !key.starts_with(b"coprocessor"));
    modify(&connect().await, &table, descriptor).await;
    let outcome = commit(&opened, "v").await;
    assert_eq!(outcome.name(), "failed", "{outcome}");
    assert_eq!(outcome.error().unwrap().kind(), ErrorKind::EndpointMissing);
    says(
        &outcome,
        &[
            "attach MultiRowMutationEndpoint",
            "table alter TABLE --endpoint",
            "attempt ",
        ],
    );
    assert_eq!(keys(opened.table(), Scan::new()).await, [""; 0]);
}

#[rstest]
#[tokio::test]
async fn a_table_whose_commits_could_be_lost_is_refused_unless_that_is_allowed(
    #[values("SKIP_WAL", "ASYNC_WAL")] durability: &'static str,
) {
    let connection = connect().await;
    let weak = move |name| by_three(name).with_attribute("DURABILITY", durability);
    let table = TestTable::create("weak", weak, &[]).await;
    let error = PartitionedTable::open(&connection, table.name.clone())
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WeakDurability, "{error}");
    says(
        &error,
        &[durability, "allow_weak_durability", table.name.qualifier()],
    );

    let allowed = OpenOptions::new().allow_weak_durability();
    let opened = table.open_with(&connection, allowed).await;
    assert!(commit(&opened, "v").await.is_committed());
    assert_eq!(keys(opened.table(), Scan::new()).await, ["xxx1", "xxx2"]);
}

#[tokio::test]
async fn a_family_that_was_dropped_under_an_open_client_fails_the_whole_transaction() {
    let (connection, spy) = spied().await;
    let two = |name| by_three(name).with_family(hbase_txn::FamilyDescriptor::new("g"));
    let table = TestTable::create("family", two, &[]).await;
    let opened = table.open(&connection).await;
    modify(&connect().await, &table, by_three(table.name.clone())).await;
    let mut transaction = opened.at("xxx").unwrap();
    transaction.put(put("xxx1", "v")).unwrap();
    transaction
        .put(hbase_txn::Put::new("xxx2").cell("g", "q", "v"))
        .unwrap();
    let outcome = transaction.commit().await;
    assert_eq!(outcome.name(), "failed", "{outcome}");
    assert_eq!(outcome.error().unwrap().kind(), ErrorKind::FamilyNotFound);
    assert!(spy.endpoint_calls() > 1);
    assert_eq!(keys(opened.table(), Scan::new()).await, [""; 0]);
}
