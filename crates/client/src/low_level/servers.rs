//! Calls of servers that are not of a row: what the administration of a cluster needs.

use std::{borrow::Cow, fmt::Display};

use bytes::Bytes;
use prost::Message;
use tokio::time::Instant;

use crate::{
    ChangeLog, Connection, Error, RegionInfo, Result, Row, ServiceKind, TableName, TableRegion,
    client::{CallKind, ServerTarget},
    cluster::{Attempts, Operation, parse_meta_row},
    rpc::CallOptions,
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

/// A call of the administrative service of the region server that has a row.
#[derive(Clone, Copy, Debug)]
pub struct RegionServerCall<'a> {
    /// The name of the operation, for errors, metrics and spans.
    pub operation: &'static str,
    /// The table.
    pub table: &'a TableName,
    /// The row.
    pub row: &'a Bytes,
    /// HBase's name of the method.
    pub method: &'static str,
    /// The effect of the call.
    pub kind: CallKind,
    /// When the call ends.
    pub deadline: Instant,
}

impl RegionServerCall<'_> {
    /// Sends the call until it succeeds, must not be repeated, or its deadline passes. Each location of
    /// the row gets its own request. Returns the region that the answer is of, and the answer.
    ///
    /// # Errors
    ///
    /// Returns an error as a call of [`Table`](crate::Table) does.
    pub async fn send<M: Message, R: Message + Default>(
        &self,
        connection: &Connection,
        request: impl Fn(&RegionInfo) -> M + Send + Sync,
    ) -> Result<(RegionInfo, R)> {
        let cluster = connection.cluster();
        let operation = Operation {
            name: self.operation,
            table: self.table,
            row: Cow::Borrowed(self.row),
            kind: self.kind,
            deadline: self.deadline,
        };
        let mut attempts = Attempts::new(cluster, operation);
        loop {
            let location = attempts.locate().await?;
            let request = request(&location.region);
            let limit = attempts.attempt_limit(&location);
            let answer = cluster
                .call_region_server(
                    &location,
                    ServiceKind::Admin,
                    &CallOptions::default(),
                    self.method,
                    &request,
                    limit,
                )
                .await;
            match answer {
                Ok((answer, _)) => {
                    attempts.succeed();
                    return Ok((location.region.clone(), answer));
                }
                Err(failure) => attempts.recover(failure, &location).await?,
            }
        }
    }
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
