//! Deletes: what they hide, when they stop to, and what they leave.

use hbase_txn::{
    ClientErrorKind,
    client::{
        Cell, Condition, Delete, FamilyDescriptor, Get, Mutation, Put, Row, Scan, Table, TableDescriptor,
        TableName, TimeRange,
    },
};
use rstest::rstest;

use crate::support::{
    connect, keys, put, rows,
    table::{
        Storage::{self, MajorCompacted, Memstore, StoreFiles},
        TestTable,
    },
    value,
};

const ALL: u32 = i32::MAX as u32;

/// Everything that `fill` writes.
const EVERYTHING: &str = "f:a3 f:a2 f:a1 f:b1 g:a3 g:a2 g:a1 g:b1";

fn versioned(name: TableName) -> TableDescriptor {
    let family = |name: &'static str| FamilyDescriptor::new(name).with_attribute("VERSIONS", "5");
    TableDescriptor::from(name)
        .with_family(family("f"))
        .with_family(family("g"))
}

async fn fill(table: &Table, row: &str) {
    let put = ["f", "g"]
        .into_iter()
        .fold(Put::new(row.to_owned()), |put, family| {
            (1..=3)
                .fold(put, |put, timestamp| put.cell_at(family, "a", timestamp, "v"))
                .cell_at(family, "b", 1, "v")
        });
    table.put(put).await.unwrap();
}

/// Returns the columns and timestamps of all versions of a row.
async fn left(table: &Table, row: &str) -> String {
    let row = table.get(Get::new(row.to_owned()).versions(ALL)).await.unwrap();
    let cells = row.map(Row::into_cells).unwrap_or_default();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let cell = |cell: &Cell| {
        let (family, qualifier) = (text(&cell.family), text(&cell.qualifier));
        format!("{family}:{qualifier}{}", cell.timestamp)
    };
    cells.iter().map(cell).collect::<Vec<_>>().join(" ")
}

/// Names the parts that a delete covers.
type Parts = fn(Delete) -> Delete;

/// Deletes, and what they leave of a row.
fn deletes() -> Vec<(Delete, &'static str)> {
    // The caller gives them their rows.
    let delete = |number: usize| Delete::new(row(number));
    let cases: [(Parts, &str); 19] = [
        (|row| row, ""),
        (|row| row.timestamp(2), "f:a3 g:a3"),
        (|row| row.timestamp(0), EVERYTHING),
        (|row| row.family("f"), "g:a3 g:a2 g:a1 g:b1"),
        (|row| row.family("f").timestamp(2), "f:a3 g:a3 g:a2 g:a1 g:b1"),
        (|row| row.family("f").family("g"), ""),
        (|row| row.column("f", "a"), "f:b1 g:a3 g:a2 g:a1 g:b1"),
        (
            |row| row.column("f", "a").timestamp(2),
            "f:a3 f:b1 g:a3 g:a2 g:a1 g:b1",
        ),
        (|row| row.column("f", "none"), EVERYTHING),
        (
            |row| row.version("f", "a", 2),
            "f:a3 f:a1 f:b1 g:a3 g:a2 g:a1 g:b1",
        ),
        (
            |row| row.version("g", "a", 3),
            "f:a3 f:a2 f:a1 f:b1 g:a2 g:a1 g:b1",
        ),
        (|row| row.version("f", "a", 7), EVERYTHING),
        (
            |row| row.family_version("f", 2),
            "f:a3 f:a1 f:b1 g:a3 g:a2 g:a1 g:b1",
        ),
        (|row| row.family_version("f", 1), "f:a3 f:a2 g:a3 g:a2 g:a1 g:b1"),
        (|row| row.family_version("g", 7), EVERYTHING),
        (
            |row| row.family_version("f", 1).version("g", "a", 3).column("g", "b"),
            "f:a3 f:a2 g:a2 g:a1",
        ),
        (|row| row.family("f").column("g", "a"), "g:b1"),
        (|row| row.family("f").version("g", "a", 2), "g:a3 g:a1 g:b1"),
        (
            |row| row.version("f", "a", 1).version("f", "a", 3).version("g", "b", 1),
            "f:a2 f:b1 g:a3 g:a2 g:a1",
        ),
    ];
    let cases = cases.into_iter().enumerate();
    cases
        .map(|(number, (parts, left))| (parts(delete(number)), left))
        .collect()
}

/// The row of a delete. Between those of two deletes is one that stays as it is.
fn row(number: usize) -> String {
    format!("r{:03}", 2 * number)
}

#[rstest]
#[tokio::test]
async fn a_delete_hides_what_it_names_and_nothing_else(
    #[values(Memstore, StoreFiles, MajorCompacted)] storage: Storage,
) {
    let connection = connect().await;
    let owned = TestTable::create("deletes", versioned, &[]).await;
    let table = owned.of(&connection);
    let deletes = deletes();
    let all: Vec<_> = (0..2 * deletes.len())
        .map(|number| format!("r{number:03}"))
        .collect();
    for row in &all {
        fill(&table, row).await;
        assert_eq!(left(&table, row).await, EVERYTHING);
    }
    owned.store_in(&connection, storage).await;
    for (delete, _) in &deletes {
        table.delete(delete.clone()).await.unwrap();
    }
    for _ in 0..2 {
        let mut found = Vec::new();
        for row in &all {
            let of_row = deletes.iter().find(|(delete, _)| delete.row() == row);
            let expected = of_row.map_or(EVERYTHING, |(_, left)| left);
            assert_eq!(left(&table, row).await, expected, "{of_row:?}");
            if !expected.is_empty() {
                found.push(row.clone());
            }
        }
        assert_eq!(keys(&table, Scan::new()).await, found);
        found.reverse();
        assert_eq!(keys(&table, Scan::new().reversed()).await, found);
        owned.store_in(&connection, storage).await;
    }
}

#[tokio::test]
async fn a_put_over_a_delete_is_visible_if_it_is_later() {
    let connection = connect().await;
    let owned = TestTable::create("puts-again", versioned, &[]).await;
    let table = owned.of(&connection);
    let columns = ["a", "b", "c", "d"];
    let written = |timestamp, columns: &[&'static str]| {
        let row = Put::new("r");
        columns
            .iter()
            .fold(row, |put, column| put.cell_at("f", *column, timestamp, "v"))
    };
    table.put(written(1, &columns)).await.unwrap();
    let delete = Delete::new("r").column("f", "b").column("f", "d").timestamp(5);
    table.delete(delete).await.unwrap();
    table.put(written(4, &["b"])).await.unwrap();
    // A delete hides puts with its own timestamp, also those that follow.
    table.put(written(5, &["d"])).await.unwrap();
    assert_eq!(left(&table, "r").await, "f:a1 f:c1");
    table.put(written(6, &["b"])).await.unwrap();
    assert_eq!(left(&table, "r").await, "f:a1 f:b6 f:c1");
}

#[tokio::test]
async fn a_delete_in_the_future_hides_puts_until_a_major_compaction() {
    let connection = connect().await;
    let owned = TestTable::create("future", versioned, &[]).await;
    let table = owned.of(&connection);
    let future = 9_000_000_000_000;
    table.put(put("r", "old")).await.unwrap();
    table.delete(Delete::new("r").timestamp(future)).await.unwrap();
    table.put(put("r", "new")).await.unwrap();
    assert_eq!(value(&table, "r").await, None);
    owned.store_in(&connection, MajorCompacted).await;
    assert_eq!(value(&table, "r").await, None);
    table.put(put("r", "newer")).await.unwrap();
    assert_eq!(value(&table, "r").await.as_deref(), Some("newer"));
}

#[rstest]
#[tokio::test]
#[ignore = "needs families that keep deleted cells"]
async fn deleted_cells_that_a_family_keeps_are_read_before_the_delete(
    #[values(Memstore, StoreFiles, MajorCompacted)] storage: Storage,
) {
    let keeping = |name| {
        let family = FamilyDescriptor::new("f")
            .with_attribute("VERSIONS", "3")
            .with_attribute("KEEP_DELETED_CELLS", "TRUE");
        TableDescriptor::from(name).with_family(family)
    };
    let connection = connect().await;
    let owned = TestTable::create("kept", keeping, &[]).await;
    let table = owned.of(&connection);
    for timestamp in [1, 2, 3] {
        table.put(put("r", "v").timestamp(timestamp)).await.unwrap();
    }
    table
        .delete(Delete::new("r").column("f", "q").timestamp(2))
        .await
        .unwrap();
    owned.store_in(&connection, storage).await;
    let read = async |range: Option<TimeRange>| {
        let get = Get::new("r").versions(ALL);
        let get = match range {
            Some(range) => get.time_range(range),
            None => get,
        };
        let row = table.get(get).await.unwrap();
        let cells = row.map(Row::into_cells).unwrap_or_default();
        cells.iter().map(|cell| cell.timestamp).collect::<Vec<_>>()
    };
    assert_eq!(read(None).await, [3]);
    assert_eq!(read(Some(TimeRange { from: 0, to: 4 })).await, [3]);
    // The delete is not in this range, so it hides nothing.
    assert_eq!(read(Some(TimeRange { from: 0, to: 2 })).await, [1]);
}

#[rstest]
#[tokio::test]
async fn scans_pass_over_deleted_rows_and_columns(
    #[values(Memstore, StoreFiles, MajorCompacted)] storage: Storage,
) {
    let connection = connect().await;
    let owned = TestTable::create("passed", versioned, &["m"]).await;
    let table = owned.of(&connection);
    let all = ["a", "b", "c", "l", "m", "n", "z"];
    for row in all {
        let put = (0..50_u8).fold(Put::new(row), |put, column| put.cell_at("f", [column], 1, "old"));
        table.put(put).await.unwrap();
    }
    owned.store_in(&connection, storage).await;
    for row in ["b", "l", "m", "z"] {
        table.delete(Delete::new(row).timestamp(2)).await.unwrap();
    }
    let half = (0..25_u8).fold(Delete::new("c"), |delete, column| delete.column("f", [column]));
    table.delete(half.timestamp(2)).await.unwrap();
    owned.store_in(&connection, storage).await;
    // One of the deleted rows gets another cell.
    table
        .put(Put::new("m").cell_at("f", "again", 3, "new"))
        .await
        .unwrap();
    let expected = [("a", 50), ("c", 25), ("m", 1), ("n", 50)];
    for scan in [
        Scan::new(),
        Scan::new().caching(1),
        Scan::new().max_result_size(1),
    ] {
        let sizes = async |scan| {
            let rows = rows(&table, scan).await;
            rows.iter()
                .map(|row| (crate::support::key(row), row.cells().len()))
                .collect::<Vec<_>>()
        };
        let down: Vec<_> = expected
            .iter()
            .rev()
            .map(|(row, cells)| ((*row).to_owned(), *cells))
            .collect();
        let mut up = down.clone();
        up.reverse();
        assert_eq!(sizes(scan.clone()).await, up, "{scan:?}");
        assert_eq!(sizes(scan.clone().reversed()).await, down, "{scan:?}");
    }
}

#[tokio::test]
async fn a_refused_delete_leaves_its_row_as_it_was() {
    let connection = connect().await;
    let owned = TestTable::create("refused", versioned, &[]).await;
    let table = owned.of(&connection);
    fill(&table, "r").await;
    let delete = Delete::new("r").column("f", "a").column("nowhere", "q");
    let error = table.delete(delete.clone()).await.unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::FamilyNotFound, "{error}");
    let results = table.mutate_many([delete, Delete::new("r").family("g")]).await;
    assert_eq!(
        results[0].as_ref().unwrap_err().kind(),
        ClientErrorKind::FamilyNotFound
    );
    results[1].as_ref().unwrap();
    assert_eq!(left(&table, "r").await, "f:a3 f:a2 f:a1 f:b1");
}

#[tokio::test]
async fn the_cells_of_a_family_at_a_timestamp_are_deleted_by_every_call() {
    let connection = connect().await;
    let owned = TestTable::create("familyversion", versioned, &[]).await;
    let table = owned.of(&connection);
    const LEFT: &str = "f:a3 f:a1 f:b1 g:a3 g:a2 g:a1 g:b1";
    for row in ["single", "many", "conditional"] {
        fill(&table, row).await;
    }
    let delete = |row: &'static str| Delete::new(row).family_version("f", 2);
    table.delete(delete("single")).await.unwrap();
    for result in table.mutate_many([delete("many"), delete("none")]).await {
        result.unwrap();
    }
    let condition = Condition::equal("conditional", "f", "b", "v");
    let changes: [Mutation; 2] = [
        delete("conditional").into(),
        Put::new("conditional").cell("g", "done", "").timestamp(4).into(),
    ];
    assert!(table.check_and_mutate(condition, changes).await.unwrap().success);
    assert_eq!(left(&table, "single").await, LEFT);
    assert_eq!(left(&table, "many").await, LEFT);
    assert_eq!(left(&table, "conditional").await, format!("{LEFT} g:done4"));
    let error = table
        .delete(Delete::new("single").family_version("f", u64::MAX))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::InvalidInput, "{error}");
}
