//! The stored cells of a region, and which of them a read sees.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet, btree_map},
    iter::repeat,
    ops::Bound,
};

use bytes::Bytes;

use super::{
    RowOrder,
    entry::{CellKey, Entry, Logged, Row},
    family::Family,
};
use crate::{
    cell::{Cell, Heap, Kind},
    exception::Result,
};

/// A row key, in the order of its region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RowKey {
    order: RowOrder,
    pub(super) row: Bytes,
}

#[derive(Clone, Debug)]
pub(super) struct Store {
    order: RowOrder,
    rows: BTreeMap<RowKey, Row>,
}

impl Ord for RowKey {
    fn cmp(&self, other: &Self) -> Ordering {
        match self.order {
            RowOrder::Bytes => self.row.cmp(&other.row),
            RowOrder::Meta => meta_parts(&self.row).cmp(&meta_parts(&other.row)),
        }
    }
}

impl PartialOrd for RowKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Returns table, start key and id of a row of `hbase:meta`, which are compared one by one: a start
/// key may contain commas.
fn meta_parts(row: &[u8]) -> (&[u8], &[u8], &[u8]) {
    let comma = |byte: &u8| *byte == b',';
    match (row.iter().position(comma), row.iter().rposition(comma)) {
        (Some(first), Some(last)) if first < last => (&row[..first], &row[first + 1..last], &row[last + 1..]),
        (Some(first), _) => (&row[..first], &row[first + 1..], b""),
        _ => (row, b"", b""),
    }
}

impl Store {
    pub(super) fn new(order: RowOrder) -> Self {
        Self {
            order,
            rows: BTreeMap::new(),
        }
    }

    pub(super) fn key(&self, row: &Bytes) -> RowKey {
        RowKey {
            order: self.order,
            row: row.clone(),
        }
    }

    pub(super) fn row(&self, row: &Bytes) -> Option<&Row> {
        self.rows.get(&self.key(row))
    }

    pub(super) fn range(&self, range: (Bound<RowKey>, Bound<RowKey>)) -> btree_map::Range<'_, RowKey, Row> {
        self.rows.range(range)
    }

    pub(super) fn insert(&mut self, cell: Cell, logged: Logged) {
        let key = CellKey::of(&cell);
        let entry = Entry {
            value: cell.value,
            ttl: cell.ttl,
            file: None,
            logged,
        };
        let row = RowKey {
            order: self.order,
            row: cell.row,
        };
        self.rows.entry(row).or_default().insert(key, entry);
    }

    /// Removes from memory what an increment or append replaces in a family of one version: all puts
    /// of the column but the newest one that all open scanners see.
    pub(super) fn forget_replaced(&mut self, cell: &Cell, read_point: u64) {
        let key = self.key(&cell.row);
        let Some(row) = self.rows.get_mut(&key) else {
            return;
        };
        let behind: Vec<CellKey> = row
            .range((Bound::Excluded(CellKey::of(cell)), Bound::Unbounded))
            .take_while(|(key, _)| key.family == cell.family && key.qualifier == cell.qualifier)
            .filter(|(key, entry)| {
                entry.file.is_none() && key.kind.0 == Kind::Put && key.sequence.0 <= read_point
            })
            .map(|(key, _)| key.clone())
            .collect();
        for key in behind.into_iter().skip(1) {
            row.remove(&key);
        }
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = (&CellKey, &Entry)> {
        self.rows.values().flatten()
    }

    /// Returns the files, and memory as `None`, in which no cell of a family is in a range of times:
    /// a read leaves them out with their markers.
    pub(super) fn files_without(&self, family: &Bytes, (from, to): (u64, u64)) -> BTreeSet<Option<u32>> {
        if (from, to) == (0, u64::MAX) {
            return BTreeSet::new();
        }
        let mut spans: BTreeMap<Option<u32>, (u64, u64)> = BTreeMap::new();
        for (key, entry) in self.entries().filter(|(key, _)| key.family == *family) {
            let timestamp = key.timestamp.0;
            // Such a marker is about all times before.
            let first = match key.kind.0 {
                Kind::DeleteColumn | Kind::DeleteFamily => 0,
                _ => timestamp,
            };
            let span = spans.entry(entry.file).or_insert((first, timestamp));
            *span = (span.0.min(first), span.1.max(timestamp));
        }
        spans.retain(|_, (first, last)| *first >= to || *last < from);
        spans.into_keys().collect()
    }

    pub(super) fn retain(&mut self, mut keep: impl FnMut(&CellKey, &mut Entry) -> bool) {
        for row in self.rows.values_mut() {
            row.retain(&mut keep);
        }
        self.rows.retain(|_, row| !row.is_empty());
    }

    /// Rewrites the cells that are selected as one file, without those of a family of a row that are
    /// not kept. Cells behind the read point, which open scanners do not see, stay and mask nothing.
    pub(super) fn rewrite(
        &mut self,
        families: &BTreeMap<Bytes, Family>,
        file: u32,
        read_point: u64,
        selected: impl Fn(&Entry) -> bool,
        kept: impl Fn(&[(CellKey, Entry)], Family) -> Result<Vec<bool>>,
    ) -> Result<()> {
        for row in self.rows.values_mut() {
            for (name, family) in families {
                let cells: Vec<(CellKey, Entry)> = row
                    .range(CellKey::first_of(name.clone(), Bytes::new())..)
                    .take_while(|(key, _)| key.family == *name)
                    .filter(|(_, entry)| selected(entry))
                    .map(|(key, entry)| (key.clone(), entry.clone()))
                    .collect();
                let (old, new): (Vec<_>, Vec<_>) = cells
                    .into_iter()
                    .partition(|(key, _)| key.sequence.0 <= read_point);
                let kept = kept(&old, *family)?;
                let cells = old.into_iter().zip(kept).chain(new.into_iter().zip(repeat(true)));
                for ((key, mut entry), kept) in cells {
                    row.remove(&key);
                    if kept {
                        entry.file = Some(file);
                        row.insert(key, entry);
                    }
                }
            }
        }
        self.rows.retain(|_, row| !row.is_empty());
        Ok(())
    }

    /// Takes the rows at and behind a key out.
    pub(super) fn split_off(&mut self, row: &Bytes) -> Self {
        let key = self.key(row);
        Self {
            order: self.order,
            rows: self.rows.split_off(&key),
        }
    }

    pub(super) fn append(&mut self, mut other: Self) {
        self.rows.append(&mut other.rows);
    }
}

pub(super) fn to_cell(row: &Bytes, key: &CellKey, entry: &Entry) -> Cell {
    /// The overheads of `ByteBufferKeyValue` and `SizeCachedKeyValue`.
    const IN_MEMORY: u64 = 32;
    const IN_FILE: u64 = 38;
    let mut cell = Cell {
        row: row.clone(),
        family: key.family.clone(),
        qualifier: key.qualifier.clone(),
        timestamp: key.timestamp.0,
        kind: key.kind.0,
        sequence: key.sequence.0,
        value: entry.value.clone(),
        ttl: entry.ttl,
        heap: Heap::default(),
    };
    let length = cell.length();
    cell.heap = match entry.file {
        None => Heap::Memory((IN_MEMORY + length).next_multiple_of(8)),
        Some(_) => Heap::File(IN_FILE + length),
    };
    cell
}
