//! Reopens the regions of a table.

use hbase_admin::Admin;
use hbase_client::{Connection, IntoTableName, TableName, TableState};
use hbase_txn::{ClientErrorKind, Error, Result};

use super::table_lock::TableLock;

/// Closes and opens all regions of a table, so that they load its coprocessors, and read the settings of
/// their servers, again. The table stays enabled: calls to a region wait until it is open. Returns the number
/// of regions.
///
/// HBase reopens all at once, unless the master's
/// `hbase.reopen.table.regions.progressive.batch.size.max` (2.6 and later) limits them: the call replaces the
/// table's descriptor by itself, as no call for this exists in all releases. Waits until no other process of
/// this toolkit changes or repairs the table. It may take the operation timeout and 100 ms for each region.
///
/// # Errors
///
/// Returns [`TableNotFound`](ClientErrorKind::TableNotFound),
/// [`TableDisabled`](ClientErrorKind::TableDisabled), or the errors of the calls.
pub async fn reopen_table(connection: &Connection, table: impl IntoTableName) -> Result<usize> {
    let table = &table.into_table_name()?;
    let in_context = |error: Error| error.at_operation("reopening the regions").at_table(table);
    let lock = TableLock::acquire(connection, table).await.map_err(in_context)?;
    let regions = lock.keep(reopen(connection, table, &lock)).await;
    lock.release().await;
    regions.map_err(in_context)
}

async fn reopen(connection: &Connection, table: &TableName, lock: &TableLock) -> Result<usize> {
    let admin = Admin::new(connection);
    admin.await_table_procedures(table).await?;
    let state = admin.state(table).await?;
    if state != TableState::Enabled {
        let error = Error::new(ClientErrorKind::TableDisabled, format!("the table is {state}"));
        return Err(error.with_hint("enable it: that opens its regions"));
    }
    let regions = admin.regions(table).await?.len();
    lock.check().await?;
    let descriptor = admin.descriptor(table).await?;
    let admin = admin.with_time_for_regions(regions);
    admin.modify_table(&descriptor).await?;
    Ok(regions)
}
