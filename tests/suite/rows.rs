//! Single rows: reads return the written cells.

use std::time::Duration;

use hbase_txn::{
    ClientErrorKind,
    client::{
        Append, Delete, FamilyDescriptor, Get, Increment, Put, Row, TableDescriptor, TableName, TimeRange,
    },
};
use rstest::rstest;

use crate::support::{connect, eventually, put, table::SharedTable, value};

static TABLE: SharedTable = SharedTable::new("rows", versioned, &[]);

fn versioned(name: TableName) -> TableDescriptor {
    TableDescriptor::from(name)
        .with_family(FamilyDescriptor::new("f").with_attribute("VERSIONS", "5"))
        .with_family(FamilyDescriptor::new("g"))
}

/// Returns the timestamps of `f:q` in an answered row.
fn timestamps(row: Option<Row>) -> Vec<u64> {
    row.map(Row::into_cells)
        .unwrap_or_default()
        .iter()
        .filter(|cell| cell.family == "f" && cell.qualifier == "q")
        .map(|cell| cell.timestamp)
        .collect()
}

#[tokio::test]
async fn put_rows_are_read_and_deleted_rows_are_gone() {
    let connection = connect().await;
    let shared = TABLE.get().await;
    let table = shared.of(&connection);
    assert_eq!(table.get(Get::new("round")).await.unwrap(), None);

    let binary: Vec<u8> = (0..=u8::MAX).collect();
    let written = Put::new("round")
        .cell("f", "q", "v")
        .cell("f", binary.clone(), binary.clone())
        .cell("g", "", "");
    table.put(written).await.unwrap();
    let row = table.get(Get::new("round")).await.unwrap().unwrap();
    assert_eq!(row.key(), "round");
    assert_eq!(row.cells().len(), 3);
    assert_eq!(row.value("f", "q").unwrap(), "v");
    assert_eq!(row.value("f", &binary).unwrap(), &binary);
    assert_eq!(row.value("g", "").unwrap(), "");

    table.delete(Delete::new("round").column("f", "q")).await.unwrap();
    table.delete(Delete::new("round").family("g")).await.unwrap();
    let row = table.get(Get::new("round")).await.unwrap().unwrap();
    assert_eq!(row.cells().len(), 1);
    table.delete(Delete::new("round")).await.unwrap();
    assert_eq!(table.get(Get::new("round")).await.unwrap(), None);
}

#[tokio::test]
async fn a_get_reads_only_the_families_and_columns_it_names() {
    let connection = connect().await;
    let shared = TABLE.get().await;
    let table = shared.of(&connection);
    let written = Put::new("narrow")
        .cell("f", "a", "1")
        .cell("f", "b", "2")
        .cell("g", "a", "3");
    table.put(written).await.unwrap();
    let read = async |get: Get| {
        let row = table.get(get).await.unwrap();
        let cells = row.map(Row::into_cells).unwrap_or_default();
        cells
            .iter()
            .map(|cell| String::from_utf8(cell.value.to_vec()).unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(read(Get::new("narrow").family("f")).await, ["1", "2"]);
    assert_eq!(read(Get::new("narrow").column("f", "b")).await, ["2"]);
    assert_eq!(
        read(Get::new("narrow").column("f", "b").family("g")).await,
        ["2", "3"]
    );
    assert_eq!(read(Get::new("narrow").column("f", "none")).await, [""; 0]);
}

#[tokio::test]
async fn versions_come_newest_first_up_to_the_number_asked_for() {
    let connection = connect().await;
    let shared = TABLE.get().await;
    let table = shared.of(&connection);
    for timestamp in [3, 1, 2, 4] {
        table
            .put(put("versions", "v").timestamp(timestamp))
            .await
            .unwrap();
    }
    let read = async |get: Get| timestamps(table.get(get).await.unwrap());
    assert_eq!(read(Get::new("versions")).await, [4]);
    assert_eq!(read(Get::new("versions").versions(3)).await, [4, 3, 2]);
    assert_eq!(read(Get::new("versions").versions(100)).await, [4, 3, 2, 1]);
    let range = TimeRange { from: 2, to: 4 };
    assert_eq!(
        read(Get::new("versions").versions(100).time_range(range)).await,
        [3, 2]
    );
    table
        .delete(Delete::new("versions").version("f", "q", 3))
        .await
        .unwrap();
    assert_eq!(read(Get::new("versions").versions(100)).await, [4, 2, 1]);
    table.delete(Delete::new("versions").timestamp(2)).await.unwrap();
    assert_eq!(read(Get::new("versions").versions(100)).await, [4]);
}

#[tokio::test]
async fn cells_of_one_put_can_have_timestamps_of_their_own() {
    let connection = connect().await;
    let shared = TABLE.get().await;
    let table = shared.of(&connection);
    let written = Put::new("stamps")
        .cell_at("f", "a", 7, "7")
        .cell("f", "b", "9")
        .timestamp(9);
    table.put(written).await.unwrap();
    let row = table.get(Get::new("stamps")).await.unwrap().unwrap();
    assert_eq!(row.cell("f", "a").unwrap().timestamp, 7);
    assert_eq!(row.cell("f", "b").unwrap().timestamp, 9);
}

#[tokio::test]
async fn increments_add_up_and_answer_with_the_new_cells() {
    let connection = connect().await;
    let shared = TABLE.get().await;
    let table = shared.of(&connection);
    let number = |value: i64| value.to_be_bytes().to_vec();
    for (amount, sum) in [(5, 5), (-7, -2), (i64::MAX, i64::MAX - 2), (3, i64::MIN)] {
        let increment = Increment::new("counters")
            .column("f", "a", amount)
            .column("g", "b", 1);
        let row = table.increment(increment).await.unwrap();
        assert_eq!((row.key(), row.cells().len()), (&"counters".into(), 2));
        assert_eq!(row.value("f", "a").unwrap(), &number(sum));
        let stored = table.get(Get::new("counters")).await.unwrap().unwrap();
        assert_eq!(stored, row);
    }
    // Several increments in one millisecond get ascending timestamps, ahead of the clock. They
    // could hide a put without a timestamp.
    let row = table.get(Get::new("counters")).await.unwrap().unwrap();
    let later = row.cell("f", "a").unwrap().timestamp + 1;
    table
        .put(Put::new("counters").cell("f", "a", "text").timestamp(later))
        .await
        .unwrap();
    let increment = Increment::new("counters").column("g", "b", 1).column("f", "a", 1);
    let error = table.increment(increment).await.unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::Server, "{error}");
    assert!(!error.is_outcome_unknown() && !error.is_retryable(), "{error}");
    let stored = table.get(Get::new("counters")).await.unwrap().unwrap();
    assert_eq!(stored.value("g", "b").unwrap(), &number(4));
}

#[tokio::test]
async fn appends_grow_values_and_answer_with_the_new_cells() {
    let connection = connect().await;
    let shared = TABLE.get().await;
    let table = shared.of(&connection);
    for (suffix, grown) in [("a", "a"), ("", "a"), (";b", "a;b")] {
        let append = Append::new("appends").cell("f", "log", suffix);
        let row = table.append(append).await.unwrap();
        assert_eq!(row.value("f", "log").unwrap(), grown);
    }
    let quiet = Append::new("appends")
        .cell("f", "log", "!")
        .attribute("_rr_", vec![0]);
    assert_eq!(table.append(quiet).await.unwrap().cells(), []);
    let row = table.get(Get::new("appends")).await.unwrap().unwrap();
    assert_eq!(row.value("f", "log").unwrap(), "a;b!");
    let error = table
        .append(Append::new("appends").cell("nope", "q", "v"))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::FamilyNotFound, "{error}");
}

#[tokio::test]
async fn a_put_with_a_ttl_expires_and_one_without_stays() {
    let connection = connect().await;
    let shared = TABLE.get().await;
    let table = shared.of(&connection);
    table.put(put("stays", "v")).await.unwrap();
    table
        .put(put("expires", "v").ttl(Duration::from_millis(1_500)))
        .await
        .unwrap();
    assert_eq!(value(&table, "expires").await.as_deref(), Some("v"));
    eventually("the cell has expired", async || {
        value(&table, "expires").await.is_none().then_some(())
    })
    .await;
    assert_eq!(value(&table, "stays").await.as_deref(), Some("v"));
}

#[rstest]
#[case::longest_row(vec![b'L'; 32_767], 10)]
#[case::largest_cell(b"large".to_vec(), (10 << 20) - 5 - 2 - 24)]
#[tokio::test]
async fn the_largest_that_is_allowed_is_stored(#[case] row: Vec<u8>, #[case] size: usize) {
    let connection = connect().await;
    let shared = TABLE.get().await;
    let table = shared.of(&connection);
    let written: Vec<u8> = (0..size).map(|at| at as u8).collect();
    table.put(put(row.clone(), written.clone())).await.unwrap();
    let read = table.get(Get::new(row.clone())).await.unwrap().unwrap();
    assert!(read.value("f", "q").unwrap() == &written);
    assert_eq!(read.key(), &row);
    table.delete(Delete::new(row)).await.unwrap();
}
