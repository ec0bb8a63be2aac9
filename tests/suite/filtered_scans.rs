//! Filters together with limits, batches, columns and versions.

use std::sync::Arc;

use hbase_txn::client::{
    Comparator, Comparison, FamilyDescriptor, Filter, Put, ReadFilter, Scan, Table, TableDescriptor,
    TableName,
};
use rstest::rstest;

use crate::support::{
    connect, key, keys, rows,
    table::{SharedTable, TestTable},
};

static TABLE: SharedTable = SharedTable::new("filtered", versioned, &["r4", "r8"]);

fn versioned(name: TableName) -> TableDescriptor {
    TableDescriptor::from(name)
        .with_family(FamilyDescriptor::new("f").with_attribute("VERSIONS", "4"))
        .with_family(FamilyDescriptor::new("g"))
}

/// Ten rows in three regions. Each has five columns in `f`, with the value `even` or `odd` after the
/// row, and the number of the row in `g:n`.
async fn ten() -> (Table, Arc<TestTable>) {
    let shared = TABLE.get().await;
    let table = shared.of(&connect().await);
    for number in 0..10_i64 {
        let value = if number % 2 == 0 { "even" } else { "odd" };
        let put = Put::new(format!("r{number}")).cell_at("g", "n", 1, number);
        let put = (0..5).fold(put, |put, column| {
            put.cell_at("f", format!("c{column}"), 1, value)
        });
        table.put(put).await.unwrap();
    }
    (table, shared)
}

fn odd() -> Filter {
    Filter::value(Comparison::Equal, Comparator::binary("odd"))
}

#[rstest]
#[case::none(10, &["r1", "r3", "r5", "r7", "r9"])]
#[case::some(3, &["r1", "r3", "r5"])]
#[case::one(1, &["r1"])]
#[tokio::test]
async fn a_limit_counts_the_rows_that_a_filter_lets_through(
    #[case] limit: u64,
    #[case] expected: &[&str],
    #[values(1, 100)] caching: u32,
) {
    let (table, _shared) = ten().await;
    let scan = || Scan::new().family("f").caching(caching).filter(odd());
    assert_eq!(keys(&table, scan().limit(limit)).await, expected);
    let mut down: Vec<_> = keys(&table, scan()).await;
    down.reverse();
    let found = keys(&table, scan().reversed().limit(limit)).await;
    assert_eq!(found, down[..down.len().min(limit as usize)]);

    // Parts of rows are not counted as rows.
    let parts = rows(&table, scan().limit(limit).batch(2)).await;
    let sizes: Vec<_> = parts.iter().map(|part| part.cells().len()).collect();
    assert_eq!(sizes, [2, 2, 1].repeat(expected.len()));
    let partial = scan().limit(limit).allow_partial_results().max_result_size(1);
    let parts = rows(&table, partial).await;
    let cells: usize = parts.iter().map(|part| part.cells().len()).sum();
    assert_eq!(cells, 5 * expected.len());
    let mut found: Vec<_> = parts.iter().map(key).collect();
    found.dedup();
    assert_eq!(found, expected);
}

#[rstest]
#[case::of_values(ReadFilter::value(Comparison::Equal, Comparator::binary("none")))]
#[case::of_rows(ReadFilter::row_prefix("s"))]
#[case::of_columns(ReadFilter::qualifier(Comparison::Less, Comparator::binary("a")))]
#[case::of_both(ReadFilter::all([ReadFilter::row_prefix("r"), ReadFilter::row_prefix("s")]))]
#[tokio::test]
async fn a_filter_that_lets_nothing_through_ends_the_scan(#[case] filter: ReadFilter) {
    let (table, _shared) = ten().await;
    for scan in [
        Scan::new(),
        Scan::new().caching(1),
        Scan::new().limit(1),
        Scan::new().reversed(),
    ] {
        assert_eq!(keys(&table, scan.filter(filter.clone())).await, [""; 0]);
    }
}

#[tokio::test]
async fn the_first_row_of_a_range_is_left_out() {
    let (table, _shared) = ten().await;
    let filter = ReadFilter::row(Comparison::NotEqual, Comparator::binary("r3"));
    let scan = Scan::new().start_row("r3").stop_row("r6").column("f", "c0");
    assert_eq!(keys(&table, scan.filter(filter.clone())).await, ["r4", "r5"]);
    let scan = Scan::new().start_row("r3").stop_row("r1").column("f", "c0");
    assert_eq!(keys(&table, scan.reversed().filter(filter)).await, ["r2"]);
}

#[tokio::test]
async fn columns_versions_and_a_filter_select_together() {
    let connection = connect().await;
    let owned = TestTable::create("together", versioned, &[]).await;
    let table = owned.of(&connection);
    for timestamp in 1..=4 {
        let value = ["", "one", "two", "three", "four"][timestamp as usize];
        let put = ["a", "b", "c"].into_iter().fold(Put::new("r"), |put, column| {
            put.cell_at("f", column, timestamp, value)
        });
        table.put(put).await.unwrap();
    }
    let found = async |scan: Scan| {
        let rows = rows(&table, scan).await;
        let cells = rows.iter().flat_map(|row| row.cells());
        cells
            .map(|cell| format!("{}{}", String::from_utf8_lossy(&cell.qualifier), cell.timestamp))
            .collect::<Vec<_>>()
            .join(" ")
    };
    let scan = || Scan::new().column("f", "a").column("f", "c").versions(2);
    assert_eq!(found(scan()).await, "a4 a3 c4 c3");
    // The filter chooses among all versions, and the versions that it lets through are counted.
    let not_four = ReadFilter::value(Comparison::NotEqual, Comparator::binary("four"));
    assert_eq!(found(scan().filter(not_four.clone())).await, "a3 a2 c3 c2");
    let second = ReadFilter::qualifier(Comparison::Greater, Comparator::binary("b"));
    let both = ReadFilter::all([not_four, second.clone()]);
    assert_eq!(found(scan().filter(both)).await, "c3 c2");
    assert_eq!(found(scan().filter(second).versions(9)).await, "c4 c3 c2 c1");
}
