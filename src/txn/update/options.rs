//! Options for an update.

use hbase_client::IntoBytes;

use crate::{
    error::{Error, Result},
    txn::{record::TransactionId, snapshot::SnapshotOptions},
};

/// Options for an update.
///
/// # Example
///
/// ```
/// use hbase_txn::{Error, UpdateOptions, Updated, client::Put};
///
/// # hbase_fake::FakeHBase::run(async |hbase| {
/// # hbase.create_partitioned_table("orders", &["f", "_txn"], 3);
/// # let orders = hbase_txn::PartitionedTable::open(&hbase.connect().await?, "orders").await?;
/// # for expected in [false, true] {
/// // However often this request is served, its order is placed once.
/// let once = UpdateOptions::new().id("request-4711");
/// let updated = orders
///     .update_with("xxx", once, |view| {
///         let number = view.rows_with_prefix("xxxorder")?.len() + 1;
///         view.put(Put::new(format!("xxxorder{number:06}")).cell("f", "state", "placed"))?;
///         Ok::<_, Error>(number)
///     })
///     .await?;
/// # assert_eq!(matches!(updated, Updated::Replayed), expected);
/// match updated {
///     Updated::Replayed => println!("it was placed before"),
///     placed => println!("placed as {:?}", placed.into_value()),
/// }
/// # }
/// # Ok(()) });
/// ```
#[derive(Clone, Debug)]
#[must_use = "options do nothing until an update is made with them"]
pub struct UpdateOptions {
    pub(in crate::txn) attempts: u32,
    pub(super) max_conditions: usize,
    pub(in crate::txn) snapshot: SnapshotOptions,
    pub(super) recording: Recording,
}

/// Whether an update is recorded, and under which id.
#[derive(Clone, Debug)]
pub(super) enum Recording {
    OwnId,
    /// For an invalid id, the error that the update returns.
    CallersId(Result<TransactionId>),
    None,
}

impl Default for UpdateOptions {
    fn default() -> Self {
        Self {
            attempts: 32,
            max_conditions: 1_000,
            snapshot: SnapshotOptions::new(),
            recording: Recording::OwnId,
        }
    }
}

impl UpdateOptions {
    /// Creates the default options.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the maximum number of attempts within the operation timeout; 32 by default, at least 1.
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts.max(1);
        self
    }

    /// Records the update under the caller's id, text or a [`TransactionId`]. The update is applied
    /// once, however often and by whichever process it is run: a later update with the same id
    /// returns [`Replayed`](super::Updated::Replayed) without running its closure. The id
    /// identifies the request, not its effect, so closures with different effects are not told
    /// apart. A closure that changes nothing leaves no record, and runs again.
    ///
    /// The guarantee holds within the table's replay window. Overrides
    /// [`without_record`](Self::without_record).
    pub fn id(mut self, id: impl IntoBytes) -> Self {
        self.recording = Recording::CallersId(TransactionId::new(id));
        self
    }

    /// Returns the id of the caller, if there is one.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidInput`](crate::ClientErrorKind::InvalidInput) if the id is invalid, or the update is
    /// to leave no record.
    pub(in crate::txn) fn callers_id(&self) -> Result<Option<TransactionId>> {
        match &self.recording {
            Recording::CallersId(id) => id.clone().map(Some),
            Recording::OwnId => Ok(None),
            Recording::None => Err(Error::invalid("an update across partitions without a record")),
        }
    }

    /// Leaves no record, for tables without a record family and for partitions that are a single
    /// row. If the answer is lost, the update ends with an error of [unknown
    /// outcome](crate::Error::is_outcome_unknown), and the caller has to find out whether it was
    /// applied. Overrides [`id`](Self::id).
    pub fn without_record(mut self) -> Self {
        self.recording = Recording::None;
        self
    }

    /// Sets the maximum number of cells whose values are checked when the changes are applied; the
    /// default is 1,000. The server checks them while it holds the row locks: 1,000 cells took it
    /// 0.04 to 0.1 s.
    ///
    /// An update that reads more cells is refused, except on a table with [partition
    /// versions](crate::TableDescriptorExt::with_partition_version). There the version guards all
    /// cells, and the values of the first cells that were read are checked as well, because some
    /// writers do not change the version.
    pub fn max_conditions(mut self, conditions: usize) -> Self {
        self.max_conditions = conditions;
        self
    }

    /// Sets the first row that is read; empty means the beginning of the partition.
    ///
    /// An update of a range reads and transfers only the rows of the range. Reading a row outside
    /// it is an error. Writing one is allowed, because the change depends only on what was read.
    pub fn start_row(mut self, row: impl IntoBytes) -> Self {
        self.snapshot = self.snapshot.start_row(row);
        self
    }

    /// Sets the row before which reading stops; empty means the end of the partition. See
    /// [`start_row`](Self::start_row).
    pub fn stop_row(mut self, row: impl IntoBytes) -> Self {
        self.snapshot = self.snapshot.stop_row(row);
        self
    }

    /// Reads only the rows with this prefix, which begins with that of the partition. Overrides
    /// [`start_row`](Self::start_row), which describes the effect, and [`stop_row`](Self::stop_row).
    pub fn rows_with_prefix(mut self, prefix: impl IntoBytes) -> Self {
        self.snapshot = self.snapshot.rows_with_prefix(prefix);
        self
    }

    /// Sets the maximum number of rows in the partition, or in the range; see
    /// [`SnapshotOptions::max_rows`].
    pub fn max_rows(mut self, rows: usize) -> Self {
        self.snapshot = self.snapshot.max_rows(rows);
        self
    }

    /// Sets the maximum size of the partition, or of the range, in bytes; see
    /// [`SnapshotOptions::max_bytes`].
    pub fn max_bytes(mut self, bytes: usize) -> Self {
        self.snapshot = self.snapshot.max_bytes(bytes);
        self
    }
}
