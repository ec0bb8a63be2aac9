//! Reads a partition as it was at one moment.

use std::{slice, vec};

use bytes::Bytes;
use tokio::time::Instant;

use super::{gate::cut, partition_version, partitioned_table::PartitionedTable, plan::counted};
use crate::{
    client::{AtOnce, RegionGuard, ServingRegion, Verdict},
    error::{Error, ErrorKind, Result},
    model::{BytesBinary, Cell, Partition, Row, Scan, TableDescriptor},
};

/// The rows of one partition, all as they were at one moment: every transaction is in it whole, or not at all.
///
/// It has the newest version of each column, and no rows or cells that the toolkit keeps for itself. Rows are in the order
/// of their keys. It stays what it is whatever happens in the table.
///
/// # Example
///
/// ```no_run
/// # async fn example(orders: hbase_txn::PartitionedTable) -> hbase_txn::Result<()> {
/// let customer = orders.snapshot("xxx").await?;
/// let total = customer.value("xxxsum", "f", "total");
/// for row in &customer {
///     println!("{} has {} cells", hbase_txn::BytesBinary(row.key()), row.cells().len());
/// }
/// # let _ = total;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Snapshot {
    partition: Partition,
    rows: Vec<Row>,
    version: Option<Cell>,
}

/// How much of a partition a [`Snapshot`] may be, and how it is read.
///
/// # Example
///
/// ```no_run
/// # async fn example(orders: hbase_txn::PartitionedTable) -> hbase_txn::Result<()> {
/// use hbase_txn::SnapshotOptions;
///
/// let january = SnapshotOptions::new().start("xxx2024-01").stop("xxx2024-02").max_rows(1_000);
/// let orders = orders.snapshot_with("xxx", january).await?;
/// # let _ = orders;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "options do nothing until a snapshot is read with them"]
pub struct SnapshotOptions {
    max_rows: usize,
    max_bytes: usize,
    batch_rows: Option<u32>,
    start: Bytes,
    stop: Bytes,
    /// Whether the partition's version cell is read along.
    with_version: bool,
}

impl Default for SnapshotOptions {
    fn default() -> Self {
        Self {
            max_rows: 100_000,
            max_bytes: 64 << 20,
            batch_rows: None,
            start: Bytes::new(),
            stop: Bytes::new(),
            with_version: false,
        }
    }
}

impl SnapshotOptions {
    /// The whole partition, within the default bounds.
    pub fn new() -> Self {
        Self::default()
    }

    /// The most rows; 100,000 unless said. A partition with more is refused, never cut short.
    pub fn max_rows(mut self, rows: usize) -> Self {
        self.max_rows = rows;
        self
    }

    /// The most bytes of keys and values; 64 MiB unless said. While it is read, the memory for one answer of the server
    /// (2 MiB, and the largest cell) comes on top; many small cells take several times their bytes.
    pub fn max_bytes(mut self, bytes: usize) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// Asks the server for at most this many rows a call. Calls are cut by size anyway.
    pub fn batch_rows(mut self, rows: u32) -> Self {
        self.batch_rows = Some(rows);
        self
    }

    /// Leaves out the rows before this one; empty is the partition's beginning.
    pub fn start(mut self, row: impl Into<Bytes>) -> Self {
        self.start = row.into();
        self
    }

    /// Leaves out this row and those behind it; empty is the partition's end.
    pub fn stop(mut self, row: impl Into<Bytes>) -> Self {
        self.stop = row.into();
        self
    }

    /// Reads the partition's version cell along, at the same moment.
    pub(super) fn with_version(mut self) -> Self {
        self.with_version = true;
        self
    }

    /// The scan of these rows of the partition; none when there can't be any.
    fn scan(&self, partition: &Partition) -> Option<Scan> {
        let first = partition.first_key();
        let mut scan = if partition.is_lone_row() {
            let inside = self.start <= *first && (self.stop.is_empty() || *first < self.stop);
            if !inside {
                return None;
            }
            Scan::new().start(first.clone()).stop_inclusive(first.clone())
        } else {
            let whole = Scan::prefix(first.clone());
            let stop = match &self.stop {
                stop if stop.is_empty() || whole.ends_before(stop) => whole.stop,
                stop => stop.clone(),
            };
            let start = self.start.clone().max(whole.start);
            if !stop.is_empty() && start >= stop {
                return None;
            }
            Scan::new().start(start).stop(stop)
        };
        if let Some(rows) = self.batch_rows {
            scan = scan.batch_rows(rows);
        }
        // One more shows that there are too many; and the row with the version is none of the caller's.
        let own = usize::from(self.with_version) + 1;
        Some(scan.limit(self.max_rows.saturating_add(own) as u64))
    }
}

impl PartitionedTable {
    /// Reads the partition of a bare prefix as it is at one moment, within the defaults of [`SnapshotOptions`].
    ///
    /// Whatever happens to the region meanwhile, the snapshot shows one moment, which lies between the call and its
    /// answer: when a server is lost, or the region moves or is split, all of it is read again.
    ///
    /// # Errors
    ///
    /// - [`LimitExceeded`](ErrorKind::LimitExceeded) when the partition is larger than the bounds;
    /// - [`PartitionCut`](ErrorKind::PartitionCut) when its rows lie in two regions, which have no moment in common;
    /// - [`DeadlineExceeded`](ErrorKind::DeadlineExceeded) when it could not be read whole in the operation timeout;
    /// - [`InvalidInput`](ErrorKind::InvalidInput) for what is no prefix under the table's rule;
    /// - and those of [`Table::get`](crate::Table::get).
    pub async fn snapshot(&self, prefix: impl Into<Bytes>) -> Result<Snapshot> {
        self.snapshot_with(prefix, SnapshotOptions::new()).await
    }

    /// Reads a partition, or a range of its rows, as it is at one moment.
    ///
    /// # Errors
    ///
    /// As [`snapshot`](Self::snapshot).
    pub async fn snapshot_with(
        &self,
        prefix: impl Into<Bytes>,
        options: SnapshotOptions,
    ) -> Result<Snapshot> {
        let partition = self
            .rule()
            .partition(prefix)
            .map_err(|error| error.at_operation(OPERATION).at_table(self.name()))?;
        self.snapshot_until(partition, &options, self.table().deadline())
            .await
    }

    pub(super) async fn snapshot_until(
        &self,
        partition: Partition,
        options: &SnapshotOptions,
        deadline: Instant,
    ) -> Result<Snapshot> {
        let blame = |error: Error| {
            error
                .at_operation(OPERATION)
                .at_table(self.name())
                .at_row(&BytesBinary(partition.prefix()))
        };
        let mut rows = Vec::new();
        if let Some(scan) = options
            .scan(&partition)
            .and_then(|scan| self.select(scan, options))
        {
            let how = AtOnce {
                operation: OPERATION,
                guard: &WholePartition(&partition),
                max_bytes: options.max_bytes,
                deadline,
            };
            let read = self.table().scan_at_once(&scan, how).await.map_err(blame)?;
            let too_large = || too_large(&partition, &counted(options.max_bytes, "byte"), "max_bytes");
            rows = read.ok_or_else(too_large).map_err(blame)?;
        }
        let version = take_version(&partition, &mut rows);
        if rows.len() > options.max_rows {
            let limit = counted(options.max_rows, "row");
            return Err(blame(too_large(&partition, &limit, "max_rows")));
        }
        Ok(Snapshot {
            partition,
            rows,
            version,
        })
    }

    /// Names the families, because a scan of all would show the toolkit's own; none when the table has no others.
    fn select(&self, scan: Scan, options: &SnapshotOptions) -> Option<Scan> {
        let mut families: Vec<_> = self
            .terms()
            .families
            .iter()
            .filter(|family| !TableDescriptor::reserves_family(family))
            .cloned()
            .collect();
        families.sort_unstable();
        let scan = match families.is_empty() && !options.with_version {
            true => return None,
            false => families.into_iter().fold(scan, Scan::family),
        };
        Some(match options.with_version {
            true => scan.column(TableDescriptor::VERSION_FAMILY, partition_version::QUALIFIER),
            false => scan,
        })
    }
}

const OPERATION: &str = "snapshot";

/// Takes the version cell out of the rows, and its row when that has nothing else.
fn take_version(partition: &Partition, rows: &mut Vec<Row>) -> Option<Cell> {
    let key = partition_version::row(partition)?;
    let at = rows.binary_search_by(|row| row.key().cmp(&key)).ok()?;
    let version = rows[at]
        .cell(TableDescriptor::VERSION_FAMILY, partition_version::QUALIFIER)?
        .clone();
    let mut others = rows.remove(at).into_cells();
    others.retain(|cell| cell.family != version.family);
    if !others.is_empty() {
        rows.insert(at, Row::new(key, others));
    }
    Some(version)
}

fn too_large(partition: &Partition, limit: &str, option: &str) -> Error {
    Error::new(
        ErrorKind::LimitExceeded,
        format!("partition {partition} has more than {limit}, the most that is read at once"),
    )
    .with_hint(format!("raise {option}, or read a range of its rows"))
}

/// Lets a scan pass only where the whole partition is.
pub(super) struct WholePartition<'a>(pub(super) &'a Partition);

impl RegionGuard for WholePartition<'_> {
    fn check(&self, serving: ServingRegion<'_>) -> Verdict {
        match self.0.is_whole_in(serving.region) {
            true => Verdict::Pass,
            false => Verdict::LookAgain(cut(self.0, &serving.region.range_text())),
        }
    }
}

impl Snapshot {
    /// The partition.
    #[must_use]
    pub fn partition(&self) -> &Partition {
        &self.partition
    }

    /// All rows, in the order of their keys.
    #[must_use]
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// How many rows there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The row of this key; none when there was none, or it was not asked for.
    #[must_use]
    pub fn row(&self, key: impl AsRef<[u8]>) -> Option<&Row> {
        let at = self
            .rows
            .binary_search_by(|row| row.key()[..].cmp(key.as_ref()))
            .ok()?;
        self.rows.get(at)
    }

    /// The cell of a row's column.
    #[must_use]
    pub fn cell(
        &self,
        row: impl AsRef<[u8]>,
        family: impl AsRef<[u8]>,
        qualifier: impl AsRef<[u8]>,
    ) -> Option<&Cell> {
        self.row(row)?.cell(family, qualifier)
    }

    /// The value of a row's column.
    #[must_use]
    pub fn value(
        &self,
        row: impl AsRef<[u8]>,
        family: impl AsRef<[u8]>,
        qualifier: impl AsRef<[u8]>,
    ) -> Option<&Bytes> {
        self.cell(row, family, qualifier).map(|cell| &cell.value)
    }

    /// The rows from `start` to before `stop`, as in a [`Scan`]: an empty `stop` is the end.
    #[must_use]
    pub fn range(&self, start: impl AsRef<[u8]>, stop: impl AsRef<[u8]>) -> &[Row] {
        let before = |bound: &[u8]| self.rows.partition_point(|row| row.key()[..] < *bound);
        let first = before(start.as_ref());
        let end = match stop.as_ref() {
            [] => self.rows.len(),
            stop => before(stop).max(first),
        };
        &self.rows[first..end]
    }

    /// The partition's version cell, if it was asked for and is there.
    pub(super) fn version(&self) -> Option<&Cell> {
        self.version.as_ref()
    }
}

impl IntoIterator for Snapshot {
    type Item = Row;
    type IntoIter = vec::IntoIter<Row>;

    fn into_iter(self) -> Self::IntoIter {
        self.rows.into_iter()
    }
}

impl<'a> IntoIterator for &'a Snapshot {
    type Item = &'a Row;
    type IntoIter = slice::Iter<'a, Row>;

    fn into_iter(self) -> Self::IntoIter {
        self.rows.iter()
    }
}

#[cfg(test)]
pub(super) mod tests;
