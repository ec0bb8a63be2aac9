//! Many conditional changes at once.

use std::collections::BTreeSet;

use hbase_txn::{
    ClientErrorKind,
    client::{CheckAndMutateResult, Condition, Get, Increment, Mutation, Put, Table},
};

use crate::support::{
    connect, put, spied,
    table::{TestTable, plain},
};

const ROWS: usize = 2_400;
const SPLITS: [&str; 5] = ["0400", "0800", "1200", "1600", "2000"];

fn row(number: usize) -> String {
    format!("{number:04}")
}

/// The claim of a row, and a count of claims.
fn claim(number: usize, owner: &'static str) -> (Condition, Vec<Mutation>) {
    let count = Increment::new(row(number)).column("f", "count", 1);
    let changes = vec![
        Put::new(row(number)).cell("f", "owner", owner).into(),
        count.into(),
    ];
    (Condition::absent(row(number), "f", "owner"), changes)
}

/// Claims all rows of these in a random order. Returns the rows that were claimed.
async fn claimed(table: &Table, rows: impl Iterator<Item = usize>, owner: &'static str) -> BTreeSet<usize> {
    let mut rows: Vec<_> = rows.collect();
    fastrand::shuffle(&mut rows);
    let results = table
        .check_and_mutate_many(rows.iter().map(|number| claim(*number, owner)))
        .await;
    assert_eq!(results.len(), rows.len());
    let results: Vec<_> = results
        .into_iter()
        .collect::<Result<Vec<CheckAndMutateResult>, _>>()
        .unwrap();
    rows.into_iter()
        .zip(results)
        .filter(|(number, result)| {
            assert_eq!(*result.row.key(), row(*number));
            let count = result.row.get::<i64>("f", "count").unwrap();
            assert_eq!(count, result.success.then_some(1));
            result.success
        })
        .map(|(number, _)| number)
        .collect()
}

#[tokio::test]
async fn each_of_many_changes_has_its_own_condition() {
    let (connection, spy) = spied().await;
    let shared = TestTable::create("check_many", plain, &SPLITS).await;
    let table = shared.of(&connection);
    let third = claimed(&table, (0..ROWS).step_by(3), "one").await;
    assert_eq!(third.len(), ROWS / 3);
    // The split is not in the client's cache; its first call finds the region gone.
    shared.split_at(&connect().await, "1000").await;
    let before = spy.multi_calls();
    let others = claimed(&table, 0..ROWS, "two").await;
    assert!(others.iter().all(|number| number % 3 != 0) && others.len() == ROWS - third.len());
    let before_again = spy.multi_calls();
    assert!(before_again - before >= 3);
    assert!(claimed(&table, 0..ROWS, "three").await.is_empty());
    assert_eq!(spy.multi_calls() - before_again, 3, "1,000 changes in each call");
    for number in [0, 1, 1001, ROWS - 1] {
        let owner = if number % 3 == 0 { "one" } else { "two" };
        let found = table.get(Get::new(row(number))).await.unwrap().unwrap();
        assert_eq!(found.value("f", "owner").unwrap(), owner);
    }
}

#[tokio::test]
async fn a_failed_change_fails_alone() {
    let connection = connect().await;
    let shared = TestTable::create("check_fails", plain, &["m"]).await;
    let table = shared.of(&connection);
    table.put(put("z", "v")).await.unwrap();
    let change = |row: &'static str, family: &'static str| {
        let put = Put::new(row).cell(family, "q", "new");
        (Condition::absent(row, "f", "q"), vec![put.into()])
    };
    let other_row = (
        Condition::absent("a", "f", "q"),
        vec![Put::new("b").cell("f", "q", "v").into()],
    );
    let changes = vec![
        change("a", "absent"),
        change("b", "f"),
        other_row,
        change("z", "f"),
    ];
    let results = table.check_and_mutate_many(changes).await;
    let error = results[0].as_ref().unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::FamilyNotFound, "{error}");
    assert!(results[1].as_ref().unwrap().success);
    let error = results[2].as_ref().unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::InvalidInput, "{error}");
    assert!(!results[3].as_ref().unwrap().success);
    assert!(table.check_and_mutate_many([]).await.is_empty());

    let missing = connection.table("check_many_missing").unwrap();
    let results = missing.check_and_mutate_many([change("a", "f")]).await;
    let error = results[0].as_ref().unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::TableNotFound, "{error}");
}
