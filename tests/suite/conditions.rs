//! Conditions: the contents of a rejection, and the proof of each server before its first use.

use std::time::{SystemTime, UNIX_EPOCH};

use hbase_txn::{
    ClientErrorKind, ErrorKind, OpenOptions, Outcome, PartitionedTable, Rejection,
    client::{
        Comparison, Condition, Delete, FamilyDescriptor, Filter, Increment, Mutation, Put, TableDescriptor,
        TableName,
    },
};
use rstest::rstest;

use crate::support::{
    connect, eventually, forwarded, put, spied, standalone,
    table::{SharedTable, by_three, recorded},
    value,
};

static TABLE: SharedTable = SharedTable::new("conditions", by_three, &["m"]);

async fn commit(table: &PartitionedTable, prefix: &'static str, conditions: Vec<Condition>) -> Outcome {
    let mut transaction = table.transaction(prefix);
    for condition in conditions {
        transaction = transaction.condition(condition);
    }
    transaction = transaction.put(put(format!("{prefix}written"), "v"));
    transaction.commit().await
}

fn rejection(outcome: Outcome) -> Rejection {
    match outcome {
        Outcome::Rejected(rejection) => rejection,
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn rejection_has_labels_and_cells_and_applies_nothing() {
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
        .get(hbase_txn::client::Get::new("rejwritten"))
        .await
        .unwrap();
    assert_eq!(written, None);
    let error = Outcome::Rejected(rejected).into_result().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConditionNotMet);
    assert!(!error.is_outcome_unknown());
}

#[tokio::test]
async fn satisfied_conditions_on_any_row_let_the_transaction_pass() {
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
        let transaction = table
            .transaction("asa")
            .condition(Condition::equal("asaa", "f", "q", value));
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
async fn invalid_condition_is_refused_when_it_is_added() {
    let connection = connect().await;
    let shared = TABLE.get().await;
    let table = shared.open(&connection).await;
    let mut transaction = table.transaction("bad");
    for (condition, kind, why) in [
        (
            Condition::absent("othr", "f", "q"),
            ErrorKind::OtherPartition,
            "partition oth",
        ),
        (
            Condition::absent("bad1", "nope", "q"),
            ErrorKind::Client(ClientErrorKind::FamilyNotFound),
            "no family nope",
        ),
        (
            Condition::equal("bad1", "f", "q", ""),
            ErrorKind::Client(ClientErrorKind::InvalidInput),
            "empty value",
        ),
        (
            Condition::absent("", "f", "q"),
            ErrorKind::Client(ClientErrorKind::InvalidInput),
            "empty row",
        ),
        (
            Condition::absent("bad1", "_txn", "q"),
            ErrorKind::Client(ClientErrorKind::InvalidInput),
            "reserved for",
        ),
    ] {
        let error = transaction.try_add(condition).unwrap_err();
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
async fn thousand_conditions_and_fifty_thousand_rows_are_accepted() {
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
        ClientErrorKind::LimitExceeded,
        "{outcome}"
    );
    let mut transaction = table.transaction("rws");
    for number in 0..50_000 {
        transaction = transaction.put(Put::new(format!("rws{number:05}")).cell("f", "q", "v"));
    }
    let outcome = transaction.commit().await;
    assert!(outcome.is_committed(), "{outcome}");
}

/// A minute ahead of the clock.
fn soon() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(now.as_millis()).unwrap() + 60_000
}

/// The stored cells, the condition, the write, and the value that is read afterwards.
struct Ahead {
    name: &'static str,
    stored: fn(&str) -> Vec<Mutation>,
    condition: fn(String) -> Condition,
    write: fn(String) -> Mutation,
    after: Option<&'static str>,
}

fn old(row: &str) -> Vec<Mutation> {
    vec![Put::new(row.to_owned()).cell_at("f", "q", soon(), "old").into()]
}

fn empty(row: &str) -> Vec<Mutation> {
    vec![Put::new(row.to_owned()).cell_at("f", "q", soon(), "").into()]
}

fn deleted(row: &str) -> Vec<Mutation> {
    let delete = Delete::new(row.to_owned()).column("f", "q");
    vec![delete.timestamp(soon()).into()]
}

fn equal(row: String) -> Condition {
    Condition::equal(row, "f", "q", "old")
}

fn absent(row: String) -> Condition {
    Condition::absent(row, "f", "q")
}

fn new(row: String) -> Mutation {
    put(row, "new").into()
}

const AHEAD: [Ahead; 11] = {
    const fn case(
        name: &'static str,
        stored: fn(&str) -> Vec<Mutation>,
        condition: fn(String) -> Condition,
        write: fn(String) -> Mutation,
        after: Option<&'static str>,
    ) -> Ahead {
        Ahead {
            name,
            stored,
            condition,
            write,
            after,
        }
    }
    let new_value = Some("new");
    [
        case("equal", old, equal, new, new_value),
        case(
            "present",
            old,
            |row| Condition::present(row, "f", "q"),
            new,
            new_value,
        ),
        case(
            "not equal",
            old,
            |row| Condition::not_equal(row, "f", "q", "o"),
            new,
            new_value,
        ),
        case(
            "begins",
            old,
            |row| Condition::begins_with(row, "f", "q", "o"),
            new,
            new_value,
        ),
        case(
            "filter",
            old,
            |row| Condition::matches(row, Filter::column_prefix("q")),
            new,
            new_value,
        ),
        case("empty", empty, absent, new, new_value),
        case("deleted", deleted, absent, new, new_value),
        case(
            "incremented",
            deleted,
            absent,
            |row| Increment::new(row).column("f", "q", 0x4142_4344_4546_4748).into(),
            Some("ABCDEFGH"),
        ),
        case(
            "column",
            old,
            equal,
            |row| Delete::new(row).column("f", "q").into(),
            None,
        ),
        case(
            "family",
            old,
            equal,
            |row| Delete::new(row).family("f").into(),
            None,
        ),
        case("row", old, equal, |row| Delete::new(row).into(), None),
    ]
};

#[tokio::test]
async fn write_to_a_conditions_cell_is_visible_over_a_cell_ahead() {
    static RECORDED: SharedTable = SharedTable::new("ahead", recorded, &[]);
    let (connection, spy) = spied().await;
    for shared in [&TABLE, &RECORDED] {
        let shared = shared.get().await;
        let table = shared.open(&connection).await;
        for (number, case) in AHEAD.iter().enumerate() {
            // One row for each case, so that no case sees cells of another.
            let row = format!("ah{number:x}row");
            let mut before = table.transaction_for_row(row.clone());
            for mutation in (case.stored)(&row) {
                before = before.add(mutation);
            }
            let outcome = before.commit().await;
            assert!(outcome.is_committed(), "{}: {outcome}", case.name);
            let transaction = table
                .transaction_for_row(row.clone())
                .condition((case.condition)(row.clone()))
                .add((case.write)(row.clone()));
            let outcome = transaction.commit().await;
            assert!(outcome.is_committed(), "{}: {outcome}", case.name);
            let after = value(table.table(), row).await;
            assert_eq!(after.as_deref(), case.after, "{}", case.name);
        }
    }
    // Only a write to a cell that a condition names costs a read.
    let shared = TABLE.get().await;
    let table = shared.open(&connection).await;
    table.table().put(put("ahyrow", "old")).await.unwrap();
    for (other, reads) in [("ahyother", 0), ("ahyrow", 1)] {
        let transaction = table
            .transaction("ahy")
            .condition(Condition::equal("ahyrow", "f", "q", "old"))
            .put(put(other, "new"));
        let before = spy.scan_calls();
        assert!(transaction.commit().await.is_committed());
        assert_eq!(spy.scan_calls() - before, reads, "{other}");
    }
}

/// Between the read of the newest timestamps and the commit, another client changes the cell of the
/// condition and changes it back, and writes to the row that the transaction deletes.
#[rstest]
#[case::row("abr", |row| Delete::new(row))]
#[case::family("abf", |row| Delete::new(row).family("f"))]
#[tokio::test]
async fn row_delete_hides_writes_after_its_read(
    #[case] prefix: &'static str,
    #[case] delete: fn(String) -> Delete,
) {
    static OLD: SharedTable = SharedTable::new("aba", by_three, &[]);
    static NEW: SharedTable = SharedTable::new("aba-new-version", new_version, &[]);
    fn new_version(name: TableName) -> TableDescriptor {
        let family = FamilyDescriptor::new("f").with_attribute("NEW_VERSION_BEHAVIOR", "true");
        by_three(name).with_family(family)
    }
    let user = format!("{prefix}user");
    let commit = async |table: &PartitionedTable, from: &'static str, to: &'static str| {
        let outcome = table
            .transaction(prefix)
            .condition(Condition::equal(user.clone(), "f", "q", from))
            .put(put(user.clone(), to))
            .put(put(format!("{prefix}{to}"), "taken"))
            .delete(delete(format!("{prefix}{from}")))
            .guard_timestamps()
            .commit()
            .await;
        assert!(outcome.is_committed(), "{outcome}");
    };
    let direct = connect().await;
    for shared in [&OLD, &NEW] {
        let shared = shared.get().await;
        let (connection, forwarder) = forwarded(standalone().config()).await;
        let (table, other) = (shared.open(&connection).await, shared.open(&direct).await);
        other.table().put(put(user.clone(), "a")).await.unwrap();
        // Proves the server, and leaves cells and markers.
        for (from, to) in [("a", "b"), ("b", "a")] {
            commit(&table, from, to).await;
        }
        let answered = forwarder.answered();
        forwarder.hold(true);
        let between = async {
            eventually("the timestamps are read", async || {
                (forwarder.answered() > answered).then_some(())
            })
            .await;
            commit(&other, "a", "c").await;
            commit(&other, "c", "a").await;
            forwarder.hold(false);
        };
        tokio::join!(commit(&table, "a", "b"), between);
        let snapshot = other.snapshot(prefix).await.unwrap();
        let rows: Vec<_> = snapshot.rows().iter().map(|row| row.key().clone()).collect();
        assert_eq!(rows, [format!("{prefix}b"), user.clone()]);
    }
}

/// The row is deleted between the read of the newest timestamps and the commit.
#[tokio::test]
async fn put_over_a_row_deleted_after_its_read_is_visible() {
    static SHARED: SharedTable = SharedTable::new("recreated", by_three, &[]);
    let shared = SHARED.get().await;
    let (connection, forwarder) = forwarded(standalone().config()).await;
    let direct = connect().await;
    let (table, other) = (shared.open(&connection).await, shared.open(&direct).await);
    let take = |row: &'static str| {
        table
            .transaction("rec")
            .condition(Condition::absent(row, "f", "q"))
            .put(put(row, "taken"))
            .guard_timestamps()
            .commit()
    };
    // Proves the server.
    assert!(take("reca").await.is_committed());
    other.table().put(put("recb", "left")).await.unwrap();
    // The scan passes, the commit is kept back.
    forwarder.stop_behind(1);
    let between = async {
        eventually("the commit is sent", async || {
            forwarder.has_stopped().then_some(())
        })
        .await;
        let left = other
            .transaction("rec")
            .delete(Delete::new("recb"))
            .guard_timestamps();
        assert!(left.commit().await.is_committed());
        forwarder.go_on();
    };
    let (outcome, ()) = tokio::join!(take("recb"), between);
    assert!(outcome.is_committed(), "{outcome}");
    assert_eq!(value(other.table(), "recb").await.as_deref(), Some("taken"));
}
