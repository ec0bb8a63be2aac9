//! Latch tables, and the rows of latches.

use bytes::Bytes;
use hbase_txn::{
    admin::Admin,
    client::{Connection, TableName},
    latch::{LatchManager, LatchManagerOptions, LatchTableOptions},
};

use super::table::TestTable;

/// A latch table with this number of regions, as this library or the Java library creates it.
pub async fn latch_table(connection: &Connection, what: &str, regions: usize, has_state: bool) -> TestTable {
    let table = TestTable::unmade(what);
    let options = LatchTableOptions::from(table.name.clone()).regions(regions);
    let options = if has_state {
        options
    } else {
        options.no_state_family()
    };
    assert!(options.create(&Admin::new(connection)).await.unwrap());
    table
}

/// The latches of a client in another process, as HBase sees them.
pub async fn latch_manager(
    connection: &Connection,
    table: &TableName,
    client: &str,
    farm: &str,
) -> LatchManager {
    LatchManagerOptions::new(client, farm)
        .open(connection, table.clone())
        .await
        .unwrap()
}

/// The row of a latch: the low byte of the absolute value of Java's hash of the key, and the key.
pub fn latch_row(client: &str, id: &str) -> Bytes {
    let key = format!("{client}_{id}");
    let hash = key.bytes().fold(1_i32, |hash, byte| {
        hash.wrapping_mul(31).wrapping_add(i32::from(byte.cast_signed()))
    });
    let prefix = hash.wrapping_abs().to_be_bytes()[3];
    [&[prefix][..], key.as_bytes()].concat().into()
}
