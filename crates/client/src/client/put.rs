//! Writes of single rows that do not depend on the stored values.

use tokio::time::sleep_until;

use super::{CallKind, RegionCall, Table, dispatch::lanes::Operation};
use crate::{
    error::Result,
    model::{Delete, Mutation, Put},
};

impl Table {
    /// Writes cells of a row.
    ///
    /// A put without an answer is sent again only if all its cells have timestamps of their own, so
    /// that applying it twice has the same effect as once. Otherwise a second put could overwrite
    /// another client's write in between, so the outcome is reported as unknown.
    ///
    /// A put without a timestamp waits for about a millisecond if this client has just deleted a part
    /// of the row at the server's time: HBase would hide it otherwise. The same holds for increments
    /// and appends, and for puts in lists and writers.
    ///
    /// # Errors
    ///
    /// Returns an error as [`get`](Self::get) does; its [outcome may be
    /// unknown](crate::Error::is_outcome_unknown).
    pub async fn put(&self, put: Put) -> Result<()> {
        self.mutate("put", put.into()).await
    }

    /// Deletes parts of a row, or all of it.
    ///
    /// A delete without an answer is sent again only if it has a timestamp; see [`put`](Self::put).
    ///
    /// # Errors
    ///
    /// Returns an error as [`put`](Self::put) does.
    pub async fn delete(&self, delete: Delete) -> Result<()> {
        self.mutate("delete", delete.into()).await
    }

    /// Writes a put or a delete.
    async fn mutate(&self, name: &'static str, mutation: Mutation) -> Result<()> {
        self.check(&mutation)
            .map_err(|error| error.at_table(&self.name))?;
        let operation = Operation::mutation(&mutation);
        let kind = if mutation.is_repeatable() {
            CallKind::IdempotentWrite
        } else {
            CallKind::Write
        };
        self.wait_out_deletes([&mutation]).await;
        RegionCall::new(self, name, mutation.row(), kind, self.deadline())
            .execute(&operation)
            .await?;
        self.record_deletes([&mutation]);
        Ok(())
    }

    /// Waits until the server stamps these mutations later than the acknowledged deletes of their rows.
    pub(super) async fn wait_out_deletes<'m>(&self, mutations: impl IntoIterator<Item = &'m Mutation>) {
        let stamped = mutations
            .into_iter()
            .filter(|mutation| !mutation.is_delete() && mutation.is_stamped_by_server());
        let rows = stamped.map(|mutation| &**mutation.row());
        let recent = &self.connection.shared.recent_deletes;
        if let Some(end) = recent.end_of_pause(&self.name, rows) {
            Box::pin(sleep_until(end)).await;
        }
    }

    /// Records that these mutations were applied.
    pub(super) fn record_deletes<'m>(&self, applied: impl IntoIterator<Item = &'m Mutation>) {
        let deletes = applied
            .into_iter()
            .filter(|mutation| mutation.is_delete() && mutation.is_stamped_by_server());
        let rows = deletes.map(|mutation| &**mutation.row());
        self.connection.shared.recent_deletes.add(&self.name, rows);
    }
}
