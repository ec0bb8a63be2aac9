//! Concurrent transactions of one partition: they queue in the client and share calls.

use futures::future::join_all;
use hbase_txn::{OpenOptions, Outcome, PartitionedTable, client::Scan};

use crate::support::{
    keys, put, spied,
    spy::Spy,
    table::{SharedTable, TestTable, by_three},
};

static TABLE: SharedTable = SharedTable::new("admission", by_three, &[]);

/// Opens a table on a connection that counts endpoint calls.
async fn counted(table: &TestTable, options: OpenOptions) -> (PartitionedTable, Spy) {
    let (connection, spy) = spied().await;
    (table.open_with(&connection, options).await, spy)
}

async fn commit_side_by_side(table: &PartitionedTable, rows: &[String]) -> Vec<Outcome> {
    let commits = rows.iter().map(|row| async move {
        let transaction = table.transaction_for_row(row.clone()).put(put(row.clone(), "v"));
        transaction.commit().await
    });
    join_all(commits).await
}

fn rows(prefix: &str) -> Vec<String> {
    (0..200).map(|number| format!("{prefix}{number:03}")).collect()
}

/// Makes 200 commits in a few calls: the first two have a call each, and the others share those that
/// follow. On a machine that is so busy that a call takes longer than commits wait for it, they are
/// sent alone; then they are made again.
async fn within_a_few_calls(spy: &Spy, commit: impl AsyncFn()) {
    let mut calls = Vec::new();
    for _ in 0..5 {
        let before = spy.endpoint_calls();
        commit().await;
        match spy.endpoint_calls() - before {
            3..=12 => return,
            others => calls.push(others),
        }
    }
    panic!("{calls:?} calls");
}

#[tokio::test]
async fn transactions_that_queue_up_share_calls_and_all_are_applied() {
    let shared = TABLE.get().await;
    let (table, spy) = counted(&shared, OpenOptions::new()).await;
    let wanted = rows("aaa");
    within_a_few_calls(&spy, async || {
        let outcomes = commit_side_by_side(&table, &wanted).await;
        for outcome in outcomes {
            assert_eq!(outcome.into_result().unwrap().rows, 1);
        }
        assert_eq!(keys(table.table(), Scan::prefix("aaa")).await, wanted);
    })
    .await;
}

#[tokio::test]
async fn groups_of_a_batch_share_calls() {
    let shared = TABLE.get().await;
    let (table, spy) = counted(&shared, OpenOptions::new()).await;
    let rows: Vec<_> = (0..200).map(|number| format!("{number:03}row")).collect();
    within_a_few_calls(&spy, async || {
        let mut batch = table.batch();
        batch.extend(rows.iter().map(|row| put(row.clone(), "v")));
        for group in batch.commit().await {
            assert_eq!(group.outcome.into_result().unwrap().rows, 1);
        }
        assert_eq!(keys(table.table(), Scan::new().stop_row("2")).await, rows);
    })
    .await;
}

#[tokio::test]
async fn without_admission_each_transaction_is_a_call() {
    let shared = TABLE.get().await;
    let (table, spy) = counted(&shared, OpenOptions::new().without_admission()).await;
    let (before, wanted) = (spy.endpoint_calls(), rows("bbb"));
    let outcomes = commit_side_by_side(&table, &wanted).await;
    for outcome in outcomes {
        assert_eq!(outcome.into_result().unwrap().rows, 1);
    }
    assert_eq!(keys(table.table(), Scan::prefix("bbb")).await, wanted);
    assert_eq!(spy.endpoint_calls() - before, wanted.len());
}
