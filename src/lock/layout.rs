//! The columns and rows of a lock.
//!
//! Family, marker and row are those of the Java library; owner and fencing columns, and the
//! companion row, are ours.

use bytes::Bytes;
use hbase_client::TableDescriptor;

use super::table::LockTableOptions;
use crate::table_descriptor::TableDescriptorExt;

/// The family of a lock table.
pub(crate) const FAMILY: Bytes = Bytes::from_static(LockTableOptions::FAMILY.as_bytes());
/// The family of locks in partitions.
pub(crate) const PARTITION_FAMILY: Bytes = Bytes::from_static(TableDescriptor::LOCK_FAMILY.as_bytes());
/// The column of the marker: a value that is not empty says that the lock is held.
pub(crate) const MARKER: Bytes = Bytes::from_static(b"L");
/// The column that says who holds it, or until when it may not be taken for less.
pub(crate) const OWNER: Bytes = Bytes::from_static(b"O");
/// The column whose timestamp is the fencing number.
pub(crate) const FENCING: Bytes = Bytes::from_static(b"F");
/// The marker's value.
pub(crate) const HELD: Bytes = Bytes::from_static(b"M");
/// The column whose timestamp is the number of the last hold in a row of slots.
const NUMBER: Bytes = Bytes::from_static(b"N");
/// The column that says what a row of slots is for; locks have none.
pub(super) const DEFINITION: Bytes = Bytes::from_static(b"P");
/// Behind the lock row's key; no key of text is like it, because `\xFF` is in no UTF-8.
pub(crate) const COMPANION: &[u8] = b"\xff_own";

/// The rows that make one lock, and where in them.
///
/// They are taken in this order and given back in the opposite one. The first has the fencing cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LockRows {
    pub(crate) family: Bytes,
    pub(crate) rows: Vec<Bytes>,
    /// Whether a hold is appended to what was left there, and what is given back is never deleted.
    ///
    /// The server stamps what is appended behind what is there, by a transaction's endpoint too,
    /// which stamps puts with its own time whatever lies ahead of it. A delete marker is the one
    /// thing that could hide it.
    pub(crate) appended: bool,
    /// The columns in each of the rows, where those are not a lock's.
    slots: Vec<Columns>,
}

/// The columns of one hold in its row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Columns {
    pub(crate) marker: Bytes,
    pub(crate) owner: Bytes,
    /// Counted on with each change of the hold.
    pub(crate) fencing: Bytes,
    /// Counted on with each hold: its timestamp is the hold's fencing number.
    pub(crate) number: Bytes,
}

/// Of a lock, which is alone in its row.
pub(crate) static ALONE: Columns = Columns {
    marker: MARKER,
    owner: OWNER,
    fencing: FENCING,
    number: FENCING,
};

impl Columns {
    /// Of a slot, one of many in their row, which have their numbers in common.
    pub(crate) fn of_slot(slot: &str) -> Self {
        let column = |column: &Bytes| [column, slot.as_bytes()].concat().into();
        Self {
            marker: column(&MARKER),
            owner: column(&OWNER),
            fencing: column(&FENCING),
            number: NUMBER,
        }
    }
}

/// The kind of a column of a row of slots; those of a slot are named after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SlotColumn<'a> {
    Definition,
    Number,
    Marker(&'a [u8]),
    Owner(&'a [u8]),
    Fencing(&'a [u8]),
}

impl<'a> SlotColumn<'a> {
    /// The column of this qualifier; none of a stranger's.
    pub(super) fn of(qualifier: &'a [u8]) -> Option<Self> {
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
    /// The lock row alone: for rows that only clients of this library touch.
    pub(crate) fn alone(family: Bytes, row: Bytes) -> Self {
        Self {
            family,
            rows: vec![row],
            appended: false,
            slots: Vec::new(),
        }
    }

    /// Slots of one row, which make one hold.
    pub(super) fn slots(row: &Bytes, slots: &[String]) -> Self {
        Self {
            family: FAMILY,
            rows: vec![row.clone(); slots.len()],
            appended: false,
            slots: slots.iter().map(|slot| Columns::of_slot(slot)).collect(),
        }
    }

    /// A row of a partition, in which transactions take and release locks too.
    pub(crate) fn in_partition(row: Bytes) -> Self {
        Self {
            appended: true,
            ..Self::alone(PARTITION_FAMILY, row)
        }
    }

    /// The companion row, in which the clients of this library exclude each other whatever a Java
    /// client does to the lock row, and behind it the lock row.
    pub(crate) fn with_companion(row: Bytes) -> Self {
        let companion = [&row[..], COMPANION].concat().into();
        Self {
            family: FAMILY,
            rows: vec![companion, row],
            appended: false,
            slots: Vec::new(),
        }
    }

    /// The columns in one of the rows.
    pub(super) fn columns(&self, index: usize) -> &Columns {
        self.slots.get(index).unwrap_or(&ALONE)
    }

    /// The row that gives the lock its name.
    pub(crate) fn lock_row(&self) -> &Bytes {
        // There is always one: whichever way this is made gives it rows.
        &self.rows[self.rows.len() - 1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_columns_of_a_slot_are_known_by_their_names() {
        for slot in ["0", "1023", "W", "R7", "L", "N"] {
            let columns = Columns::of_slot(slot);
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
