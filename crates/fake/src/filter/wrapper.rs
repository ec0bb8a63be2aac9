//! Filters around one other filter.
//!
//! As in HBase, `SkipFilter` and `WhileMatchFilter` do not tell the inner filter that the scan is
//! reversed, nor do they pass on its hints.

use super::{Filter, SeekKey, Verdict};
use crate::{cell::Cell, exception::Result};

/// The outermost filter, which a region asks: HBase's `FilterWrapper`.
pub(super) struct Outermost(pub(super) Box<dyn Filter>);

impl Filter for Outermost {
    fn needs_family(&self, family: &[u8]) -> bool {
        self.0.needs_family(family)
    }

    fn reverse(&mut self) -> Result<()> {
        self.0.reverse()
    }

    fn reset(&mut self) {
        self.0.reset();
    }

    fn all_remaining(&self) -> bool {
        self.0.all_remaining()
    }

    fn excludes_row(&mut self, row: &[u8]) -> Result<bool> {
        Ok(self.all_remaining() || self.0.excludes_row(row)?)
    }

    fn cell(&mut self, cell: &Cell) -> Result<Verdict> {
        self.0.cell(cell)
    }

    fn transform(&self, cell: Cell) -> Cell {
        self.0.transform(cell)
    }

    fn row_cells(&mut self, cells: &mut Vec<Cell>) {
        self.0.row_cells(cells);
    }

    fn excludes_whole_row(&mut self) -> bool {
        self.0.excludes_whole_row()
    }

    fn has_row_filter(&self) -> bool {
        self.0.has_row_filter()
    }
}

/// `SkipFilter`: no row of which the inner filter excludes a cell. Any answer other than
/// [`Verdict::Include`] counts as such.
pub(super) struct Skip {
    pub(super) filter: Box<dyn Filter>,
    pub(super) excluded: bool,
}

impl Filter for Skip {
    fn needs_family(&self, family: &[u8]) -> bool {
        self.filter.needs_family(family)
    }

    fn reset(&mut self) {
        self.filter.reset();
        self.excluded = false;
    }

    fn cell(&mut self, cell: &Cell) -> Result<Verdict> {
        let verdict = without_hint(self.filter.cell(cell)?, cell);
        self.excluded |= verdict != Verdict::Include;
        Ok(verdict)
    }

    fn transform(&self, cell: Cell) -> Cell {
        self.filter.transform(cell)
    }

    fn excludes_whole_row(&mut self) -> bool {
        self.excluded
    }

    fn has_row_filter(&self) -> bool {
        true
    }
}

/// `WhileMatchFilter`: the scan ends when the inner filter excludes something. Any answer other than
/// [`Verdict::Include`] counts as such.
pub(super) struct WhileMatch {
    pub(super) filter: Box<dyn Filter>,
    pub(super) done: bool,
}

impl Filter for WhileMatch {
    fn needs_family(&self, family: &[u8]) -> bool {
        self.filter.needs_family(family)
    }

    fn reset(&mut self) {
        self.filter.reset();
    }

    fn all_remaining(&self) -> bool {
        self.done || self.filter.all_remaining()
    }

    fn excludes_row(&mut self, row: &[u8]) -> Result<bool> {
        if self.all_remaining() {
            return Ok(true);
        }
        let excluded = self.filter.excludes_row(row)?;
        self.done |= excluded;
        Ok(excluded)
    }

    fn cell(&mut self, cell: &Cell) -> Result<Verdict> {
        let verdict = without_hint(self.filter.cell(cell)?, cell);
        self.done |= verdict != Verdict::Include;
        Ok(verdict)
    }

    fn transform(&self, cell: Cell) -> Cell {
        self.filter.transform(cell)
    }

    fn excludes_whole_row(&mut self) -> bool {
        let excluded = self.filter.excludes_whole_row();
        self.done |= excluded;
        excluded
    }

    fn has_row_filter(&self) -> bool {
        true
    }
}

fn without_hint(verdict: Verdict, cell: &Cell) -> Verdict {
    match verdict {
        Verdict::Seek(_) => Verdict::Seek(SeekKey::at(cell)),
        verdict => verdict,
    }
}
