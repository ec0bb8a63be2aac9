//! An owner that does as the Java library does: a check-and-put with the time of its own wall clock and a TTL, and a
//! release that deletes the whole row, whosever it is.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hbase_txn::{Condition, Connection, Delete, Put, Table, TableName};

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
            table: connection.table(table.clone()),
            row: row(id),
        }
    }

    /// Whether it believes that it has the lock.
    pub(super) async fn try_acquire(&self) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let put = Put::new(self.row.clone())
            .cell("D", "L", "M")
            .timestamp(u64::try_from(now.as_millis()).unwrap())
            .ttl(TTL);
        let free = Condition::absent(self.row.clone(), "D", "L");
        self.table.check_and_mutate(free, [put.into()]).await.unwrap()
    }

    pub(super) async fn release(&self) {
        self.table.delete(Delete::new(self.row.clone())).await.unwrap();
    }
}

/// The row of a lock of one farm.
pub(super) fn row(id: &str) -> Vec<u8> {
    let key = format!("DC#{FARM}#{CLIENT}#{id}");
    // Java's hash of a byte array; bytes are signed there.
    let hash = key.bytes().fold(1_i32, |hash, byte| {
        hash.wrapping_mul(31).wrapping_add(i32::from(byte.cast_signed()))
    });
    let mut row = vec![hash.unsigned_abs().to_be_bytes()[3]];
    row.extend(key.into_bytes());
    row
}
