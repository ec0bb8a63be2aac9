//! The columns and rows of a lock.
//!
//! Family, marker and row are those of the Java library. The owner and fencing columns, and the
//! companion row, are specific to this library.

use bytes::Bytes;
use hbase_client::TableDescriptor;

use crate::{lock::table::LockTableOptions, table_descriptor::TableDescriptorExt};

/// The family of a lock table.
pub(crate) const FAMILY: Bytes = Bytes::from_static(LockTableOptions::FAMILY.as_bytes());
/// The family of locks in partitions.
pub(crate) const PARTITION_FAMILY: Bytes = Bytes::from_static(TableDescriptor::LOCK_FAMILY.as_bytes());
/// The column of the marker: a value that is not empty means that the lock is held.
pub(crate) const MARKER: Bytes = Bytes::from_static(b"L");
/// The column of the owner: the holder, or how long cells may live under a released row.
pub(crate) const OWNER: Bytes = Bytes::from_static(b"O");
/// The column whose timestamp is the fencing number.
pub(crate) const FENCING: Bytes = Bytes::from_static(b"F");
/// The marker's value.
pub(crate) const HELD: Bytes = Bytes::from_static(b"M");
/// The column whose timestamp is the number of the last hold in a row of slots.
const NUMBER: Bytes = Bytes::from_static(b"N");
/// The column of the definition of a row of slots; locks have none.
pub(super) const DEFINITION: Bytes = Bytes::from_static(b"P");
/// The suffix of a companion's row key. No key of text has it, because `\xFF` does not occur in
/// UTF-8.
pub(crate) const COMPANION: &[u8] = b"\xff_own";

/// The rows of one lock, and their columns.
///
/// They are taken in this order and released in the opposite one. The first row has the fencing
/// cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LockRows {
    pub(crate) family: Bytes,
    pub(crate) rows: Vec<Bytes>,
    /// Whether a hold is appended to the value of an earlier one, and a released hold is never
    /// deleted.
    ///
    /// The server stamps an append after the existing cell, also in the endpoint for transactions,
    /// which stamps puts with its own time even if existing cells are ahead of it. Only a delete
    /// marker could hide an append.
    pub(crate) appended: bool,
    /// The columns in each row, if they are not those of a lock.
    slots: Vec<Columns>,
}

/// The columns of one hold in its row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Columns {
    pub(crate) marker: Bytes,
    pub(crate) owner: Bytes,
    /// Incremented with each change of the hold.
    pub(crate) fencing: Bytes,
    /// Incremented with each acquisition: its timestamp is the hold's fencing number.
    pub(crate) number: Bytes,
    /// The marker's value: [`HELD`], followed by data of the holder.
    pub(super) held: Bytes,
}

/// The columns of a lock, which has its own row.
pub(crate) static ALONE: Columns = Columns {
    marker: MARKER,
    owner: OWNER,
    fencing: FENCING,
    number: FENCING,
    held: HELD,
};

impl Columns {
    /// Returns the columns of a slot. All slots of a row share the number.
    pub(crate) fn of_slot(slot: &str, data: &[u8]) -> Self {
        let column = |column: &Bytes| [column, slot.as_bytes()].concat().into();
        Self {
            marker: column(&MARKER),
            owner: column(&OWNER),
            fencing: column(&FENCING),
            number: NUMBER,
            held: [&HELD, data].concat().into(),
        }
    }
}

/// A column in a row of slots. The slot's name is a suffix of its columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SlotColumn<'a> {
    Definition,
    Number,
    Marker(&'a [u8]),
    Owner(&'a [u8]),
    Fencing(&'a [u8]),
}

impl<'a> SlotColumn<'a> {
    /// Returns the column with this qualifier, or `None` if another program wrote it.
    pub(in crate::lock) fn of(qualifier: &'a [u8]) -> Option<Self> {
        if qualifier == DEFINITION {
            return Some(Self::Definition);
        }
        if qualifier == NUMBER {
            return Some(Self::Number);
        }
        let slot = |column: &Bytes| qualifier.strip_prefix(&column[..]);
        let marker = slot(&MARKER).map(Self::Marker);
        let owner = || slot(&OWNER).map(Self::Owner);
        let fencing = || slot(&FENCING).map(Self::Fencing);
        marker.or_else(owner).or_else(fencing)
    }
}

impl LockRows {
    /// Returns the lock row only, for rows that only clients of this library change.
    pub(crate) fn alone(family: Bytes, row: Bytes) -> Self {
        Self {
            family,
            rows: vec![row],
            appended: false,
            slots: Vec::new(),
        }
    }

    /// Returns slots of one row that form one hold with this data.
    pub(in crate::lock) fn slots(row: &Bytes, slots: &[String], data: &[u8]) -> Self {
        Self {
            family: FAMILY,
            rows: vec![row.clone(); slots.len()],
            appended: false,
            slots: slots.iter().map(|slot| Columns::of_slot(slot, data)).collect(),
        }
    }

    /// Returns a row of a partition, in which transactions also acquire and release locks.
    pub(crate) fn in_partition(row: Bytes) -> Self {
        Self {
            appended: true,
            ..Self::alone(PARTITION_FAMILY, row)
        }
    }

    /// Returns the companion row, in which the clients of this library exclude each other whatever
    /// a Java client does to the lock row, followed by the lock row.
    pub(crate) fn with_companion(row: Bytes) -> Self {
        let companion = [&row[..], COMPANION].concat().into();
        Self {
            family: FAMILY,
            rows: vec![companion, row],
            appended: false,
            slots: Vec::new(),
        }
    }

    /// Returns the columns in one of the rows.
    pub(in crate::lock) fn columns(&self, index: usize) -> &Columns {
        self.slots.get(index).unwrap_or(&ALONE)
    }

    /// Returns whether a read of the first row includes the tickets of processes that wait. Those in a row of
    /// slots are read with all of the row, not with the columns of a slot.
    pub(in crate::lock) fn has_queue(&self) -> bool {
        self.slots.is_empty()
    }

    /// Returns the row after which the lock is named.
    pub(crate) fn lock_row(&self) -> &Bytes {
        // Every constructor adds at least one row.
        &self.rows[self.rows.len() - 1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_columns_of_a_slot_are_known_by_their_names() {
        for slot in ["0", "1023", "W", "R7", "L", "N"] {
            let columns = Columns::of_slot(slot, b"data");
            let slot = slot.as_bytes();
            assert_eq!(SlotColumn::of(&columns.marker), Some(SlotColumn::Marker(slot)));
            assert_eq!(SlotColumn::of(&columns.owner), Some(SlotColumn::Owner(slot)));
            assert_eq!(SlotColumn::of(&columns.fencing), Some(SlotColumn::Fencing(slot)));
            assert_eq!(SlotColumn::of(&columns.number), Some(SlotColumn::Number));
        }
        assert_eq!(SlotColumn::of(&DEFINITION), Some(SlotColumn::Definition));
        for stranger in ["", "X", "l1", "P1", "N1"] {
            assert_eq!(SlotColumn::of(stranger.as_bytes()), None, "{stranger}");
        }
    }
}
