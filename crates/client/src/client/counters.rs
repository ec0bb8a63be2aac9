//! Changes that depend on the stored value: increments and appends.

use super::Table;
use crate::{
    error::Result,
    model::{Append, Increment, Mutation, Row},
};

impl Table {
    /// Adds to counters of a row, and returns their new cells.
    ///
    /// An increment without an answer is never sent again, because it could count twice. Its error
    /// reports that the [outcome is unknown](crate::Error::is_outcome_unknown).
    ///
    /// # Errors
    ///
    /// Returns an error as [`put`](Self::put) does, and [`Server`](crate::ErrorKind::Server) if a
    /// counter is not eight bytes wide; nothing was added then.
    ///
    /// # Example
    ///
    /// ```
    /// use hbase_client::Increment;
    ///
    /// # hbase_fake::FakeHBase::run(async |hbase| {
    /// # hbase.create_table("orders", &["f"], &[]);
    /// # let table = hbase.connect().await?.table("orders")?;
    /// let row = table.increment(Increment::new("xxxabc").column("f", "visits", 1)).await?;
    /// assert_eq!(row.get::<i64>("f", "visits")?, Some(1));
    /// # Ok(()) });
    /// ```
    pub async fn increment(&self, increment: Increment) -> Result<Row> {
        self.change("increment", increment.into()).await
    }

    /// Appends to values of a row, and returns their new cells. Like an
    /// [`increment`](Self::increment), it is not repeated if its answer is lost.
    ///
    /// # Errors
    ///
    /// Returns an error as [`put`](Self::put) does.
    pub async fn append(&self, append: Append) -> Result<Row> {
        self.change("append", append.into()).await
    }

    /// The answer has no cells if the mutation's attribute `_rr_` asks for none, or if a
    /// coprocessor replaced the operation.
    async fn change(&self, name: &'static str, mutation: Mutation) -> Result<Row> {
        let row = mutation.row().clone();
        let changed = self.mutate(name, mutation, false).await?;
        Ok(changed.unwrap_or_else(|| Row::new(row, Vec::new())))
    }
}
