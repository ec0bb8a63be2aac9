//! The expiry times of cells as the server reports them.

use std::time::Duration;

use hbase_txn::client::{Cell, Get, Increment, Put, Row, Scan, ServiceKind, Table};

use crate::support::{
    connect, rows, spied,
    table::{SharedTable, plain},
};

static TABLE: SharedTable = SharedTable::new("expiry", plain, &["m"]);

const HOUR: Duration = Duration::from_secs(3_600);
const HOUR_MS: u64 = 3_600_000;

fn only(row: Option<Row>) -> Cell {
    let cells = row.unwrap().into_cells();
    assert_eq!(cells.len(), 1, "{cells:?}");
    cells.into_iter().next().unwrap()
}

async fn read(table: &Table, row: &'static str) -> Cell {
    only(table.get(Get::new(row)).await.unwrap())
}

#[tokio::test]
async fn a_cell_expires_its_ttl_after_its_timestamp() {
    let connection = connect().await;
    let shared = TABLE.get().await;
    let plain = shared.of(&connection);
    let table = plain.clone().with_expiry();
    table
        .put(Put::new("put").cell("f", "q", "v").ttl(HOUR))
        .await
        .unwrap();
    let cell = read(&table, "put").await;
    assert_eq!(cell.expires_at(), Some(cell.timestamp + HOUR_MS));
    assert_eq!(cell.value, "v");

    let unasked = read(&plain, "put").await;
    assert_eq!(unasked.expires_at(), None);
    assert_eq!((unasked.timestamp, &unasked.value), (cell.timestamp, &cell.value));
}

#[tokio::test]
async fn a_cell_without_a_ttl_does_not_expire() {
    let connection = connect().await;
    let shared = TABLE.get().await;
    let table = shared.of(&connection).with_expiry();
    table.put(Put::new("lasting").cell("f", "q", "v")).await.unwrap();
    assert_eq!(read(&table, "lasting").await.expires_at(), None);
}

#[tokio::test]
async fn increment_keeps_the_ttl_of_the_cell_or_sets_its_own() {
    let connection = connect().await;
    let shared = TABLE.get().await;
    let table = shared.of(&connection).with_expiry();
    // The answer to the increment that creates the cell lacks the TTL tag; a read has it.
    let first = Increment::new("count").column("f", "n", 3).ttl(HOUR);
    table.increment(first).await.unwrap();
    let first = read(&table, "count").await;
    assert_eq!(first.expires_at(), Some(first.timestamp + HOUR_MS));

    let down = || Increment::new("count").column("f", "n", -1);
    let second = only(Some(table.increment(down()).await.unwrap()));
    assert_eq!(second.expires_at(), Some(second.timestamp + HOUR_MS));
    assert_eq!(read(&table, "count").await, second);

    table.increment(down().ttl(2 * HOUR)).await.unwrap();
    let third = read(&table, "count").await;
    assert_eq!(third.expires_at(), Some(third.timestamp + 2 * HOUR_MS));
}

#[tokio::test]
async fn a_scan_says_it_for_each_cell() {
    let connection = connect().await;
    let shared = TABLE.get().await;
    let plain = shared.of(&connection);
    let table = plain.clone().with_expiry();
    for (row, ttl) in [
        ("scan-a", Some(HOUR)),
        ("scan-b", None),
        ("scan-c", Some(2 * HOUR)),
    ] {
        let put = Put::new(row).cell("f", "q", row);
        let put = match ttl {
            Some(ttl) => put.ttl(ttl),
            None => put,
        };
        table.put(put).await.unwrap();
    }
    let scan = || Scan::prefix("scan-");
    let left = |cell: &Cell| cell.expires_at().map(|at| at - cell.timestamp);
    let found = rows(&table, scan()).await;
    let found: Vec<_> = found.iter().flat_map(Row::cells).map(left).collect();
    assert_eq!(found, [Some(HOUR_MS), None, Some(2 * HOUR_MS)]);
    let unasked = rows(&plain, scan()).await;
    assert_eq!(unasked.len(), 3);
    assert!(
        unasked
            .iter()
            .flat_map(Row::cells)
            .all(|cell| cell.expires_at().is_none())
    );
}

#[tokio::test]
async fn tables_that_ask_share_one_connection_more() {
    let (connection, spy) = spied().await;
    let shared = TABLE.get().await;
    let plain = shared.of(&connection);
    plain.get(Get::new("none")).await.unwrap();
    let before = spy.dials(ServiceKind::Client);
    for _ in 0..3 {
        let asking = plain.clone().with_expiry();
        asking.get(Get::new("none")).await.unwrap();
        asking.put(Put::new("asked").cell("f", "q", "v")).await.unwrap();
        plain.get(Get::new("none")).await.unwrap();
    }
    assert_eq!(spy.dials(ServiceKind::Client), before + 1);
}
