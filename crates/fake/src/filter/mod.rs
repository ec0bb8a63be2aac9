//! Filters and comparators.
//!
//! A [`Filter`] has the protocol of HBase's class of that name, and the region asks it in HBase's
//! order: `reset` before each row, `excludes_row` with the key, `cell` for each cell that the other
//! rules of the read let through, `transform` for each included one. After the row come `row_cells`
//! (only with `has_row_filter`) and, if cells are left, `excludes_whole_row`. `all_remaining`, asked
//! between rows, ends the scan.
//!
//! The semantics are those of HBase 2.4 to 2.6, including their odd parts: a `SkipFilter` never
//! passes the row key on, and a list that must pass all of its filters stops at the first that
//! excludes the cell.

mod column;
mod column_value;
mod comparator;
mod compare;
mod decimal;
mod dependent;
mod fuzzy;
mod key;
mod list;
mod message;
mod parse;
mod regex;
mod row;
mod wrapper;

pub(crate) use self::{
    comparator::Comparator,
    parse::{Dialect, parse},
};

use std::cmp::Ordering;

use bytes::Bytes;

use crate::{
    cell::{Cell, LATEST},
    exception::Result,
};

/// What a read does after it has shown a cell to a filter: `Filter.ReturnCode`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Include,
    /// The cell is included, the other versions of its column are not read.
    IncludeAndNextColumn,
    /// The cell is included, the rest of its family in this row is not read.
    IncludeAndNextRow,
    Skip,
    /// The other versions of the column are not read either.
    NextColumn,
    /// The rest of the family in this row is not read. A region goes on with the row's next family.
    NextRow,
    /// The read continues at this key if it is ahead of the cell in the direction of the scan, and
    /// with the next cell otherwise.
    Seek(SeekKey),
}

impl Verdict {
    fn includes(&self) -> bool {
        matches!(
            self,
            Self::Include | Self::IncludeAndNextColumn | Self::IncludeAndNextRow
        )
    }
}

/// A position before the cells of a row, of a column, or of a timestamp in a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SeekKey {
    pub(crate) row: Bytes,
    /// Empty before the first family.
    pub(crate) family: Bytes,
    pub(crate) qualifier: Bytes,
    /// [`LATEST`] before the newest version.
    pub(crate) timestamp: u64,
}

impl SeekKey {
    fn row(row: Bytes) -> Self {
        Self {
            row,
            family: Bytes::new(),
            qualifier: Bytes::new(),
            timestamp: LATEST,
        }
    }

    /// Before the column with this qualifier in the cell's row and family.
    fn column(cell: &Cell, qualifier: &Bytes) -> Self {
        Self {
            qualifier: qualifier.clone(),
            timestamp: LATEST,
            ..Self::at(cell)
        }
    }

    /// The cell itself. It stands for HBase's missing hint: the read goes on with the next cell.
    fn at(cell: &Cell) -> Self {
        Self {
            row: cell.row.clone(),
            family: cell.family.clone(),
            qualifier: cell.qualifier.clone(),
            timestamp: cell.timestamp,
        }
    }

    /// Compares with a cell in the order of cells, where a newer version comes first.
    pub(crate) fn compare(&self, cell: &Cell) -> Ordering {
        self.compare_keys(&Self::at(cell))
    }

    fn compare_keys(&self, other: &Self) -> Ordering {
        self.row
            .cmp(&other.row)
            .then_with(|| self.family.cmp(&other.family))
            .then_with(|| self.qualifier.cmp(&other.qualifier))
            .then_with(|| other.timestamp.cmp(&self.timestamp))
    }
}

/// HBase's `Filter`. The defaults are those of `FilterBase`.
///
/// An error is the exception that a region server answers when a comparator fails on a stored value.
pub(crate) trait Filter: Send {
    /// Prepares for a scan in descending order; called once, before the first row.
    ///
    /// # Errors
    ///
    /// Returns an error if the filter is not modelled for such scans.
    fn reverse(&mut self) -> Result<()> {
        Ok(())
    }

    /// Whether the class is a `HintingFilter`.
    fn gives_hints(&self) -> bool {
        false
    }

    /// `isFamilyEssential`: whether the family is read before the filter has decided about a row.
    fn needs_family(&self, _family: &[u8]) -> bool {
        true
    }

    /// `reset`: called before each row.
    fn reset(&mut self) {}

    /// `filterAllRemaining`: the scan ends.
    fn all_remaining(&self) -> bool {
        false
    }

    /// `filterRowKey`: no cell of the row is read.
    fn excludes_row(&mut self, _row: &[u8]) -> Result<bool> {
        Ok(false)
    }

    /// `filterCell`.
    fn cell(&mut self, cell: &Cell) -> Result<Verdict>;

    /// `transformCell`: the form in which an included cell is returned.
    fn transform(&self, cell: Cell) -> Cell {
        cell
    }

    /// `filterRowCells`: removes cells of a row that was read completely.
    fn row_cells(&mut self, _cells: &mut Vec<Cell>) {}

    /// `filterRow`: the row is dropped after it was read. A region server asks for each row with
    /// cells, also if [`has_row_filter`](Self::has_row_filter) is false.
    fn excludes_whole_row(&mut self) -> bool {
        false
    }

    /// `hasFilterRow`: rows cannot be returned in parts, nor in batches of cells.
    fn has_row_filter(&self) -> bool {
        false
    }
}
