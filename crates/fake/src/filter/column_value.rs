//! Filters that compare the value of one column.

use bytes::Bytes;

use super::{Filter, Verdict, compare::Comparison};
use crate::{cell::Cell, exception::Result};

/// `SingleColumnValueFilter` and `SingleColumnValueExcludeFilter`: rows in which the column's value
/// fulfils the comparison.
pub(super) struct SingleColumnValue {
    pub(super) family: Bytes,
    pub(super) qualifier: Bytes,
    pub(super) comparison: Comparison,
    pub(super) filter_if_missing: bool,
    pub(super) latest_version_only: bool,
    /// Does not return the column itself.
    pub(super) exclude: bool,
    pub(super) found: bool,
    pub(super) matched: bool,
}

impl SingleColumnValue {
    fn is_column_of(&self, cell: &Cell) -> bool {
        cell.family == self.family && cell.qualifier == self.qualifier
    }
}

impl Filter for SingleColumnValue {
    fn needs_family(&self, family: &[u8]) -> bool {
        !self.filter_if_missing || self.family == family
    }

    fn reset(&mut self) {
        self.found = false;
        self.matched = false;
    }

    fn cell(&mut self, cell: &Cell) -> Result<Verdict> {
        if self.matched {
            return Ok(Verdict::Include);
        }
        if self.latest_version_only && self.found {
            return Ok(Verdict::NextRow);
        }
        if !self.is_column_of(cell) {
            return Ok(Verdict::Include);
        }
        self.found = true;
        self.matched = self.comparison.holds(&cell.value)?;
        Ok(if !self.matched && self.latest_version_only {
            Verdict::NextRow
        } else {
            Verdict::Include
        })
    }

    fn row_cells(&mut self, cells: &mut Vec<Cell>) {
        if self.exclude {
            cells.retain(|cell| !self.is_column_of(cell));
        }
    }

    fn excludes_whole_row(&mut self) -> bool {
        if self.found {
            !self.matched
        } else {
            self.filter_if_missing
        }
    }

    fn has_row_filter(&self) -> bool {
        true
    }
}

/// `ColumnValueFilter`: the cells of one column whose values fulfil the comparison.
pub(super) struct ColumnValue {
    pub(super) family: Bytes,
    pub(super) qualifier: Bytes,
    pub(super) comparison: Comparison,
    pub(super) found: bool,
}

impl Filter for ColumnValue {
    fn needs_family(&self, family: &[u8]) -> bool {
        self.family == family
    }

    fn reset(&mut self) {
        self.found = false;
    }

    fn cell(&mut self, cell: &Cell) -> Result<Verdict> {
        if cell.family != self.family || cell.qualifier != self.qualifier {
            return Ok(if self.found {
                Verdict::NextRow
            } else {
                Verdict::NextColumn
            });
        }
        self.found = true;
        Ok(if self.comparison.holds_unless_no_op(&cell.value)? {
            Verdict::Include
        } else {
            Verdict::Skip
        })
    }
}
