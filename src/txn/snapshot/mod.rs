//! Reads a partition at one point in time.

use std::{slice, vec};

use bytes::Bytes;
use hbase_client::{Cell, FromValue, IntoBytes, Row, Scan, TableDescriptor, low_level::ScanParts};
use tokio::time::Instant;

use super::{
    commit::{partition_version, plan::other_partition, read::rows_at_once},
    outcome::counted,
    proof::{proven_table::ProvenTable, terms::Terms},
    reserved_rows::TRIALS,
};
use crate::{
    error::{ClientErrorKind, Error, Result},
    partition::Partition,
    table_descriptor::TableDescriptorExt,
};

/// The rows of one partition at one point in time: each transaction is included whole or not at
/// all.
///
/// It has the newest version of each column, without the rows and cells that the library reserves
/// for itself. Rows are in the order of their keys. Later changes to the table do not affect it.
///
/// # Example
///
/// ```
/// # use hbase_txn::client::Put;
/// # hbase_fake::FakeHBase::run(async |hbase| {
/// # hbase.create_partitioned_table("orders", &["f"], 3);
/// # let orders = hbase_txn::PartitionedTable::open(&hbase.connect().await?, "orders").await?;
/// # orders.table().put(Put::new("xxxsum").cell("f", "total", 1250i64)).await?;
/// let customer = orders.snapshot("xxx").await?;
/// assert_eq!(customer.get::<i64>("xxxsum", "f", "total")?, Some(1250));
/// for row in customer.rows_with_prefix("xxxorder/") {
///     println!("{} has {} cells", hbase_txn::client::BytesBinary(row.key()), row.cells().len());
/// }
/// # Ok(()) });
/// ```
#[derive(Clone, Debug)]
pub struct Snapshot {
    partition: Partition,
    rows: Vec<Row>,
    version: Option<Cell>,
}

/// Options for reading a [`Snapshot`]: its range and its limits.
///
/// # Example
///
/// ```
/// use hbase_txn::SnapshotOptions;
///
/// # use hbase_txn::client::Put;
/// # hbase_fake::FakeHBase::run(async |hbase| {
/// # hbase.create_partitioned_table("orders", &["f"], 3);
/// # let orders = hbase_txn::PartitionedTable::open(&hbase.connect().await?, "orders").await?;
/// # for row in ["xxx2024-01-31", "xxx2024-02-01"] {
/// #     orders.table().put(Put::new(row).cell("f", "total", 1250i64)).await?;
/// # }
/// let january = SnapshotOptions::new().rows_with_prefix("xxx2024-01").max_rows(1_000);
/// let orders = orders.snapshot_with("xxx", january).await?;
/// assert_eq!(orders.len(), 1);
/// # Ok(()) });
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "options do nothing until a snapshot is read with them"]
pub struct SnapshotOptions {
    max_rows: usize,
    max_bytes: usize,
    caching: Option<u32>,
    start: Bytes,
    stop: Bytes,
    /// Whether to read the partition's version cell as well.
    with_version: bool,
}

impl Default for SnapshotOptions {
    fn default() -> Self {
        Self {
            max_rows: 100_000,
            max_bytes: 64 << 20,
            caching: None,
            start: Bytes::new(),
            stop: Bytes::new(),
            with_version: false,
        }
    }
}

impl SnapshotOptions {
    /// Creates the default options: the whole partition, with the default limits.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the maximum number of rows; the default is 100,000. A larger partition is refused,
    /// never truncated.
    pub fn max_rows(mut self, rows: usize) -> Self {
        self.max_rows = rows;
        self
    }

    /// Sets the maximum size, in bytes of keys and values; the default is 64 MiB. While the
    /// snapshot is read, the memory of one server response (2 MiB plus the largest cell) is needed
    /// in addition. Many small cells take several times their size.
    pub fn max_bytes(mut self, bytes: usize) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// Sets the maximum number of rows that the server returns per call. The size of a response is
    /// limited in any case.
    pub fn caching(mut self, rows: u32) -> Self {
        self.caching = Some(rows);
        self
    }

    /// Sets the first row that is read; empty means the beginning of the partition. A range that is
    /// outside of the partition is refused with
    /// [`OtherPartition`](crate::ErrorKind::OtherPartition).
    pub fn start_row(mut self, row: impl IntoBytes) -> Self {
        self.start = row.into_bytes();
        self
    }

    /// Sets the row before which reading stops; empty means the end of the partition.
    pub fn stop_row(mut self, row: impl IntoBytes) -> Self {
        self.stop = row.into_bytes();
        self
    }

    /// Reads only the rows with this prefix, which begins with that of the partition. Overrides
    /// [`start_row`](Self::start_row) and [`stop_row`](Self::stop_row).
    pub fn rows_with_prefix(mut self, prefix: impl IntoBytes) -> Self {
        (self.start, self.stop) = prefix_range(prefix);
        self
    }

    /// Returns the bounds of the rows; an empty bound means that of the partition.
    pub(super) fn bounds(&self) -> (&Bytes, &Bytes) {
        (&self.start, &self.stop)
    }

    /// Also reads the partition's version cell, at the same time as the rows or earlier.
    pub(super) fn with_version(mut self) -> Self {
        self.with_version = true;
        self
    }

    fn is_range(&self) -> bool {
        !self.start.is_empty() || !self.stop.is_empty()
    }

    /// Returns the scan of these rows of the partition, or `None` if the range can't have rows.
    fn scan(&self, partition: &Partition) -> Option<Scan> {
        let first = partition.first_key();
        let mut scan = if partition.is_lone_row() {
            let inside = self.start <= *first && (self.stop.is_empty() || *first < self.stop);
            if !inside {
                return None;
            }
            Scan::new()
                .start_row(first.clone())
                .stop_row_inclusive(first.clone())
        } else {
            let whole = Scan::prefix(first.clone());
            let stop = match &self.stop {
                stop if stop.is_empty() || whole.ends_before(stop) => whole.range_end().clone(),
                stop => stop.clone(),
            };
            let start = self.start.clone().max(whole.range_start().clone());
            if !stop.is_empty() && start >= stop {
                return None;
            }
            Scan::new().start_row(start).stop_row(stop)
        };
        if let Some(rows) = self.caching {
            scan = scan.caching(rows);
        }
        Some(scan.limit(self.row_limit() as u64))
    }

    /// Returns how many rows are read at most. One extra row detects that there are too many; the
    /// others are rows of the library.
    fn row_limit(&self) -> usize {
        let own = 1 + usize::from(self.with_version) + TRIALS.len();
        self.max_rows.saturating_add(own)
    }

    /// Refuses a range that is outside of the partition.
    fn check_range(&self, partition: &Partition, terms: &Terms) -> Result<()> {
        let (first, behind) = (partition.first_key(), partition.key_behind());
        let begins_behind = !behind.is_empty() && self.start >= behind;
        let ends_before = !self.stop.is_empty() && self.stop <= *first;
        let bound = match (begins_behind, ends_before) {
            (true, _) => &self.start,
            (_, true) => &self.stop,
            _ => return Ok(()),
        };
        Err(other_partition(bound, partition, terms, "the range that is read"))
    }
}

/// Reads a partition, or a range of its rows, at one point in time.
pub(super) async fn read(
    table: &ProvenTable,
    partition: Partition,
    options: &SnapshotOptions,
    deadline: Instant,
) -> Result<Snapshot> {
    let in_context = |error: Error| {
        let error = error.at_operation(OPERATION).at_table(table.name());
        partition.in_context(error)
    };
    options
        .check_range(&partition, table.terms())
        .map_err(in_context)?;
    let scan_at_once = async |scan: Scan| {
        let read = rows_at_once(table, OPERATION, &partition, &scan, options.max_bytes, deadline).await;
        let read = read.map_err(in_context)?;
        let too_large = || too_large(&counted(options.max_bytes, "byte"), "max_bytes");
        read.ok_or_else(too_large).map_err(in_context)
    };
    // The row of the version is outside the range, so it is read first. If the version is unchanged
    // when the changes are applied, no transaction was applied in between.
    let mut earlier = Vec::new();
    if options.with_version
        && options.is_range()
        && let Some(row) = partition_version::row(&partition)
    {
        let scan = Scan::new().start_row(row.clone()).stop_row_inclusive(row);
        earlier = scan_at_once(with_version(scan)).await?;
    }
    let mut rows = Vec::new();
    if let Some(scan) = options
        .scan(&partition)
        .and_then(|scan| select(table.terms(), scan, options))
    {
        rows = scan_at_once(scan).await?;
    }
    let version = if options.is_range() {
        take_version(&partition, &mut earlier)
    } else {
        take_version(&partition, &mut rows)
    };
    // Without a record family, servers are tested in a family of the user.
    let trials = TRIALS.map(|name| partition.reserved_row(name));
    rows.retain(|row| !trials.iter().flatten().any(|trial| trial == row.key()));
    if rows.len() > options.max_rows {
        let limit = counted(options.max_rows, "row");
        return Err(in_context(too_large(&limit, "max_rows")));
    }
    Ok(Snapshot {
        partition,
        rows,
        version,
    })
}

/// Selects the families, because a scan of all families would include the reserved ones. Returns
/// `None` if there is nothing to read.
fn select(terms: &Terms, scan: Scan, options: &SnapshotOptions) -> Option<Scan> {
    let mut families: Vec<_> = terms.user_families().cloned().collect();
    families.sort_unstable();
    let reads_version = options.with_version && !options.is_range();
    let scan = if families.is_empty() && !reads_version {
        return None;
    } else {
        families.into_iter().fold(scan, Scan::family)
    };
    Some(if reads_version { with_version(scan) } else { scan })
}

/// Returns the bounds of the rows with a prefix: the first, and the key behind the last.
pub(super) fn prefix_range(prefix: impl IntoBytes) -> (Bytes, Bytes) {
    let scan = Scan::prefix(prefix);
    (scan.range_start().clone(), scan.range_end().clone())
}

fn with_version(scan: Scan) -> Scan {
    scan.column(TableDescriptor::VERSION_FAMILY, partition_version::QUALIFIER)
}

pub(super) const OPERATION: &str = "snapshot";

/// Removes the version cell from the rows, and its row if that has no other cells.
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

fn too_large(limit: &str, option: &str) -> Error {
    Error::new(
        ClientErrorKind::LimitExceeded,
        format!("the partition has more than {limit}, the most that is read at once"),
    )
    .with_hint(format!("raise {option}, or read a range of its rows"))
}

impl Snapshot {
    /// Returns the partition.
    #[must_use]
    pub fn partition(&self) -> &Partition {
        &self.partition
    }

    /// Returns all rows, in the order of their keys.
    #[must_use]
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Returns the number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns whether there are no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the row with this key, or `None` if it does not exist or was not read.
    #[must_use]
    pub fn row(&self, key: impl AsRef<[u8]>) -> Option<&Row> {
        let at = self
            .rows
            .binary_search_by(|row| row.key()[..].cmp(key.as_ref()))
            .ok()?;
        self.rows.get(at)
    }

    /// Returns the cell of a row's column.
    #[must_use]
    pub fn cell(
        &self,
        row: impl AsRef<[u8]>,
        family: impl AsRef<[u8]>,
        qualifier: impl AsRef<[u8]>,
    ) -> Option<&Cell> {
        self.row(row)?.cell(family, qualifier)
    }

    /// Reads the value of a row's column as a type. Returns `None` if there is no such cell.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Row::get`].
    pub fn get<'a, T: FromValue<'a>>(
        &'a self,
        row: impl AsRef<[u8]>,
        family: impl AsRef<[u8]>,
        qualifier: impl AsRef<[u8]>,
    ) -> Result<Option<T>> {
        let cell = self.cell(row, family, qualifier);
        Ok(cell.map(Cell::decode).transpose()?)
    }

    /// Returns the bytes of the value of a row's column.
    #[must_use]
    pub fn value(
        &self,
        row: impl AsRef<[u8]>,
        family: impl AsRef<[u8]>,
        qualifier: impl AsRef<[u8]>,
    ) -> Option<&Bytes> {
        self.cell(row, family, qualifier).map(|cell| &cell.value)
    }

    /// Returns the rows from `start` (inclusive) to `stop` (exclusive), as in a [`Scan`]: an empty
    /// `stop` means the end.
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

    /// Returns the rows with a prefix, which begins with that of the partition.
    #[must_use]
    pub fn rows_with_prefix(&self, prefix: impl AsRef<[u8]>) -> &[Row] {
        let (start, stop) = prefix_range(prefix.as_ref());
        self.range(start, stop)
    }

    /// Returns the partition's version cell, if it was requested and exists.
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
