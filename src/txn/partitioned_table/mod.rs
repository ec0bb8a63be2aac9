//! A table opened for transactions.

use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::future::BoxFuture;
use hbase_admin::{Admin, low_level::AdminCalls};
use hbase_client::{
    Connection, FamilyDescriptor, IntoBytes, IntoTableName, Table, TableDescriptor, TableName,
    low_level::TableCalls,
};

use super::{
    batch::Batch,
    commit::{Committer, plan::RESERVED_ROW},
    open::OpenOptions,
    proof::terms::Terms,
    record::{
        TransactionId,
        digest::Digest,
        settle::{Claim, Recorded, Settled},
    },
    reserved_rows::of_lone_row,
    snapshot::{self, Snapshot, SnapshotOptions},
    transaction::Transaction,
    update::{self, Applied, Update, UpdateOptions, UpdateView, Updated},
};
use crate::{
    error::{ClientErrorKind, Error, Result},
    partition::{Partition, PartitionRule},
    table_descriptor::TableDescriptorExt,
};

/// A table with atomic transactions over the rows of each partition.
///
/// Opening the table proves the preconditions: the table has a rule that keeps prefixes together,
/// the endpoint answers, no region boundary cuts a partition, and commits are durable. Cheap to
/// clone. Families and durability are read once: open the table again after changing them.
///
/// # Example
///
/// ```
/// use hbase_txn::{
///     PartitionedTable,
///     client::{Delete, Put},
/// };
///
/// # hbase_fake::FakeHBase::run(async |hbase| {
/// # hbase.create_partitioned_table("orders", &["f"], 3);
/// # let connection = hbase.connect().await?;
/// let orders = PartitionedTable::open(&connection, "orders").await?;
/// let outcome = orders
///     .transaction("xxx")
///     .put(Put::new("xxxabc").cell("f", "q", "1"))
///     .put(Put::new("xxx123").cell("f", "q", "2"))
///     .delete(Delete::new("xxxzzz"))
///     .commit()
///     .await;
/// assert!(outcome.is_committed());
/// # Ok(()) });
/// ```
#[derive(Clone)]
pub struct PartitionedTable {
    committer: Committer,
    /// The table as users get it.
    plain: Table,
}

impl PartitionedTable {
    pub(super) fn new(committer: Committer) -> Self {
        let rule = committer.table().terms().rule.clone();
        let plain = committer.table().table().clone();
        let plain = plain.with_row_check(Arc::new(move |row| refuse_reserved_row(&rule, row)));
        Self { committer, plain }
    }

    /// Opens a table for transactions, with the defaults of [`OpenOptions`].
    ///
    /// # Errors
    ///
    /// Returns an error if the table cannot be used for transactions; each says how to fix it:
    ///
    /// - [`TableNotFound`](ClientErrorKind::TableNotFound),
    ///   [`TableDisabled`](ClientErrorKind::TableDisabled);
    /// - [`FeatureUnknown`](crate::ErrorKind::FeatureUnknown) if the table requires a feature that
    ///   this release does not know;
    /// - [`NoPartitionRule`](crate::ErrorKind::NoPartitionRule) if it has no rule or an invalid one;
    /// - [`EndpointMissing`](ClientErrorKind::EndpointMissing) if the endpoint does not answer;
    /// - [`PartitionCut`](crate::ErrorKind::PartitionCut) if a region boundary lies inside a
    ///   partition;
    /// - [`WeakDurability`](crate::ErrorKind::WeakDurability) if commits could be lost;
    /// - [`FamilyNotFound`](ClientErrorKind::FamilyNotFound) if the table declares partition
    ///   versions but has no family for them.
    pub async fn open(connection: &Connection, name: impl IntoTableName) -> Result<Self> {
        OpenOptions::new().open(connection, name).await
    }

    /// Returns the underlying table, for reads and for writes outside transactions.
    ///
    /// It refuses writes of the rows in which this library keeps records, versions, locks and latches
    /// of the partitions, with [`InvalidInput`](ClientErrorKind::InvalidInput): without a record, for
    /// example, its transaction can be applied again. [`Connection::table`] returns a table without
    /// this check.
    #[must_use]
    pub fn table(&self) -> &Table {
        &self.plain
    }

    /// Returns the underlying table without a check of rows.
    pub(crate) fn own_table(&self) -> &Table {
        self.committer.table().table()
    }

    /// Returns the table's name.
    #[must_use]
    pub fn name(&self) -> &TableName {
        self.table().name()
    }

    /// Returns the table's partition rule, as it was when the table was opened.
    #[must_use]
    pub fn rule(&self) -> &PartitionRule {
        &self.terms().rule
    }

    /// Sets the operation timeout of calls and transactions.
    #[must_use]
    pub fn with_operation_timeout(mut self, timeout: Duration) -> Self {
        self.committer = self
            .committer
            .map_table(|table| table.with_operation_timeout(timeout));
        self.plain = self.plain.with_operation_timeout(timeout);
        self
    }

    /// Starts a transaction in the partition of a bare prefix, whether or not the partition has
    /// rows. With a delimiter rule, the prefix excludes the delimiter.
    ///
    /// A prefix that is invalid under the table's rule makes the transaction
    /// [invalid](Transaction).
    pub fn transaction(&self, prefix: impl IntoBytes) -> Transaction {
        Transaction::new(self.committer.clone(), self.partition(prefix, "transaction"))
    }

    /// Starts a transaction in the partition of a row. A row that the rule can't cut is its own
    /// partition, which only this method can address.
    pub fn transaction_for_row(&self, row: impl IntoBytes) -> Transaction {
        Transaction::new(self.committer.clone(), Ok(self.partition_of(row)))
    }

    /// Starts a batch of mutations of any rows, grouped by partition; each group is one
    /// transaction.
    pub fn batch(&self) -> Batch {
        Batch::new(self.committer.clone())
    }

    /// Returns the partition that a row belongs to.
    #[must_use]
    pub fn partition_of(&self, row: impl IntoBytes) -> Partition {
        self.rule().partition_of(row)
    }

    /// Reads the partition of a bare prefix at one point in time, within the default limits of
    /// [`SnapshotOptions`].
    ///
    /// The snapshot shows the partition at one point in time between the call and its answer. If
    /// the server is lost, or the region moves or is split, the whole partition is read again.
    ///
    /// # Errors
    ///
    /// - [`LimitExceeded`](ClientErrorKind::LimitExceeded) if the partition is larger than the
    ///   limits;
    /// - [`PartitionCut`](crate::ErrorKind::PartitionCut) if its rows lie in two regions, which
    ///   cannot be read at one point in time;
    /// - [`DeadlineExceeded`](ClientErrorKind::DeadlineExceeded) if the partition could not be read
    ///   completely within the operation timeout;
    /// - [`InvalidInput`](ClientErrorKind::InvalidInput) if `prefix` is not a prefix under the
    ///   table's rule;
    /// - the errors of [`Table::get`](crate::client::Table::get).
    pub async fn snapshot(&self, prefix: impl IntoBytes) -> Result<Snapshot> {
        self.snapshot_with(prefix, SnapshotOptions::new()).await
    }

    /// Reads a partition, or a range of its rows, at one point in time.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`snapshot`](Self::snapshot).
    pub async fn snapshot_with(&self, prefix: impl IntoBytes, options: SnapshotOptions) -> Result<Snapshot> {
        let partition = self.partition(prefix, snapshot::OPERATION)?;
        let deadline = self.table().deadline();
        snapshot::read(&self.committer, partition, &options, deadline).await
    }

    /// Reads a partition and applies changes that depend on its contents.
    ///
    /// Reads a snapshot of the partition and passes it to the closure, which adds changes. The
    /// changes are applied if and only if everything that the closure read is unchanged; otherwise
    /// the partition is read again and the closure runs again. The closure may run several times,
    /// so it should have no side effects. [`update_async`](Self::update_async) takes an
    /// asynchronous closure.
    ///
    /// The closure reads the partition as it was, so it can't read a row that it has written; the
    /// attempt is an error that names the row. Read first, then write.
    ///
    /// The transaction is recorded under a generated id. After a lost answer, the outcome is
    /// determined before anything is tried again, so the changes are applied once. Puts are stamped
    /// after the existing cells, as by [`guard_timestamps`](super::Transaction::guard_timestamps).
    ///
    /// # Conflicts
    ///
    /// An attempt conflicts, and is repeated, if another writer changed:
    ///
    /// - a cell that was read. Values are compared, and an empty value counts as absent; a value
    ///   that was changed and changed back compares as equal;
    /// - in rows and ranges that were read: a cell that was there, or one that the closure itself
    ///   writes. Other columns and rows that were added in the meantime are noticed only if the
    ///   table has [partition versions](crate::TableDescriptorExt::with_partition_version). Then
    ///   every transaction of this library that changes the partition is noticed, and updates are
    ///   serialisable among transactions. A plain [`Table::put`](crate::client::Table::put) does not change
    ///   the version.
    ///
    /// A closure that adds neither a change nor a condition only reads: nothing is sent, because
    /// what it read was true at one point in time. A closure that fails or panics leaves nothing
    /// behind.
    ///
    /// # Transfers
    ///
    /// If one closure debits and credits the same row (a transfer from an account to itself),
    /// reading the row again after the debit is an error, as above. If the closure reads both
    /// balances first and then puts both, the second put replaces the first, as for any two puts of
    /// one cell, and the sum is wrong. Use [increments](UpdateView::increment), which add up, or
    /// refuse a transfer between equal rows.
    ///
    /// # The closure
    ///
    /// - Its error is any type that is `From<Error>`, so the compiler has to be told which one ("type
    ///   annotations needed"): write what the closure returns, as in `|view| -> hbase_txn::Result<_>
    ///   { … }`, or end it with `Ok::<_, Error>(…)`.
    /// - It can't wait. For an `async` closure the compiler "cannot infer type": use
    ///   [`update_async`](Self::update_async).
    ///
    /// # Errors
    ///
    /// Returns the errors of the closure unchanged. Errors of this library:
    ///
    /// - [`Conflict`](crate::ErrorKind::Conflict) if other writers were faster in all attempts;
    /// - [`ConditionNotMet`](crate::ErrorKind::ConditionNotMet) if a condition that the closure
    ///   added does not hold, although everything it read is unchanged;
    /// - [`RecordFamilyMissing`](crate::ErrorKind::RecordFamilyMissing) if the table has no record
    ///   family: create the table with one, or update [without a
    ///   record](UpdateOptions::without_record);
    /// - [`InvalidInput`](ClientErrorKind::InvalidInput) if the partition is a single row, which
    ///   can't have a record: update it without one;
    /// - [`Aborted`](crate::ErrorKind::Aborted) if another process settled the update as not applied,
    ///   and this client had not seen that before it began;
    /// - the errors of [`snapshot`](Self::snapshot) and of a commit. After an error with an
    ///   [unknown outcome](Error::is_outcome_unknown) the changes may have been applied; the error
    ///   text says how to find out.
    ///
    /// # Example
    ///
    /// ```
    /// use hbase_txn::{Result, client::Put};
    ///
    /// # hbase_fake::FakeHBase::run(async |hbase| {
    /// # hbase.create_partitioned_table("accounts", &["f", "_txn"], 3);
    /// # let accounts = hbase_txn::PartitionedTable::open(&hbase.connect().await?, "accounts").await?;
    /// # accounts.table().put(Put::new("xxxacct").cell("f", "balance", 1000i64)).await?;
    /// let updated = accounts
    ///     .update("xxx", |view| -> Result<_> {
    ///         let cents = view.get::<i64>("xxxacct", "f", "balance")?.unwrap_or(0);
    ///         if cents < 250 {
    ///             return Ok(None);
    ///         }
    ///         let left = cents - 250;
    ///         view.put(Put::new("xxxacct").cell("f", "balance", left))?;
    ///         Ok(Some(left))
    ///     })
    ///     .await?;
    /// # assert_eq!(accounts.snapshot("xxx").await?.get("xxxacct", "f", "balance")?, Some(750i64));
    /// match updated.into_value().flatten() {
    ///     Some(left) => println!("paid; {left} left"),
    ///     None => println!("not enough"),
    /// }
    /// # Ok(()) });
    /// ```
    pub async fn update<T, E>(
        &self,
        prefix: impl IntoBytes,
        change: impl FnMut(&mut UpdateView<'_>) -> Result<T, E> + Send,
    ) -> Result<Updated<T>, E>
    where
        T: Send,
        E: From<Error>,
    {
        self.update_with(prefix, UpdateOptions::new(), change).await
    }

    /// Reads a partition and applies changes that depend on its contents, with options.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`update`](Self::update).
    pub async fn update_with<T, E>(
        &self,
        prefix: impl IntoBytes,
        options: UpdateOptions,
        mut change: impl FnMut(&mut UpdateView<'_>) -> Result<T, E> + Send,
    ) -> Result<Updated<T>, E>
    where
        T: Send,
        E: From<Error>,
    {
        let partition = self.partition(prefix, update::OPERATION)?;
        let Some(mut update) = Update::begin(&self.committer, partition, options).await? else {
            return Ok(Updated::Replayed);
        };
        loop {
            let snapshot = update.read().await?;
            let mut view = update.view(&snapshot);
            let value = change(&mut view)?;
            let changes = update.finish(view)?;
            drop(snapshot);
            match update.apply(changes).await? {
                Applied::Done(attempts) => return Ok(Updated::Done { value, attempts }),
                Applied::Replayed => return Ok(Updated::Replayed),
                Applied::Conflict => {}
            }
        }
    }

    /// Reads a partition and applies changes that depend on its contents and on something the
    /// closure waits for, such as another table or a service.
    ///
    /// Like [`update`](Self::update), with a closure that returns a boxed `Send` future. Data that the
    /// closure reads elsewhere is not checked when the changes are applied. The longer the closure
    /// waits, the more likely a conflict with another writer; each call of the view fails once the
    /// operation timeout is over.
    ///
    /// # The closure
    ///
    /// - Put an `async move` block into `Box::pin`. For an `async` closure the compiler "cannot infer
    ///   type", because its future can't be declared to be `Send`.
    /// - End the block with `Ok::<_, Error>(…)`: its error is any type that is `From<Error>`.
    /// - The closure is called again after a conflict, so clone what the block takes, as `prices`
    ///   below. A reference needs no clone: it is copied.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`update`](Self::update).
    ///
    /// # Example
    ///
    /// ```
    /// use hbase_txn::{
    ///     Error, UpdateOptions,
    ///     client::{Get, Put},
    /// };
    ///
    /// # hbase_fake::FakeHBase::run(async |hbase| {
    /// # hbase.create_partitioned_table("orders", &["f", "_txn"], 3);
    /// # let orders = hbase_txn::PartitionedTable::open(&hbase.connect().await?, "orders").await?;
    /// # hbase.create_table("prices", &["f"], &[]);
    /// # let prices = hbase.connect().await?.table("prices")?;
    /// # prices.put(Put::new("lamp").cell("f", "cents", 1250i64)).await?;
    /// # orders.table().put(Put::new("xxxabc").cell("f", "item", "lamp")).await?;
    /// orders
    ///     .update_async("xxx", UpdateOptions::new(), |view| {
    ///         let prices = prices.clone();
    ///         Box::pin(async move {
    ///             let item = view.get::<String>("xxxabc", "f", "item")?.unwrap_or_default();
    ///             let price = prices.get(Get::new(item)).await?;
    ///             let cents = price.map_or(Ok(None), |row| row.get::<i64>("f", "cents"))?;
    ///             view.put(Put::new("xxxabc").cell("f", "cents", cents.unwrap_or(0)))?;
    ///             Ok::<_, Error>(())
    ///         })
    ///     })
    ///     .await?;
    /// # assert_eq!(orders.snapshot("xxx").await?.get("xxxabc", "f", "cents")?, Some(1250i64));
    /// # Ok(()) });
    /// ```
    pub async fn update_async<T, E>(
        &self,
        prefix: impl IntoBytes,
        options: UpdateOptions,
        mut change: impl for<'v> FnMut(&'v mut UpdateView<'_>) -> BoxFuture<'v, Result<T, E>> + Send,
    ) -> Result<Updated<T>, E>
    where
        T: Send,
        E: From<Error>,
    {
        let partition = self.partition(prefix, update::OPERATION)?;
        let Some(mut update) = Update::begin(&self.committer, partition, options).await? else {
            return Ok(Updated::Replayed);
        };
        loop {
            let snapshot = update.read().await?;
            let mut view = update.view(&snapshot);
            let value = change(&mut view).await?;
            let changes = update.finish(view)?;
            drop(snapshot);
            match update.apply(changes).await? {
                Applied::Done(attempts) => return Ok(Updated::Done { value, attempts }),
                Applied::Replayed => return Ok(Updated::Replayed),
                Applied::Conflict => {}
            }
        }
    }

    /// Returns what the record of a transaction says, without settling the transaction. The id is text
    /// or a [`TransactionId`], as for [`Transaction::id`]. If there is no record, only
    /// [`settle`](Self::settle) gives a definite outcome.
    ///
    /// A commit that begins afterwards may go on after a settlement that this call has seen.
    ///
    /// # Errors
    ///
    /// - [`RecordFamilyMissing`](crate::ErrorKind::RecordFamilyMissing) if the table has no record
    ///   family;
    /// - [`InvalidInput`](ClientErrorKind::InvalidInput) if `prefix` is not a prefix under the
    ///   table's rule, or the partition can't have records;
    /// - [`OutcomeForgotten`](crate::ErrorKind::OutcomeForgotten) if there is no record, and the id
    ///   was generated by this library and is older than the replay window;
    /// - the errors of [`Table::get`](crate::client::Table::get).
    pub async fn outcome(&self, prefix: impl IntoBytes, id: impl IntoBytes) -> Result<Recorded> {
        self.claim(prefix, id)?.recorded(self.table().deadline()).await
    }

    /// Settles a transaction by its id, from any process: returns whether it was applied. The id is
    /// text or a [`TransactionId`], as for [`Transaction::id`]. If the transaction was not applied,
    /// ensures that no commit or update of the id that began earlier can be applied any more.
    ///
    /// A process that is still committing the transaction gets `Aborted`. So does one that commits it
    /// later, within five minutes, if its client has not seen the settlement before: it can't tell
    /// which came first. It may then commit again, or call [`outcome`](Self::outcome) before the
    /// commit. The answer is right for
    /// transactions that were first sent within the table's replay window. An id that this library
    /// generated contains its creation time and is refused after the window. For any other id, the
    /// result after the window is [`NotApplied`](Settled::NotApplied) even if the transaction was
    /// applied and forgotten, as for an id that was never used. Settle such ids within the window.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Unsettled::settle`](crate::Unsettled::settle).
    ///
    /// # Example
    ///
    /// ```
    /// use hbase_txn::Settled;
    ///
    /// # hbase_fake::FakeHBase::run(async |hbase| {
    /// # hbase.create_partitioned_table("orders", &["f", "_txn"], 3);
    /// # let orders = hbase_txn::PartitionedTable::open(&hbase.connect().await?, "orders").await?;
    /// match orders.settle("xxx", "request-4711").await? {
    ///     Settled::Committed => println!("it was applied"),
    ///     Settled::NotApplied => println!("it was not, and no earlier commit can apply it any more"),
    /// }
    /// # Ok(()) });
    /// ```
    pub async fn settle(&self, prefix: impl IntoBytes, id: impl IntoBytes) -> Result<Settled> {
        let deadline = self.table().deadline();
        self.claim(prefix, id)?.settle(deadline).await
    }

    /// Returns the reserved row of a `lock` or `latch` in the partition of a bare prefix.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidInput`](ClientErrorKind::InvalidInput) if `prefix` is not a prefix under
    /// the table's rule, the id is empty or too long, or the partition can't have such a row.
    pub(crate) fn reserved_row(&self, prefix: Bytes, thing: &str, kind: u8, id: &str) -> Result<Bytes> {
        let row = || {
            if id.is_empty() {
                return Err(Error::invalid(format!("an empty {thing} id")));
            }
            let partition = self.rule().partition(prefix)?;
            let reserved = [&[kind], id.as_bytes()].concat();
            match partition.reserved_row(&reserved) {
                Some(row) => Ok(row),
                None if partition.is_lone_row() => Err(of_lone_row(&partition, &format!("a {thing}"))),
                None => Err(Error::invalid(format!(
                    "a {thing}'s id of {} bytes, which is too long for a row key behind the prefix",
                    id.len()
                ))),
            }
        };
        row().map_err(|error| {
            error
                .at_operation(format!("naming a {thing}"))
                .at_table(self.name())
        })
    }

    /// Reads the family of locks and latches from the table's current descriptor.
    ///
    /// # Errors
    ///
    /// Returns [`FamilyNotFound`](ClientErrorKind::FamilyNotFound) if the table does not have it,
    /// or the error of reading the descriptor.
    pub(crate) async fn lock_family(&self, things: &str) -> Result<FamilyDescriptor> {
        let admin = Admin::new(self.table().connection());
        let descriptor = admin.until(self.table().deadline()).descriptor(self.name()).await;
        let family = descriptor.map_err(Error::from).and_then(|descriptor| {
            let name = TableDescriptor::LOCK_FAMILY;
            descriptor.family(name).cloned().ok_or_else(|| {
                Error::new(
                    ClientErrorKind::FamilyNotFound,
                    format!(
                        "the table has no family {name}, in which the {things} of its partitions are kept"
                    ),
                )
                .with_hint("add the family to the table")
                .with_missing_family(name)
            })
        });
        family.map_err(|error| {
            error
                .at_operation(format!("opening for {things}"))
                .at_table(self.name())
        })
    }

    pub(super) fn committer(&self) -> &Committer {
        &self.committer
    }

    fn terms(&self) -> &Terms {
        self.committer.table().terms()
    }

    fn partition(&self, prefix: impl IntoBytes, operation: &'static str) -> Result<Partition> {
        let partition = self.rule().partition(prefix);
        partition.map_err(|error| error.at_operation(operation).at_table(self.name()))
    }

    fn claim(&self, prefix: impl IntoBytes, id: impl IntoBytes) -> Result<Claim> {
        const OPERATION: &str = "outcome of a transaction";
        let partition = self.partition(prefix, OPERATION)?;
        TransactionId::new(id)
            .and_then(|id| Claim::new(self.committer.table(), &partition, &id, Digest::ANY))
            .map_err(|error| error.at_operation(OPERATION).at_table(self.name()))
    }
}

/// Refuses a row that belongs to the library under this rule.
fn refuse_reserved_row(rule: &PartitionRule, row: &[u8]) -> hbase_client::Result<()> {
    if rule.partition_of(row.to_vec()).reserves(row) {
        Err(
            hbase_client::Error::new(ClientErrorKind::InvalidInput, RESERVED_ROW)
                .with_hint("if it must be written, use the connection's table"),
        )
    } else {
        Ok(())
    }
}

impl fmt::Debug for PartitionedTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PartitionedTable({}, by {})", self.name(), self.rule())
    }
}

#[cfg(test)]
mod tests;
