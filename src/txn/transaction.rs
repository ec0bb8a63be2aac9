//! Mutations and conditions of one partition.

use std::{fmt, sync::Arc};

use super::{
    outcome::Outcome,
    part::Part,
    partitioned_table::PartitionedTable,
    plan::{Group, RecordWish},
    record::TransactionId,
};
use crate::{
    error::Result,
    model::{Append, Condition, Delete, Increment, Mutation, Partition, Put},
};

/// Mutations of one partition, applied together or not at all; where it has conditions, only if all of them hold.
///
/// What can't be part of it is refused when it is added. Nothing is sent before [`commit`](Self::commit).
///
/// Operations mean what they mean one after the other, also on the same cell: an increment behind a put adds to what
/// was put, a put behind a delete survives it. What has no such form is refused when it is committed, with the reason.
///
/// # Example
///
/// ```no_run
/// # async fn example(orders: hbase_txn::PartitionedTable) -> hbase_txn::Result<()> {
/// use hbase_txn::{Condition, Increment, Outcome, Put, TransactionId};
///
/// let mut transaction = orders.at("xxx")?;
/// transaction
///     .id(TransactionId::new("request-4711")?)
///     .condition(Condition::absent("xxxabc", "f", "state").label("order is new"))?
///     .put(Put::new("xxxabc").cell("f", "state", "placed"))?
///     .increment(Increment::new("xxxcount").column("f", "orders", 1))?;
/// match transaction.commit().await {
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
    table: PartitionedTable,
    group: Group,
}

impl Transaction {
    pub(super) fn new(table: PartitionedTable, group: Group) -> Self {
        Self { table, group }
    }

    /// The partition that it is in.
    #[must_use]
    pub fn partition(&self) -> &Partition {
        &self.group.partition
    }

    /// Adds a put.
    ///
    /// # Errors
    ///
    /// As [`add`](Self::add).
    pub fn put(&mut self, put: Put) -> Result<&mut Self> {
        self.add(put)
    }

    /// Adds a delete.
    ///
    /// # Errors
    ///
    /// As [`add`](Self::add).
    pub fn delete(&mut self, delete: Delete) -> Result<&mut Self> {
        self.add(delete)
    }

    /// Adds an increment.
    ///
    /// # Errors
    ///
    /// As [`add`](Self::add).
    pub fn increment(&mut self, increment: Increment) -> Result<&mut Self> {
        self.add(increment)
    }

    /// Adds an append.
    ///
    /// # Errors
    ///
    /// As [`add`](Self::add).
    pub fn append(&mut self, append: Append) -> Result<&mut Self> {
        self.add(append)
    }

    /// Adds a mutation.
    ///
    /// # Errors
    ///
    /// [`OtherPartition`](crate::ErrorKind::OtherPartition), naming the row and both partitions;
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput), [`FamilyNotFound`](crate::ErrorKind::FamilyNotFound), naming the
    /// mutation. The transaction stays as it was.
    pub fn add(&mut self, mutation: impl Into<Mutation>) -> Result<&mut Self> {
        self.group
            .add(mutation.into(), self.table.terms())
            .map_err(|error| error.at_table(self.table.name()))?;
        Ok(self)
    }

    /// Adds a condition: the transaction is applied only if all its conditions hold. It may be about any row of the
    /// partition. A transaction of conditions alone is an assertion.
    ///
    /// Before the first conditional transaction goes to a region server, one that must be refused goes there: servers
    /// before HBase 2.4.5 drop conditions without a word.
    ///
    /// # Errors
    ///
    /// As [`add`](Self::add), naming the condition.
    pub fn condition(&mut self, condition: Condition) -> Result<&mut Self> {
        self.group
            .require(condition, self.table.terms())
            .map_err(|error| error.at_table(self.table.name()))?;
        Ok(self)
    }

    /// Adds a part of a layer above.
    ///
    /// # Errors
    ///
    /// [`OtherPartition`](crate::ErrorKind::OtherPartition); [`InvalidInput`](crate::ErrorKind::InvalidInput) for a second
    /// part of one row.
    pub(crate) fn add_part(&mut self, part: Arc<dyn Part>) -> Result<()> {
        self.group
            .add_part(part, self.table.terms())
            .map_err(|error| error.at_table(self.table.name()))
    }

    pub(crate) fn table(&self) -> &PartitionedTable {
        &self.table
    }

    /// Records it under an id of the caller's, so that it is applied once however often it is committed, by whatever
    /// process: a commit of an id that was committed answers [`replayed`](super::Committed::replayed).
    ///
    /// Holds within the table's replay window. The table needs the record family; commits are `SYNC_WAL`.
    pub fn id(&mut self, id: TransactionId) -> &mut Self {
        self.group.record = Some(RecordWish::of_caller(id));
        self
    }

    /// Records it under an id of its own. Then a lost answer is no riddle: the commit is sent again, and is applied
    /// once all the same; and if the time runs out, its outcome can be [settled](super::Unsettled::settle).
    pub fn recorded(&mut self) -> &mut Self {
        self.group.record = Some(RecordWish::own());
        self
    }

    /// Makes what is written visible also over cells that are stamped in the future.
    ///
    /// The server stamps a put with its own time, and a cell stamped later hides it without a word. With this the rows
    /// that are written are read first (all versions and delete markers: costly for rows of very many), and
    /// each put gets a timestamp behind what was found, under the condition that nothing later has come meanwhile. One
    /// more call, and more after a conflict.
    ///
    /// It does not help against a delete of another client that comes in the same millisecond; HBase's
    /// `NEW_VERSION_BEHAVIOR` on the family does. Nor does it find cells that another client puts into a family or row
    /// while that is being deleted, nor one with an empty value that is stamped ahead meanwhile.
    ///
    /// What is stamped is stamped by the servers' clocks on a table with a record family, and on any other by the clock of
    /// this machine. One that is ahead hides the plain puts of others for as long as that; one that is an hour wrong makes
    /// this promise void.
    pub fn guard_timestamps(&mut self) -> &mut Self {
        self.group.guard_timestamps = true;
        self
    }

    /// Sends it, and tells how it ended.
    ///
    /// What was surely not applied is tried again within the operation timeout; nothing else is, unless it is
    /// recorded. Dropping the future before it was sent sends nothing; afterwards the outcome is as unknown as with a
    /// lost answer, and a record tells it.
    pub async fn commit(self) -> Outcome {
        let deadline = self.table.table().deadline();
        self.table.commit_group(self.group, deadline).await
    }
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction")
            .field("table", self.table.name())
            .field("partition", &self.group.partition)
            .field("mutations", &self.group.mutations)
            .field("conditions", &self.group.conditions)
            .field("parts", &self.group.parts)
            .field("record", &self.group.record)
            .finish()
    }
}
