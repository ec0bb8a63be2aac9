//! Calls of an endpoint on a region, and on all regions of a range of rows.

use std::time::Duration;

use futures::{FutureExt, pin_mut};
use hbase_txn::{
    ClientErrorKind,
    admin::Admin,
    client::{EndpointCall, RegionAnswer, RegionInfo, Table},
};

use crate::support::{
    connect, forge, says,
    table::{TestTable, by_three, unique_name},
    value,
};

/// A transaction without mutations, which every region answers.
fn empty(start: &'static str) -> EndpointCall {
    forge::transaction(start, &[]).idempotent()
}

fn ranges(answers: &[RegionAnswer]) -> Vec<String> {
    let ranges = answers.iter().map(|answer| answer.region.range_text());
    ranges.collect()
}

/// Checks that each row of the table belongs to the region of one answer.
fn assert_covered(answers: &[RegionAnswer]) {
    let edges = answers
        .windows(2)
        .map(|pair| (&pair[0].region.end_key, &pair[1].region.start_key));
    assert!(
        edges.clone().all(|(end, start)| end == start),
        "{:?}",
        ranges(answers)
    );
    let regions: Vec<&RegionInfo> = answers.iter().map(|answer| &answer.region).collect();
    assert!(regions[0].start_key.is_empty() && regions[regions.len() - 1].end_key.is_empty());
}

#[tokio::test]
async fn each_region_of_the_range_answers_once() {
    let connection = connect().await;
    let table = TestTable::create("ranges", by_three, &["bbb", "ddd", "fff"]).await;
    let rows = table.of(&connection);
    let cases: [(&str, &str, &[&str]); 4] = [
        ("", "", &["[-∞, bbb)", "[bbb, ddd)", "[ddd, fff)", "[fff, ∞)"]),
        ("bbb", "fff", &["[bbb, ddd)", "[ddd, fff)"]),
        ("ccc", "ccc1", &["[bbb, ddd)"]),
        ("eee", "", &["[ddd, fff)", "[fff, ∞)"]),
    ];
    for (start, stop, expected) in cases {
        for regions_at_once in [0, 1, 8] {
            let call = empty(start);
            let answers = rows
                .call_endpoint_on_range(&call, stop, regions_at_once)
                .await
                .unwrap();
            assert_eq!(ranges(&answers), expected);
            assert!(answers.iter().all(|answer| answer.answer.is_ok()), "{answers:?}");
        }
    }
    let call = empty("c");
    let error = rows.call_endpoint_on_range(&call, "b", 1).await.unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::InvalidInput, "{error}");
    says(&error, &["endpoint call", "stop row b", "start row c"]);
    let nowhere = connection.table(unique_name("nowhere")).unwrap();
    let error = nowhere
        .call_endpoint_on_range(&empty(""), "", 1)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::TableNotFound, "{error}");
}

#[tokio::test]
async fn failure_of_a_region_is_its_answer() {
    let connection = connect().await;
    let table = TestTable::create("ranges", by_three, &["mmm"]).await;
    let rows = table
        .of(&connection)
        .with_operation_timeout(Duration::from_secs(3));
    // Every region is called with a put that only the first one can make.
    let call = forge::transaction("", &[("aaa1", "f")]);
    let ask = async || rows.call_endpoint_on_range(&call, "", 2).await.unwrap();
    let mut answers = ask().await;
    // The last attempt is near the deadline. On a busy machine it may have no time for its answer.
    for _ in 0..3 {
        let failure = answers[1].answer.as_ref().err();
        if failure.is_some_and(|error| error.is_outcome_unknown()) {
            answers = ask().await;
        }
    }
    assert_eq!(ranges(&answers), ["[-∞, mmm)", "[mmm, ∞)"]);
    assert!(answers[0].answer.is_ok(), "{answers:?}");
    let error = answers[1].answer.as_ref().unwrap_err();
    assert!(!error.is_outcome_unknown(), "{error}");
    says(error, &["endpoint call", "out of range", "mmm"]);
    assert_eq!(value(&rows, "aaa1").await.as_deref(), Some("forged"));
}

#[tokio::test]
async fn region_that_was_split_is_not_called() {
    let connection = connect().await;
    let table = TestTable::create("ranges", by_three, &[]).await;
    let rows = table.of(&connection);
    let whole = table.regions(&connection).await.remove(0);
    rows.call_endpoint_on_region(&whole, &empty("")).await.unwrap();
    table.split_at(&connection, "mmm").await;
    let error = rows
        .call_endpoint_on_region(&whole, &empty(""))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::RegionNotFound, "{error}");
    assert!(!error.is_outcome_unknown());
    says(&error, &["endpoint call", &whole.encoded_text(), "[-∞, mmm)"]);
    for half in table.regions(&connection).await {
        rows.call_endpoint_on_region(&half, &empty("")).await.unwrap();
    }
}

#[tokio::test]
async fn range_is_covered_while_regions_split_and_merge() {
    let connection = connect().await;
    let table = TestTable::create("ranges", by_three, &["ddd", "ppp"]).await;
    let rows = table.of(&connection);
    let changes = async {
        table.split_at(&connection, "kkk").await;
        let regions = table.regions(&connection).await;
        let of = |row: &[u8]| regions.iter().find(|region| region.contains(row)).unwrap();
        // The halves of a split can't be merged until they are compacted; these two are no halves.
        let both = [of(b"a").clone(), of(b"e").clone()];
        Admin::new(&connection)
            .major_compact_table(&table.name)
            .await
            .unwrap();
        Admin::new(&connection).merge_regions(&both).await
    }
    .fuse();
    pin_mut!(changes);
    let mut calls = 0;
    loop {
        futures::select! {
            merged = changes => {
                merged.unwrap();
                break;
            }
            answers = covering(&rows).fuse() => {
                assert_covered(&answers);
                calls += 1;
            }
        }
    }
    assert!(calls > 0, "{calls}");
    let answers = covering(&rows).await;
    assert_covered(&answers);
    assert_eq!(ranges(&answers), ["[-∞, kkk)", "[kkk, ppp)", "[ppp, ∞)"]);
}

async fn covering(rows: &Table) -> Vec<RegionAnswer> {
    let answers = rows.call_endpoint_on_range(&empty(""), "", 4).await.unwrap();
    assert!(answers.iter().all(|answer| answer.answer.is_ok()), "{answers:?}");
    answers
}
