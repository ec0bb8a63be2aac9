//! Columns and their versions: HBase's `ColumnTracker`.

use bytes::Bytes;

use super::step::Step;
use crate::cell::Kind;

/// Timestamp and kind of the cell before in its column.
type Before = Option<(u64, Kind)>;

/// All columns of a family: `ScanWildcardColumnTracker`.
#[derive(Clone, Debug)]
pub(super) struct AllColumns {
    most: u32,
    column: Option<Bytes>,
    count: u32,
    before: Before,
}

/// Some columns of a family: `ExplicitColumnTracker`.
#[derive(Clone, Debug)]
pub(super) struct SomeColumns {
    most: u32,
    /// In order.
    columns: Vec<Bytes>,
    /// The column that is read or comes next.
    at: usize,
    count: u32,
    before: Option<u64>,
}

impl AllColumns {
    pub(super) fn new(most: u32) -> Self {
        Self {
            most,
            column: None,
            count: 0,
            before: None,
        }
    }

    pub(super) fn reset(&mut self) {
        self.column = None;
        self.before = None;
    }

    pub(super) fn count(&mut self, qualifier: &Bytes, timestamp: u64, kind: Kind) -> Step {
        if self.column.as_ref() != Some(qualifier) {
            self.column = Some(qualifier.clone());
            self.count = 0;
            self.before = None;
        }
        if self.before == Some((timestamp, kind)) {
            return Step::Skip;
        }
        if !kind.is_delete() {
            self.count += 1;
        }
        if self.count > self.most {
            return Step::NextColumn;
        }
        self.before = Some((timestamp, kind));
        Step::Include
    }
}

impl SomeColumns {
    pub(super) fn new(columns: Vec<Bytes>, most: u32) -> Self {
        Self {
            most,
            columns,
            at: 0,
            count: 0,
            before: None,
        }
    }

    pub(super) fn reset(&mut self) {
        self.at = 0;
        self.count = 0;
        self.before = None;
    }

    /// The column that is read or comes next.
    pub(super) fn next(&self) -> Option<&Bytes> {
        self.columns.get(self.at)
    }

    fn leave(&mut self) {
        self.at += 1;
        self.count = 0;
        self.before = None;
    }

    /// Returns whether the cell's column is read.
    pub(super) fn select(&mut self, qualifier: &Bytes) -> Step {
        while let Some(column) = self.next() {
            if qualifier == column {
                return Step::Include;
            }
            if qualifier < column {
                self.before = None;
                return Step::NextColumn;
            }
            self.leave();
        }
        Step::NextRow
    }

    pub(super) fn count(&mut self, timestamp: u64) -> Step {
        if self.before == Some(timestamp) {
            return Step::Skip;
        }
        self.count += 1;
        if self.count >= self.most {
            self.leave();
            return match self.next() {
                Some(_) => Step::IncludeAndNextColumn,
                None => Step::IncludeAndNextRow,
            };
        }
        self.before = Some(timestamp);
        Step::Include
    }

    /// Leaves the columns up to this one.
    pub(super) fn leave_column(&mut self, qualifier: &Bytes) {
        self.before = None;
        while self.next().is_some_and(|column| column <= qualifier) {
            self.leave();
        }
    }
}
