//! Transactions by an atomic `Multi`, on tables without the endpoint: on explicit request, after a
//! trial of the server, and never as a silent fallback.

use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use hbase_txn::{
    ClientErrorKind, ErrorKind, OpenOptions, PartitionRule, PartitionedTable, TableDescriptorExt,
    Transaction,
    admin::Admin,
    client::{
        Append, Condition, Delete, FamilyDescriptor, Get, Increment, Put, Row, Scan, TableDescriptor,
        TableName,
    },
};
use rstest::rstest;

use crate::support::{
    connect, eventually, forwarded, keys, put, rows, says, spied,
    spy::Spy,
    standalone,
    table::{SharedTable, TestTable, by_three, by_three_without_endpoint, plain},
    value, within,
};

/// With the families for records and versions, so that only the endpoint is missing.
fn bare(name: TableName) -> TableDescriptor {
    by_three_without_endpoint(name).with_record_family()
}

fn two_families(name: TableName) -> TableDescriptor {
    by_three_without_endpoint(name).with_family(FamilyDescriptor::new("g"))
}

static TABLE: SharedTable = SharedTable::new("bare", bare, &["m"]);

/// The calls of a trial: two writes and one read.
const TRIAL: usize = 3;

fn without_endpoint() -> OpenOptions {
    OpenOptions::new().without_endpoint()
}

/// Opens the table with a client whose calls are counted.
async fn open(table: &TestTable) -> (PartitionedTable, Spy) {
    let (connection, spy) = spied().await;
    (table.open_with(&connection, without_endpoint()).await, spy)
}

async fn put_two(table: &PartitionedTable, prefix: &str) -> hbase_txn::Outcome {
    let transaction = table
        .transaction(prefix.to_owned())
        .put(put(format!("{prefix}2"), "v"))
        .put(put(format!("{prefix}1"), "v"));
    transaction.commit().await
}

/// Scans the user's rows of a partition. A trial's rows lie after them.
fn own_rows(prefix: &str) -> Scan {
    Scan::new()
        .start_row(prefix.to_owned())
        .stop_row(format!("{prefix}~"))
}

fn told(results: &[Row]) -> Vec<(Bytes, Bytes, Bytes)> {
    let cells = results.iter().flat_map(Row::cells);
    cells
        .map(|cell| (cell.row.clone(), cell.qualifier.clone(), cell.value.clone()))
        .collect()
}

fn number(number: i64) -> Bytes {
    Bytes::copy_from_slice(&number.to_be_bytes())
}

#[tokio::test]
async fn nothing_falls_back_to_it_when_a_table_has_no_endpoint() {
    let shared = TABLE.get().await;
    let (connection, spy) = spied().await;
    let error = PartitionedTable::open(&connection, shared.name.clone())
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::EndpointMissing, "{error}");
    says(&error, &["attach MultiRowMutationEndpoint"]);
    assert_eq!(spy.multi_calls(), 0);
}

#[tokio::test]
async fn nothing_falls_back_to_it_when_the_endpoint_goes_away() {
    let owned = TestTable::create("unplugged", by_three, &[]).await;
    let (connection, spy) = spied().await;
    let table = owned.open(&connection).await;
    assert!(put_two(&table, "aaa").await.is_committed());
    let elsewhere = connect().await;
    let unplugged = by_three_without_endpoint(owned.name.clone());
    Admin::new(&elsewhere).modify_table(&unplugged).await.unwrap();
    let outcome = put_two(&table, "bbb").await;
    assert!(outcome.is_not_applied(), "{outcome}");
    assert_eq!(
        outcome.error().unwrap().kind(),
        ClientErrorKind::EndpointMissing,
        "{outcome}"
    );
    assert_eq!(spy.multi_calls(), 0);
    assert_eq!(keys(table.table(), Scan::new()).await, ["aaa1", "aaa2"]);
}

#[tokio::test]
async fn table_without_a_rule_or_with_a_cut_partition_is_refused() {
    let connection = connect().await;
    let refused = async |table: &TestTable| {
        without_endpoint()
            .open(&connection, table.name.clone())
            .await
            .unwrap_err()
            .kind()
    };
    let owned = TestTable::create("bare_norule", plain, &[]).await;
    assert_eq!(refused(&owned).await, ErrorKind::NoPartitionRule);
    let owned = TestTable::create("bare_cut", by_three_without_endpoint, &["xxxm"]).await;
    assert_eq!(refused(&owned).await, ErrorKind::PartitionCut);
}

#[tokio::test]
async fn rows_change_together_and_new_cells_are_returned() {
    let shared = TABLE.get().await;
    let (table, spy) = open(&shared).await;
    table.table().put(put("resold", "v")).await.unwrap();
    for round in 1..=2 {
        let mut transaction = table
            .transaction("res")
            .append(Append::new("restext").cell("f", "q", "ab"))
            .delete(Delete::new("resold"));
        let both = Increment::new("ressum").column("f", "n", 5).column("f", "m", -1);
        transaction = transaction.increment(both).put(put("resnew", "v"));
        let committed = transaction.commit().await.into_result().unwrap();
        assert_eq!((committed.rows, committed.mutations), (4, 4));
        assert!(!committed.replayed);
        let text = "ab".repeat(usize::try_from(round).unwrap());
        assert_eq!(
            told(&committed.results),
            [
                ("ressum".into(), "m".into(), number(-round)),
                ("ressum".into(), "n".into(), number(5 * round)),
                ("restext".into(), "q".into(), text.into()),
            ]
        );
    }
    assert_eq!(
        keys(table.table(), own_rows("res")).await,
        ["resnew", "ressum", "restext"]
    );
    assert_eq!(spy.endpoint_calls(), 0);
}

#[tokio::test]
async fn operations_of_one_cell_that_need_no_condition_are_folded() {
    let shared = TABLE.get().await;
    let (table, _) = open(&shared).await;
    let mut transaction = table.transaction("fol");
    for amount in [5, -2, 4] {
        transaction = transaction.increment(Increment::new("folsum").column("f", "n", amount));
    }
    transaction = transaction
        .put(put("foltext", "a"))
        .append(Append::new("foltext").cell("f", "q", "b"));
    let committed = transaction.commit().await.into_result().unwrap();
    assert_eq!(
        told(&committed.results),
        [("folsum".into(), "n".into(), number(7))]
    );
    assert_eq!(value(table.table(), "foltext").await.as_deref(), Some("ab"));
}

#[tokio::test]
async fn one_row_that_the_server_refuses_keeps_all_from_being_applied() {
    let owned = TestTable::create("bare_half", two_families, &[]).await;
    let (table, _) = open(&owned).await;
    assert!(put_two(&table, "aaa").await.is_committed());
    // The open table does not notice the change, and sends what cannot be applied.
    let elsewhere = connect().await;
    let without_g = by_three_without_endpoint(owned.name.clone());
    Admin::new(&elsewhere).modify_table(&without_g).await.unwrap();
    for bad in ["xxxa", "xxxz"] {
        let transaction = table
            .transaction("xxx")
            .put(put("xxxm", "v"))
            .increment(Increment::new("xxxn").column("f", "q", 1))
            .put(Put::new(bad).cell("g", "q", "v"));
        let outcome = transaction.commit().await;
        assert!(outcome.is_not_applied(), "{outcome}");
        assert_eq!(
            outcome.error().unwrap().kind(),
            ClientErrorKind::FamilyNotFound,
            "{outcome}"
        );
    }
    assert_eq!(keys(table.table(), own_rows("xxx")).await, [""; 0]);
}

type Fill = fn(Transaction) -> Transaction;

#[rstest]
#[case::conditions(
    |transaction: Transaction| transaction.condition(Condition::absent("ref1", "f", "q")),
    "conditions, records, locks and guarded timestamps need the endpoint"
)]
#[case::an_id(
    |transaction: Transaction| transaction.id("x"),
    "conditions, records, locks and guarded timestamps need the endpoint"
)]
#[case::a_record(
    |transaction: Transaction| transaction.recorded(),
    "conditions, records, locks and guarded timestamps need the endpoint"
)]
#[case::guarded_timestamps(
    |transaction: Transaction| transaction.guard_timestamps(),
    "conditions, records, locks and guarded timestamps need the endpoint"
)]
#[case::a_replacement(
    |transaction: Transaction| transaction.delete(Delete::new("ref1")).put(put("ref1", "new")),
    "a cell is deleted and written again in one transaction, which needs the endpoint's conditions"
)]
#[tokio::test]
async fn operations_that_need_the_endpoint_are_refused(#[case] fill: Fill, #[case] reason: &str) {
    let shared = TABLE.get().await;
    let (table, spy) = open(&shared).await;
    let outcome = fill(table.transaction("ref").put(put("ref0", "v")))
        .commit()
        .await;
    assert_eq!(outcome.name(), "invalid", "{outcome}");
    assert_eq!(outcome.error().unwrap().kind(), ClientErrorKind::InvalidInput);
    says(&outcome, &[reason, "partition ref"]);
    assert_eq!((spy.multi_calls(), spy.endpoint_calls()), (0, 0));
}

#[tokio::test]
async fn record_is_refused_for_the_endpoint_before_the_family() {
    let owned = TestTable::create("bare_recordless", by_three_without_endpoint, &[]).await;
    let (table, _) = open(&owned).await;
    let transaction = table.transaction("xxx").recorded().put(put("xxx1", "v"));
    says(&transaction.commit().await, &["records", "need the endpoint"]);
}

#[tokio::test]
async fn each_server_is_tried_once_before_the_first_transaction() {
    let shared = TABLE.get().await;
    let (table, spy) = open(&shared).await;
    assert_eq!(spy.multi_calls(), 0, "opening sends none");
    // HBase itself guarantees atomicity within one row.
    let lone = table.transaction_for_row("tr").put(put("tr", "v"));
    assert!(lone.commit().await.is_committed());
    assert_eq!(spy.multi_calls(), 1);
    assert!(put_two(&table, "try").await.is_committed());
    assert_eq!(spy.multi_calls(), 1 + TRIAL + 1);
    // Another region of the same server.
    for (done, prefix) in ["abc", "try", "xyz"].into_iter().enumerate() {
        assert!(put_two(&table, prefix).await.is_committed());
        assert_eq!(spy.multi_calls(), 1 + TRIAL + 2 + done);
    }
    // An open table does not rely on the trials of another one.
    let again = shared
        .open_with(table.table().connection(), without_endpoint())
        .await;
    let before = spy.multi_calls();
    assert!(put_two(&again, "try").await.is_committed());
    assert_eq!(spy.multi_calls() - before, TRIAL + 1);
    assert_eq!(spy.endpoint_calls(), 0);
}

#[tokio::test]
async fn a_trial_leaves_nothing_that_stays() {
    let shared = TABLE.get().await;
    let (table, _) = open(&shared).await;
    assert!(put_two(&table, "lea").await.is_committed());
    let found = async || rows(table.table(), Scan::prefix("lea")).await.len();
    assert_eq!(found().await, 4, "a trial has two rows in the partition");
    eventually("the trial's rows have expired", async || {
        (found().await == 2).then_some(())
    })
    .await;
    assert_eq!(keys(table.table(), Scan::prefix("lea")).await, ["lea1", "lea2"]);
}

#[tokio::test]
async fn trial_with_a_lost_answer_leaves_the_transaction_certain() {
    let cluster = standalone();
    let shared = TABLE.get().await;
    let (connection, forwarder) = forwarded(cluster.config()).await;
    let timeout = Duration::from_secs(2);
    let table = shared
        .open_with(&connection, without_endpoint())
        .await
        .with_operation_timeout(timeout);
    table.table().put(put("los0", "v")).await.unwrap();
    forwarder.mute(true);
    let outcome = within(timeout, put_two(&table, "los")).await;
    assert_eq!(outcome.name(), "aborted", "{outcome}");
    forwarder.mute(false);
    assert!(put_two(&table, "los").await.is_committed());
    // The server is tried already, so this is the transaction's answer that is lost.
    forwarder.mute(true);
    let outcome = within(timeout, put_two(&table, "los")).await;
    assert_eq!(outcome.name(), "unknown", "{outcome}");
}

#[tokio::test]
async fn rows_are_locked_in_order_whatever_the_transactions_order() {
    let shared = TABLE.get().await;
    let (one, other) = (open(&shared).await.0, open(&shared).await.0);
    let increments = async |table: &PartitionedTable, reversed: bool| {
        let mut order: Vec<String> = (0..20).map(|row| format!("ord{row:02}")).collect();
        if reversed {
            order.reverse();
        }
        for _ in 0..50 {
            let mut transaction = table.transaction("ord");
            for row in &order {
                let increment = Increment::new(row.clone()).column("f", "n", 1);
                transaction = transaction.increment(increment);
            }
            let committed = transaction.commit().await.into_result().unwrap();
            let sums: Vec<_> = told(&committed.results).into_iter().map(|cell| cell.2).collect();
            assert!(
                sums.len() == 20 && sums.iter().all(|sum| *sum == sums[0]),
                "{sums:?}"
            );
        }
    };
    // A server waits half a minute for the lock of a row, and so would two transactions that wait
    // for each other.
    let both = async { tokio::join!(increments(&one, false), increments(&other, true)) };
    within(Duration::from_secs(25), both).await;
    let found = one.table().get(Get::new("ord00")).await.unwrap().unwrap();
    assert_eq!(found.value("f", "n"), Some(&number(100)));
}

#[tokio::test]
async fn transactions_side_by_side_get_results_of_their_own() {
    let shared = TABLE.get().await;
    let (table, spy) = open(&shared).await;
    assert!(put_two(&table, "sid").await.is_committed());
    let before = spy.multi_calls();
    let commits = (0..50).map(|number| {
        let table = &table;
        async move {
            let transaction = table
                .transaction("sid")
                .increment(Increment::new("sidsum").column("f", "n", 1))
                .put(put(format!("sid{number}"), "v"));
            transaction.commit().await.into_result().unwrap().results
        }
    });
    let mut sums: Vec<_> = join_all(commits)
        .await
        .iter()
        .map(|results| told(results)[0].2.clone())
        .collect();
    sums.sort_unstable();
    assert_eq!(sums, (1..=50).map(number).collect::<Vec<_>>());
    assert_eq!(spy.multi_calls() - before, 50);
}

#[tokio::test]
async fn a_batch_is_one_call_for_each_partition() {
    let shared = TABLE.get().await;
    let (table, _) = open(&shared).await;
    let mut batch = table.batch();
    for row in ["bat1", "zat1", "bat2", "zat2"] {
        batch = batch.put(put(row, "v"));
    }
    batch = batch.put(Put::new("cat1").cell("nope", "q", "v"));
    let outcomes = batch.commit().await;
    let names: Vec<_> = outcomes.iter().map(|group| group.outcome.name()).collect();
    assert_eq!(names, ["committed", "committed", "invalid"]);
    assert_eq!(keys(table.table(), own_rows("bat")).await, ["bat1", "bat2"]);
    assert_eq!(keys(table.table(), own_rows("zat")).await, ["zat1", "zat2"]);
}

#[tokio::test]
async fn a_promised_version_is_kept_and_is_no_result() {
    let versioned = |name| by_three_without_endpoint(name).with_partition_version();
    let owned = TestTable::create("bare_version", versioned, &[]).await;
    let (table, _) = open(&owned).await;
    let version = async || {
        let scan = Scan::prefix("xxx").family(TableDescriptor::VERSION_FAMILY);
        let found = rows(table.table(), scan).await;
        found.first().map(|row| row.cells()[0].value.clone())
    };
    let mut seen = Vec::new();
    for _ in 0..3 {
        let transaction = table
            .transaction("xxx")
            .increment(Increment::new("xxxsum").column("f", "n", 1));
        let committed = transaction.commit().await.into_result().unwrap();
        assert_eq!((committed.rows, committed.results.len()), (1, 1));
        let version = version().await.unwrap();
        assert!(!seen.contains(&version), "{version:?} again");
        seen.push(version);
    }
}

#[tokio::test]
async fn a_table_with_the_endpoint_may_be_opened_without_it() {
    let owned = TestTable::create("plugged", by_three, &[]).await;
    let (table, spy) = open(&owned).await;
    assert_eq!(table.rule(), &PartitionRule::prefix_length(3).unwrap());
    assert!(put_two(&table, "xxx").await.is_committed());
    assert_eq!(spy.endpoint_calls(), 0);
    assert_eq!(keys(table.table(), own_rows("xxx")).await, ["xxx1", "xxx2"]);
}
