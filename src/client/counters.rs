//! Changes that depend on what is stored: counters, and values that grow.

use super::Table;
use crate::{
    error::Result,
    model::{Append, Increment, Mutation, Row},
};

impl Table {
    /// Adds to counters of a row, and returns their new cells.
    ///
    /// An increment that got no answer is never sent again: twice is more than once. The error then says that its
    /// [outcome is unknown](crate::Error::is_outcome_unknown).
    ///
    /// # Errors
    ///
    /// As [`put`](Self::put); [`Server`](crate::ErrorKind::Server) where a counter is not eight bytes wide, and nothing
    /// was added then.
    ///
    /// # Example
    ///
    /// ```no_run
    /// # async fn example(table: hbase_txn::Table) -> hbase_txn::Result<()> {
    /// use hbase_txn::Increment;
    ///
    /// let row = table.increment(Increment::new("xxxabc").column("f", "visits", 1)).await?;
    /// let visits = row.value("f", "visits");
    /// # let _ = visits;
    /// # Ok(()) }
    /// ```
    pub async fn increment(&self, increment: Increment) -> Result<Row> {
        self.change("increment", increment.into()).await
    }

    /// Adds to the end of values of a row, and returns their new cells. Never sent again without an answer, as an
    /// [`increment`](Self::increment) is not.
    ///
    /// # Errors
    ///
    /// As [`put`](Self::put).
    pub async fn append(&self, append: Append) -> Result<Row> {
        self.change("append", append.into()).await
    }

    /// The answer has no cells where the mutation's attribute `_rr_` said so, or a coprocessor did the work.
    async fn change(&self, name: &'static str, mutation: Mutation) -> Result<Row> {
        let row = mutation.row().clone();
        let changed = self.mutate(name, mutation, false).await?;
        Ok(changed.unwrap_or_else(|| Row::new(row, Vec::new())))
    }
}
