//! The columns of a latch.
//!
//! Row, family and count columns are those of the Java library, which adds up whatever it finds in
//! that family. The second family is ours.

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use hbase_client::{Comparator, TableDescriptor};

use super::table::LatchTableOptions;
use crate::{java_layout::Level, table_descriptor::TableDescriptorExt};

/// The shortest life of a latch.
pub const MIN_LATCH_TTL: Duration = Duration::from_millis(100);
/// The longest life of a latch.
pub const MAX_LATCH_TTL: Duration = Duration::from_secs(366 * 24 * 3_600);
/// The family of the counts in a latch table.
const COUNTS: Bytes = Bytes::from_static(LatchTableOptions::FAMILY.as_bytes());
/// The family of what is known there of a latch beside its counts.
pub(super) const STATE: Bytes = Bytes::from_static(LatchTableOptions::STATE_FAMILY.as_bytes());
/// The family of latches in partitions, which they share with locks.
pub(super) const PARTITION_FAMILY: Bytes = Bytes::from_static(TableDescriptor::LOCK_FAMILY.as_bytes());
/// The longest name of a farm, in bytes.
pub(super) const MAX_FARM: usize = 255;
/// What count columns begin with; the farm follows.
const COUNT: &[u8] = b"count_";
/// What the column of the note begins with; the farm follows, of a latch of one farm.
const NOTE: u8 = b'n';
/// What columns of participants begin with.
const ARRIVED: u8 = b'a';

/// A latch in its row: which cells are its own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Cells {
    pub(crate) row: Bytes,
    pub(crate) level: Level,
    /// The family of the counts.
    pub(crate) counts: Bytes,
    /// The family of what is known beside them. In a partition it is the same.
    pub(crate) state: Bytes,
    /// The count column of the farm that counts here.
    pub(crate) own: Bytes,
    /// The column of the note; none in a table without a family for it, as the Java library makes
    /// it.
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

    /// What the qualifiers of the counts that make the latch are like, and no others.
    pub(super) fn count_columns(&self) -> Comparator {
        match self.level {
            Level::Dc => Comparator::binary(self.own.clone()),
            Level::Xdc => Comparator::prefix(COUNT),
        }
    }

    /// A latch in a row of a partition, where there are no farms.
    pub(super) fn in_partition(row: Bytes) -> Self {
        Self {
            counts: PARTITION_FAMILY,
            state: PARTITION_FAMILY,
            ..Self::new(row, Level::Dc, "", true)
        }
    }

    /// Whether a cell must be a count.
    pub(super) fn is_count(&self, family: &[u8], qualifier: &[u8]) -> bool {
        family == self.counts && (self.counts != self.state || qualifier == self.own)
    }

    /// The column that says that a participant has arrived.
    pub(super) fn arrived(&self, participant: &str) -> Bytes {
        let mut qualifier = self.arrivals_begin();
        qualifier.put_slice(participant.as_bytes());
        qualifier.freeze()
    }

    /// What the columns of all its participants begin with, and no other.
    pub(super) fn arrivals(&self) -> Bytes {
        self.arrivals_begin().freeze()
    }

    fn arrivals_begin(&self) -> BytesMut {
        let whose = farm_of(self.level, &self.farm).as_bytes();
        let mut qualifier = BytesMut::with_capacity(2 + whose.len());
        qualifier.put_u8(ARRIVED);
        // The length tells where the farm ends and the participant begins.
        qualifier.put_u8(u8::try_from(whose.len()).unwrap_or(u8::MAX));
        qualifier.put_slice(whose);
        qualifier
    }
}

/// What tells latches of a row apart: the farm, or nothing for that of all farms.
fn farm_of(level: Level, farm: &str) -> &str {
    match level {
        Level::Dc => farm,
        Level::Xdc => "",
    }
}

/// The farm of a count column, empty in a partition; none for a column that is no count.
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
