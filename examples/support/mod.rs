//! Shared by the patterns: the connection to HBase, a table, and rows as text.

#![allow(dead_code, reason = "every example has this module, and uses a part of it")]

use hbase_txn::{
    PartitionRule, PartitionedTable, Result, TableDescriptorExt,
    admin::Admin,
    client::{Connection, FamilyDescriptor, TableDescriptor},
};

/// Connects to the cluster that `HBASE_TXN_CONNECT` names.
pub(crate) async fn connect() -> Result<Connection> {
    let uri = std::env::var("HBASE_TXN_CONNECT").unwrap_or_else(|_| "hbase+zk://127.0.0.1:2181/hbase".into());
    Ok(Connection::connect(&uri).await?)
}

/// Opens the table, and creates it if it does not exist.
pub(crate) async fn open(
    connection: &Connection,
    name: &str,
    rule: &PartitionRule,
) -> Result<PartitionedTable> {
    if !Admin::new(connection).exists(name).await? {
        let descriptor = TableDescriptor::new(name)?
            .with_family(FamilyDescriptor::new("f"))
            .with_record_family()
            .with_lock_family()
            .with_partition_rule(rule)
            .with_multi_row_mutation_endpoint();
        Admin::new(connection).create_table(&descriptor, &[]).await?;
    }
    PartitionedTable::open(connection, name).await
}

/// Returns a value that no earlier run has used: the time.
pub(crate) fn run_id() -> String {
    let since = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    format!("{:013}", since.as_millis())
}

/// Returns a row's key as text.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
