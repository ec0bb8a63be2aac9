//! Batches: rows of any partitions; each partition has its own outcome.

use std::time::{Duration, Instant};

use hbase_txn::{
    ClientErrorKind, OpenOptions,
    client::{Delete, Put, Scan},
};

use crate::support::{
    connect, keys, put, rows, says, spied,
    table::{SharedTable, TestTable, by_three},
};

static TABLE: SharedTable = SharedTable::new("batches", by_three, &["h", "p"]);

#[tokio::test]
async fn batch_is_grouped_by_partition_in_order_of_appearance() {
    let connection = connect().await;
    let shared = TABLE.get().await;
    let table = shared.open(&connection).await;
    table.table().put(put("qaa9", "old")).await.unwrap();
    let mut batch = table.batch();
    for row in ["qaa1", "aaa1", "kaa1", "aaa2", "qaa2", "aaa1"] {
        // The last one is a second column of an existing row.
        let column = if batch.len() == 5 { "other" } else { "q" };
        batch = batch.put(Put::new(row).cell("f", column, "v"));
    }
    batch = batch.delete(Delete::new("qaa9"));
    assert_eq!(batch.len(), 7);
    let outcomes = batch.commit().await;
    let told: Vec<_> = outcomes
        .iter()
        .map(|group| (group.partition.to_string(), group.rows, group.outcome.name()))
        .collect();
    assert_eq!(
        told,
        [
            ("qaa".to_owned(), 3, "committed"),
            ("aaa".to_owned(), 2, "committed"),
            ("kaa".to_owned(), 1, "committed"),
        ]
    );
    assert_eq!(
        keys(table.table(), Scan::new().start_row("a").stop_row("r")).await,
        ["aaa1", "aaa2", "kaa1", "qaa1", "qaa2"]
    );
}

#[tokio::test]
async fn each_group_has_an_outcome_of_its_own() {
    let connection = connect().await;
    let shared = TABLE.get().await;
    let table = shared.open(&connection).await;
    let batch = table
        .batch()
        .put(put("raa1", "v"))
        .put(put("rbb1", "v"))
        .put(Put::new("rbb2").cell("nope", "q", "v"))
        .put(put("rcc1", "v"));
    let outcomes = batch.commit().await;
    let names: Vec<_> = outcomes.iter().map(|group| group.outcome.name()).collect();
    assert_eq!(names, ["committed", "invalid", "committed"]);
    says(&outcomes[1].outcome, &["invalid", "row rbb2", "no family nope"]);
    assert_eq!(keys(table.table(), Scan::prefix("r")).await, ["raa1", "rcc1"]);
}

#[tokio::test]
async fn explain_sends_nothing_and_lists_groups_and_refusals() {
    let (connection, spy) = spied().await;
    let shared = TABLE.get().await;
    let table = shared.open(&connection).await;
    let sent = spy.endpoint_calls();
    let batch = table
        .batch()
        .put(put("saa1", "12345"))
        .put(put("saa2", "12345"))
        .put(put("jaa1", "v"))
        .delete(Delete::new("saa1").column("nope", "q"));
    let explanation = batch.explain().await.unwrap();
    let groups = &explanation.groups;
    assert_eq!((groups[0].rows, groups[0].mutations), (2, 3));
    assert_eq!(groups[0].region.as_ref().unwrap().start_key, "p");
    says(
        groups[0].refusal.as_ref().unwrap(),
        &["row saa1", "no family nope; it has f"],
    );
    assert_eq!((groups[1].rows, groups[1].bytes), (1, 4 + 1 + 1 + 1));
    assert_eq!(groups[1].region.as_ref().unwrap().start_key, "h");
    assert!(groups[1].refusal.is_none());
    assert!(groups.iter().all(|group| group.server.is_some()));
    says(
        &explanation,
        &[
            "partition saa: 3 mutations of 2 rows",
            "would be refused",
            "partition jaa: 1 mutation of 1 row, 7 bytes, region [h, p) on 127.0.0.1:",
        ],
    );
    assert_eq!(spy.endpoint_calls(), sent);
    assert_eq!(keys(table.table(), Scan::prefix("s")).await, [""; 0]);
}

#[tokio::test]
async fn many_groups_run_side_by_side_and_none_is_lost() {
    let connection = connect().await;
    let table = TestTable::create("many", by_three, &["250", "500", "750"]).await;
    let opened = table
        .open_with(&connection, OpenOptions::new().concurrency(32))
        .await;
    let mut batch = opened.batch();
    for group in 0..1_000 {
        for row in ["a", "b"] {
            batch = batch.put(put(format!("{group:03}{row}"), "v"));
        }
    }
    let outcomes = batch.commit().await;
    assert_eq!(outcomes.len(), 1_000);
    for (at, group) in outcomes.iter().enumerate() {
        assert!(group.outcome.is_committed(), "{}", group.outcome);
        assert_eq!(group.partition.prefix(), format!("{at:03}").as_bytes());
    }
    assert_eq!(rows(opened.table(), Scan::new()).await.len(), 2_000);
}

#[tokio::test]
async fn groups_without_a_turn_are_aborted_and_not_sent() {
    let connection = connect().await;
    let shared = TABLE.get().await;
    let options = OpenOptions::new().concurrency(1);
    let limit = Duration::from_millis(20);
    let table = shared
        .open_with(&connection, options)
        .await
        .with_operation_timeout(limit);
    let mut batch = table.batch();
    for group in 0..400 {
        batch = batch.put(put(format!("{group:03}"), vec![0; 20_000]));
    }
    let began = Instant::now();
    let outcomes = batch.commit().await;
    assert!(
        began.elapsed() < limit + Duration::from_secs(2),
        "{:?}",
        began.elapsed()
    );
    let found = keys(&shared.of(&connection), Scan::new().stop_row("a")).await;
    let mut names = std::collections::BTreeMap::<_, u32>::new();
    for group in &outcomes {
        *names.entry(group.outcome.name()).or_default() += 1;
        let written = found
            .iter()
            .any(|row| row.as_bytes().starts_with(group.partition.prefix()));
        match group.outcome.error() {
            None => assert!(written),
            Some(error) if error.is_outcome_unknown() => {}
            Some(error) => {
                assert_eq!(error.kind(), ClientErrorKind::DeadlineExceeded, "{error}");
                assert!(!written, "{error}");
            }
        }
    }
    assert!(
        names.get("aborted").is_some_and(|failed| *failed > 50),
        "{names:?}"
    );
    assert!(
        names.get("unknown").is_none_or(|unknown| *unknown <= 1),
        "{names:?}"
    );
}

#[tokio::test]
async fn an_empty_batch_has_no_outcomes() {
    let connection = connect().await;
    let shared = TABLE.get().await;
    let batch = shared.open(&connection).await.batch();
    assert!(batch.is_empty() && batch.explain().await.unwrap().groups.is_empty());
    assert!(batch.commit().await.is_empty());
}
