//! Calls with a deadline of the caller, and with a guard that checks the region of each attempt.

use std::future::Future;

use bytes::Bytes;
use futures::Stream;
use tokio::time::Instant;

use super::{ActionAnswer, AtOnce, GetAnswer, MultiCall, RegionGuard, RowCheck};
use crate::{
    Connection, Durability, EndpointCall, Get, RegionInfo, Result, Row, Scan, Table, TableDescriptor,
    TableName,
};

/// Calls of the region of a row.
///
/// Each future ends at its deadline and may be dropped at any await point. Before each attempt the
/// [`RegionGuard`] checks the region to which the call is about to go.
pub trait TableCalls {
    /// Returns the deadline of a call that begins now.
    fn deadline(&self) -> Instant;

    /// Returns the table, with the durability of its descriptor for writes that must survive a
    /// crash.
    #[must_use]
    fn with_durability_of(self, descriptor: &TableDescriptor) -> Self;

    /// Returns the table, which refuses puts, deletes, increments and appends of the rows for which
    /// the check returns an error. Calls of this trait are not checked.
    #[must_use]
    fn with_row_check(self, check: RowCheck) -> Self;

    /// Returns the durability of writes that must survive a crash: at least that of a plain put,
    /// and never weaker than `SYNC_WAL`.
    fn durable(&self) -> Durability;

    /// Sends the actions in one call. Returns one answer for each action, of the action's kind.
    ///
    /// # Errors
    ///
    /// Returns an error if the guard stops the call, an action fails, or the deadline passes.
    fn multi_where(
        &self,
        operation: &'static str,
        call: &MultiCall,
        guard: &dyn RegionGuard,
        deadline: Instant,
    ) -> impl Future<Output = Result<Vec<ActionAnswer>>> + Send;

    /// Reads a row, in a call that may be shared with others.
    ///
    /// # Errors
    ///
    /// Returns an error if the guard stops the call, the read fails, or the deadline passes.
    fn get_where(
        &self,
        operation: &'static str,
        get: &Get,
        guard: &dyn RegionGuard,
        deadline: Instant,
    ) -> impl Future<Output = Result<Option<Row>>> + Send;

    /// Calls an endpoint on one region.
    ///
    /// # Errors
    ///
    /// Returns an error if the guard stops the call, the endpoint throws, or the deadline passes.
    fn call_endpoint_where(
        &self,
        operation: &'static str,
        call: &EndpointCall,
        guard: &dyn RegionGuard,
        deadline: Instant,
    ) -> impl Future<Output = Result<Bytes>> + Send;

    /// Reads all rows of a scan as of one moment. Returns `None` if they have more bytes than
    /// allowed.
    ///
    /// # Errors
    ///
    /// Returns an error if the guard stops the call, the rows are not in one region, or the
    /// deadline passes.
    fn scan_at_once(
        &self,
        scan: &Scan,
        how: AtOnce<'_>,
    ) -> impl Future<Output = Result<Option<Vec<Row>>>> + Send;

    /// Reads rows with one call for each server, and yields the answers as they come.
    fn get_each(&self, gets: Vec<Get>, deadline: Instant) -> impl Stream<Item = GetAnswer> + Send + '_;

    /// Returns the region that has a row.
    ///
    /// # Errors
    ///
    /// Returns an error if the region cannot be located before the deadline.
    fn region_of(&self, row: &Bytes, deadline: Instant) -> impl Future<Output = Result<RegionInfo>> + Send;

    /// Returns the name of the region that has a row, if its location is cached.
    fn known_region(&self, row: &[u8]) -> Option<Bytes>;
}

impl TableCalls for Table {
    fn deadline(&self) -> Instant {
        Self::deadline(self)
    }

    fn with_durability_of(self, descriptor: &TableDescriptor) -> Self {
        Self::with_durability_of(self, descriptor)
    }

    fn with_row_check(self, check: RowCheck) -> Self {
        Self::with_row_check(self, check)
    }

    fn durable(&self) -> Durability {
        Self::durable(self)
    }

    fn multi_where(
        &self,
        operation: &'static str,
        call: &MultiCall,
        guard: &dyn RegionGuard,
        deadline: Instant,
    ) -> impl Future<Output = Result<Vec<ActionAnswer>>> + Send {
        Self::multi_where(self, operation, call, guard, deadline)
    }

    fn get_where(
        &self,
        operation: &'static str,
        get: &Get,
        guard: &dyn RegionGuard,
        deadline: Instant,
    ) -> impl Future<Output = Result<Option<Row>>> + Send {
        Self::get_where(self, operation, get, guard, deadline)
    }

    fn call_endpoint_where(
        &self,
        operation: &'static str,
        call: &EndpointCall,
        guard: &dyn RegionGuard,
        deadline: Instant,
    ) -> impl Future<Output = Result<Bytes>> + Send {
        Self::call_endpoint_where(self, operation, call, guard, deadline)
    }

    fn scan_at_once(
        &self,
        scan: &Scan,
        how: AtOnce<'_>,
    ) -> impl Future<Output = Result<Option<Vec<Row>>>> + Send {
        Self::scan_at_once(self, scan, how)
    }

    fn get_each(&self, gets: Vec<Get>, deadline: Instant) -> impl Stream<Item = GetAnswer> + Send + '_ {
        Self::get_each(self, "get_many", gets, deadline)
    }

    fn region_of(&self, row: &Bytes, deadline: Instant) -> impl Future<Output = Result<RegionInfo>> + Send {
        Self::region_of(self, row, deadline)
    }

    fn known_region(&self, row: &[u8]) -> Option<Bytes> {
        Self::known_region(self, row)
    }
}

/// Reads the regions of a table from `hbase:meta`, each with the sequence number of its opening
/// (`openSeqNum`).
///
/// # Errors
///
/// Returns an error if `hbase:meta` cannot be read before the deadline.
pub async fn table_openings(
    connection: &Connection,
    table: &TableName,
    deadline: Instant,
) -> Result<Vec<(RegionInfo, i64)>> {
    connection.table_openings(table, deadline).await
}
