//! Settings and calls of tables.

use bytes::Bytes;
use futures::Stream;
use tokio::{runtime::Handle, time::Instant};

use super::{CheckAnswer, GetAnswer, MultiCall, RowCheck};
use crate::{Connection, Durability, Get, RegionInfo, Result, Table, TableDescriptor, TableName};

/// Settings of a table, and calls with a deadline of the caller.
///
/// Each future ends at its deadline and may be dropped at any await point.
pub trait TableCalls {
    /// Returns the deadline of a call that begins now.
    fn deadline(&self) -> Instant;

    /// Returns the runtime in which the connection was made.
    fn runtime(&self) -> &Handle;

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

    /// Reads rows with one call for each server, and yields the answers as they come.
    fn get_each(&self, gets: Vec<Get>, deadline: Instant) -> impl Stream<Item = GetAnswer> + Send + '_;

    /// Makes conditional changes in calls of at most 128 to a server, and yields the answers as they come. Each
    /// has one action, [`Conditional`](super::RegionAction::Conditional). The operation names them in errors.
    fn check_each(
        &self,
        operation: &'static str,
        changes: Vec<MultiCall>,
        deadline: Instant,
    ) -> impl Stream<Item = CheckAnswer> + Send + '_;

    /// Returns the name of the region that has a row, if its location is cached.
    fn known_region(&self, row: &[u8]) -> Option<Bytes>;
}

impl TableCalls for Table {
    fn deadline(&self) -> Instant {
        Self::deadline(self)
    }

    fn runtime(&self) -> &Handle {
        Self::runtime(self)
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

    fn get_each(&self, gets: Vec<Get>, deadline: Instant) -> impl Stream<Item = GetAnswer> + Send + '_ {
        Self::get_each(self, "get_many", gets, deadline)
    }

    fn check_each(
        &self,
        operation: &'static str,
        changes: Vec<MultiCall>,
        deadline: Instant,
    ) -> impl Stream<Item = CheckAnswer> + Send + '_ {
        Self::check_each(self, operation, changes, deadline)
    }

    fn known_region(&self, row: &[u8]) -> Option<Bytes> {
        let location = self.connection().cluster().known_location(self.name(), row)?;
        Some(location.region.name.clone())
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
