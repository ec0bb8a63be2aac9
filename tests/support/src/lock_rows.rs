//! Lock tables, and the rows of locks.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use hbase_txn::{
    admin::Admin,
    client::{Connection, TableName},
    lock::{LockManager, LockManagerOptions, LockTableOptions},
};

use super::table::TestTable;

/// The farm of all locks of the tests.
pub const FARM: &str = "fra";

/// A lock table with this number of regions, for locks shared with Java clients or without them.
pub async fn lock_table(
    connection: &Connection,
    what: &str,
    regions: usize,
    without_java_clients: bool,
) -> TestTable {
    let table = TestTable::unmade(what);
    let options = LockTableOptions::from(table.name.clone()).regions(regions);
    let options = if without_java_clients {
        options.without_java_clients()
    } else {
        options
    };
    assert!(options.create(&Admin::new(connection)).await.unwrap());
    table
}

/// The locks of a client in another process, as HBase sees them.
pub async fn lock_manager(connection: &Connection, table: &TableName, client: &str) -> LockManager {
    LockManagerOptions::new(client)
        .farm(FARM)
        .holder("tester")
        .open(connection, table.clone())
        .await
        .unwrap()
}

/// The row of a lock of one farm: the low byte of the absolute value of Java's hash of the key, and
/// the key.
pub fn lock_row(client: &str, id: &str) -> Bytes {
    let key = format!("DC#{FARM}#{client}#{id}");
    let hash = key.bytes().fold(1_i32, |hash, byte| {
        hash.wrapping_mul(31).wrapping_add(i32::from(byte.cast_signed()))
    });
    let prefix = hash.wrapping_abs().to_be_bytes()[3];
    [&[prefix][..], key.as_bytes()].concat().into()
}

/// The companion row, by which clients of this library exclude each other.
pub fn companion_row(client: &str, id: &str) -> Bytes {
    [&lock_row(client, id)[..], b"\xff_own"].concat().into()
}

/// The owner cell of a hold that was not renewed: its token, the TTL of its cells in milliseconds,
/// which is its lease too, and a name.
pub fn held_cell(token: u128, ttl: u64, holder: &str) -> Bytes {
    let mut value = BytesMut::new();
    value.put_u8(1);
    value.put_u128(token);
    value.put_u64(0);
    value.put_u64(ttl);
    value.put_u64(ttl);
    value.put_slice(holder.as_bytes());
    value.freeze()
}

/// The owner cell of a released lock, over cells that may live for this many milliseconds.
pub fn free_cell(ttl: u64) -> Bytes {
    let mut value = BytesMut::new();
    value.put_u8(0);
    value.put_u64(ttl);
    value.freeze()
}

/// The TTL, in milliseconds, in the owner cell of a hold, with or without a record of the cells
/// below in front of it.
pub fn ttl_of(mut held: &[u8]) -> u64 {
    if held[0] == 0 {
        held.advance(9);
    }
    held.advance(25);
    held.get_u64()
}
