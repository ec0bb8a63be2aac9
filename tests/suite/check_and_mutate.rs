//! Changes of one row under a condition on it.

use hbase_txn::{
    ClientErrorKind,
    client::{
        Append, Comparator, Comparison, Condition, Delete, Durability, FamilyDescriptor, Filter, Get,
        Increment, Mutation, Put, Table, TableDescriptor, TableName,
    },
};

use crate::support::{
    connect, put, spied,
    table::{SharedTable, plain},
    value,
};

static TABLE: SharedTable = SharedTable::new("check_and_mutate", versioned, &["m"]);

/// Keeps old versions, which a condition must not read.
fn versioned(name: TableName) -> TableDescriptor {
    plain(name)
        .with_family(FamilyDescriptor::new("f").with_attribute("VERSIONS", "3"))
        .with_family(FamilyDescriptor::new("g"))
}

/// The operand of every comparison.
const GIVEN: &str = "m";

/// Writes versions of `f:q` of a row, the oldest first.
async fn write(table: &Table, row: &str, versions: &[&'static str]) {
    let mut write = Put::new(row.to_owned()).cell("f", "other", GIVEN);
    for (timestamp, version) in (1..).zip(versions) {
        write = write.cell_at("f", "q", timestamp, *version);
    }
    table.put(write).await.unwrap();
}

#[tokio::test]
async fn a_change_is_made_exactly_when_its_condition_holds() {
    const STATES: [(&str, &[&str]); 9] = [
        ("absent", &[]),
        ("empty", &[""]),
        ("smaller", &["a"]),
        ("equal", &["m"]),
        ("larger", &["z"]),
        ("longer", &["m+"]),
        ("empty over equal", &["m", ""]),
        ("larger over equal", &["m", "z"]),
        ("equal over smaller", &["a", "m"]),
    ];
    let connection = connect().await;
    let shared = TABLE.get().await;
    let table = shared.of(&connection);
    let compared = |row: &str, comparison| Condition::compare(row.to_owned(), "f", "q", comparison, GIVEN);
    let filtered = |row: &str| {
        let column = Filter::column_value("f", "q", Comparison::NotEqual, Comparator::binary(GIVEN));
        Condition::matches(row.to_owned(), column)
    };
    for (state, versions) in STATES {
        let row = format!("truth {state}");
        write(&table, &row, versions).await;
        let newest = versions.last().copied().unwrap_or_default();
        let is_present = !newest.is_empty();
        let cases = [
            (Condition::absent(row.clone(), "f", "q"), !is_present),
            (Condition::present(row.clone(), "f", "q"), is_present),
            (compared(&row, Comparison::Equal), newest == GIVEN),
            (compared(&row, Comparison::Less), is_present && newest < GIVEN),
            (
                compared(&row, Comparison::LessOrEqual),
                is_present && newest <= GIVEN,
            ),
            (compared(&row, Comparison::Greater), newest > GIVEN),
            (compared(&row, Comparison::GreaterOrEqual), newest >= GIVEN),
            (filtered(&row), is_present && newest != GIVEN),
            (
                Condition::begins_with(row.clone(), "f", "q", GIVEN),
                newest.starts_with(GIVEN),
            ),
        ];
        for (number, (condition, expected)) in cases.into_iter().enumerate() {
            let text = format!("{condition:?} where it is {state}");
            let change = Put::new(row.clone()).cell("g", number.to_string(), "done");
            let done = table.check_and_mutate(condition, [change.into()]).await.unwrap();
            assert_eq!(done.success, expected, "{text}");
            let found = table.get(Get::new(row.clone())).await.unwrap();
            let written = found.is_some_and(|found| found.value("g", number.to_string()).is_some());
            assert_eq!(written, expected, "{text}");
        }
    }
}

#[tokio::test]
async fn all_mutations_are_made_or_none_in_one_call() {
    let (connection, spy) = spied().await;
    let shared = TABLE.get().await;
    let table = shared.of(&connection);
    table.put(put("all", "old")).await.unwrap();
    let changes = || -> [Mutation; 4] {
        [
            put("all", "new").into(),
            Delete::new("all").column("g", "gone").into(),
            Increment::new("all").column("f", "count", 2).into(),
            Append::new("all").cell("f", "log", ";x").into(),
        ]
    };
    let mut counts = 0;
    for (expected, done) in [("old", true), ("old", false), ("new", true)] {
        let calls = spy.multi_calls();
        let condition = Condition::equal("all", "f", "q", expected);
        let result = table.check_and_mutate(condition, changes()).await.unwrap();
        assert_eq!(result.success, done);
        assert_eq!(spy.multi_calls(), calls + 1);
        // The new cells of the increment and the append, and only if they were applied.
        let columns: Vec<_> = result
            .row
            .cells()
            .iter()
            .map(|cell| &cell.qualifier[..])
            .collect();
        if done {
            counts += 2;
            assert_eq!(columns, ["count".as_bytes(), b"log"]);
            assert_eq!(result.row.get::<i64>("f", "count").unwrap(), Some(counts));
        } else {
            assert!(columns.is_empty());
        }
    }
    let row = table.get(Get::new("all")).await.unwrap().unwrap();
    assert_eq!(row.value("f", "q").unwrap(), "new");
    assert_eq!(row.value("f", "count").unwrap()[..], 4_i64.to_be_bytes());
    assert_eq!(row.value("f", "log").unwrap(), ";x;x");
    // A family that does not exist: nothing is applied.
    let unknown: [Mutation; 2] = [
        put("all", "half").into(),
        Put::new("all").cell("nowhere", "q", "v").into(),
    ];
    let condition = Condition::present("all", "f", "q");
    let error = table.check_and_mutate(condition, unknown).await.unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::FamilyNotFound, "{error}");
    assert_eq!(value(&table, "all").await.as_deref(), Some("new"));
}

#[tokio::test]
async fn of_many_who_want_the_same_one_is_told_that_it_has_it() {
    let connection = connect().await;
    let shared = TABLE.get().await;
    let table = shared.of(&connection);
    let claims = (0..32).map(|number| {
        let claim = put("race", number.to_string());
        table.check_and_mutate(Condition::absent("race", "f", "q"), [claim.into()])
    });
    let told = futures::future::try_join_all(claims).await.unwrap();
    let winners: Vec<_> = (0..32).filter(|number| told[*number].success).collect();
    assert_eq!(winners.len(), 1, "{winners:?}");
    assert_eq!(value(&table, "race").await, Some(winners[0].to_string()));
}

#[tokio::test]
async fn invalid_conditional_change_is_refused_before_it_is_sent() {
    let (connection, spy) = spied().await;
    let table = connection.table("nowhere_to_be_found").unwrap();
    let absent = || Condition::absent("r", "f", "q");
    let cell = |value: &'static str| put("r", value);
    let cases: Vec<(Condition, Vec<Mutation>, &str)> = vec![
        (absent(), vec![], "no mutation"),
        (
            Condition::not_equal("r", "f", "q", "v"),
            vec![cell("v").into()],
            "absent cell",
        ),
        (
            Condition::equal("r", "f", "q", ""),
            vec![cell("v").into()],
            "empty",
        ),
        (absent(), vec![put("s", "v").into()], "of row s"),
        (
            absent(),
            vec![
                cell("v").into(),
                Delete::new("r")
                    .column("f", "p")
                    .durability(Durability::SkipWal)
                    .into(),
            ],
            "durabilities",
        ),
        (
            absent(),
            vec![cell("v").into(), Delete::new("r").into()],
            "of one cell",
        ),
        (
            absent(),
            vec![Delete::new("r").family("f").into(), cell("v").into()],
            "of one cell",
        ),
        (
            absent(),
            vec![
                Increment::new("r").column("f", "n", 1).into(),
                Increment::new("r").column("f", "n", 1).into(),
            ],
            "of one cell",
        ),
    ];
    for (condition, mutations, expected) in cases {
        let error = table.check_and_mutate(condition, mutations).await.unwrap_err();
        assert_eq!(error.kind(), ClientErrorKind::InvalidInput, "{error}");
        assert!(error.to_string().contains(expected), "{error}");
        assert!(error.to_string().contains("nowhere_to_be_found"), "{error}");
    }
    assert_eq!(spy.multi_calls(), 0);
}

#[tokio::test]
async fn a_row_is_replaced_by_a_delete_and_a_put_with_timestamps() {
    let connection = connect().await;
    let shared = TABLE.get().await;
    let table = shared.of(&connection);
    table
        .put(Put::new("replace").cell("f", "old", "v").timestamp(5))
        .await
        .unwrap();
    let replacement: [Mutation; 2] = [
        Delete::new("replace").timestamp(9).into(),
        Put::new("replace").cell("f", "q", "v").timestamp(10).into(),
    ];
    let condition = Condition::present("replace", "f", "old");
    assert!(
        table
            .check_and_mutate(condition, replacement)
            .await
            .unwrap()
            .success
    );
    let row = table.get(Get::new("replace")).await.unwrap().unwrap();
    assert_eq!(row.cells().len(), 1);
    assert_eq!(row.value("f", "q").unwrap(), "v");
}

#[tokio::test]
async fn mutations_of_a_row_are_applied_together_and_return_counters() {
    let (connection, spy) = spied().await;
    let shared = TABLE.get().await;
    let table = shared.of(&connection);
    let first = put("together", "old").cell("g", "gone", "v");
    table.put(first).await.unwrap();
    let calls = spy.multi_calls();
    let changes: [Mutation; 4] = [
        put("together", "new").into(),
        Delete::new("together").column("g", "gone").into(),
        Append::new("together").cell("g", "log", ";x").into(),
        Increment::new("together").column("f", "count", 2).into(),
    ];
    let row = table.mutate_row(changes).await.unwrap();
    assert_eq!(spy.multi_calls(), calls + 1);
    assert_eq!(row.get::<i64>("f", "count").unwrap(), Some(2));
    assert_eq!(row.value("g", "log").unwrap(), ";x");
    assert_eq!(row.cells().len(), 2);
    let found = table.get(Get::new("together")).await.unwrap().unwrap();
    assert_eq!(found.value("f", "q").unwrap(), "new");
    assert_eq!(found.cells().len(), 3);
    // A family that does not exist: nothing is applied.
    let unknown: [Mutation; 2] = [
        put("together", "half").into(),
        Put::new("together").cell("nowhere", "q", "v").into(),
    ];
    let error = table.mutate_row(unknown).await.unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::FamilyNotFound, "{error}");
    assert_eq!(value(&table, "together").await.as_deref(), Some("new"));
}

#[tokio::test]
async fn invalid_mutations_of_a_row_are_refused_before_they_are_sent() {
    let (connection, spy) = spied().await;
    let table = connection.table("nowhere_to_be_found").unwrap();
    let labelled = put("r", "v").cell_visibility("secret");
    let cases: [(Vec<Mutation>, &str); 4] = [
        (vec![labelled.into()], "visibility"),
        (vec![], "no mutation"),
        (vec![put("r", "v").into(), put("s", "v").into()], "of row s"),
        (vec![put("r", "v").into(), Delete::new("r").into()], "of one cell"),
    ];
    for (mutations, expected) in cases {
        let error = table.mutate_row(mutations).await.unwrap_err();
        assert_eq!(error.kind(), ClientErrorKind::InvalidInput, "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    }
    assert_eq!(spy.multi_calls(), 0);
}
