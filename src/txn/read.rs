//! Reads that a commit needs: what its conditions look at, and what its writes would be hidden by.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bytes::Bytes;
use tokio::time::Instant;

use super::{
    partitioned_table::PartitionedTable,
    plan::Group,
    sequence::{Extent, Sequence, ToRead},
    snapshot::WholePartition,
};
use crate::{
    client::AtOnce,
    error::{Error, ErrorKind, Result},
    model::{Cell, CellKind, Condition, Partition, Row, Scan, TableDescriptor},
};

/// The most bytes that are read for one transaction.
const MAX_BYTES: usize = 256 << 20;

/// Rows as they were at one moment.
#[derive(Debug)]
pub(super) struct Rows(BTreeMap<Bytes, Row>);

impl Rows {
    pub(super) fn get(&self, key: &Bytes) -> Option<&Row> {
        self.0.get(key)
    }

    /// Whether the column that a condition looks at has no value, or an empty one.
    pub(super) fn value_is_absent(&self, condition: &Condition) -> bool {
        let value = || {
            let (family, qualifier) = condition.column()?;
            self.get(condition.row())?.value(family, qualifier)
        };
        value().is_none_or(Bytes::is_empty)
    }
}

impl Extent {
    /// Whether a cell, or a delete marker, is in it or hides what is.
    fn has(&self, cell: &Cell) -> bool {
        let Self::Parts { families, columns } = self else {
            return true;
        };
        let of_family = matches!(cell.kind, CellKind::DeleteFamily | CellKind::DeleteFamilyVersion);
        families.contains(&cell.family)
            || columns.iter().any(|(family, qualifier)| {
                *family == cell.family && (of_family || *qualifier == cell.qualifier)
            })
    }
}

impl PartitionedTable {
    /// What the conditions of a group look at, as it is at one moment.
    pub(super) async fn rows_of_conditions(&self, group: &Group, deadline: Instant) -> Result<Rows> {
        let mut scan = Scan::new();
        // A filter is asked about the whole row.
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
        self.rows_at_once(&group.partition, rows, scan, deadline)
            .await
            .map(Rows)
    }

    /// The newest timestamp that is found where a sequence of operations writes, by row: of any version, and of any
    /// delete marker, which hides what is put under it and is not seen by other reads.
    pub(super) async fn newest_timestamps(
        &self,
        partition: &Partition,
        sequence: &Sequence<'_>,
        deadline: Instant,
    ) -> Result<HashMap<Bytes, u64>> {
        let extents: BTreeMap<Bytes, Extent> = sequence
            .to_read()
            .into_iter()
            .map(|ToRead { row, extent }| (row, extent))
            .collect();
        // A raw scan takes families, but no columns.
        let scan = self
            .families_of(extents.values())
            .into_iter()
            .fold(Scan::new().raw(), Scan::family);
        let rows = extents.keys().cloned().collect();
        let found = self.rows_at_once(partition, rows, scan, deadline).await?;
        Ok(found
            .into_iter()
            .filter_map(|(key, row)| {
                let extent = extents.get(&key)?;
                let cells = row.cells().iter().filter(|cell| extent.has(cell));
                let newest = cells.map(|cell| cell.timestamp).max()?;
                Some((key, newest))
            })
            .collect())
    }

    fn families_of<'a>(&self, extents: impl Iterator<Item = &'a Extent>) -> BTreeSet<Bytes> {
        let mut all = BTreeSet::new();
        for extent in extents {
            match extent {
                Extent::Row => {
                    let families = self.terms().families.iter();
                    all.extend(
                        families
                            .filter(|family| !TableDescriptor::reserves_family(family))
                            .cloned(),
                    );
                }
                Extent::Parts { families, columns } => {
                    all.extend(families.iter().cloned());
                    all.extend(columns.iter().map(|(family, _)| family.clone()));
                }
            }
        }
        all
    }

    /// These rows of a partition, as they are at one moment.
    async fn rows_at_once(
        &self,
        partition: &Partition,
        rows: BTreeSet<Bytes>,
        scan: Scan,
        deadline: Instant,
    ) -> Result<BTreeMap<Bytes, Row>> {
        let (Some(first), Some(last)) = (rows.first().cloned(), rows.last().cloned()) else {
            return Ok(BTreeMap::new());
        };
        let scan = scan.start(first).stop_inclusive(last).only_rows(rows);
        let how = AtOnce {
            operation: "transaction",
            guard: &WholePartition(partition),
            max_bytes: MAX_BYTES,
            deadline,
        };
        let found = self.table().scan_at_once(&scan, how).await?.ok_or_else(|| {
            Error::new(
                ErrorKind::LimitExceeded,
                format!("the rows that the transaction looks at have more than {MAX_BYTES} bytes"),
            )
        })?;
        Ok(found.into_iter().map(|row| (row.key().clone(), row)).collect())
    }
}
