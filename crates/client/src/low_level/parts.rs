//! The parts of mutations, scans and conditions.

use std::collections::BTreeSet;

use bytes::Bytes;

use super::{Check, Column, ComparatorKind, Counter, DeleteScope, FilterKind, Limits};
use crate::{Append, Comparator, Condition, Delete, Filter, Increment, Put, Scan, Table};

/// The cells, counters or scopes of a mutation.
pub trait MutationParts {
    /// A written cell, an incremented counter, or the scope of a delete.
    type Part;

    /// Returns the parts, in the order in which they were added.
    fn parts(&self) -> &[Self::Part];

    /// Returns the parts for changes. They are not checked until the mutation is sent.
    fn parts_mut(&mut self) -> &mut Vec<Self::Part>;

    /// Replaces the attributes.
    #[must_use]
    fn with_attributes(self, attributes: Vec<(String, Bytes)>) -> Self;
}

macro_rules! parts {
    ($($mutation:ident, $field:ident: $part:ident;)*) => {$(
        impl MutationParts for $mutation {
            type Part = $part;

            fn parts(&self) -> &[$part] {
                &self.$field
            }

            fn parts_mut(&mut self) -> &mut Vec<$part> {
                &mut self.$field
            }

            fn with_attributes(self, attributes: Vec<(String, Bytes)>) -> Self {
                Self { attributes, ..self }
            }
        }
    )*};
}

parts! {
    Put, cells: Column;
    Append, cells: Column;
    Increment, columns: Counter;
    Delete, scopes: DeleteScope;
}

/// A mutation with a timestamp of its own.
pub trait MutationStamp {
    /// Returns the timestamp in milliseconds, or `None` if the server chooses it.
    fn stamp(&self) -> Option<u64>;

    /// Replaces the timestamp.
    #[must_use]
    fn with_stamp(self, stamp: Option<u64>) -> Self;
}

impl MutationStamp for Put {
    fn stamp(&self) -> Option<u64> {
        self.timestamp
    }

    fn with_stamp(self, stamp: Option<u64>) -> Self {
        Self {
            timestamp: stamp,
            ..self
        }
    }
}

impl MutationStamp for Delete {
    fn stamp(&self) -> Option<u64> {
        self.timestamp
    }

    fn with_stamp(self, stamp: Option<u64>) -> Self {
        Self {
            timestamp: stamp,
            ..self
        }
    }
}

/// The range of a scan.
pub trait ScanParts {
    /// Returns the first row. Empty if there is no bound.
    fn range_start(&self) -> &Bytes;

    /// Returns the row at which the scan ends. Empty if there is no bound.
    fn range_end(&self) -> &Bytes;

    /// Returns whether the stop row is part of the scan.
    fn includes_range_end(&self) -> bool;

    /// Returns whether the scan ends before this row.
    fn ends_before(&self, row: &[u8]) -> bool;

    /// Reads only these rows of the range.
    #[must_use]
    fn only_rows(self, rows: BTreeSet<Bytes>) -> Self;
}

impl ScanParts for Scan {
    fn range_start(&self) -> &Bytes {
        &self.start
    }

    fn range_end(&self) -> &Bytes {
        &self.stop
    }

    fn includes_range_end(&self) -> bool {
        self.include_stop
    }

    fn ends_before(&self, row: &[u8]) -> bool {
        Self::ends_before(self, row)
    }

    fn only_rows(self, rows: BTreeSet<Bytes>) -> Self {
        Self::only_rows(self, rows)
    }
}

impl Limits {
    /// Returns the limits that the connection of a table was configured with.
    #[must_use]
    pub fn of(table: &Table) -> Self {
        table.limits()
    }
}

impl Check {
    /// Returns the check of a condition.
    #[must_use]
    pub fn of(condition: &Condition) -> &Self {
        &condition.check
    }
}

impl ComparatorKind {
    /// Returns the kind of a comparator.
    #[must_use]
    pub fn of(comparator: &Comparator) -> &Self {
        &comparator.0
    }
}

impl FilterKind {
    /// Returns the kind of a filter.
    #[must_use]
    pub fn of(filter: &Filter) -> &Self {
        &filter.0
    }
}
