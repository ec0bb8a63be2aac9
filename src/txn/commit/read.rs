//! The reads of a commit: the rows of its conditions, and timestamps that could hide its writes.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    slice,
};

use bytes::Bytes;
use hbase_client::{
    BytesBinary, Cell, CellKind, Condition, Mutation, ReadFilter, Row, Scan, TableDescriptor, TimeRange,
    low_level::{CallKind, LATEST_TIMESTAMP, MutationParts, RegionCall, ScanParts},
};
use tokio::time::Instant;

use super::{
    deletions, partition_version,
    plan::Group,
    sequence::{Extent, Seen, ToRead, is_ahead},
};
use crate::{
    error::{ClientErrorKind, Error, Result},
    partition::Partition,
    table_descriptor::TableDescriptorExt,
    txn::{
        cross::intent::{INTENT, PartitionState},
        partition_call::{NotReady, PartitionCall, locate_whole},
        proof::{self, proven_table::ProvenTable, servers::ServerTime},
    },
};

/// The maximum number of bytes read for one transaction.
const MAX_BYTES: usize = 256 << 20;

/// The maximum number of cells of a row that a transaction deletes. Their timestamps are part of a
/// condition.
const MAX_CELLS: usize = 100_000;

/// Rows at one point in time.
#[derive(Debug)]
pub(in crate::txn) struct Rows(BTreeMap<Bytes, Row>);

/// The newest timestamps in the extents that a transaction writes.
#[derive(Debug)]
pub(super) struct Newest {
    /// The time of the region's server.
    pub(in crate::txn) now: ServerTime,
    pub(super) by_row: HashMap<Bytes, Found>,
}

/// The cells and delete markers that were found in a row.
#[derive(Debug)]
pub(in crate::txn) struct Found {
    pub(in crate::txn) extent: Extent,
    /// The newest timestamp in the extent, or in the row if the extent has a whole family; or, if that
    /// is later, the time from which on timestamps were read.
    pub(in crate::txn) newest: u64,
    /// The newest cells of the row, including deleted ones, if the extent has a whole family.
    cells: Vec<Cell>,
    /// Whether any of these cells is not deleted.
    pub(super) has_cells: bool,
    /// Whether a server has set the newest timestamp, of a placeholder.
    is_placeholder: bool,
    /// Whether the newest timestamp is so far ahead of the server's clock that no call waits for it.
    pub(super) is_ahead: bool,
}

impl Newest {
    /// Returns the rows of which a family or all is deleted and that have no cell.
    pub(super) fn deleted_rows_without_cells(&self) -> BTreeSet<Bytes> {
        let is_empty = |found: &Found| found.extent.has_families() && !found.has_cells;
        let rows = self.by_row.iter().filter(|(_, found)| is_empty(found));
        rows.map(|(row, _)| row.clone()).collect()
    }
}

impl Found {
    pub(in crate::txn) fn seen(&self) -> Seen<'_> {
        Seen {
            extent: &self.extent,
            newest: self.newest,
            is_ahead: self.is_ahead,
        }
    }

    /// Returns the timestamps of the row's newest cells.
    pub(in crate::txn) fn timestamps(&self) -> BTreeSet<u64> {
        self.cells.iter().map(|cell| cell.timestamp).collect()
    }

    /// Returns family and qualifier of the columns of a family, or of the row, each with the
    /// timestamp of its newest cell.
    pub(in crate::txn) fn columns(&self, family: Option<&Bytes>) -> BTreeMap<(&Bytes, &Bytes), u64> {
        let mut columns = BTreeMap::new();
        for cell in &self.cells {
            if family.is_none_or(|family| *family == cell.family) {
                let newest: &mut u64 = columns.entry((&cell.family, &cell.qualifier)).or_default();
                *newest = cell.timestamp.max(*newest);
            }
        }
        columns
    }
}

impl Rows {
    pub(in crate::txn) fn get(&self, key: &Bytes) -> Option<&Row> {
        self.0.get(key)
    }

    /// Returns the state of a partition, which was read with the rows.
    pub(super) fn state(&self, partition: &Partition) -> Result<PartitionState> {
        let row = partition_version::row(partition);
        PartitionState::of(row.and_then(|row| self.get(&row)))
    }

    /// Returns whether all cells that a group increments are counters, or absent.
    pub(super) fn has_only_counters(&self, group: &Group) -> bool {
        counters(group).all(|(row, family, qualifier)| {
            let value = self.get(row).and_then(|row| row.value(family, qualifier));
            value.is_none_or(|value| value.len() == size_of::<i64>())
        })
    }

    /// Returns whether the column of a condition has no value, or an empty one.
    pub(super) fn value_is_absent(&self, condition: &Condition) -> bool {
        let value = || {
            let (family, qualifier) = condition.column()?;
            self.get(condition.row())?.value(family, qualifier)
        };
        value().is_none_or(Bytes::is_empty)
    }
}

impl Extent {
    /// Returns whether a cell or delete marker is in one of the columns, or hides cells in it.
    fn has(&self, cell: &Cell) -> bool {
        let Self::Parts { columns, .. } = self else {
            return true;
        };
        let of_family = is_of_family(cell);
        columns
            .iter()
            .any(|(family, qualifier)| *family == cell.family && (of_family || *qualifier == cell.qualifier))
    }
}

/// Whether a cell is a delete marker of a family.
fn is_of_family(cell: &Cell) -> bool {
    matches!(cell.kind, CellKind::DeleteFamily | CellKind::DeleteFamilyVersion)
}

/// Reads the rows and columns that the conditions of a group check, at one point in time. On a table with
/// transactions across partitions, also the state of the partition, and the cells that the group increments.
pub(super) async fn rows_of_conditions(
    table: &ProvenTable,
    group: &Group,
    deadline: Instant,
) -> Result<Rows> {
    let mut scan = Scan::new();
    let state = state_row(table, &group.partition);
    let counters = || state.iter().flat_map(|_| counters(group));
    // A filter checks the whole row.
    if group
        .all_conditions()
        .all(|condition| condition.column().is_some())
    {
        let mut columns: BTreeSet<_> = group.all_conditions().filter_map(Condition::column).collect();
        columns.extend(counters().map(|(_, family, qualifier)| (family, qualifier)));
        for (family, qualifier) in columns {
            scan = scan.column(family.clone(), qualifier.clone());
        }
        if state.is_some() {
            scan = with_state(scan);
        }
    }
    let mut rows: BTreeSet<_> = group.all_conditions().map(Condition::row).collect();
    rows.extend(counters().map(|(row, ..)| row));
    rows.extend(state.as_ref());
    let Some(scan) = scan_of(&scan, rows.iter().copied()) else {
        return Ok(Rows(BTreeMap::new()));
    };
    let rows = rows_at_once(table, "transaction", &group.partition, &scan, MAX_BYTES, deadline).await?;
    Ok(Rows(by_key(within_limit(rows, MAX_BYTES)?)))
}

/// Returns the row of the version and the intent of a partition, or `None` if it can't have an intent.
pub(in crate::txn) fn state_row(table: &ProvenTable, partition: &Partition) -> Option<Bytes> {
    let row = || partition_version::row(partition);
    table.terms().cross_partition.then(row).flatten()
}

/// Adds the version and the intent to the columns of a scan.
pub(in crate::txn) fn with_state(scan: Scan) -> Scan {
    let family = TableDescriptor::VERSION_FAMILY;
    scan.column(family, partition_version::QUALIFIER)
        .column(family, INTENT)
}

/// Returns row, family and qualifier of the cells that a group increments.
fn counters(group: &Group) -> impl Iterator<Item = (&Bytes, &Bytes, &Bytes)> {
    group.mutations.iter().flat_map(|mutation| {
        let counters = match mutation {
            Mutation::Increment(increment) => increment.parts(),
            _ => &[],
        };
        let row = mutation.row();
        counters
            .iter()
            .map(move |counter| (row, &counter.family, &counter.qualifier))
    })
}

/// The delete markers of a row.
#[derive(Default)]
struct Markers<'a> {
    /// For each family, the newest timestamp up to which cells are deleted.
    families: HashMap<&'a Bytes, u64>,
    columns: HashMap<(&'a Bytes, &'a Bytes), u64>,
    versions_of_families: HashSet<(&'a Bytes, u64)>,
    versions: HashSet<(&'a Bytes, &'a Bytes, u64)>,
}

impl<'a> Markers<'a> {
    fn of(row: &'a [Cell]) -> Self {
        let mut markers = Self::default();
        for cell in row {
            let (family, qualifier, timestamp) = (&cell.family, &cell.qualifier, cell.timestamp);
            match cell.kind {
                CellKind::DeleteFamily => {
                    let newest = markers.families.entry(family).or_default();
                    *newest = timestamp.max(*newest);
                }
                CellKind::DeleteColumn => {
                    let newest = markers.columns.entry((family, qualifier)).or_default();
                    *newest = timestamp.max(*newest);
                }
                CellKind::DeleteFamilyVersion => {
                    markers.versions_of_families.insert((family, timestamp));
                }
                CellKind::Delete => {
                    markers.versions.insert((family, qualifier, timestamp));
                }
                _ => {}
            }
        }
        markers
    }

    fn hide(&self, cell: &Cell) -> bool {
        let (family, qualifier, timestamp) = (&cell.family, &cell.qualifier, cell.timestamp);
        let up_to = self
            .families
            .get(family)
            .max(self.columns.get(&(family, qualifier)));
        up_to.is_some_and(|up_to| *up_to >= timestamp)
            || self.versions_of_families.contains(&(family, timestamp))
            || self.versions.contains(&(family, qualifier, timestamp))
    }
}

/// Reads the newest timestamp in each of these extents: of any version, and of any delete marker. A
/// marker hides older puts, and other reads do not return it.
///
/// What is older than a time that the server's clock has passed hides nothing that the server stamps
/// from now on. It is not read, so that a row does not get slower with each version that it has. Of a
/// row of which a family is deleted all is read if it is guarded: its cells become a condition.
///
/// # Errors
///
/// Returns [`LimitExceeded`](ClientErrorKind::LimitExceeded) if a row of which a family is deleted has
/// too many cells.
pub(super) async fn newest_timestamps(
    table: &ProvenTable,
    partition: &Partition,
    to_read: Vec<ToRead>,
    is_guarded: bool,
    deadline: Instant,
) -> Result<Newest> {
    let extents: BTreeMap<Bytes, Extent> = to_read
        .into_iter()
        .map(|ToRead { row, extent }| (row, extent))
        .collect();
    // A raw scan takes families, but not columns.
    let scan = families_of(extents.values())
        .into_iter()
        .fold(Scan::new().raw().filter(ReadFilter::key_only()), Scan::family);
    let becomes_condition = is_guarded && extents.values().any(Extent::has_families);
    let reads_all = becomes_condition || !table.compares_clocks(partition);
    let Some(scan) = scan_of(&scan, extents.keys()) else {
        // Nothing is stamped.
        return Ok(Newest {
            now: ServerTime::default(),
            by_row: HashMap::new(),
        });
    };
    let mut call = PartitionCall::new(table, partition, partition.first_key(), CallKind::Read, deadline);
    loop {
        let from = if reads_all { 0 } else { table.servers().past() };
        let scan = scan.clone().time_range(TimeRange {
            from,
            to: LATEST_TIMESTAMP,
        });
        // What a region had before it was opened is not ahead of its server's clock afterwards.
        call.set_floor(from);
        let location = call.ready().await?;
        let read: Result<_, NotReady> = async {
            let rows = call.attempts.attempt(&location).scan(&scan, MAX_BYTES).await?;
            let by_row = found_in(&extents, by_key(within_limit(rows, MAX_BYTES)?), from)?;
            let newest = by_row.values().map(|found: &Found| found.newest).max();
            let now = proof::time_at(&mut call, &location, newest.unwrap_or(0)).await?;
            Ok((by_row, now))
        }
        .await;
        match read {
            Ok((mut by_row, now)) => {
                // A placeholder that was put on another server may be ahead of this one's clock for a
                // while. What is stamped behind it would hide the writes of others until then.
                by_row.values_mut().for_each(|found| {
                    found.is_ahead = !found.is_placeholder && is_ahead(found.newest, now);
                });
                return Ok(Newest { now, by_row });
            }
            Err(reason) => call.recover(&location, reason).await?,
        }
    }
}

/// Sorts the cells that were read, without what is older than `from`, into the extents of their rows.
fn found_in(
    extents: &BTreeMap<Bytes, Extent>,
    mut found: BTreeMap<Bytes, Row>,
    from: u64,
) -> Result<HashMap<Bytes, Found>> {
    let found_in = |(row, extent): (&Bytes, &Extent)| {
        let cells = found.remove(row).map(Row::into_cells).unwrap_or_default();
        // That a family is unchanged is checked with the rest of the row.
        let mut in_extent = cells
            .iter()
            .filter(|cell| extent.has_families() || extent.has(cell));
        let timestamps = in_extent.clone().map(|cell| cell.timestamp);
        let newest = timestamps.max().unwrap_or(0).max(from);
        let is_placeholder =
            in_extent.any(|cell| cell.timestamp == newest && deletions::is_placeholder(cell));
        let (mut values, mut has_cells) = (Vec::new(), false);
        if extent.has_families() {
            let markers = Markers::of(&cells);
            let is_value = |cell: &&Cell| cell.kind == CellKind::Put;
            has_cells = cells.iter().filter(is_value).any(|cell| !markers.hide(cell));
            values = cells.iter().filter(is_value).cloned().collect();
        }
        if values.len() > MAX_CELLS {
            let cells = values.len();
            return Err(too_many_cells(cells).at_row(&BytesBinary(row)));
        }
        let found = Found {
            extent: extent.clone(),
            newest,
            cells: values,
            has_cells,
            is_placeholder,
            is_ahead: false,
        };
        Ok((row.clone(), found))
    };
    extents.iter().map(found_in).collect()
}

fn too_many_cells(cells: usize) -> Error {
    Error::new(
        ClientErrorKind::LimitExceeded,
        format!("a row that the transaction deletes has {cells} cells, more than {MAX_CELLS}"),
    )
    .with_hint("delete its columns in several transactions")
}

/// Returns the families to read, none for all: whether a whole family is unchanged is checked with
/// the rest of its row.
fn families_of<'a>(extents: impl Iterator<Item = &'a Extent>) -> BTreeSet<Bytes> {
    let mut all = BTreeSet::new();
    for extent in extents {
        match extent {
            Extent::Parts { families, columns } if families.is_empty() => {
                all.extend(columns.iter().map(|(family, _)| family.clone()));
            }
            _ => return BTreeSet::new(),
        }
    }
    all
}

/// Restricts a scan to some rows of a partition. Returns `None` if there are none.
fn scan_of<'r>(scan: &Scan, rows: impl DoubleEndedIterator<Item = &'r Bytes> + Clone) -> Option<Scan> {
    let (first, last) = (rows.clone().next()?.clone(), rows.clone().next_back()?.clone());
    let scan = scan.clone().start_row(first).stop_row_inclusive(last);
    Some(scan.only_rows(rows.cloned().collect()))
}

/// Reads all rows of a scan of a partition at one point in time. Returns `None` if they have more bytes
/// than this.
pub(in crate::txn) async fn rows_at_once(
    table: &ProvenTable,
    operation: &'static str,
    partition: &Partition,
    scan: &Scan,
    max_bytes: usize,
    deadline: Instant,
) -> Result<Option<Vec<Row>>> {
    let row = scan.range_start();
    let mut attempts = RegionCall::new(table.table(), operation, row, CallKind::Read, deadline);
    loop {
        let location = locate_whole(&mut attempts, slice::from_ref(partition)).await?;
        match attempts.attempt(&location).scan(scan, max_bytes).await {
            Ok(rows) => return Ok(rows),
            Err(failed) => attempts.recover(failed).await?,
        }
    }
}

fn by_key(rows: Vec<Row>) -> BTreeMap<Bytes, Row> {
    rows.into_iter().map(|row| (row.key().clone(), row)).collect()
}

fn within_limit(rows: Option<Vec<Row>>, max_bytes: usize) -> Result<Vec<Row>> {
    rows.ok_or_else(|| {
        Error::new(
            ClientErrorKind::LimitExceeded,
            format!("the rows that the transaction reads have more than {max_bytes} bytes"),
        )
    })
}
