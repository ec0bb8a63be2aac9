//! The columns of a latch.
//!
//! Row, family and count columns are those of the Java library, which adds up all cells in that
//! family. The second family is specific to this library.

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use hbase_client::{Comparator, TableDescriptor};

use super::table::LatchTableOptions;
use crate::{java_layout::Level, table_descriptor::TableDescriptorExt};

/// The shortest time to live of a latch.
pub const MIN_LATCH_TTL: Duration = Duration::from_millis(100);
/// The longest time to live of a latch.
pub const MAX_LATCH_TTL: Duration = Duration::from_secs(366 * 24 * 3_600);
/// The family of the counts in a latch table.
pub(super) const COUNTS: Bytes = Bytes::from_static(LatchTableOptions::FAMILY.as_bytes());
/// The family of the state beyond the counts in a latch table.
pub(super) const STATE: Bytes = Bytes::from_static(LatchTableOptions::STATE_FAMILY.as_bytes());
/// The family of latches in partitions, which they share with locks.
pub(super) const PARTITION_FAMILY: Bytes = Bytes::from_static(TableDescriptor::LOCK_FAMILY.as_bytes());
/// The maximum length of a farm's name, in bytes.
pub(super) const MAX_FARM: usize = 255;
/// The prefix of count columns; the farm follows.
const COUNT: &[u8] = b"count_";
/// The prefix of the note's column. The farm follows if the latch is of one farm.
const NOTE: u8 = b'n';
/// The prefix of participants' columns.
const ARRIVED: u8 = b'a';

/// The cells of a latch in its row.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cells {
    pub(crate) row: Bytes,
    pub(crate) level: Level,
    /// The family of the counts.
    pub(crate) counts: Bytes,
    /// The family of the state beyond the counts. In a partition it is the same family.
    pub(crate) state: Bytes,
    /// The count column of this process's farm.
    pub(crate) own: Bytes,
    /// The column of the note. `None` in a table without the state family, as the Java library
    /// creates it.
    pub(crate) note: Option<Bytes>,
    farm: String,
}

impl Cells {
    pub(crate) fn new(row: Bytes, level: Level, farm: &str, has_state: bool) -> Self {
        let whose = farm_of(level, farm);
        let note = has_state.then(|| [&[NOTE], whose.as_bytes()].concat().into());
        Self {
            row,
            level,
            counts: COUNTS,
            state: STATE,
            own: [COUNT, farm.as_bytes()].concat().into(),
            note,
            farm: farm.to_owned(),
        }
    }

    /// Returns the comparator for the qualifiers of the latch's counts.
    pub(super) fn count_columns(&self) -> Comparator {
        match self.level {
            Level::Dc => Comparator::binary(self.own.clone()),
            Level::Xdc => Comparator::prefix(COUNT),
        }
    }

    /// Returns the cells of a latch in a row of a partition, which has no farms.
    pub(super) fn in_partition(row: Bytes) -> Self {
        Self {
            counts: PARTITION_FAMILY,
            state: PARTITION_FAMILY,
            ..Self::new(row, Level::Dc, "", true)
        }
    }

    /// Returns whether a cell must be a count.
    pub(super) fn is_count(&self, family: &[u8], qualifier: &[u8]) -> bool {
        family == self.counts && (self.counts != self.state || qualifier == self.own)
    }

    /// Returns the column that records the arrival of a participant.
    pub(super) fn arrived(&self, participant: &str) -> Bytes {
        let mut qualifier = self.arrivals_begin();
        qualifier.put_slice(participant.as_bytes());
        qualifier.freeze()
    }

    /// Returns the prefix of the columns of all its participants, and of no other column.
    pub(super) fn arrivals(&self) -> Bytes {
        self.arrivals_begin().freeze()
    }

    fn arrivals_begin(&self) -> BytesMut {
        let whose = farm_of(self.level, &self.farm).as_bytes();
        let mut qualifier = BytesMut::with_capacity(2 + whose.len());
        qualifier.put_u8(ARRIVED);
        // The length separates the farm from the participant.
        qualifier.put_u8(u8::try_from(whose.len()).unwrap_or(u8::MAX));
        qualifier.put_slice(whose);
        qualifier
    }
}

/// Returns what distinguishes the latches of a row: the farm, or nothing for the latch of all
/// farms.
fn farm_of(level: Level, farm: &str) -> &str {
    match level {
        Level::Dc => farm,
        Level::Xdc => "",
    }
}

/// Returns the farm of a note column, which is empty for the latch of all farms. `None` if the column
/// is not a note.
pub(super) fn farm_of_note(qualifier: &[u8]) -> Option<&[u8]> {
    qualifier.strip_prefix(&[NOTE])
}

/// Returns the farm of a count column, which is empty in a partition. `None` if the column is not a
/// count.
pub(super) fn farm(qualifier: &[u8]) -> Option<&[u8]> {
    qualifier.strip_prefix(COUNT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latches_of_one_row_have_columns_of_their_own() {
        let of = |level, farm| Cells::new("r".into(), level, farm, true);
        let (a, b) = (of(Level::Dc, "a"), of(Level::Dc, "ab"));
        let (x, y) = (of(Level::Xdc, "a"), of(Level::Xdc, "b"));
        assert_eq!(a.own, "count_a");
        assert_eq!(farm(&a.own), Some(&b"a"[..]));
        assert_eq!(farm(b"other"), None);
        assert_eq!((x.note.clone(), x.arrived("p")), (y.note.clone(), y.arrived("p")));
        assert_ne!(a.note, x.note);
        assert_ne!(a.note, b.note);
        assert_ne!(a.arrived("bp"), b.arrived("p"));
        assert!(!b.arrived("p").starts_with(&a.arrivals()));
        assert_eq!(Cells::new("r".into(), Level::Dc, "a", false).note, None);
    }
}
