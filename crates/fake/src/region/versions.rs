//! Markers and versions: which cells of a family are masked, and how many versions count.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::{
    entry::{CellKey, Entry},
    family::Family,
};
use crate::cell::Kind;

/// The markers seen so far in one family of a row, and the versions of the present column. Cells
/// come in order.
#[derive(Debug)]
pub(super) struct Tracker {
    by_sequence: bool,
    /// The most versions of a column.
    most: u32,
    family: Markers,
    column: Markers,
    qualifier: Option<Bytes>,
    /// Timestamp and kind of the cell before, in its column.
    before: Option<(u64, Kind)>,
    count: u32,
}

/// Markers with their sequences.
#[derive(Clone, Debug, Default)]
struct Markers {
    /// Each masks all versions up to its timestamp.
    ranges: Vec<(u64, u64)>,
    /// Each masks one version.
    points: BTreeMap<u64, Vec<u64>>,
}

impl Markers {
    fn mask(&self, timestamp: u64, sequence: u64, by_sequence: bool) -> bool {
        let later = |marker: u64| !by_sequence || marker >= sequence;
        self.ranges
            .iter()
            .any(|(upto, marker)| timestamp <= *upto && later(*marker))
            || self
                .points
                .get(&timestamp)
                .is_some_and(|markers| markers.iter().any(|marker| later(*marker)))
    }
}

/// What becomes of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Visible,
    Masked,
    /// A copy of the version before.
    Duplicate,
    /// There are enough versions: neither this nor older ones of the column count.
    Surplus,
}

impl Tracker {
    pub(super) fn new(family: &Family, most: u32) -> Self {
        Self {
            by_sequence: family.by_sequence,
            most,
            family: Markers::default(),
            column: Markers::default(),
            qualifier: None,
            before: None,
            count: 0,
        }
    }

    fn enter(&mut self, key: &CellKey) {
        if self.qualifier.as_ref() != Some(&key.qualifier) {
            self.qualifier = Some(key.qualifier.clone());
            self.column = Markers::default();
            self.before = None;
            self.count = 0;
        }
    }

    /// Notes a delete marker.
    pub(super) fn mark(&mut self, key: &CellKey) {
        self.enter(key);
        let (timestamp, sequence) = (key.timestamp.0, key.sequence.0);
        let markers = match key.kind.0 {
            Kind::DeleteFamily | Kind::DeleteFamilyVersion => &mut self.family,
            _ => &mut self.column,
        };
        match key.kind.0 {
            Kind::DeleteFamily | Kind::DeleteColumn => {
                // By sequence, one marker of a call is kept of those of a kind: the lowest, which
                // comes last.
                if self.by_sequence {
                    markers.ranges.retain(|(_, other)| *other != sequence);
                }
                markers.ranges.push((timestamp, sequence));
            }
            _ => markers.points.entry(timestamp).or_default().push(sequence),
        }
    }

    /// Counts a put.
    pub(super) fn put(&mut self, key: &CellKey) -> Fate {
        self.enter(key);
        let (timestamp, sequence) = (key.timestamp.0, key.sequence.0);
        if self.family.mask(timestamp, sequence, self.by_sequence)
            || self.column.mask(timestamp, sequence, self.by_sequence)
        {
            return Fate::Masked;
        }
        self.count(timestamp, Kind::Put)
    }

    /// Counts a put or a marker of a raw scan, which masks nothing.
    pub(super) fn raw(&mut self, key: &CellKey) -> Fate {
        self.enter(key);
        self.count(key.timestamp.0, key.kind.0)
    }

    /// Whether nothing behind this cell in its column can be visible, or mask other columns.
    pub(super) fn is_column_done(&self, key: &CellKey) -> bool {
        let timestamp = key.timestamp.0;
        let is_masked = |markers: &Markers| markers.ranges.iter().any(|(upto, _)| timestamp <= *upto);
        // Markers of the family are among the cells of the column without a name.
        let is_over = (self.count > self.most || is_masked(&self.column)) && !key.qualifier.is_empty();
        !self.by_sequence && (is_over || is_masked(&self.family))
    }

    fn count(&mut self, timestamp: u64, kind: Kind) -> Fate {
        if self.before.replace((timestamp, kind)) == Some((timestamp, kind)) {
            return Fate::Duplicate;
        }
        if !kind.is_delete() {
            self.count += 1;
        }
        match self.count > self.most {
            true => Fate::Surplus,
            false => Fate::Visible,
        }
    }
}

/// Returns which cells of a family of a row a flush or a compaction keeps.
pub(super) fn kept<'a>(
    cells: impl Iterator<Item = (&'a CellKey, &'a Entry)>,
    family: &Family,
    now: u64,
    keep_markers: bool,
) -> Vec<bool> {
    let mut tracker = Tracker::new(family, family.versions);
    let mut left_out: Option<&Bytes> = None;
    cells
        .map(|(key, entry)| {
            if family.is_expired(key.timestamp.0, entry.ttl, now) {
                return false;
            }
            // By sequence, a cell of a later write elsewhere may make room for this one.
            if family.by_sequence && keep_markers {
                return true;
            }
            if left_out == Some(&key.qualifier) {
                return false;
            }
            if key.kind.0.is_delete() {
                tracker.mark(key);
                return keep_markers;
            }
            let fate = tracker.put(key);
            // HBase goes on with the next column, past the markers of this one.
            if tracker.is_column_done(key) && !key.qualifier.is_empty() {
                left_out = Some(&key.qualifier);
            }
            fate == Fate::Visible
        })
        .collect()
}
