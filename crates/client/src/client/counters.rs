//! Changes that depend on the stored value: increments and appends.

use super::{CallKind, RegionCall, Table, dispatch::lanes::Operation};
use crate::{
    error::{Effect, Result},
    model::{Append, Increment, Mutation, Row},
};

impl Table {
    /// Adds to counters of a row, and returns their new cells.
    ///
    /// An increment carries a nonce. If its answer is lost, it is sent again to the same server, which
    /// counts it once. The row that is returned has no cells then: the server reads the values for the
    /// second answer, and others may have changed them meanwhile, so a number in it need not be one
    /// that no other increment has returned. If the row's region is served by another server
    /// by then, or by the same one after a restart, its error reports that the [outcome is
    /// unknown](crate::Error::is_outcome_unknown): that server may not know the nonce. Nothing is sent
    /// again with [`Config::with_nonces`](crate::Config::with_nonces) off.
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

    /// Appends to values of a row, and returns their new cells. If the answer is lost, it is sent
    /// again as an [`increment`](Self::increment) is.
    ///
    /// # Errors
    ///
    /// Returns an error as [`put`](Self::put) does.
    pub async fn append(&self, append: Append) -> Result<Row> {
        self.change("append", append.into()).await
    }

    /// Executes an increment or append. The answer has no cells if the mutation's attribute `_rr_`
    /// asks for none, if a coprocessor replaced the operation, or if it was sent again.
    async fn change(&self, name: &'static str, mutation: Mutation) -> Result<Row> {
        self.check(&mutation)
            .map_err(|error| error.at_table(&self.name))?;
        let mut attempts = RegionCall::new(self, name, mutation.row(), CallKind::Write, self.deadline());
        let operation = if self.connection.config().nonces() {
            attempts.repeat_on_one_server();
            Operation::with_nonce(&mutation, self.connection.nonce(), self.connection.nonce())
        } else {
            Operation::mutation(&mutation)
        };
        self.wait_out_deletes([&mutation]).await;
        let row = attempts.execute(&operation).await?;
        let cells = match attempts.effect() {
            Effect::None => row.map_or_else(Vec::new, Row::into_cells),
            // The server may have read them after later changes.
            Effect::Unknown => Vec::new(),
        };
        Ok(Row::new(mutation.row().clone(), cells))
    }
}
