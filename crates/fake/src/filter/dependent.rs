//! `DependentColumnFilter`.

use std::collections::BTreeSet;

use bytes::Bytes;

use super::{Filter, Verdict, compare::Comparison};
use crate::{cell::Cell, exception::Result};

/// `DependentColumnFilter`: cells with the timestamp of a cell in one column.
pub(super) struct DependentColumn {
    pub(super) family: Bytes,
    pub(super) qualifier: Bytes,
    /// The column's cells that count; all of them without a comparison.
    pub(super) comparison: Option<Comparison>,
    pub(super) drop_column: bool,
    pub(super) timestamps: BTreeSet<u64>,
}

impl Filter for DependentColumn {
    fn reset(&mut self) {
        self.timestamps.clear();
    }

    fn cell(&mut self, cell: &Cell) -> Result<Verdict> {
        if cell.family != self.family || cell.qualifier != self.qualifier {
            // Whether the column has the timestamp is known at the end of the row.
            return Ok(Verdict::Include);
        }
        if let Some(comparison) = &self.comparison
            && !comparison.holds_unless_no_op(&cell.value)?
        {
            return Ok(Verdict::Skip);
        }
        self.timestamps.insert(cell.timestamp);
        Ok(if self.drop_column {
            Verdict::Skip
        } else {
            Verdict::Include
        })
    }

    fn row_cells(&mut self, cells: &mut Vec<Cell>) {
        cells.retain(|cell| self.timestamps.contains(&cell.timestamp));
    }

    fn has_row_filter(&self) -> bool {
        true
    }
}
