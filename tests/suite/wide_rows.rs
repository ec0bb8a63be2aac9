//! Rows in parts: in batches of cells, as they arrive, and pages of their columns.

use std::sync::Arc;

use hbase_txn::{
    ClientErrorKind,
    admin::Admin,
    client::{Cell, Filter, Get, Put, Row, Scan, Table},
};
use rstest::rstest;

use crate::support::{
    collect, connect, key, put, says,
    table::{SharedTable, TestTable, plain},
};

const CELLS: u8 = 10;

static TABLE: SharedTable = SharedTable::new("wide-rows", two_families, &["m"]);

fn two_families(name: hbase_txn::client::TableName) -> hbase_txn::client::TableDescriptor {
    plain(name).with_family(hbase_txn::client::FamilyDescriptor::new("g"))
}

/// Writes the narrow rows `a` and `z`, and between them two rows of ten cells.
async fn wide(table: &Table) {
    for row in ["a", "z"] {
        table.put(put(row, "v")).await.unwrap();
    }
    for row in ["d", "n"] {
        let cells = (0..CELLS).fold(Put::new(row), |put, at| put.cell("f", vec![at], vec![at; 100]));
        table.put(cells).await.unwrap();
    }
}

async fn table() -> (Table, Arc<TestTable>) {
    let shared = TABLE.get().await;
    let table = shared.of(&connect().await);
    wide(&table).await;
    (table, shared)
}

/// Returns the key, the number of cells, and whether others may follow.
fn shape(part: &Row) -> (String, usize, bool) {
    (key(part), part.cells().len(), part.may_have_more_cells())
}

async fn shapes(table: &Table, scan: Scan) -> Vec<(String, usize, bool)> {
    let parts = collect(table.scan(scan).unwrap()).await;
    parts.iter().map(shape).collect()
}

/// Asserts that the parts have each cell once, and in order.
fn assert_whole(parts: &[Row], rows: &[&str]) {
    let cells: Vec<&Cell> = parts.iter().flat_map(Row::cells).collect();
    let is_wide = |row: &str| row == "d" || row == "n";
    let expected = rows.iter().flat_map(|row| {
        if is_wide(row) {
            (0..CELLS).map(|at| (*row, vec![at])).collect()
        } else {
            vec![(*row, b"q".to_vec())]
        }
    });
    let found = cells
        .iter()
        .map(|cell| (std::str::from_utf8(&cell.row).unwrap(), cell.qualifier.to_vec()));
    assert!(found.eq(expected), "{parts:?}");
}

#[rstest]
#[case::up(Scan::new(), ["a", "d", "n", "z"])]
#[case::down(Scan::new().reversed(), ["z", "n", "d", "a"])]
#[tokio::test]
async fn batches_have_at_most_as_many_cells(#[case] scan: Scan, #[case] order: [&str; 4]) {
    let (table, _shared) = table().await;
    let parts = collect(table.scan(scan.clone().batch(4)).unwrap()).await;
    assert_whole(&parts, &order);
    let sizes: Vec<usize> = parts.iter().map(|part| part.cells().len()).collect();
    assert_eq!(sizes, [1, 4, 4, 2, 4, 4, 2, 1]);
    for part in &parts {
        let ends_row = part.cells().len() != 4;
        assert!(!ends_row || !part.may_have_more_cells(), "{:?}", shape(part));
    }
    // Whole rows are unchanged.
    let rows = collect(table.scan(scan).unwrap()).await;
    assert_whole(&rows, &order);
    assert!(rows.iter().all(|row| !row.may_have_more_cells()));
    assert_eq!(rows.len(), 4);
}

#[tokio::test]
async fn partial_results_are_returned_as_they_arrive() {
    let (table, _shared) = table().await;
    let scan = Scan::new().allow_partial_results().max_result_size(500);
    let parts = collect(table.scan(scan).unwrap()).await;
    assert_whole(&parts, &["a", "d", "n", "z"]);
    assert!(parts.len() > 6, "{parts:?}");
    // A row that ends is not announced to go on.
    for pair in parts.windows(2) {
        assert!(pair[0].may_have_more_cells() || pair[0].key() != pair[1].key());
    }
}

#[rstest]
#[case(1, &["a"])]
#[case(2, &["a", "d"])]
#[case(3, &["a", "d", "n"])]
#[case(4, &["a", "d", "n", "z"])]
#[tokio::test]
async fn limit_counts_rows_and_not_their_parts(
    #[case] limit: u64,
    #[case] expected: &[&str],
    #[values(1, 3, 5, 10)] batch: u32,
) {
    let (table, _shared) = table().await;
    for scan in [
        Scan::new().batch(batch),
        Scan::new().batch(batch).caching(1),
        Scan::new().allow_partial_results().max_result_size(300),
    ] {
        let parts = collect(table.scan(scan.limit(limit)).unwrap()).await;
        assert_whole(&parts, expected);
    }
}

#[tokio::test]
async fn region_that_moves_in_a_row_costs_no_cell_and_doubles_none() {
    let owned = TestTable::create("wide-moved", plain, &[]).await;
    let connection = connect().await;
    let table = owned.of(&connection);
    wide(&table).await;
    let mut parts = Vec::new();
    let mut scanner = table.scan(Scan::new().batch(3).caching(1)).unwrap();
    for number in 0.. {
        let Some(part) = scanner.next().await.unwrap() else {
            break;
        };
        parts.push(part);
        // In the second and in the third row.
        if number == 1 || number == 6 {
            let admin = Admin::new(&connection);
            let descriptor = admin.descriptor(&owned.name).await.unwrap();
            let size = (10_u64 << 30) + number;
            let descriptor = descriptor.with_attribute("MAX_FILESIZE", size.to_string());
            admin.modify_table(&descriptor).await.unwrap();
        }
    }
    assert_whole(&parts, &["a", "d", "n", "z"]);
    assert!(scanner.metrics().failed_calls >= 2, "{:?}", scanner.metrics());
}

#[rstest]
#[case::first(3, 0, &[0, 1, 2])]
#[case::second(3, 3, &[3, 4, 5])]
#[case::last(3, 9, &[9])]
#[case::none(3, 10, &[])]
#[tokio::test]
async fn columns_of_a_row_are_read_in_pages(
    #[case] limit: u32,
    #[case] offset: u32,
    #[case] expected: &[u8],
) {
    let (table, _shared) = table().await;
    let get = Get::new("d")
        .max_results_per_column_family(limit)
        .row_offset_per_column_family(offset);
    let row = table.get(get).await.unwrap();
    let found: Vec<u8> = row
        .iter()
        .flat_map(Row::cells)
        .map(|cell| cell.qualifier[0])
        .collect();
    assert_eq!(found, expected);

    let scan = Scan::prefix("d")
        .max_results_per_column_family(limit)
        .row_offset_per_column_family(offset);
    let rows = collect(table.scan(scan).unwrap()).await;
    let found: Vec<u8> = rows
        .iter()
        .flat_map(Row::cells)
        .map(|cell| cell.qualifier[0])
        .collect();
    assert_eq!(found, expected);
}

#[tokio::test]
async fn batches_of_families_and_versions_keep_their_order() {
    let owned = TestTable::create(
        "wide-versions",
        |name| {
            let versions =
                |family| hbase_txn::client::FamilyDescriptor::new(family).with_attribute("VERSIONS", "5");
            hbase_txn::client::TableDescriptor::from(name)
                .with_family(versions("f"))
                .with_family(versions("g"))
        },
        &[],
    )
    .await;
    let table = owned.of(&connect().await);
    for timestamp in 1..=3 {
        let put = ["f", "g"].into_iter().fold(Put::new("r"), |put, family| {
            put.cell_at(family, "a", timestamp, "v")
                .cell_at(family, "b", timestamp, "v")
        });
        table.put(put).await.unwrap();
    }
    let all = collect(table.scan(Scan::new().versions(9)).unwrap()).await;
    let parts = collect(table.scan(Scan::new().versions(9).batch(5)).unwrap()).await;
    assert_eq!(shapes(&table, Scan::new().versions(9).batch(5)).await.len(), 3);
    assert!(parts.iter().flat_map(Row::cells).eq(all[0].cells()));
}

#[tokio::test]
async fn batch_with_a_filter_of_rows_is_refused_with_the_reason() {
    let (table, _shared) = table().await;
    let none = table.scan(Scan::new().batch(0)).unwrap_err();
    assert_eq!(none.kind(), ClientErrorKind::InvalidInput);
    // A filter that judges cells is fine.
    let scan = Scan::new().batch(4).filter(Filter::column_prefix([3_u8]));
    assert_eq!(shapes(&table, scan).await.len(), 2);
}

#[rstest]
#[case(Scan::new().start_row("b").stop_row("a"), "start row b is after stop row a")]
#[case(Scan::new().start_row("a").stop_row("b").reversed(), "start row a is before stop row b")]
#[tokio::test]
async fn inverted_range_is_refused(#[case] scan: Scan, #[case] expected: &str) {
    let (table, _shared) = table().await;
    let error = table.scan(scan).unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::InvalidInput);
    says(&error, &[expected, "reversed"]);
}
