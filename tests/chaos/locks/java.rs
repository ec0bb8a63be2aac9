//! An owner with the protocol of the Java library: a check-and-put with the time of its own wall
//! clock and a TTL, and a release that deletes the whole row, without regard to its holder.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hbase_txn::client::{Cell, CellKind, Condition, Connection, Delete, Get, Put, Scan, Table, TableName};

use super::{CLIENT, FARM};

/// The library's default.
const TTL: Duration = Duration::from_secs(90);

pub(super) struct JavaOwner {
    table: Table,
    row: Vec<u8>,
}

impl JavaOwner {
    pub(super) fn new(connection: &Connection, table: &TableName, id: &str) -> Self {
        Self {
            table: connection.table(table.clone()).unwrap(),
            row: row(id),
        }
    }

    /// Tries once to acquire the lock. Returns the timestamp of its marker on success.
    pub(super) async fn try_acquire(&self) -> Option<u64> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let now = u64::try_from(now.as_millis()).unwrap();
        let put = Put::new(self.row.clone())
            .cell("D", "L", "M")
            .timestamp(now)
            .ttl(TTL);
        let free = Condition::absent(self.row.clone(), "D", "L");
        let acquired = self.table.check_and_mutate(free, [put.into()]).await.unwrap();
        acquired.success.then_some(now)
    }

    /// Returns whether its marker lies under one of a later time: another owner has held and
    /// released the lock while the request was in flight. No other cell may hide it.
    pub(super) async fn is_overtaken(&self, marker: u64) -> bool {
        let get = Get::new(self.row.clone()).column("D", "L");
        let seen = self.table.get(get).await.unwrap();
        let is_its_own = |cell: &Cell| cell.timestamp == marker && cell.value == "M";
        if seen.is_some_and(|row| row.cells().iter().any(is_its_own)) {
            return false;
        }
        let scan = Scan::new()
            .start_row(self.row.clone())
            .stop_row_inclusive(self.row.clone());
        let mut stored = self.table.scan(scan.raw()).unwrap();
        let stored = stored.next().await.unwrap().expect("what it put");
        let is_later =
            |cell: &Cell| cell.kind == CellKind::Put && cell.qualifier == "L" && cell.timestamp > marker;
        assert!(
            stored.cells().iter().any(is_later),
            "hidden by a delete: {marker}, {:?}",
            stored.cells()
        );
        true
    }

    pub(super) async fn release(&self) {
        self.table.delete(Delete::new(self.row.clone())).await.unwrap();
    }
}

/// The row of a lock of one farm.
pub(super) fn row(id: &str) -> Vec<u8> {
    let key = format!("DC#{FARM}#{CLIENT}#{id}");
    // Java's hash of a byte array, with signed bytes.
    let hash = key.bytes().fold(1_i32, |hash, byte| {
        hash.wrapping_mul(31).wrapping_add(i32::from(byte.cast_signed()))
    });
    let mut row = vec![hash.unsigned_abs().to_be_bytes()[3]];
    row.extend(key.into_bytes());
    row
}
