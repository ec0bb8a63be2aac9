//! `NEW_VERSION_BEHAVIOR`: markers mask only what was written before them, and versions count in
//! the order in which they were written. HBase's `NewVersionBehaviorTracker`.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::step::{Masked, Step};
use crate::{cell::Kind, region::entry::CellKey};

/// Behind all sequences.
const NO_SEQUENCE: u64 = u64::MAX;

/// The markers and versions of one family of a row.
#[derive(Clone, Debug)]
pub(super) struct BySequence {
    /// The most versions of the family, and of the query.
    most: u32,
    most_wanted: u32,
    /// The columns to read, in order, or `None` for all.
    columns: Option<Vec<Bytes>>,
    at: usize,
    count: u32,
    /// By the sequence of the marker that ends each span.
    column: BTreeMap<u64, Span>,
    family: BTreeMap<u64, Span>,
    before: Option<(Bytes, u64, Kind, u64)>,
}

/// What was written before a marker.
#[derive(Clone, Debug)]
struct Span {
    /// The marker masks what is not newer, and `None` masks nothing.
    timestamp: Option<u64>,
    /// The sequences of the puts that count, by the sequence of the marker that ends their part.
    versions: BTreeMap<u64, BTreeSet<u64>>,
}

impl Span {
    fn new(timestamp: Option<u64>) -> Self {
        Self {
            timestamp,
            versions: BTreeMap::from([(NO_SEQUENCE, BTreeSet::new())]),
        }
    }
}

impl BySequence {
    pub(super) fn new(columns: Option<Vec<Bytes>>, most: u32, most_wanted: u32) -> Self {
        let mut new = Self {
            most,
            most_wanted,
            columns,
            at: 0,
            count: 0,
            column: BTreeMap::new(),
            family: BTreeMap::new(),
            before: None,
        };
        new.reset();
        new
    }

    pub(super) fn reset(&mut self) {
        self.at = 0;
        self.count = 0;
        self.column.clear();
        self.family = BTreeMap::from([(NO_SEQUENCE, Span::new(None))]);
        self.before = None;
    }

    /// Notes a cell. Returns the sequence of the put before if that has the same timestamp.
    fn enter(&mut self, key: &CellKey) -> Option<u64> {
        let (timestamp, kind, sequence) = (key.timestamp.0, key.kind.0, key.sequence.0);
        let is_same_column = match &self.before {
            Some((qualifier, ..)) => *qualifier == key.qualifier,
            None => key.qualifier.is_empty(),
        };
        if is_same_column {
            if let Some((_, other, Kind::Put, first)) = self.before
                && kind == Kind::Put
                && other == timestamp
            {
                return Some(first);
            }
        } else {
            self.column = self.family.clone();
            self.count = 0;
        }
        self.before = Some((key.qualifier.clone(), timestamp, kind, sequence));
        None
    }

    pub(super) fn add(&mut self, key: &CellKey) {
        self.enter(key);
        let markers = match key.kind.0 {
            Kind::DeleteFamily => &mut self.family,
            _ => &mut self.column,
        };
        markers.insert(key.sequence.0, Span::new(Some(key.timestamp.0)));
    }

    pub(super) fn mask(&mut self, key: &CellKey) -> Option<Masked> {
        let sequence = key.sequence.0;
        let duplicate_of = self.enter(key);
        for span in self.column.range_mut(sequence..).map(|(_, span)| span) {
            let upto = duplicate_of.unwrap_or(NO_SEQUENCE);
            for (_, versions) in span.versions.range_mut(sequence..=upto.max(sequence)) {
                if versions.len() >= self.most as usize {
                    return Some(Masked::Alone);
                }
                versions.insert(sequence);
            }
            if span.timestamp.is_some_and(|marker| key.timestamp.0 <= marker) {
                return Some(Masked::Alone);
            }
        }
        duplicate_of.map(|_| Masked::Alone)
    }

    /// Whether all columns were read.
    pub(super) fn is_done(&self) -> bool {
        self.columns
            .as_ref()
            .is_some_and(|columns| self.at >= columns.len())
    }

    /// The column that is read or comes next.
    pub(super) fn next(&self) -> Option<&Bytes> {
        self.columns.as_ref()?.get(self.at)
    }

    /// Returns whether the cell's column is read.
    pub(super) fn select(&mut self, qualifier: &Bytes) -> Step {
        if self.columns.is_none() {
            return Step::Include;
        }
        while let Some(column) = self.next() {
            if qualifier < column {
                return Step::NextColumn;
            }
            if qualifier == column {
                return Step::Include;
            }
            self.at += 1;
        }
        Step::NextRow
    }

    pub(super) fn count(&mut self, is_expired: bool) -> Step {
        self.count += 1;
        if is_expired || self.count > self.most_wanted {
            Step::NextColumn
        } else if self.count == self.most_wanted {
            Step::IncludeAndNextColumn
        } else {
            Step::Include
        }
    }
}
