//! Filters that select columns by their qualifiers, or by how many came before.

use std::{cmp::Ordering, collections::BTreeSet, ops::Bound};

use bytes::Bytes;

use super::{Filter, SeekKey, Verdict};
use crate::{cell::Cell, exception::Result};

/// `ColumnPrefixFilter`.
pub(super) struct ColumnPrefix(pub(super) Bytes);

impl Filter for ColumnPrefix {
    fn gives_hints(&self) -> bool {
        true
    }

    fn cell(&mut self, cell: &Cell) -> Result<Verdict> {
        let qualifier = &cell.qualifier;
        let beginning = &qualifier[..qualifier.len().min(self.0.len())];
        Ok(match beginning.cmp(&self.0) {
            Ordering::Less => Verdict::Seek(SeekKey::column(cell, &self.0)),
            Ordering::Equal => Verdict::Include,
            Ordering::Greater => Verdict::NextRow,
        })
    }
}

/// `MultipleColumnPrefixFilter`. Without a prefix, it includes everything.
pub(super) struct MultipleColumnPrefix(pub(super) BTreeSet<Bytes>);

impl Filter for MultipleColumnPrefix {
    fn gives_hints(&self) -> bool {
        true
    }

    fn cell(&mut self, cell: &Cell) -> Result<Verdict> {
        // Only the last prefix before the qualifier is tried: of "a" and "ab", "ac" passes neither.
        let before = self.0.range(..=cell.qualifier.clone()).next_back();
        if self.0.is_empty() || before.is_some_and(|prefix| cell.qualifier.starts_with(prefix)) {
            return Ok(Verdict::Include);
        }
        let after = (Bound::Excluded(cell.qualifier.clone()), Bound::Unbounded);
        Ok(match self.0.range(after).next() {
            Some(prefix) => Verdict::Seek(SeekKey::column(cell, prefix)),
            None => Verdict::NextRow,
        })
    }
}

/// `ColumnRangeFilter`.
pub(super) struct ColumnRange {
    pub(super) min: Option<Bytes>,
    pub(super) min_inclusive: bool,
    pub(super) max: Option<Bytes>,
    pub(super) max_inclusive: bool,
}

impl Filter for ColumnRange {
    fn gives_hints(&self) -> bool {
        true
    }

    fn cell(&mut self, cell: &Cell) -> Result<Verdict> {
        if let Some(min) = &self.min {
            match cell.qualifier.cmp(min) {
                Ordering::Less => return Ok(Verdict::Seek(SeekKey::column(cell, min))),
                Ordering::Equal if !self.min_inclusive => return Ok(Verdict::NextColumn),
                Ordering::Equal | Ordering::Greater => (),
            }
        }
        let included = self.max.as_ref().is_none_or(|max| {
            let order = cell.qualifier.cmp(max);
            order.is_lt() || order.is_eq() && self.max_inclusive
        });
        Ok(if included {
            Verdict::Include
        } else {
            Verdict::NextRow
        })
    }
}

/// `ColumnCountGetFilter`: the first columns of a row, one version of each.
pub(super) struct ColumnCountGet {
    pub(super) limit: i32,
    pub(super) count: i32,
}

impl Filter for ColumnCountGet {
    fn reset(&mut self) {
        self.count = 0;
    }

    fn all_remaining(&self) -> bool {
        self.count > self.limit
    }

    fn excludes_row(&mut self, _row: &[u8]) -> Result<bool> {
        Ok(self.all_remaining())
    }

    fn cell(&mut self, _cell: &Cell) -> Result<Verdict> {
        self.count = self.count.wrapping_add(1);
        Ok(if self.all_remaining() {
            Verdict::NextColumn
        } else {
            Verdict::IncludeAndNextColumn
        })
    }
}

/// Where a page of columns begins.
pub(super) enum PageStart {
    /// After so many columns.
    Count(i32),
    /// At the first column that is not before this qualifier.
    Qualifier(Bytes),
}

/// `ColumnPaginationFilter`.
pub(super) struct ColumnPagination {
    pub(super) limit: i32,
    pub(super) start: PageStart,
    pub(super) count: i32,
}

impl Filter for ColumnPagination {
    fn reset(&mut self) {
        self.count = 0;
    }

    fn cell(&mut self, cell: &Cell) -> Result<Verdict> {
        Ok(match &self.start {
            PageStart::Qualifier(_) if self.count >= self.limit => Verdict::NextRow,
            PageStart::Qualifier(start) if self.count == 0 && cell.qualifier < *start => {
                Verdict::Seek(SeekKey::column(cell, start))
            }
            PageStart::Qualifier(_) => {
                self.count += 1;
                Verdict::IncludeAndNextColumn
            }
            // The sum overflows as in Java.
            PageStart::Count(offset) if self.count >= offset.wrapping_add(self.limit) => Verdict::NextRow,
            PageStart::Count(offset) => {
                self.count += 1;
                if self.count <= *offset {
                    Verdict::NextColumn
                } else {
                    Verdict::IncludeAndNextColumn
                }
            }
        })
    }
}
