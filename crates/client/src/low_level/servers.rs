//! Calls of servers that are not of a row: what the administration of a cluster needs.

use std::fmt::Display;

use prost::Message;
use tokio::time::Instant;

use crate::{
    ChangeLog, Connection, Error, Result, Row, TableName, TableRegion,
    client::{CallKind, ServerTarget},
    cluster::parse_meta_row,
};

/// Calls a method of a server until it answers, at most until the deadline.
///
/// # Errors
///
/// Returns an error if the server cannot be reached, or if it rejects the call. The error of a change
/// without an answer reports that it may have been applied. A [`Write`](CallKind::Write) is then not sent
/// again; another change must have a nonce, or the same result if it is applied twice.
pub async fn call_server<M: Message, R: Message + Default>(
    connection: &Connection,
    target: ServerTarget<'_>,
    method: &'static str,
    kind: CallKind,
    request: &M,
    deadline: Instant,
) -> Result<R> {
    let cluster = connection.cluster();
    cluster.call_server(target, method, kind, request, deadline).await
}

/// Returns all regions of a table in order, as `hbase:meta` has them now, and caches their locations.
/// They may be in the middle of a split.
///
/// # Errors
///
/// Returns an error if `hbase:meta` cannot be read before the deadline.
pub async fn table_regions(
    connection: &Connection,
    table: &TableName,
    deadline: Instant,
) -> Result<Vec<TableRegion>> {
    let regions = connection.cluster().regions_of(table, deadline).await?;
    Ok(regions.into_iter().map(TableRegion::from).collect())
}

/// Parses a row of `hbase:meta`. Returns `None` if it contains no region.
///
/// # Errors
///
/// Returns an error if the row cannot be read.
pub fn region_of_meta_row(row: Row) -> Result<Option<TableRegion>, impl Display> {
    parse_meta_row(row).map(|found| found.map(TableRegion::from))
}

/// Forgets the locations of the regions of a table that was deleted.
pub fn forget_table(connection: &Connection, table: &TableName) {
    connection.cluster().forget_table(table);
}

/// Adds the active master to the context of an error.
#[must_use]
pub fn at_master(connection: &Connection, error: Error) -> Error {
    connection.cluster().at_master(error)
}

/// Returns a random nonce. Never 0, which means no nonce.
#[must_use]
pub fn nonce(connection: &Connection) -> u64 {
    connection.nonce()
}

/// Returns the log of changes of a connection, if it has one.
#[must_use]
pub fn change_log(connection: &Connection) -> Option<&dyn ChangeLog> {
    connection.change_log()
}
