//! How an update is made, when the defaults are not enough.

use hbase_client::IntoBytes;

use crate::{
    error::Result,
    txn::{record::TransactionId, snapshot::SnapshotOptions},
};

/// How an update is made, when the defaults are not enough.
///
/// # Example
///
/// ```no_run
/// # async fn example(orders: hbase_txn::PartitionedTable) -> hbase_txn::Result<()> {
/// use hbase_txn::{Error, Put, UpdateOptions, Updated};
///
/// // However often this request is served, its order is placed once.
/// let once = UpdateOptions::new().id("request-4711");
/// let updated = orders
///     .update_with("xxx", once, |view| {
///         let number = view.rows("xxxorder", "xxxordes")?.len() + 1;
///         view.put(Put::new(format!("xxxorder{number:06}")).cell("f", "state", "placed"))?;
///         Ok::<_, Error>(number)
///     })
///     .await?;
/// match updated {
///     Updated::Replayed => println!("it was placed before"),
///     placed => println!("placed as {:?}", placed.into_value()),
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[must_use = "options do nothing until an update is made with them"]
pub struct UpdateOptions {
    pub(super) attempts: u32,
    pub(super) max_conditions: usize,
    pub(super) snapshot: SnapshotOptions,
    pub(super) recording: Recording,
}

/// Whether and as what an update is recorded.
#[derive(Clone, Debug)]
pub(super) enum Recording {
    OwnId,
    /// An invalid id is the error of the update.
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
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// How often it is tried, within the operation timeout; 32 times unless said, at least once.
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts.max(1);
        self
    }

    /// Records it under an id of the caller's, text or a [`TransactionId`], so that it is applied
    /// once however often it is made, by whatever process: a later one with the id is
    /// [`Replayed`](super::Updated::Replayed), and its closure is not run. Whatever the closure
    /// does: the id stands for the request, not for its effect. A closure that changes nothing
    /// leaves no record, and runs again.
    ///
    /// Holds within the table's replay window. Takes back [`without_record`](Self::without_record).
    pub fn id(mut self, id: impl IntoBytes) -> Self {
        self.recording = Recording::CallersId(TransactionId::new(id));
        self
    }

    /// Leaves no record. Then an update whose answer was lost ends with an error of [unknown
    /// outcome](crate::Error::is_outcome_unknown), and its caller has to find out. For tables
    /// without a record family, and for partitions that are one row. Takes back [`id`](Self::id).
    pub fn without_record(mut self) -> Self {
        self.recording = Recording::None;
        self
    }

    /// The most cells whose values are checked when the changes are applied; 1,000 unless said. The
    /// server checks them while it holds the rows' locks: 1,000 took it 0.04 to 0.1 s.
    ///
    /// An update that reads more is refused. On a table with [versions of
    /// partitions](crate::TableDescriptorExt::with_partition_version) it is not: the version stands
    /// for all of them, and the values of the first cells that were read are checked beside it,
    /// because of writers that do not change the version.
    pub fn max_conditions(mut self, conditions: usize) -> Self {
        self.max_conditions = conditions;
        self
    }

    /// Leaves out the rows before this one; empty is the partition's beginning.
    ///
    /// An update of a range reads and transfers only its rows. Reading a row outside of it is an
    /// error; writing one is allowed, as what is written depends only on what was read.
    pub fn start_row(mut self, row: impl IntoBytes) -> Self {
        self.snapshot = self.snapshot.start_row(row);
        self
    }

    /// Leaves out this row and those after it; empty is the partition's end. See
    /// [`start_row`](Self::start_row).
    pub fn stop_row(mut self, row: impl IntoBytes) -> Self {
        self.snapshot = self.snapshot.stop_row(row);
        self
    }

    /// The most rows that the partition, or the range, may have; see [`SnapshotOptions::max_rows`].
    pub fn max_rows(mut self, rows: usize) -> Self {
        self.snapshot = self.snapshot.max_rows(rows);
        self
    }

    /// The most bytes that the partition, or the range, may have; see
    /// [`SnapshotOptions::max_bytes`].
    pub fn max_bytes(mut self, bytes: usize) -> Self {
        self.snapshot = self.snapshot.max_bytes(bytes);
        self
    }
}
