//! A transaction: mutations and conditions of one partition.

use std::{fmt, sync::Arc};

use hbase_client::{Append, Condition, Delete, Increment, IntoBytes, Put, TableName, low_level::TableCalls};

use super::{
    commit::{Committer, plan::Group},
    operation::Operation,
    outcome::Outcome,
    part::Part,
    proof::proven_table::ProvenTable,
    record::{RecordRequest, TransactionId},
};
use crate::{error::Result, partition::Partition};

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
/// no single call can express, and reports why.
///
/// # Example
///
/// ```
/// use hbase_txn::{
///     Outcome,
///     client::{Condition, Increment, Put},
/// };
///
/// # hbase_fake::FakeHBase::run(async |hbase| {
/// # hbase.create_partitioned_table("orders", &["f", "_txn"], 3);
/// # let orders = hbase_txn::PartitionedTable::open(&hbase.connect().await?, "orders").await?;
/// let outcome = orders
///     .transaction("xxx")
///     .condition(Condition::absent("xxxabc", "f", "state").label("order is new"))
///     .put(Put::new("xxxabc").cell("f", "state", "placed"))
///     .increment(Increment::new("xxxcount").column("f", "orders", 1))
///     .id("request-4711")
///     .commit()
///     .await;
/// # assert!(outcome.is_committed());
/// match outcome {
///     Outcome::Committed(done) if done.replayed => println!("it was placed before"),
///     Outcome::Committed(_) => println!("placed"),
///     Outcome::Rejected(rejection) => println!("{rejection}"),
///     Outcome::Unknown(unsettled) => println!("{:?}", unsettled.settle().await?),
///     other => println!("{other}"),
/// }
/// # Ok(()) });
/// ```
#[must_use = "a transaction does nothing until it is committed"]
pub struct Transaction {
    committer: Committer,
    /// The operations, or the error that makes the transaction invalid.
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

    /// Returns the committer, the operations or the error that makes the transaction invalid, and the
    /// request of a record.
    pub(super) fn into_parts(self) -> (Committer, Result<Group>, Option<RecordRequest>) {
        (self.committer, self.group, self.record)
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
    /// A condition may check any row of the partition. A transaction may have conditions only.
    ///
    /// HBase before 2.4.5 ignores conditions. Before the first conditional transaction to a region
    /// server, the client sends a probe that the server must reject, and stops if it does not.
    ///
    /// # Visibility
    ///
    /// A write to a cell that a condition of this transaction checks is visible after the commit,
    /// even if an older cell or delete marker has a timestamp ahead of the server's clock. A filter
    /// checks every cell of its row. Such a write costs one more call, other writes none. On a table
    /// without a record family this holds only if this machine's clock is at most one second ahead
    /// of the server's.
    pub fn condition(self, condition: Condition) -> Self {
        self.add(condition)
    }

    /// Adds a mutation or a condition.
    ///
    /// A row of another partition, an invalid operation or an unknown family makes the transaction
    /// invalid.
    #[expect(clippy::should_implement_trait, reason = "it adds to a list")]
    pub fn add(self, operation: impl Into<Operation>) -> Self {
        self.with(|group, table| group.add(operation, table.terms()))
    }

    /// Adds a mutation or a condition, or returns at once why it can't be part of the transaction.
    ///
    /// # Errors
    ///
    /// - [`OtherPartition`](crate::ErrorKind::OtherPartition) for a row of another partition,
    ///   naming the row and both partitions;
    /// - [`InvalidInput`](crate::ClientErrorKind::InvalidInput) or
    ///   [`FamilyNotFound`](crate::ClientErrorKind::FamilyNotFound), naming the operation.
    ///
    /// After an error the transaction is as it was before the call. If it was invalid already,
    /// returns the error that made it so.
    pub fn try_add(&mut self, operation: impl Into<Operation>) -> Result<&mut Self> {
        self.try_with(|group, table| group.add(operation, table.terms()))?;
        Ok(self)
    }

    /// Adds an operation of a lock or latch. `part` builds it for this table.
    pub(crate) fn add_part(self, part: impl FnOnce(&TableName) -> Result<Arc<dyn Part>>) -> Self {
        self.with(|group, table| group.add_part(part(table.name())?, table.terms()))
    }

    /// Adds the part that a higher layer builds for the table, and reports at once whether it can
    /// be part of the transaction.
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

    /// Records the transaction under the caller's id, text or a [`TransactionId`]. The transaction
    /// is applied once, however often and by whichever process it is committed. A commit of an id
    /// that was committed before returns [`replayed`](super::Committed::replayed). A commit of an id
    /// that another client has [settled](super::PartitionedTable::settle) as not applied, perhaps after
    /// the commit began, ends with [`Aborted`](super::Outcome::Aborted).
    ///
    /// The guarantee holds within the table's replay window. The table needs the record family;
    /// commits are at least `SYNC_WAL`. An invalid id makes the transaction invalid.
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

    /// Records the transaction under a generated id, see [`transaction_id`](Self::transaction_id).
    ///
    /// After a lost answer the commit is sent again and still applied once. If the deadline passes
    /// before an answer arrives, the outcome can be [settled](super::Unsettled::settle).
    pub fn recorded(mut self) -> Self {
        let environment = self.committer.table().environment();
        self.record = Some(RecordRequest::own(environment));
        self
    }

    /// Returns the id under which the transaction is recorded, or `None` if it is not
    /// [`recorded`](Self::recorded) and has no [`id`](Self::id).
    ///
    /// Save the id before [`commit`](Self::commit) if the commit may be dropped, or the process may
    /// stop, before the outcome is known:
    /// [`PartitionedTable::settle`](super::PartitionedTable::settle) finds the outcome by it, in
    /// this process or another one.
    #[must_use]
    pub fn transaction_id(&self) -> Option<&TransactionId> {
        self.record.as_ref().map(|record| &record.id)
    }

    /// Makes all writes visible, even over cells that are stamped in the future. Without this
    /// option, that holds only for cells that a [condition](Self::condition) checks.
    ///
    /// The server stamps a put with its own time, and a cell with a later timestamp silently hides
    /// it. With this option the client first reads which versions and delete markers of the written
    /// cells the server's clock has perhaps not passed yet. The server stamps the writes once its
    /// clock has passed what was found, under the condition that nothing later was written in the
    /// meantime. Over a cell that a client stamped far ahead, a put is stamped right behind it. This
    /// costs one more call, and more after a conflict. A delete is always guarded in this way.
    ///
    /// # Limits
    ///
    /// A plain delete, by [`Table::delete`](hbase_client::Table::delete) or another client, hides a
    /// put that is made after it in the same millisecond. A cell with an empty value that is stamped
    /// ahead in the meantime is not noticed.
    ///
    /// On a table without a record family, the clocks of this machine and of the region's server must
    /// differ by less than a second, and all versions are read, which is costly for cells with very many.
    pub fn guard_timestamps(mut self) -> Self {
        if let Ok(group) = &mut self.group {
            group.guard_timestamps = true;
        }
        self
    }

    /// Sends the transaction and returns its outcome.
    ///
    /// An attempt that was certainly not applied is repeated within the operation timeout; any
    /// other attempt only if the transaction is recorded.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before the transaction was sent, nothing is sent. If it is dropped
    /// later, the outcome is unknown, as after a lost answer. If the transaction is recorded,
    /// [`PartitionedTable::settle`](super::PartitionedTable::settle) finds the outcome by the
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
