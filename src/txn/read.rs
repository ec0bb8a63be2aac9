//! The reads of a commit: the rows of its conditions, and timestamps that could hide its writes.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bytes::Bytes;
use hbase_client::{
    Cell, CellKind, Condition, Partition, Row, Scan,
    low_level::{AtOnce, RegionGuard, ScanParts, TableCalls},
};
use tokio::time::Instant;

use super::{
    plan::Group,
    proof::time_at,
    proven_table::ProvenTable,
    region_guard::{VisitedServers, WholePartition},
    sequence::{Extent, ToRead},
    terms::Terms,
};
use crate::error::{ClientErrorKind, Error, Result};

/// The maximum number of bytes read for one transaction.
const MAX_BYTES: usize = 256 << 20;

/// The maximum number of found columns of a row. Each may become a condition, which is a read by the
/// server.
const MAX_COLUMNS: usize = 1_000;

/// Rows at one point in time.
#[derive(Debug)]
pub(super) struct Rows(BTreeMap<Bytes, Row>);

/// The newest timestamps in the extents that a transaction writes.
#[derive(Debug)]
pub(super) struct Newest {
    /// The time of the region's server, in milliseconds since 1970.
    pub(super) now: u64,
    pub(super) by_row: HashMap<Bytes, Found>,
}

/// The cells and delete markers that were found in an extent of a row.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) extent: Extent,
    /// The newest timestamp, or 0 if nothing was found.
    pub(super) newest: u64,
    /// Family and qualifier of all cells, at most [`MAX_COLUMNS`].
    pub(super) columns: BTreeSet<(Bytes, Bytes)>,
}

impl Rows {
    pub(super) fn get(&self, key: &Bytes) -> Option<&Row> {
        self.0.get(key)
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
    /// Returns whether a cell or delete marker is in the extent, or hides cells in it.
    fn has(&self, cell: &Cell) -> bool {
        let Self::Parts { families, columns } = self else {
            return true;
        };
        let of_family = is_of_family(cell);
        families.contains(&cell.family)
            || columns.iter().any(|(family, qualifier)| {
                *family == cell.family && (of_family || *qualifier == cell.qualifier)
            })
    }
}

/// Whether a cell is a delete marker of a family.
fn is_of_family(cell: &Cell) -> bool {
    matches!(cell.kind, CellKind::DeleteFamily | CellKind::DeleteFamilyVersion)
}

/// Reads the rows and columns that the conditions of a group check, at one point in time.
pub(super) async fn rows_of_conditions(
    table: &ProvenTable,
    group: &Group,
    deadline: Instant,
) -> Result<Rows> {
    let mut scan = Scan::new();
    // A filter checks the whole row.
    if group
        .all_conditions()
        .all(|condition| condition.column().is_some())
    {
        let columns: BTreeSet<_> = group.all_conditions().filter_map(Condition::column).collect();
        for (family, qualifier) in columns {
            scan = scan.column(family.clone(), qualifier.clone());
        }
    }
    let rows = group
        .all_conditions()
        .map(|condition| condition.row().clone())
        .collect();
    rows_at_once(table, &WholePartition(&group.partition), rows, scan, deadline)
        .await
        .map(Rows)
}

/// Reads the newest timestamp in each of these extents: of any version, and of any delete marker. A
/// marker hides older puts, and other reads do not return it.
pub(super) async fn newest_timestamps(
    table: &ProvenTable,
    partition: &Partition,
    to_read: Vec<ToRead>,
    deadline: Instant,
) -> Result<Newest> {
    let extents: BTreeMap<Bytes, Extent> = to_read
        .into_iter()
        .map(|ToRead { row, extent }| (row, extent))
        .collect();
    // A raw scan takes families, but not columns.
    let scan = families_of(table.terms(), extents.values())
        .into_iter()
        .fold(Scan::new().raw(), Scan::family);
    let rows = extents.keys().cloned().collect();
    let visited = VisitedServers::of(partition);
    let found = rows_at_once(table, &visited, rows, scan, deadline).await?;
    let now = match visited.into_last() {
        Some(server) => time_at(table, partition, &server, deadline).await?,
        // Nothing had to be read, so nothing is stamped.
        None => 0,
    };
    let found_in = |(row, extent): (Bytes, Extent)| {
        let cells = found.get(&row).map(Row::cells).unwrap_or_default();
        let cells = || cells.iter().filter(|cell| extent.has(cell));
        let newest = cells().map(|cell| cell.timestamp).max().unwrap_or(0);
        let mut columns = BTreeSet::new();
        for cell in cells().filter(|cell| !is_of_family(cell)) {
            if columns.len() == MAX_COLUMNS {
                break;
            }
            columns.insert((cell.family.clone(), cell.qualifier.clone()));
        }
        let found = Found {
            extent,
            newest,
            columns,
        };
        (row, found)
    };
    Ok(Newest {
        now,
        by_row: extents.into_iter().map(found_in).collect(),
    })
}

fn families_of<'a>(terms: &Terms, extents: impl Iterator<Item = &'a Extent>) -> BTreeSet<Bytes> {
    let mut all = BTreeSet::new();
    for extent in extents {
        match extent {
            Extent::Row => {
                all.extend(terms.user_families().cloned());
            }
            Extent::Parts { families, columns } => {
                all.extend(families.iter().cloned());
                all.extend(columns.iter().map(|(family, _)| family.clone()));
            }
        }
    }
    all
}

/// Reads these rows of a partition at one point in time. The guard stops a region that does not
/// contain the whole partition.
async fn rows_at_once(
    table: &ProvenTable,
    guard: &dyn RegionGuard,
    rows: BTreeSet<Bytes>,
    scan: Scan,
    deadline: Instant,
) -> Result<BTreeMap<Bytes, Row>> {
    let (Some(first), Some(last)) = (rows.first().cloned(), rows.last().cloned()) else {
        return Ok(BTreeMap::new());
    };
    let scan = scan.start_row(first).stop_row_inclusive(last).only_rows(rows);
    let how = AtOnce {
        operation: "transaction",
        guard,
        max_bytes: MAX_BYTES,
        deadline,
    };
    let found = table.table().scan_at_once(&scan, how).await?.ok_or_else(|| {
        Error::new(
            ClientErrorKind::LimitExceeded,
            format!("the rows that the transaction reads have more than {MAX_BYTES} bytes"),
        )
    })?;
    Ok(found.into_iter().map(|row| (row.key().clone(), row)).collect())
}
