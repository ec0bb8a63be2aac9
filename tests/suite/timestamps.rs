//! Versions of cells: by timestamp, ranges of time and number, wherever they are stored.

use hbase_txn::client::{
    Cell, Delete, FamilyDescriptor, Get, Put, ReadFilter, Row, Scan, Table, TableDescriptor, TableName,
    TimeRange,
};
use rstest::rstest;

use crate::support::{
    connect, rows,
    table::{
        Storage::{self, MajorCompacted, Memstore, StoreFiles},
        TestTable,
    },
};

/// All versions.
const ALL: u32 = i32::MAX as u32;

fn ten_versions(name: TableName) -> TableDescriptor {
    TableDescriptor::from(name).with_family(FamilyDescriptor::new("f").with_attribute("VERSIONS", "10"))
}

fn range(from: u64, to: u64) -> TimeRange {
    TimeRange { from, to }
}

fn written(timestamp: u64, value: &'static str) -> Put {
    Put::new("r").cell_at("f", "q", timestamp, value)
}

fn timestamps(cells: &[Cell]) -> Vec<u64> {
    cells.iter().map(|cell| cell.timestamp).collect()
}

/// Returns the timestamps and values of a row.
async fn versions(table: &Table, get: Get) -> Vec<(u64, String)> {
    let row = table.get(get).await.unwrap();
    let cells = row.map(Row::into_cells).unwrap_or_default();
    let text = |cell: &Cell| String::from_utf8(cell.value.to_vec()).unwrap();
    cells.iter().map(|cell| (cell.timestamp, text(cell))).collect()
}

#[rstest]
#[tokio::test]
async fn versions_are_selected_by_time_and_number(
    #[values(Memstore, StoreFiles, MajorCompacted)] storage: Storage,
) {
    let connection = connect().await;
    let owned = TestTable::create("stamps", ten_versions, &[]).await;
    let table = owned.of(&connection);
    for timestamp in [50, 10, 90, 30, 70] {
        table.put(written(timestamp, "v")).await.unwrap();
    }
    owned.store_in(&connection, storage).await;
    // Other versions of the column are in the memstore.
    for timestamp in [20, 60, 40, 80, 100] {
        table.put(written(timestamp, "v")).await.unwrap();
    }
    let all = [100, 90, 80, 70, 60, 50, 40, 30, 20, 10];
    let cases: [(Option<u32>, Option<TimeRange>, &[u64]); 11] = [
        (None, None, &[100]),
        (Some(1), None, &[100]),
        (Some(3), None, &[100, 90, 80]),
        (Some(ALL), None, &all),
        (None, Some(range(30, 60)), &[50]),
        (Some(2), Some(range(30, 60)), &[50, 40]),
        (Some(ALL), Some(range(30, 60)), &[50, 40, 30]),
        (None, Some(range(40, 41)), &[40]),
        (Some(ALL), Some(range(41, 50)), &[]),
        (Some(ALL), Some(range(0, 10)), &[]),
        (Some(ALL), Some(range(95, i64::MAX as u64)), &[100]),
    ];
    for (number, time, expected) in cases {
        let (mut get, mut scan) = (Get::new("r").column("f", "q"), Scan::new().family("f"));
        if let Some(number) = number {
            (get, scan) = (get.versions(number), scan.versions(number));
        }
        if let Some(time) = time {
            (get, scan) = (get.time_range(time), scan.time_range(time));
        }
        let what = format!("{number:?} versions in {time:?}");
        let got = table.get(get.clone()).await.unwrap();
        assert_eq!(got.is_some(), !expected.is_empty(), "{what}");
        assert_eq!(table.exists(get).await.unwrap(), !expected.is_empty(), "{what}");
        let cells = got.map(Row::into_cells).unwrap_or_default();
        assert_eq!(timestamps(&cells), expected, "{what}");
        for scan in [scan.clone(), scan.clone().reversed(), scan.caching(1)] {
            let scanned = rows(&table, scan).await;
            let scanned: Vec<_> = scanned.into_iter().flat_map(Row::into_cells).collect();
            assert_eq!(timestamps(&scanned), expected, "{what}");
        }
    }
}

#[rstest]
#[tokio::test]
async fn last_write_of_a_timestamp_counts(
    #[values(Memstore, StoreFiles, MajorCompacted)] between: Storage,
    #[values(Memstore, StoreFiles, MajorCompacted)] after: Storage,
) {
    let connection = connect().await;
    let owned = TestTable::create("updates", ten_versions, &[]).await;
    let table = owned.of(&connection);
    for (timestamp, value) in [(1, "one"), (2, "two"), (3, "three"), (1, "one again")] {
        table.put(written(timestamp, value)).await.unwrap();
    }
    owned.store_in(&connection, between).await;
    for (timestamp, value) in [(2, "two again"), (4, "four"), (2, "and again"), (3, "")] {
        table.put(written(timestamp, value)).await.unwrap();
    }
    owned.store_in(&connection, after).await;
    let found = versions(&table, Get::new("r").versions(ALL)).await;
    let found: Vec<_> = found.iter().map(|(time, value)| (*time, &**value)).collect();
    assert_eq!(found, [(4, "four"), (3, ""), (2, "and again"), (1, "one again")]);
}

#[rstest]
#[tokio::test]
async fn a_family_keeps_as_many_versions_as_it_says(
    #[values(Memstore, StoreFiles, MajorCompacted)] storage: Storage,
) {
    let families = |name| {
        [("one", "1"), ("three", "3"), ("many", "2147483647")]
            .into_iter()
            .fold(TableDescriptor::from(name), |descriptor, (family, versions)| {
                descriptor.with_family(FamilyDescriptor::new(family).with_attribute("VERSIONS", versions))
            })
    };
    let connection = connect().await;
    let owned = TestTable::create("limits", families, &[]).await;
    let table = owned.of(&connection);
    for timestamp in 1..=5 {
        let put = ["one", "three", "many"]
            .into_iter()
            .fold(Put::new("r"), |put, family| {
                put.cell_at(family, "q", timestamp, "v")
            });
        table.put(put).await.unwrap();
    }
    owned.store_in(&connection, storage).await;
    let read = async |get: Get| {
        let row = table.get(get).await.unwrap().unwrap();
        let mut found: Vec<_> = row
            .cells()
            .iter()
            .map(|cell| format!("{}{}", String::from_utf8_lossy(&cell.family), cell.timestamp))
            .collect();
        found.sort_unstable();
        found.join(" ")
    };
    let get = || Get::new("r");
    assert_eq!(read(get()).await, "many5 one5 three5");
    assert_eq!(
        read(get().versions(4)).await,
        "many2 many3 many4 many5 one5 three3 three4 three5"
    );
    assert_eq!(
        read(get().versions(ALL).family("many")).await,
        "many1 many2 many3 many4 many5"
    );
    assert_eq!(
        read(get().versions(2).column("three", "q")).await,
        "three4 three5"
    );
    assert_eq!(read(get().versions(ALL).family("one")).await, "one5");
}

#[rstest]
#[case::a_version(Delete::new("r1").version("f", "a", 3), "r0 a3 b3 c3 a1 b1 c1|r1 b3 c3 a1 b1 c1")]
#[case::versions(
    Delete::new("r1").version("f", "a", 3).version("f", "b", 1),
    "r0 a3 b3 c3 a1 b1 c1|r1 b3 c3 a1 c1"
)]
#[case::a_column(Delete::new("r1").column("f", "b"), "r0 a3 b3 c3 a1 b1 c1|r1 a3 c3 a1 c1")]
#[case::a_column_up_to(Delete::new("r1").column("f", "c").timestamp(2), "r0 a3 b3 c3 a1 b1 c1|r1 a3 b3 c3 a1 b1")]
#[case::a_family(Delete::new("r0").family("f"), "r1 a3 b3 c3 a1 b1 c1")]
#[tokio::test]
async fn cells_of_chosen_timestamps_are_found(
    #[case] delete: Delete,
    #[case] expected: &str,
    #[values(Memstore, StoreFiles, MajorCompacted)] storage: Storage,
) {
    let connection = connect().await;
    let owned = TestTable::create("chosen", ten_versions, &[]).await;
    let table = owned.of(&connection);
    for timestamp in [5, 1, 3, 2, 4] {
        for row in ["r0", "r1"] {
            let put = ["a", "b", "c"].into_iter().fold(Put::new(row), |put, column| {
                put.cell_at("f", column, timestamp, "v")
            });
            table.put(put).await.unwrap();
        }
        // Each timestamp is in a store file of its own.
        if matches!(storage, StoreFiles) {
            owned.store_in(&connection, StoreFiles).await;
        }
    }
    owned.store_in(&connection, storage).await;
    table.delete(delete).await.unwrap();
    owned.store_in(&connection, storage).await;
    for filter in [
        ReadFilter::timestamps([3, 1, 9]),
        ReadFilter::seek_timestamps([1, 3, 9]),
    ] {
        let found = rows(&table, Scan::new().versions(ALL).filter(filter)).await;
        let found = found.iter().map(|row| {
            let mut cells: Vec<_> = row.cells().iter().collect();
            cells.sort_by_key(|cell| std::cmp::Reverse(cell.timestamp));
            let cells = cells
                .iter()
                .map(|cell| format!(" {}{}", String::from_utf8_lossy(&cell.qualifier), cell.timestamp));
            format!(
                "{}{}",
                String::from_utf8_lossy(row.key()),
                cells.collect::<String>()
            )
        });
        assert_eq!(found.collect::<Vec<_>>().join("|"), expected);
    }
}
