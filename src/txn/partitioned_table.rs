//! A table that transactions are possible on.

use std::{fmt, time::Duration};

use bytes::Bytes;
use futures::future::BoxFuture;
use hbase_client::{
    Connection, FamilyDescriptor, IntoBytes, IntoTableName, Partition, PartitionRule, Table, TableDescriptor,
    TableName,
    low_level::{AdminCalls, TableCalls},
};

use super::{
    batch::Batch,
    commit::Committer,
    digest::Digest,
    open::OpenOptions,
    record::TransactionId,
    settle::{Claim, Recorded, Settled},
    snapshot::{self, Snapshot, SnapshotOptions},
    terms::Terms,
    transaction::Transaction,
    update::{self, Applied, Update, UpdateOptions, UpdateView, Updated},
};
use crate::{
    error::{ClientErrorKind, Error, Result},
    table_descriptor::TableDescriptorExt,
};

/// A table whose rows can change together, partition by partition.
///
/// Opening it proves that they can: the table states a rule that keeps prefixes together, the
/// endpoint answers, no region boundary cuts a partition, and a commit is durable. Cheap to clone.
/// Families and durability are read once: open the table again after a change of them.
///
/// # Example
///
/// ```no_run
/// # async fn example(connection: hbase_txn::Connection) -> hbase_txn::Result<()> {
/// use hbase_txn::{Delete, PartitionedTable, Put};
///
/// let orders = PartitionedTable::open(&connection, "orders").await?;
/// let outcome = orders
///     .transaction("xxx")
///     .put(Put::new("xxxabc").cell("f", "q", "1"))
///     .put(Put::new("xxx123").cell("f", "q", "2"))
///     .delete(Delete::new("xxxzzz"))
///     .commit()
///     .await;
/// println!("{outcome}");
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct PartitionedTable {
    committer: Committer,
}

impl PartitionedTable {
    pub(super) fn new(committer: Committer) -> Self {
        Self { committer }
    }

    /// Opens a table for transactions, with the defaults of [`OpenOptions`].
    ///
    /// # Errors
    ///
    /// [`TableNotFound`](ClientErrorKind::TableNotFound),
    /// [`TableDisabled`](ClientErrorKind::TableDisabled);
    /// [`FeatureUnknown`](crate::ErrorKind::FeatureUnknown) for a table that only newer releases
    /// may use; [`NoPartitionRule`](ClientErrorKind::NoPartitionRule) for no rule or a broken one;
    /// [`EndpointMissing`](ClientErrorKind::EndpointMissing) when the endpoint does not answer;
    /// [`PartitionCut`](ClientErrorKind::PartitionCut) when a region boundary lies inside a
    /// partition; [`WeakDurability`](crate::ErrorKind::WeakDurability) when commits could be lost;
    /// [`FamilyNotFound`](ClientErrorKind::FamilyNotFound) for a table that promises versions of
    /// partitions and has no family for them. Each says what fixes it.
    pub async fn open(connection: &Connection, name: impl IntoTableName) -> Result<Self> {
        OpenOptions::new().open(connection, name).await
    }

    /// The table itself, for reads, and for writes that are no transactions.
    #[must_use]
    pub fn table(&self) -> &Table {
        self.committer.table().table()
    }

    /// The table's name.
    #[must_use]
    pub fn name(&self) -> &TableName {
        self.table().name()
    }

    /// The table's partition rule, as it was when the table was opened.
    #[must_use]
    pub fn rule(&self) -> &PartitionRule {
        &self.terms().rule
    }

    /// The same table with another operation timeout for its calls and transactions.
    #[must_use]
    pub fn with_operation_timeout(mut self, timeout: Duration) -> Self {
        self.committer = self
            .committer
            .map_table(|table| table.with_operation_timeout(timeout));
        self
    }

    /// Starts a transaction in the partition of a bare prefix, whether or not any row has it. Under
    /// a delimiter the prefix is without it.
    ///
    /// A prefix that is invalid under the table's rule makes the transaction
    /// [invalid](Transaction).
    pub fn transaction(&self, prefix: impl IntoBytes) -> Transaction {
        Transaction::new(self.committer.clone(), self.partition(prefix, "transaction"))
    }

    /// Starts a transaction in the partition of a row; the only way to one of a row that the rule
    /// can't cut.
    pub fn transaction_for_row(&self, row: impl IntoBytes) -> Transaction {
        Transaction::new(self.committer.clone(), Ok(self.partition_of(row)))
    }

    /// Starts a batch of any rows, which are grouped by partition: one transaction each.
    pub fn batch(&self) -> Batch {
        Batch::new(self.committer.clone())
    }

    /// The partition that a row belongs to.
    #[must_use]
    pub fn partition_of(&self, row: impl IntoBytes) -> Partition {
        self.rule().partition_of(row)
    }

    /// Reads the partition of a bare prefix as it is at one moment, within the defaults of
    /// [`SnapshotOptions`].
    ///
    /// Whatever happens to the region meanwhile, the snapshot shows one moment, which lies between
    /// the call and its answer: when a server is lost, or the region moves or is split, all of it
    /// is read again.
    ///
    /// # Errors
    ///
    /// - [`LimitExceeded`](ClientErrorKind::LimitExceeded) when the partition is larger than the
    ///   bounds;
    /// - [`PartitionCut`](ClientErrorKind::PartitionCut) when its rows lie in two regions, which
    ///   have no moment in common;
    /// - [`DeadlineExceeded`](ClientErrorKind::DeadlineExceeded) when it could not be read whole in
    ///   the operation timeout;
    /// - [`InvalidInput`](ClientErrorKind::InvalidInput) for what is no prefix under the table's
    ///   rule;
    /// - and those of [`Table::get`](crate::Table::get).
    pub async fn snapshot(&self, prefix: impl IntoBytes) -> Result<Snapshot> {
        self.snapshot_with(prefix, SnapshotOptions::new()).await
    }

    /// Reads a partition, or a range of its rows, as it is at one moment.
    ///
    /// # Errors
    ///
    /// As [`snapshot`](Self::snapshot).
    pub async fn snapshot_with(&self, prefix: impl IntoBytes, options: SnapshotOptions) -> Result<Snapshot> {
        let partition = self.partition(prefix, snapshot::OPERATION)?;
        let deadline = self.table().deadline();
        snapshot::read(self.committer.table(), partition, &options, deadline).await
    }

    /// Changes a partition depending on what is in it.
    ///
    /// Reads the partition as it is at one moment and gives it to the closure, which adds changes.
    /// They are applied if, and only if, everything that the closure has read is still so;
    /// otherwise the partition is read again and the closure is run again. It may run several
    /// times, so it should compute, and change nothing elsewhere.
    /// [`update_async`](Self::update_async) takes a closure that waits.
    ///
    /// The closure reads the partition as it was, so it can't read a row that it has written: that
    /// is an error that names the row. Read first, then write.
    ///
    /// The transaction is recorded under an id of its own. So a lost answer is found out before
    /// anything is tried again, and the changes are applied once. The puts are stamped behind what
    /// is there, as by [`guard_timestamps`](super::Transaction::guard_timestamps).
    ///
    /// # What is noticed
    ///
    /// - Every cell that was read, by its value: one that is absent, or that is empty, which counts
    ///   as absent. A value that was changed and changed back is the same value.
    /// - Of rows and ranges that were read, the cells that were there; and the cells that the
    ///   closure itself writes in them. Other columns and rows that were added meanwhile are not:
    ///   for that the table must have [versions of
    ///   partitions](crate::TableDescriptorExt::with_partition_version). Then every transaction of
    ///   this library that changes the partition is noticed, and updates are serialisable among
    ///   transactions. A plain [`Table::put`](crate::Table::put) does not change the version.
    ///
    /// A closure that adds no change and no condition only reads: nothing is sent, as what it has
    /// read was true at one moment. A closure that fails, or panics, leaves nothing behind.
    ///
    /// # Transfers
    ///
    /// A row that is debited and credited by one closure (a transfer from an account to itself) is
    /// one row: reading it again after the debit is refused, as above. If the closure reads both
    /// balances first and then puts both, the second put replaces the first, as of any two puts of
    /// one cell, and the sum is wrong. Use [increments](UpdateView::increment), which add up, or
    /// refuse a transfer between equal rows.
    ///
    /// # Errors
    ///
    /// Those of the closure, as they are. Of this library:
    ///
    /// - [`Conflict`](crate::ErrorKind::Conflict): others were faster in all attempts;
    /// - [`ConditionNotMet`](crate::ErrorKind::ConditionNotMet): a condition that the closure added
    ///   does not hold, although what it has read is still so;
    /// - [`RecordFamilyMissing`](crate::ErrorKind::RecordFamilyMissing): make the table with a
    ///   record family, or update [without a record](UpdateOptions::without_record); the same for a
    ///   partition that is one row;
    /// - [`Aborted`](crate::ErrorKind::Aborted): another process settled it as not applied while it
    ///   was on its way;
    /// - those of [`snapshot`](Self::snapshot), and those that a commit is refused or fails with.
    ///   After one whose [outcome is unknown](Error::is_outcome_unknown) the changes may have been
    ///   applied; its text says how to find out.
    ///
    /// # Example
    ///
    /// ```no_run
    /// # async fn example(accounts: hbase_txn::PartitionedTable) -> hbase_txn::Result<()> {
    /// use hbase_txn::{Error, Put, Updated};
    ///
    /// let updated = accounts
    ///     .update("xxx", |view| {
    ///         let cents = view.get::<i64>("xxxacct", "f", "balance")?.unwrap_or(0);
    ///         if cents < 250 {
    ///             return Ok(None);
    ///         }
    ///         let left = cents - 250;
    ///         view.put(Put::new("xxxacct").cell("f", "balance", left))?;
    ///         Ok::<_, Error>(Some(left))
    ///     })
    ///     .await?;
    /// match updated.into_value().flatten() {
    ///     Some(left) => println!("paid; {left} left"),
    ///     None => println!("not enough"),
    /// }
    /// # Ok(()) }
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

    /// Changes a partition depending on what is in it, with other options than the default ones.
    ///
    /// # Errors
    ///
    /// As [`update`](Self::update).
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

    /// Changes a partition depending on what is in it and on what the closure waits for: another
    /// table, a service.
    ///
    /// As [`update`](Self::update), with a closure that returns a boxed future, which is `Send`: an
    /// `async` block in `Box::pin`. What the closure reads elsewhere is not checked when the
    /// changes are applied. The longer it waits, the more often other writers are faster; each call
    /// of the view fails once the operation timeout is over.
    ///
    /// # Errors
    ///
    /// As [`update`](Self::update).
    ///
    /// # Example
    ///
    /// ```no_run
    /// # async fn example(orders: hbase_txn::PartitionedTable, prices: hbase_txn::Table) -> hbase_txn::Result<()> {
    /// use hbase_txn::{Error, Get, Put, UpdateOptions};
    ///
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
    /// # Ok(()) }
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

    /// What the record of a transaction says. Only reads: see [`settle`](Self::settle) for the
    /// truth where there is no record.
    ///
    /// # Errors
    ///
    /// [`RecordFamilyMissing`](crate::ErrorKind::RecordFamilyMissing), and those of
    /// [`Table::get`](crate::Table::get); [`OutcomeForgotten`](crate::ErrorKind::OutcomeForgotten)
    /// for an id of this package's own that is older than the replay window.
    pub async fn outcome(&self, prefix: impl IntoBytes, id: &TransactionId) -> Result<Recorded> {
        self.claim(prefix, id)?.recorded(self.table().deadline()).await
    }

    /// Settles a transaction by its id, from whatever process: tells whether it was applied, and if
    /// not, makes sure that no attempt that is on its way can be any more.
    ///
    /// A process that is still committing it gets `Aborted`. The answer is right for
    /// transactions that were first sent within the table's replay window. Ids of this package's
    /// own say how old they are, and are refused when they are older. One of the caller's does not:
    /// it may have been applied and forgotten, and then this says
    /// [`NotApplied`](Settled::NotApplied), as it would of an id that was never used. So ask within
    /// the window.
    ///
    /// # Errors
    ///
    /// As [`Unsettled::settle`](crate::Unsettled::settle).
    pub async fn settle(&self, prefix: impl IntoBytes, id: &TransactionId) -> Result<Settled> {
        let deadline = self.table().deadline();
        self.claim(prefix, id)?.settle(deadline).await.map(Settled::from)
    }

    /// The reserved row of a thing of this id, a `lock` or a `latch`, in the partition of a bare
    /// prefix.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](ClientErrorKind::InvalidInput) for what is no prefix under the table's rule
    /// or no id, and for a partition that can't have such a row.
    pub(crate) fn reserved_row(&self, prefix: Bytes, thing: &str, kind: u8, id: &str) -> Result<Bytes> {
        let row = || {
            if id.is_empty() {
                return Err(Error::invalid(format!("an empty {thing} id")));
            }
            let partition = self.rule().partition(prefix)?;
            let reserved = [&[kind], id.as_bytes()].concat();
            match partition.reserved_row(&reserved) {
                Some(row) => Ok(row),
                None if partition.is_lone_row() => Err(Error::invalid(format!(
                    "{partition} can't have a {thing}, which is a row itself and may be parted from it"
                ))),
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

    /// The family of locks and latches, as it is now.
    ///
    /// # Errors
    ///
    /// [`FamilyNotFound`](ClientErrorKind::FamilyNotFound) without it; those of reading the table's
    /// descriptor.
    pub(crate) async fn lock_family(&self, things: &str) -> Result<FamilyDescriptor> {
        let admin = self.table().connection().admin();
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

    fn terms(&self) -> &Terms {
        self.committer.table().terms()
    }

    fn partition(&self, prefix: impl IntoBytes, operation: &'static str) -> Result<Partition> {
        let partition = self.rule().partition(prefix);
        Ok(partition.map_err(|error| error.at_operation(operation).at_table(self.name()))?)
    }

    fn claim(&self, prefix: impl IntoBytes, id: &TransactionId) -> Result<Claim> {
        const OPERATION: &str = "outcome of a transaction";
        let partition = self.partition(prefix, OPERATION)?;
        Claim::new(self.committer.table(), &partition, id, Digest::ANY)
            .map_err(|error| error.at_operation(OPERATION).at_table(self.name()))
    }
}

impl fmt::Debug for PartitionedTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PartitionedTable({}, by {})", self.name(), self.rule())
    }
}
