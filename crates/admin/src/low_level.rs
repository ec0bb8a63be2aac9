//! What crates need to prepare the use of a table within the deadline of a call.
//!
//! Applications do not need it, and it changes with minor releases, as the `low_level` of
//! `hbase-client` does.

use std::future::Future;

use hbase_client::{Result, TableDescriptor, TableName};
use tokio::time::Instant;

use crate::admin::Admin;

/// Calls that prepare the use of a table.
pub trait AdminCalls {
    /// Returns an [`Admin`] whose calls end at this deadline.
    #[must_use]
    fn until(&self, deadline: Instant) -> Self;

    /// Returns the descriptor of a table.
    ///
    /// # Errors
    ///
    /// Returns an error if the table does not exist or is disabled.
    fn enabled_descriptor(
        &self,
        table: &TableName,
        deadline: Instant,
    ) -> impl Future<Output = Result<TableDescriptor>> + Send;
}

impl AdminCalls for Admin {
    fn until(&self, deadline: Instant) -> Self {
        Self::until(self, deadline)
    }

    fn enabled_descriptor(
        &self,
        table: &TableName,
        deadline: Instant,
    ) -> impl Future<Output = Result<TableDescriptor>> + Send {
        Self::enabled_descriptor(self, table, deadline)
    }
}
