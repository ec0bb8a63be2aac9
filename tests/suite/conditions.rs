//! Conditions: what a rejection says, and that no server is believed before it was tried.

use hbase_txn::{
    Comparison, Condition, ErrorKind, Filter, OpenOptions, Outcome, PartitionedTable, Put, Rejection,
};

use crate::support::{
    connect, put, spied,
    table::{SharedTable, by_three},
};

static TABLE: SharedTable = SharedTable::new("conditions", by_three, &["m"]);

async fn commit(table: &PartitionedTable, prefix: &'static str, conditions: Vec<Condition>) -> Outcome {
    let mut transaction = table.at(prefix).unwrap();
    for condition in conditions {
        transaction.condition(condition).unwrap();
    }
    transaction.put(put(format!("{prefix}written"), "v")).unwrap();
    transaction.commit().await
}

fn rejection(outcome: Outcome) -> Rejection {
    match outcome {
        Outcome::Rejected(rejection) => rejection,
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn a_rejection_names_the_labels_that_failed_and_what_was_found_and_nothing_is_applied() {
    let connection = connect().await;
    let shared = TABLE.get().await;
    let table = shared.open(&connection).await;
    table.table().put(put("reja", "red")).await.unwrap();
    table.table().put(put("rejb", "2")).await.unwrap();
    let conditions = vec![
        Condition::equal("reja", "f", "q", "red").label("holds"),
        Condition::equal("reja", "f", "q", "blue").label("is blue"),
        Condition::absent("rejb", "f", "q").label("nobody has it"),
        Condition::present("rejc", "f", "q"),
        Condition::not_equal("rejb", "f", "q", "2").label("is not 2"),
        Condition::compare("rejb", "f", "q", Comparison::Less, "1").label("below"),
        Condition::matches("reja", Filter::column_prefix("zzz")).label("has a z"),
    ];
    let rejected = rejection(commit(&table, "rej", conditions).await);
    let told: Vec<_> = rejected
        .failed
        .iter()
        .map(|failed| {
            let found = failed.found.as_ref().map(|cell| cell.value.clone());
            (failed.label.as_str(), failed.row.clone(), found)
        })
        .collect();
    assert_eq!(
        told,
        [
            ("is blue", "reja".into(), Some("red".into())),
            ("nobody has it", "rejb".into(), Some("2".into())),
            ("rejc f:q present", "rejc".into(), None),
            ("is not 2", "rejb".into(), Some("2".into())),
            ("below", "rejb".into(), Some("2".into())),
            ("has a z", "reja".into(), None),
        ]
    );
    assert_eq!(
        rejected.to_string(),
        "not met: is blue (found red); nobody has it (found 2); rejc f:q present; is not 2 (found 2); \
         below (found 2); has a z"
    );
    let written = table
        .table()
        .get(hbase_txn::Get::new("rejwritten"))
        .await
        .unwrap();
    assert_eq!(written, None);
    let error = Outcome::Rejected(rejected).into_result().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConditionNotMet);
    assert!(!error.is_outcome_unknown());
}

#[tokio::test]
async fn conditions_that_hold_let_the_transaction_pass_whatever_row_they_are_about() {
    let connection = connect().await;
    let shared = TABLE.get().await;
    let table = shared.open(&connection).await;
    table.table().put(put("paaa", "5")).await.unwrap();
    let conditions = vec![
        Condition::present("paaa", "f", "q"),
        Condition::not_equal("paaa", "f", "q", "6"),
        Condition::not_equal("paab", "f", "q", "6"),
        Condition::compare("paaa", "f", "q", Comparison::GreaterOrEqual, "5"),
        Condition::absent("paac", "f", "q"),
        Condition::matches("paaa", Filter::column_prefix("q")),
        Condition::begins_with("paaa", "f", "q", "5"),
    ];
    let outcome = commit(&table, "paa", conditions).await;
    assert!(outcome.is_committed(), "{outcome}");
}

#[tokio::test]
async fn the_beginning_of_a_value_is_what_it_is_on_the_server_too() {
    let connection = connect().await;
    let shared = TABLE.get().await;
    let table = shared.open(&connection).await;
    for (stored, expected) in [
        (None, false),
        (Some(""), false),
        (Some("o"), false),
        (Some("ow"), true),
        (Some("own"), true),
        (Some("on"), false),
        (Some("OWn"), false),
    ] {
        let row = format!("beg{}", stored.unwrap_or("-"));
        if let Some(stored) = stored {
            table.table().put(put(row.clone(), stored)).await.unwrap();
        }
        let conditions = vec![Condition::begins_with(row, "f", "q", "ow")];
        let outcome = commit(&table, "beg", conditions).await;
        assert_eq!(outcome.is_committed(), expected, "{stored:?}: {outcome}");
        assert_eq!(matches!(outcome, Outcome::Rejected(_)), !expected);
    }
}

#[tokio::test]
async fn a_transaction_of_conditions_alone_is_an_assertion() {
    let connection = connect().await;
    let shared = TABLE.get().await;
    let table = shared.open(&connection).await;
    table.table().put(put("asaa", "1")).await.unwrap();
    let ask = async |value: &'static str| {
        let mut transaction = table.at("asa").unwrap();
        transaction
            .condition(Condition::equal("asaa", "f", "q", value))
            .unwrap();
        transaction.commit().await
    };
    assert_eq!(ask("1").await.name(), "committed");
    assert_eq!(ask("2").await.name(), "rejected");
}

#[tokio::test]
async fn each_server_is_tried_once_before_its_conditions_are_believed() {
    let (connection, spy) = spied().await;
    let shared = TABLE.get().await;
    let table = shared.open(&connection).await;
    let opened = spy.endpoint_calls();
    assert!(commit(&table, "tri", vec![]).await.is_committed());
    assert_eq!(
        spy.endpoint_calls() - opened,
        1,
        "without conditions nothing is tried"
    );
    let absent = || vec![Condition::absent("trix", "f", "q")];
    assert!(commit(&table, "tri", absent()).await.is_committed());
    assert_eq!(spy.endpoint_calls() - opened, 3, "the trial, and the transaction");
    assert!(commit(&table, "tri", absent()).await.is_committed());
    assert_eq!(spy.endpoint_calls() - opened, 4);
}

#[tokio::test]
async fn a_condition_that_can_not_be_part_of_it_is_refused_when_it_is_added() {
    let connection = connect().await;
    let shared = TABLE.get().await;
    let table = shared.open(&connection).await;
    let mut transaction = table.at("bad").unwrap();
    for (condition, kind, why) in [
        (
            Condition::absent("othr", "f", "q"),
            ErrorKind::OtherPartition,
            "partition oth",
        ),
        (
            Condition::absent("bad1", "nope", "q"),
            ErrorKind::FamilyNotFound,
            "no family nope",
        ),
        (
            Condition::equal("bad1", "f", "q", ""),
            ErrorKind::InvalidInput,
            "empty value",
        ),
        (
            Condition::absent("", "f", "q"),
            ErrorKind::InvalidInput,
            "empty row",
        ),
        (
            Condition::absent("bad1", "_txn", "q"),
            ErrorKind::InvalidInput,
            "kept for",
        ),
    ] {
        let error = transaction.condition(condition).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(why), "{error}");
    }
    let outcome = transaction.commit().await;
    assert!(
        outcome.to_string().contains("without mutations and conditions"),
        "{outcome}"
    );
}

#[tokio::test]
async fn a_thousand_conditions_and_fifty_thousand_rows_work_and_more_are_refused_by_a_limit() {
    let connection = connect().await;
    let shared = TABLE.get().await;
    let table = shared
        .open_with(&connection, OpenOptions::new().max_conditions(1_000))
        .await;
    let conditions = |count: usize| {
        (0..count)
            .map(|number| Condition::absent(format!("man{number}"), "f", "c"))
            .collect::<Vec<_>>()
    };
    assert!(commit(&table, "man", conditions(1_000)).await.is_committed());
    let outcome = commit(&table, "man", conditions(1_001)).await;
    assert_eq!(
        outcome.error().unwrap().kind(),
        ErrorKind::LimitExceeded,
        "{outcome}"
    );
    let mut transaction = table.at("rws").unwrap();
    for number in 0..50_000 {
        transaction
            .put(Put::new(format!("rws{number:05}")).cell("f", "q", "v"))
            .unwrap();
    }
    let outcome = transaction.commit().await;
    assert!(outcome.is_committed(), "{outcome}");
}
