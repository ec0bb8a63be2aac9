//! Reads a partition at one point in time.

use std::{ops::Bound, slice, vec};

use bytes::Bytes;
use hbase_client::{
    Cell, FromValue, IntoBytes, ReadFilter, Row, Scan, TableDescriptor, low_level::ScanParts,
};
use tokio::time::Instant;

use super::{
    commit::{
        Committer, partition_version,
        plan::other_partition,
        read::{rows_at_once, with_state},
    },
    cross::{intent::PartitionState, overlay, resolve::Written},
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
    /// The version and the intent of the partition, if they were read.
    state: PartitionState,
    /// Whether the rows are those after the transaction that holds the partition.
    is_laid_over: bool,
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
    /// Whether it is read for an update: with the version of the partition, which no transaction holds.
    for_update: bool,
}

impl Default for SnapshotOptions {
    fn default() -> Self {
        Self {
            max_rows: 100_000,
            max_bytes: 64 << 20,
            caching: None,
            start: Bytes::new(),
            stop: Bytes::new(),
            for_update: false,
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

    /// Also reads the version of the partition, at a time when no transaction across partitions holds it.
    pub(super) fn for_update(mut self) -> Self {
        self.for_update = true;
        self
    }

    pub(super) fn is_range(&self) -> bool {
        !self.start.is_empty() || !self.stop.is_empty()
    }

    fn includes(&self, row: &Bytes) -> bool {
        self.start <= *row && (self.stop.is_empty() || *row < self.stop)
    }

    /// Returns the scan of these rows of the partition, or `None` if the range can't have rows.
    fn scan(&self, partition: &Partition) -> Option<Scan> {
        let first = partition.first_key();
        let mut scan = if partition.is_lone_row() {
            if !self.includes(first) {
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
        let own = 1 + TRIALS.len();
        self.max_rows.saturating_add(1 + own)
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
    committer: &Committer,
    partition: Partition,
    options: &SnapshotOptions,
    deadline: Instant,
) -> Result<Snapshot> {
    let table = committer.table();
    let in_context = |error: Error| {
        let error = error.at_operation(OPERATION).at_table(table.name());
        partition.in_context(error)
    };
    options
        .check_range(&partition, table.terms())
        .map_err(in_context)?;
    let read = read_undisturbed(committer, &partition, options, deadline);
    let snapshot = read.await.map_err(in_context)?;
    // What is laid over may add some.
    check_rows(&snapshot.rows, options).map_err(in_context)?;
    Ok(snapshot)
}

fn check_rows(rows: &[Row], options: &SnapshotOptions) -> Result<()> {
    if rows.len() > options.max_rows {
        return Err(too_large(&counted(options.max_rows, "row"), "max_rows"));
    }
    Ok(())
}

/// Reads the partition, with what a transaction that holds it has committed. For an update, frees it first.
async fn read_undisturbed(
    committer: &Committer,
    partition: &Partition,
    options: &SnapshotOptions,
    deadline: Instant,
) -> Result<Snapshot> {
    loop {
        let mut snapshot = read_cells(committer.table(), partition, options, deadline).await?;
        let Some(holder) = snapshot.state.holder() else {
            return Ok(snapshot);
        };
        if options.for_update {
            committer.free(partition, holder, deadline).await?;
            continue;
        }
        match committer.committed_by(partition, holder, deadline).await? {
            Written::Nothing => return Ok(snapshot),
            Written::Redo(mutations) => {
                let timestamp = holder.newest();
                let is_inside = |row: &Bytes| options.includes(row);
                snapshot.is_laid_over = true;
                snapshot.rows = overlay::lay_over(snapshot.rows, mutations, timestamp, is_inside);
                return Ok(snapshot);
            }
            // The cells were read before that.
            Written::Applied => {}
        }
    }
}

/// Reads the cells of the partition, and its version and intent if there may be one, in one scan.
async fn read_cells(
    table: &ProvenTable,
    partition: &Partition,
    options: &SnapshotOptions,
    deadline: Instant,
) -> Result<Snapshot> {
    let reads_state = options.for_update || table.terms().cross_partition;
    let state_row = reads_state.then(|| partition_version::row(partition)).flatten();
    let scan = options.scan(partition);
    let mut rows = Vec::new();
    if let Some(scan) = select(table.terms(), scan, state_row.as_ref()) {
        let read = rows_at_once(table, OPERATION, partition, &scan, options.max_bytes, deadline).await?;
        rows = read.ok_or_else(|| too_large(&counted(options.max_bytes, "byte"), "max_bytes"))?;
    }
    let state = take_state(state_row.as_ref(), &mut rows)?;
    // Without a record family, servers are tested in a family of the user.
    let trials = TRIALS.map(|name| partition.reserved_row(name));
    rows.retain(|row| !trials.iter().flatten().any(|trial| trial == row.key()));
    check_rows(&rows, options)?;
    Ok(Snapshot {
        partition: partition.clone(),
        rows,
        state,
        is_laid_over: false,
    })
}

/// Selects the families, because a scan of all families would include the reserved ones, and the row of the
/// version. Returns `None` if there is nothing to read.
fn select(terms: &Terms, scan: Option<Scan>, state_row: Option<&Bytes>) -> Option<Scan> {
    let mut families: Vec<_> = terms.user_families().cloned().collect();
    families.sort_unstable();
    let scan = scan.filter(|_| !families.is_empty());
    let scan = scan.map(|scan| families.into_iter().fold(scan, Scan::family));
    let Some(row) = state_row else {
        return scan;
    };
    let scan = match scan {
        Some(scan) => including(scan, row),
        None => Scan::new().start_row(row.clone()).stop_row_inclusive(row.clone()),
    };
    Some(with_state(scan))
}

/// Adds a row to the range of a scan.
fn including(scan: Scan, row: &Bytes) -> Scan {
    let (start, stop) = (scan.range_start().clone(), scan.range_end().clone());
    let ends_before = !stop.is_empty() && stop <= *row;
    if start <= *row && !ends_before {
        return scan;
    }
    let end = if stop.is_empty() {
        Bound::Unbounded
    } else {
        Bound::Excluded(stop)
    };
    let ranges = [
        (Bound::Included(start.clone()), end),
        (Bound::Included(row.clone()), Bound::Included(row.clone())),
    ];
    let scan = scan.filter(ReadFilter::row_ranges(ranges));
    if ends_before {
        scan.stop_row_inclusive(row.clone())
    } else {
        scan.start_row(row.clone())
    }
}

/// Returns the bounds of the rows with a prefix: the first, and the key behind the last.
pub(super) fn prefix_range(prefix: impl IntoBytes) -> (Bytes, Bytes) {
    let scan = Scan::prefix(prefix);
    (scan.range_start().clone(), scan.range_end().clone())
}

pub(super) const OPERATION: &str = "snapshot";

/// Removes the version and the intent from the rows, and their row if that has no other cells.
fn take_state(row: Option<&Bytes>, rows: &mut Vec<Row>) -> Result<PartitionState> {
    let Some(key) = row else {
        return Ok(PartitionState::default());
    };
    let Ok(at) = rows.binary_search_by(|row| row.key().cmp(key)) else {
        return Ok(PartitionState::default());
    };
    let row = rows.remove(at);
    let state = PartitionState::of(Some(&row))?;
    let mut others = row.into_cells();
    others.retain(|cell| cell.family != TableDescriptor::VERSION_FAMILY);
    if !others.is_empty() {
        rows.insert(at, Row::new(key.clone(), others));
    }
    Ok(state)
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

    /// Returns the version and the intent of the partition, if they were read.
    pub(super) fn state(&self) -> &PartitionState {
        &self.state
    }

    /// Returns whether the rows are those after the transaction that holds the partition.
    pub(super) fn is_laid_over(&self) -> bool {
        self.is_laid_over
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
