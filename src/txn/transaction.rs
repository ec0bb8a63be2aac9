//! Mutations and conditions of one partition.

use std::{fmt, sync::Arc};

use hbase_client::{
    Append, Condition, Delete, Increment, IntoBytes, Partition, Put, TableName, low_level::TableCalls,
};

use super::{
    commit::Committer,
    operation::Operation,
    outcome::Outcome,
    part::Part,
    plan::Group,
    proven_table::ProvenTable,
    record::{RecordRequest, TransactionId},
};
use crate::error::Result;

/// Mutations of one partition that are applied together or not at all, under the conditions that
/// the transaction names.
///
/// The methods that add an operation can be chained. The first operation that can't be part of the
/// transaction makes it invalid: [`commit`](Self::commit) sends nothing and returns
/// [`Outcome::Invalid`] with the position of that operation, counted from 1. In a loop,
/// [`try_add`](Self::try_add) returns the error at once.
///
/// Operations take effect in their order, also on the same cell: an increment after a put adds to
/// the value of the put, a put after a delete survives the delete. `commit` refuses a sequence that
/// no single call can express, and says why.
///
/// # Example
///
/// ```no_run
/// # async fn example(orders: hbase_txn::PartitionedTable) -> hbase_txn::Result<()> {
/// use hbase_txn::{Condition, Increment, Outcome, Put};
///
/// let outcome = orders
///     .transaction("xxx")
///     .condition(Condition::absent("xxxabc", "f", "state").label("order is new"))
///     .put(Put::new("xxxabc").cell("f", "state", "placed"))
///     .increment(Increment::new("xxxcount").column("f", "orders", 1))
///     .id("request-4711")
///     .commit()
///     .await;
/// match outcome {
///     Outcome::Committed(done) if done.replayed => println!("it was placed before"),
///     Outcome::Committed(_) => println!("placed"),
///     Outcome::Rejected(rejection) => println!("{rejection}"),
///     Outcome::Unknown(unsettled) => println!("{:?}", unsettled.settle().await?),
///     other => println!("{other}"),
/// }
/// # Ok(()) }
/// ```
#[must_use = "a transaction does nothing until it is committed"]
pub struct Transaction {
    committer: Committer,
    /// The error that makes the transaction invalid, once there is one.
    group: Result<Group>,
    record: Option<RecordRequest>,
    /// The number of operations that were added.
    operations: usize,
}

impl Transaction {
    pub(super) fn new(committer: Committer, partition: Result<Partition>) -> Self {
        Self {
            committer,
            group: partition.map(Group::new),
            record: None,
            operations: 0,
        }
    }

    /// Adds a put.
    pub fn put(self, put: Put) -> Self {
        self.add(put)
    }

    /// Adds a delete.
    pub fn delete(self, delete: Delete) -> Self {
        self.add(delete)
    }

    /// Adds an increment.
    pub fn increment(self, increment: Increment) -> Self {
        self.add(increment)
    }

    /// Adds an append.
    pub fn append(self, append: Append) -> Self {
        self.add(append)
    }

    /// Adds a condition. The transaction is applied only if all its conditions hold.
    ///
    /// A condition may be about any row of the partition. A transaction that has only conditions is
    /// an assertion.
    ///
    /// What the transaction writes to a cell that one of its conditions names is visible once it is
    /// committed, also where the cell, or a delete marker over it, was stamped ahead of the
    /// server's clock. A filter names all cells of its row. This costs one more call, which reads
    /// the timestamps there; a condition on a cell that is not written costs none. On a table
    /// without a record family this machine's clock must not be ahead of the server's by more than
    /// a second.
    ///
    /// Servers before HBase 2.4.5 ignore conditions. Before the first conditional transaction goes
    /// to a region server, the client sends it one that must be refused.
    pub fn condition(self, condition: Condition) -> Self {
        self.add(condition)
    }

    /// Adds a mutation or a condition.
    ///
    /// A row of another partition, an invalid operation and an unknown family make the transaction
    /// invalid.
    #[expect(clippy::should_implement_trait, reason = "it adds to a list")]
    pub fn add(self, operation: impl Into<Operation>) -> Self {
        self.with(|group, table| group.add(operation, table.terms()))
    }

    /// Adds a mutation or a condition, and reports at once whether it can be part of the
    /// transaction.
    ///
    /// # Errors
    ///
    /// - [`OtherPartition`](crate::ErrorKind::OtherPartition), naming the row and both partitions;
    /// - [`InvalidInput`](crate::ClientErrorKind::InvalidInput) and
    ///   [`FamilyNotFound`](crate::ClientErrorKind::FamilyNotFound), naming the operation.
    ///
    /// The transaction is then as it was before the call. If it was invalid already, returns the
    /// error that made it so.
    pub fn try_add(&mut self, operation: impl Into<Operation>) -> Result<&mut Self> {
        self.try_with(|group, table| group.add(operation, table.terms()))?;
        Ok(self)
    }

    /// Adds what a layer above makes of the table, as an operation.
    pub(crate) fn add_part(self, part: impl FnOnce(&TableName) -> Result<Arc<dyn Part>>) -> Self {
        self.with(|group, table| group.add_part(part(table.name())?, table.terms()))
    }

    /// Adds what a layer above makes of the table, and reports at once whether it can be part of
    /// the transaction.
    pub(crate) fn try_add_part(
        &mut self,
        part: impl FnOnce(&TableName) -> Result<Arc<dyn Part>>,
    ) -> Result<()> {
        self.try_with(|group, table| group.add_part(part(table.name())?, table.terms()))
    }

    fn with(mut self, add: impl FnOnce(&mut Group, &ProvenTable) -> Result<()>) -> Self {
        let position = self.operations + 1;
        if self.group.is_ok()
            && let Err(error) = self.try_with(add)
        {
            self.group = Err(error.within(&format!("operation {position}")));
        }
        self
    }

    fn try_with(&mut self, add: impl FnOnce(&mut Group, &ProvenTable) -> Result<()>) -> Result<()> {
        let group = self.group.as_mut().map_err(|error| error.clone())?;
        let table = self.committer.table();
        add(group, table).map_err(|error| error.at_table(table.name()))?;
        self.operations += 1;
        Ok(())
    }

    /// Records the transaction under an id of the caller, text or a [`TransactionId`], so that it
    /// is applied once however often it is committed, by any process. A commit of an id that was
    /// committed before returns [`replayed`](super::Committed::replayed).
    ///
    /// Holds within the table's replay window. The table needs the record family; commits are at
    /// least `SYNC_WAL`. An invalid id makes the transaction invalid.
    pub fn id(mut self, id: impl IntoBytes) -> Self {
        match TransactionId::new(id) {
            Ok(id) => self.record = Some(RecordRequest::of_caller(id)),
            Err(error) if self.group.is_ok() => {
                self.group = Err(error.at_table(self.committer.table().name()));
            }
            Err(_) => {}
        }
        self
    }

    /// Records the transaction under an id that is created here and that
    /// [`transaction_id`](Self::transaction_id) returns.
    ///
    /// After a lost answer the commit is sent again and still applied once. If the time is over
    /// before an answer arrives, the outcome can be [settled](super::Unsettled::settle).
    pub fn recorded(mut self) -> Self {
        self.record = Some(RecordRequest::own());
        self
    }

    /// Returns the id under which the transaction is recorded, or `None` if it is not
    /// [`recorded`](Self::recorded) and has no [`id`](Self::id).
    ///
    /// Keep it before [`commit`](Self::commit) where the commit may be dropped, or the process end,
    /// before the outcome is known: [`PartitionedTable::settle`](super::PartitionedTable::settle)
    /// finds the outcome by it, in this process or another one.
    #[must_use]
    pub fn transaction_id(&self) -> Option<&TransactionId> {
        self.record.as_ref().map(|record| &record.id)
    }

    /// Makes all that is written visible also over cells that are stamped in the future. Without it
    /// that holds only for cells that a [condition](Self::condition) names.
    ///
    /// The server stamps a put with its own time, and a cell stamped later hides it without a word.
    /// With this the rows that are written are read first (all versions and delete markers: costly
    /// for rows of very many), and each put gets a timestamp behind what was found, under the
    /// condition that nothing later has come meanwhile. One more call, and more after a conflict.
    ///
    /// It does not help against a delete of another client that comes in the same millisecond;
    /// HBase's `NEW_VERSION_BEHAVIOR` on the family does. Nor does it find cells that another
    /// client puts into a family or row while that is being deleted, nor one with an empty value
    /// that is stamped ahead meanwhile.
    ///
    /// On a table with a record family the stamps follow the clock of the region's own server, on
    /// any other the clock of this machine. A clock that is ahead of the server hides the plain
    /// puts of others for as long as that; one that is an hour wrong makes this promise void.
    pub fn guard_timestamps(mut self) -> Self {
        if let Ok(group) = &mut self.group {
            group.guard_timestamps = true;
        }
        self
    }

    /// Sends the transaction and returns how it ended.
    ///
    /// An attempt that was surely not applied is repeated within the operation timeout; any other
    /// only if the transaction is recorded.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future before the transaction was sent sends nothing. Dropped later, the
    /// outcome is as unknown as after a lost answer: if the transaction is recorded,
    /// [`PartitionedTable::settle`](super::PartitionedTable::settle) finds it by the
    /// [`transaction_id`](Self::transaction_id).
    pub async fn commit(self) -> Outcome {
        let deadline = self.committer.table().table().deadline();
        match self.group {
            Ok(mut group) => {
                group.record = self.record;
                self.committer.commit(group, deadline).await
            }
            Err(error) => Outcome::Invalid(error.at_operation("transaction")),
        }
    }
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction")
            .field("table", self.committer.table().name())
            .field("group", &self.group)
            .field("record", &self.record)
            .finish()
    }
}
