//! `FilterList`: several filters as one.

use std::cmp::Ordering;

use super::{Filter, SeekKey, Verdict};
use crate::{cell::Cell, exception::Result};

/// `FilterListWithAND`: takes the largest step that one of its filters asks for.
pub(super) struct All {
    pub(super) filters: Vec<Box<dyn Filter>>,
    /// Whether filters that give hints are asked about cells that another filter excludes.
    pub(super) asks_for_hints: bool,
    pub(super) reversed: bool,
}

impl Filter for All {
    fn needs_family(&self, family: &[u8]) -> bool {
        let mut filters = self.filters.iter();
        self.filters.is_empty() || filters.any(|filter| filter.needs_family(family))
    }

    fn reverse(&mut self) -> Result<()> {
        self.reversed = true;
        self.filters.iter_mut().try_for_each(|filter| filter.reverse())
    }

    fn reset(&mut self) {
        for filter in &mut self.filters {
            filter.reset();
        }
    }

    fn all_remaining(&self) -> bool {
        self.filters.iter().any(|filter| filter.all_remaining())
    }

    fn excludes_row(&mut self, row: &[u8]) -> Result<bool> {
        let (mut excluded, mut has_hint) = (false, false);
        // All are asked, because some note here what the row is.
        for filter in &mut self.filters {
            if filter.all_remaining() {
                if self.asks_for_hints {
                    return Ok(true);
                }
                excluded = true;
            } else if filter.excludes_row(row)? {
                excluded = true;
            } else {
                has_hint |= self.asks_for_hints && filter.gives_hints();
            }
        }
        Ok(excluded && !has_hint)
    }

    fn cell(&mut self, cell: &Cell) -> Result<Verdict> {
        let mut merged = Verdict::Include;
        let mut hints = Vec::new();
        let mut has_hint = false;
        for filter in &mut self.filters {
            if !merged.includes() {
                // The other filters do not count a cell that is not returned (HBASE-20565).
                if !self.asks_for_hints || !filter.gives_hints() {
                    continue;
                }
                if let Verdict::Seek(key) = filter.cell(cell)? {
                    has_hint = true;
                    hints.extend((!filter.all_remaining()).then_some(key));
                }
                continue;
            }
            if filter.all_remaining() {
                merged = Verdict::NextRow;
                continue;
            }
            let verdict = filter.cell(cell)?;
            if let Verdict::Seek(key) = &verdict {
                has_hint = true;
                hints.extend((!filter.all_remaining()).then(|| key.clone()));
            }
            merged = larger_step(merged, verdict);
        }
        if !has_hint {
            return Ok(merged);
        }
        let reversed = self.reversed;
        let furthest = hints
            .into_iter()
            .max_by(|one, other| in_direction(one.compare_keys(other), reversed));
        Ok(Verdict::Seek(furthest.unwrap_or_else(|| SeekKey::at(cell))))
    }

    fn transform(&self, cell: Cell) -> Cell {
        self.filters
            .iter()
            .fold(cell, |cell, filter| filter.transform(cell))
    }

    fn row_cells(&mut self, cells: &mut Vec<Cell>) {
        for filter in &mut self.filters {
            filter.row_cells(cells);
        }
    }

    fn excludes_whole_row(&mut self) -> bool {
        self.filters.iter_mut().any(|filter| filter.excludes_whole_row())
    }

    fn has_row_filter(&self) -> bool {
        self.filters.iter().any(|filter| filter.has_row_filter())
    }
}

/// Merges the verdict of a further filter into one that includes the cell: the cell must pass both,
/// and the read goes as far as either asks.
fn larger_step(merged: Verdict, next: Verdict) -> Verdict {
    match (merged, next) {
        (Verdict::IncludeAndNextRow, Verdict::Include | Verdict::IncludeAndNextColumn) => {
            Verdict::IncludeAndNextRow
        }
        (Verdict::IncludeAndNextColumn, Verdict::Include) => Verdict::IncludeAndNextColumn,
        (Verdict::IncludeAndNextRow, Verdict::Skip | Verdict::NextColumn) => Verdict::NextRow,
        (Verdict::IncludeAndNextColumn, Verdict::Skip) => Verdict::NextColumn,
        (_, next) => next,
    }
}

/// `FilterListWithOR`: takes the smallest step that one of its filters asks for.
pub(super) struct Any {
    pub(super) members: Vec<Member>,
    pub(super) reversed: bool,
}

/// A filter of a list of which one must pass.
pub(super) struct Member {
    filter: Box<dyn Filter>,
    /// The cell that the filter was asked about last and its verdict, if it asked for a step that
    /// the list may not have taken.
    last: Option<(Cell, Verdict)>,
    /// The current cell passed, so this filter may change its form.
    included: bool,
}

impl From<Box<dyn Filter>> for Member {
    fn from(filter: Box<dyn Filter>) -> Self {
        Self {
            filter,
            last: None,
            included: false,
        }
    }
}

impl Member {
    /// Returns the verdict on a cell that the filter asked not to see.
    fn verdict_without_asking(&self, cell: &Cell, reversed: bool) -> Option<Verdict> {
        let (last, verdict) = self.last.as_ref()?;
        match verdict {
            Verdict::Include | Verdict::Skip => None,
            Verdict::NextColumn | Verdict::IncludeAndNextColumn => {
                let same = last.family == cell.family && last.qualifier == cell.qualifier;
                same.then_some(Verdict::NextColumn)
            }
            Verdict::NextRow | Verdict::IncludeAndNextRow => {
                (last.family == cell.family).then_some(Verdict::NextRow)
            }
            // A missing hint is about no further cell.
            Verdict::Seek(key) if *key == SeekKey::at(last) => None,
            Verdict::Seek(key) => {
                let order = in_direction(key.compare(cell), reversed);
                order.is_gt().then(|| Verdict::Seek(key.clone()))
            }
        }
    }

    fn cell(&mut self, cell: &Cell, reversed: bool) -> Result<Verdict> {
        let verdict = match self.verdict_without_asking(cell, reversed) {
            Some(verdict) => verdict,
            None => self.filter.cell(cell)?,
        };
        self.last = Some((cell.clone(), verdict.clone()));
        self.included = verdict.includes();
        Ok(verdict)
    }
}

impl Filter for Any {
    fn needs_family(&self, family: &[u8]) -> bool {
        let mut members = self.members.iter();
        self.members.is_empty() || members.any(|member| member.filter.needs_family(family))
    }

    fn reverse(&mut self) -> Result<()> {
        self.reversed = true;
        self.members
            .iter_mut()
            .try_for_each(|member| member.filter.reverse())
    }

    fn reset(&mut self) {
        for member in &mut self.members {
            member.filter.reset();
            member.last = None;
            member.included = false;
        }
    }

    fn all_remaining(&self) -> bool {
        !self.members.is_empty() && self.members.iter().all(|member| member.filter.all_remaining())
    }

    fn excludes_row(&mut self, row: &[u8]) -> Result<bool> {
        let mut excluded = !self.members.is_empty();
        // All are asked, because some note here what the row is.
        for member in &mut self.members {
            excluded &= member.filter.all_remaining() || member.filter.excludes_row(row)?;
        }
        Ok(excluded)
    }

    fn cell(&mut self, cell: &Cell) -> Result<Verdict> {
        if self.members.is_empty() {
            return Ok(Verdict::Include);
        }
        let mut merged = None;
        for member in &mut self.members {
            member.included = false;
            if member.filter.all_remaining() {
                continue;
            }
            let verdict = member.cell(cell, self.reversed)?;
            merged = Some(match merged {
                None => verdict,
                Some(merged) => smaller_step(merged, verdict, self.reversed),
            });
        }
        Ok(merged.unwrap_or(Verdict::Skip))
    }

    fn transform(&self, cell: Cell) -> Cell {
        let including = self.members.iter().filter(|member| member.included);
        including.fold(cell, |cell, member| member.filter.transform(cell))
    }

    fn row_cells(&mut self, cells: &mut Vec<Cell>) {
        for member in &mut self.members {
            member.filter.row_cells(cells);
        }
    }

    fn excludes_whole_row(&mut self) -> bool {
        !self.members.is_empty()
            && self
                .members
                .iter_mut()
                .all(|member| member.filter.excludes_whole_row())
    }

    fn has_row_filter(&self) -> bool {
        self.members.iter().any(|member| member.filter.has_row_filter())
    }
}

/// Merges the verdicts of two filters: the cell must pass one of them, and the read goes only as far
/// as both ask. How far a hint leads is unknown beside another step.
fn smaller_step(left: Verdict, right: Verdict, reversed: bool) -> Verdict {
    if let (Verdict::Seek(left), Verdict::Seek(right)) = (&left, &right) {
        let left_first = in_direction(left.compare_keys(right), reversed).is_le();
        return Verdict::Seek(if left_first { left } else { right }.clone());
    }
    let included = left.includes() || right.includes();
    match (steps(&left).min(steps(&right)), included) {
        (Steps::Cell, true) => Verdict::Include,
        (Steps::Cell, false) => Verdict::Skip,
        (Steps::Column, true) => Verdict::IncludeAndNextColumn,
        (Steps::Column, false) => Verdict::NextColumn,
        (Steps::Row, true) => Verdict::IncludeAndNextRow,
        (Steps::Row, false) => Verdict::NextRow,
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Steps {
    Cell,
    Column,
    Row,
}

fn steps(verdict: &Verdict) -> Steps {
    match verdict {
        Verdict::Include | Verdict::Skip | Verdict::Seek(_) => Steps::Cell,
        Verdict::IncludeAndNextColumn | Verdict::NextColumn => Steps::Column,
        Verdict::IncludeAndNextRow | Verdict::NextRow => Steps::Row,
    }
}

fn in_direction(order: Ordering, reversed: bool) -> Ordering {
    if reversed { order.reverse() } else { order }
}
