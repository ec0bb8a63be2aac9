//! Tables that change under an open client.

use std::time::{Duration, Instant};

use hbase_txn::{
    ClientErrorKind, ErrorKind, OpenOptions, Outcome, PartitionRule, PartitionedTable,
    admin::Admin,
    client::{Connection, Scan, ServiceKind, TableDescriptor},
};
use rstest::rstest;

use crate::{
    proxy::{Action, Proxy},
    support::{
        connect, connect_by, eventually, keys, put, says, spied, standalone,
        table::{TestTable, by_three, ruled},
    },
};

async fn commit(table: &PartitionedTable, value: &'static str) -> Outcome {
    let transaction = table
        .transaction("xxx")
        .put(put("xxx1", value))
        .put(put("xxx2", value));
    transaction.commit().await
}

async fn modify(connection: &Connection, table: &TestTable, descriptor: TableDescriptor) {
    assert_eq!(descriptor.name, table.name);
    Admin::new(connection).modify_table(&descriptor).await.unwrap();
}

/// The first commit after the interval notices the change, and so does every later one.
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
async fn changed_rule_stops_an_open_client_until_it_opens_again(
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
        assert_eq!(outcome.name(), "invalid", "{outcome}");
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

    // With the old rule, commits succeed again.
    modify(&connect().await, &table, by_three(table.name.clone())).await;
    assert!(commit(&opened, "again").await.is_committed());
}

#[tokio::test]
async fn changed_rule_is_noticed_when_the_region_is_reopened() {
    let connection = connect().await;
    let table = TestTable::create("reopened", by_three, &[]).await;
    // So long that only the region can reveal the change.
    let options = OpenOptions::new().rule_interval(Duration::from_secs(3600));
    let opened = table.open_with(&connection, options).await;
    assert!(commit(&opened, "before").await.is_committed());
    let elsewhere = connect().await;
    let other = ruled(table.name.clone(), &PartitionRule::prefix_length(4).unwrap());
    modify(&elsewhere, &table, other).await;
    // The split makes the client look up the region again.
    table.split_at(&elsewhere, "mmmm").await;
    for _ in 0..2 {
        let outcome = commit(&opened, "after").await;
        assert_eq!(outcome.name(), "invalid", "{outcome}");
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
async fn removed_endpoint_fails_the_transaction_with_a_fix() {
    let connection = connect().await;
    let table = TestTable::create("unplugged", by_three, &[]).await;
    let opened = table.open(&connection).await;
    let mut descriptor = by_three(table.name.clone());
    descriptor
        .attributes
        .retain(|key, _| !key.starts_with(b"coprocessor"));
    modify(&connect().await, &table, descriptor).await;
    let outcome = commit(&opened, "v").await;
    assert_eq!(outcome.name(), "aborted", "{outcome}");
    assert_eq!(outcome.error().unwrap().kind(), ClientErrorKind::EndpointMissing);
    says(&outcome, &["attach MultiRowMutationEndpoint", "attempt "]);
    assert_eq!(keys(opened.table(), Scan::new()).await, [""; 0]);
}

#[rstest]
#[tokio::test]
async fn table_with_weak_durability_is_refused_unless_allowed(
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
async fn family_dropped_under_an_open_client_fails_the_transaction() {
    let (connection, spy) = spied().await;
    let two = |name| by_three(name).with_family(hbase_txn::client::FamilyDescriptor::new("g"));
    let table = TestTable::create("family", two, &[]).await;
    let opened = table.open(&connection).await;
    modify(&connect().await, &table, by_three(table.name.clone())).await;
    let transaction = opened
        .transaction("xxx")
        .put(put("xxx1", "v"))
        .put(hbase_txn::client::Put::new("xxx2").cell("g", "q", "v"));
    let outcome = transaction.commit().await;
    assert_eq!(outcome.name(), "aborted", "{outcome}");
    assert_eq!(outcome.error().unwrap().kind(), ClientErrorKind::FamilyNotFound);
    assert!(spy.endpoint_calls() > 1);
    assert_eq!(keys(opened.table(), Scan::new()).await, [""; 0]);
}

#[tokio::test]
async fn commits_do_not_wait_for_a_silent_master() {
    let proxy = Proxy::new();
    let connection = connect_by(proxy.clone(), standalone().config()).await;
    let table = TestTable::create("silent_master", by_three, &[]).await;
    let options = OpenOptions::new().rule_interval(Duration::from_millis(400));
    let opened = table.open_with(&connection, options).await;
    assert!(commit(&opened, "before").await.is_committed());
    proxy.rule(|request| match request.service {
        ServiceKind::Master => Action::DropRequest,
        _ => Action::Pass,
    });
    // Longer than a read of the rule may last.
    let (began, mut longest) = (Instant::now(), Duration::ZERO);
    while began.elapsed() < Duration::from_secs(7) {
        let sent = Instant::now();
        assert!(commit(&opened, "meanwhile").await.is_committed());
        longest = longest.max(sent.elapsed());
    }
    assert!(longest < Duration::from_secs(3), "{longest:?}");
    let other = ruled(table.name.clone(), &PartitionRule::prefix_length(4).unwrap());
    modify(&connect().await, &table, other).await;
    assert!(commit(&opened, "not known yet").await.is_committed());
    proxy.pass_all();
    let refused = eventually("the change is noticed", async || {
        let outcome = commit(&opened, "after").await;
        (!outcome.is_committed()).then_some(outcome)
    });
    says(&refused.await, &["now it is the first 4 bytes"]);
}

#[tokio::test]
async fn commit_behind_an_idle_time_does_not_go_under_an_old_rule() {
    let connection = connect().await;
    let table = TestTable::create("idle", by_three, &[]).await;
    let interval = Duration::from_millis(300);
    let options = OpenOptions::new().rule_interval(interval);
    let opened = table.open_with(&connection, options).await;
    assert!(commit(&opened, "before").await.is_committed());
    let changed = Instant::now();
    let other = ruled(table.name.clone(), &PartitionRule::prefix_length(4).unwrap());
    modify(&connect().await, &table, other).await;
    eventually("the rule that was read is old", async || {
        (changed.elapsed() > 2 * interval).then_some(())
    })
    .await;
    let outcome = commit(&opened, "after").await;
    assert_eq!(
        outcome.error().unwrap().kind(),
        ErrorKind::PartitionRuleChanged,
        "{outcome}"
    );
}
