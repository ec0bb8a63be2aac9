//! Filters that compare one part of a cell: `CompareFilter` and its subclasses.

use hbase_protocol as pb;

use super::{Comparator, Filter, Verdict};
use crate::{
    cell::Cell,
    exception::{Exception, Result},
};

/// An operator with its comparator, which read "stored OP given".
pub(super) struct Comparison {
    pub(super) operator: pb::CompareType,
    pub(super) comparator: Comparator,
}

impl Comparison {
    /// `CompareFilter.compare`: fails for the operator that compares nothing.
    pub(super) fn holds(&self, stored: &[u8]) -> Result<bool> {
        // The comparator's order is that of the given value.
        let order = self.comparator.compare(stored)?.reverse();
        Ok(match self.operator {
            pb::CompareType::Less => order.is_lt(),
            pb::CompareType::LessOrEqual => order.is_le(),
            pb::CompareType::Equal => order.is_eq(),
            pb::CompareType::NotEqual => order.is_ne(),
            pb::CompareType::GreaterOrEqual => order.is_ge(),
            pb::CompareType::Greater => order.is_gt(),
            pb::CompareType::NoOp => return Err(Exception::io("Unknown Compare op NO_OP")),
        })
    }

    /// As [`holds`](Self::holds), but the operator that compares nothing never holds.
    pub(super) fn holds_unless_no_op(&self, stored: &[u8]) -> Result<bool> {
        if self.operator == pb::CompareType::NoOp {
            return Ok(false);
        }
        self.holds(stored)
    }
}

/// `RowFilter`.
pub(super) struct Row {
    pub(super) comparison: Comparison,
    pub(super) excluded: bool,
}

impl Filter for Row {
    fn reset(&mut self) {
        self.excluded = false;
    }

    fn excludes_row(&mut self, row: &[u8]) -> Result<bool> {
        if !self.comparison.holds_unless_no_op(row)? {
            self.excluded = true;
        }
        Ok(self.excluded)
    }

    fn cell(&mut self, _cell: &Cell) -> Result<Verdict> {
        Ok(if self.excluded {
            Verdict::NextRow
        } else {
            Verdict::Include
        })
    }

    fn excludes_whole_row(&mut self) -> bool {
        self.excluded
    }
}

/// `FamilyFilter`.
pub(super) struct Family(pub(super) Comparison);

impl Filter for Family {
    fn cell(&mut self, cell: &Cell) -> Result<Verdict> {
        Ok(if self.0.holds_unless_no_op(&cell.family)? {
            Verdict::Include
        } else {
            Verdict::NextRow
        })
    }
}

/// `QualifierFilter`.
pub(super) struct Qualifier(pub(super) Comparison);

impl Filter for Qualifier {
    fn cell(&mut self, cell: &Cell) -> Result<Verdict> {
        let included = self.0.holds_unless_no_op(&cell.qualifier)?;
        Ok(if included { Verdict::Include } else { Verdict::Skip })
    }
}

/// `ValueFilter`.
pub(super) struct Value(pub(super) Comparison);

impl Filter for Value {
    fn cell(&mut self, cell: &Cell) -> Result<Verdict> {
        Ok(if self.0.holds_unless_no_op(&cell.value)? {
            Verdict::Include
        } else {
            Verdict::Skip
        })
    }
}
