//! Scans of many cells: every cell comes once, in answers of any size.

use hbase_txn::{
    admin::Admin,
    client::{FamilyDescriptor, Put, Row, Scan, TableDescriptor, TableName},
};
use rstest::rstest;

use crate::support::{
    collect, connect, key, put, rows,
    table::{
        Storage::{self, Memstore, StoreFiles},
        TestTable, plain,
    },
};

fn two_families(name: TableName) -> TableDescriptor {
    TableDescriptor::from(name)
        .with_family(FamilyDescriptor::new("f"))
        .with_family(FamilyDescriptor::new("g"))
}

#[rstest]
#[tokio::test]
async fn rows_of_thousands_of_columns_are_whole(#[values(Memstore, StoreFiles)] storage: Storage) {
    const ROWS: usize = 5;
    const COLUMNS: usize = 2_000;
    let connection = connect().await;
    let owned = TestTable::create("columns", plain, &["r3"]).await;
    let table = owned.of(&connection);
    let puts = (0..ROWS).map(|row| {
        (0..COLUMNS).fold(Put::new(format!("r{row}")), |put, column| {
            put.cell("f", format!("{column:04}"), format!("{row}-{column}"))
        })
    });
    for result in table.mutate_many(puts).await {
        result.unwrap();
    }
    owned.store_in(&connection, storage).await;
    let check = |rows: &[Row], what: &str| {
        let cells: Vec<_> = rows.iter().flat_map(|row| row.cells()).collect();
        assert_eq!(cells.len(), ROWS * COLUMNS, "{what}");
        for (at, cell) in cells.iter().enumerate() {
            let (row, column) = (at / COLUMNS, at % COLUMNS);
            assert_eq!(cell.row, format!("r{row}"), "{what}");
            assert_eq!(cell.qualifier, format!("{column:04}"), "{what}");
            assert_eq!(cell.value, format!("{row}-{column}"), "{what}");
        }
    };
    for scan in [
        Scan::new(),
        Scan::new().caching(1),
        Scan::new().max_result_size(10_000),
        Scan::new().caching(2).max_result_size(3_000_000),
    ] {
        let found = rows(&table, scan.clone()).await;
        assert_eq!(found.len(), ROWS, "{scan:?}");
        check(&found, &format!("{scan:?}"));
    }
    let batched = rows(&table, Scan::new().batch(300)).await;
    assert_eq!(batched.len(), ROWS * COLUMNS.div_ceil(300));
    check(&batched, "in batches");
    let partial = Scan::new().allow_partial_results().max_result_size(20_000);
    check(&rows(&table, partial).await, "in parts");
}

#[tokio::test]
async fn a_hundred_thousand_cells_are_all_seen() {
    const ROWS: usize = 1_000;
    const COLUMNS: usize = 50;
    let connection = connect().await;
    let owned = TestTable::create("manycells", two_families, &["r0250", "r0500", "r0750"]).await;
    let table = owned.of(&connection);
    let puts = (0..ROWS).map(|row| {
        (0..COLUMNS).fold(Put::new(format!("r{row:04}")), |put, column| {
            let qualifier = format!("{column:02}");
            put.cell("f", qualifier.clone(), "0123456789")
                .cell("g", qualifier, "")
        })
    });
    for result in table.mutate_many(puts).await {
        result.unwrap();
    }
    for scan in [
        Scan::new(),
        Scan::new().max_result_size(5_000),
        Scan::new().caching(7),
        Scan::new().reversed(),
        Scan::new().reversed().max_result_size(50_000).caching(90),
        Scan::new().limit(ROWS as u64),
    ] {
        let found = rows(&table, scan.clone()).await;
        let cells: usize = found.iter().map(|row| row.cells().len()).sum();
        assert_eq!((found.len(), cells), (ROWS, 2 * ROWS * COLUMNS), "{scan:?}");
        assert!(
            found.iter().all(|row| row.cells().len() == 2 * COLUMNS),
            "{scan:?}"
        );
        let keys: Vec<_> = found.iter().map(key).collect();
        let is_ascending = keys.is_sorted();
        assert!(is_ascending || keys.iter().rev().is_sorted(), "{scan:?}");
    }
}

#[rstest]
#[tokio::test]
async fn a_flush_during_a_scan_costs_no_row(#[values(false, true)] is_reversed: bool) {
    let connection = connect().await;
    let owned = TestTable::create("flushed", plain, &["r5"]).await;
    let table = owned.of(&connection);
    for number in 0..10 {
        table.put(put(format!("r{number}"), "v")).await.unwrap();
    }
    let mut expected: Vec<_> = (0..10).map(|number| format!("r{number}")).collect();
    let mut scan = Scan::new().caching(1);
    if is_reversed {
        expected.reverse();
        scan = scan.reversed();
    }
    let mut scanner = table.scan(scan).unwrap();
    let mut found = Vec::new();
    for flushed in 0..4 {
        found.push(key(&scanner.next().await.unwrap().unwrap()));
        // A row that is written meanwhile comes or not; this one is behind the scan.
        let behind = found.last().unwrap().clone();
        table.put(put(behind, format!("{flushed}"))).await.unwrap();
        Admin::new(&connection).flush_table(&owned.name).await.unwrap();
    }
    found.extend(collect(scanner).await.iter().map(key));
    assert_eq!(found, expected);
}
