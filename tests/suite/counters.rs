//! Increments and appends: concurrent, after deletes, of several columns, and such that are refused.

use futures::future::try_join_all;
use hbase_txn::{
    ClientErrorKind,
    client::{
        Append, Delete, Durability, FamilyDescriptor, Get, Increment, Put, Row, TableDescriptor, TableName,
    },
};

use crate::support::{connect, says, table::SharedTable, value};

static TABLE: SharedTable = SharedTable::new("counters", versioned, &[]);

fn versioned(name: TableName) -> TableDescriptor {
    TableDescriptor::from(name)
        .with_family(FamilyDescriptor::new("f").with_attribute("VERSIONS", "3"))
        .with_family(FamilyDescriptor::new("g"))
}

/// Returns the columns and numbers of a row.
fn numbers(row: &Row) -> Vec<(String, i64)> {
    let cells = row.cells().iter();
    cells
        .map(|cell| {
            let qualifier = String::from_utf8(cell.qualifier.to_vec()).unwrap();
            (qualifier, cell.decode().unwrap())
        })
        .collect()
}

#[tokio::test]
async fn concurrent_increments_and_appends_all_count() {
    const TASKS: usize = 64;
    let shared = TABLE.get().await;
    let connections = [connect().await, connect().await];
    let tables = [shared.of(&connections[0]), shared.of(&connections[1])];
    let increments = try_join_all((0..TASKS).map(async |number| {
        let increment = Increment::new("concurrent")
            .column("f", "a", 1)
            .column("g", "b", 3);
        tables[number % 2].increment(increment).await
    }));
    let appends = try_join_all((0..TASKS).map(async |number| {
        let append = Append::new("concurrent-log").cell("f", "q", "x");
        tables[number % 2].append(append).await
    }));
    let (increments, appends) = tokio::join!(increments, appends);
    // Each answer is the value after that operation, and no two are the same.
    let mut sums: Vec<i64> = increments
        .unwrap()
        .iter()
        .map(|row| {
            let sum = row.get("f", "a").unwrap().unwrap();
            assert_eq!(row.get("g", "b").unwrap(), Some(3 * sum));
            sum
        })
        .collect();
    sums.sort_unstable();
    assert_eq!(sums, (1..=TASKS as i64).collect::<Vec<_>>());
    let mut lengths: Vec<_> = appends
        .unwrap()
        .iter()
        .map(|row| row.value("f", "q").unwrap().len())
        .collect();
    lengths.sort_unstable();
    assert_eq!(lengths, (1..=TASKS).collect::<Vec<_>>());
    let read = value(&tables[0], "concurrent-log").await;
    assert_eq!(read.unwrap().len(), TASKS);
}

#[tokio::test]
async fn an_increment_after_a_delete_begins_at_zero() {
    let connection = connect().await;
    let shared = TABLE.get().await;
    let table = shared.of(&connection);
    let stored = Put::new("deleted")
        .cell_at("f", "a", 5, 40_i64)
        .cell_at("f", "a", 4, 30_i64);
    table.put(stored).await.unwrap();
    // The version below is not what it adds to.
    let delete = Delete::new("deleted").column("f", "a").timestamp(5);
    table.delete(delete).await.unwrap();
    let row = table
        .increment(Increment::new("deleted").column("f", "a", 2))
        .await
        .unwrap();
    assert_eq!(row.get("f", "a").unwrap(), Some(2_i64));

    let stored = Put::new("uncovered")
        .cell_at("f", "a", 5, 40_i64)
        .cell_at("f", "a", 4, 30_i64);
    table.put(stored).await.unwrap();
    table
        .delete(Delete::new("uncovered").version("f", "a", 5))
        .await
        .unwrap();
    let row = table
        .increment(Increment::new("uncovered").column("f", "a", 2))
        .await
        .unwrap();
    assert_eq!(row.get("f", "a").unwrap(), Some(32_i64));
}

#[tokio::test]
async fn columns_are_incremented_in_any_order_and_by_zero() {
    let connection = connect().await;
    let shared = TABLE.get().await;
    let table = shared.of(&connection);
    let row = || Increment::new("order");
    let named = |numbers: &[(&str, i64)]| -> Vec<(String, i64)> {
        numbers
            .iter()
            .map(|(name, number)| ((*name).to_owned(), *number))
            .collect()
    };
    let answer = table
        .increment(row().column("f", "c", 3).column("f", "a", 1).column("f", "b", 0))
        .await
        .unwrap();
    assert_eq!(numbers(&answer), named(&[("a", 1), ("b", 0), ("c", 3)]));
    let answer = table
        .increment(row().column("f", "b", 0).column("f", "d", -1).column("f", "a", 1))
        .await
        .unwrap();
    assert_eq!(numbers(&answer), named(&[("a", 2), ("b", 0), ("d", -1)]));
    let read = table.get(Get::new("order")).await.unwrap().unwrap();
    assert_eq!(numbers(&read), named(&[("a", 2), ("b", 0), ("c", 3), ("d", -1)]));
}

#[tokio::test]
async fn invalid_increments_and_appends_are_refused() {
    let connection = connect().await;
    let shared = TABLE.get().await;
    let table = shared.of(&connection);
    let long = vec![b'x'; 32_768];
    for (increment, kind, text) in [
        (
            Increment::new("").column("f", "a", 1),
            ClientErrorKind::InvalidInput,
            "empty row key",
        ),
        (
            Increment::new(long).column("f", "a", 1),
            ClientErrorKind::InvalidInput,
            "32768 bytes",
        ),
        (
            Increment::new("bad"),
            ClientErrorKind::InvalidInput,
            "without columns",
        ),
        (
            Increment::new("bad").column("", "a", 1),
            ClientErrorKind::InvalidInput,
            "empty",
        ),
        (
            Increment::new("bad").column("nope", "a", 1),
            ClientErrorKind::FamilyNotFound,
            "nope",
        ),
    ] {
        let error = table.increment(increment).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(!error.is_outcome_unknown(), "{error}");
        says(&error, &[text, shared.name.qualifier()]);
    }
    for (append, kind) in [
        (Append::new("").cell("f", "a", "v"), ClientErrorKind::InvalidInput),
        (Append::new("bad"), ClientErrorKind::InvalidInput),
        (
            Append::new("bad").cell("nope", "a", "v"),
            ClientErrorKind::FamilyNotFound,
        ),
    ] {
        let error = table.append(append).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(!error.is_outcome_unknown(), "{error}");
    }
    assert_eq!(table.get(Get::new("bad")).await.unwrap(), None);
}

#[tokio::test]
async fn appends_and_increments_that_skip_the_log_are_read() {
    let connection = connect().await;
    let shared = TABLE.get().await;
    let table = shared.of(&connection);
    let append = |text: &'static str| {
        let append = Append::new("weak").cell("f", "q", text).cell("g", "q", text);
        append.durability(Durability::SkipWal)
    };
    table.append(append("one")).await.unwrap();
    let row = table.append(append("two")).await.unwrap();
    assert_eq!(row.value("g", "q").unwrap(), "onetwo");
    assert_eq!(value(&table, "weak").await.as_deref(), Some("onetwo"));
    let increment = Increment::new("weak").column("g", "n", 4);
    table
        .increment(increment.durability(Durability::SkipWal))
        .await
        .unwrap();
    let row = table
        .get(Get::new("weak").column("g", "n"))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(row.get("g", "n").unwrap(), Some(4_i64));
}
