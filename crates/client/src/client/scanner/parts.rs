//! Rows in parts, each with some of the row's cells.

use std::{collections::VecDeque, mem};

use super::limit::Limit;
use crate::model::{Cell, QueryMetrics, Row};

/// The row whose parts are being returned.
#[derive(Debug, Default)]
pub(super) struct Parts {
    /// Cells that are too few for a part.
    held: Vec<Cell>,
    /// What servers have read since the last returned part.
    metrics: Option<QueryMetrics>,
    /// `None` before the row's first part was returned.
    returned: Option<Returned>,
}

#[derive(Debug)]
struct Returned {
    last: Cell,
    /// Whether the row comes again from its first cell, from a new scanner.
    comes_again: bool,
}

impl Parts {
    /// Returns whether a row was returned in part.
    pub(super) const fn is_in_row(&self) -> bool {
        self.returned.is_some()
    }

    /// Takes further cells of a row, and adds parts of this many cells to those that are ready, or
    /// the cells as they came.
    pub(super) fn take(
        &mut self,
        batch: Option<usize>,
        row: Row,
        limit: &mut Limit,
        ready: &mut VecDeque<Row>,
    ) {
        let is_partial = row.may_have_more_cells();
        let is_other = |cell: &Cell| cell.row != row.key();
        if self.held.last().is_some_and(is_other)
            || self.returned.as_ref().is_some_and(|begun| is_other(&begun.last))
        {
            self.end_row(limit, ready);
        }
        self.metrics = QueryMetrics::sum(self.metrics, row.query_metrics());
        let mut cells = row.into_cells();
        if let Some(Returned {
            last,
            comes_again: true,
        }) = &self.returned
        {
            cells.retain(|cell| cell.is_after(last));
        }
        self.held.append(&mut cells);
        let batch = batch.unwrap_or(self.held.len()).max(1);
        while self.held.len() >= batch {
            let rest = self.held.split_off(batch);
            let part = mem::replace(&mut self.held, rest);
            let is_partial = is_partial || !self.held.is_empty();
            self.add(part, is_partial, limit, ready);
        }
        if !is_partial {
            self.end_row(limit, ready);
        }
    }

    /// Adds what is left of the row.
    pub(super) fn end_row(&mut self, limit: &mut Limit, ready: &mut VecDeque<Row>) {
        let rest = mem::take(&mut self.held);
        self.add(rest, false, limit, ready);
        self.returned = None;
    }

    /// Prepares for a new scanner, which begins with the row's first cell.
    pub(super) fn begin_again(&mut self) {
        self.held.clear();
        self.metrics = None;
        if let Some(returned) = &mut self.returned {
            returned.comes_again = true;
        }
    }

    fn add(&mut self, part: Vec<Cell>, is_partial: bool, limit: &mut Limit, ready: &mut VecDeque<Row>) {
        let Some(last) = part.last().cloned() else { return };
        // The first part counts as the row.
        if self.returned.is_none() && !limit.count() {
            return;
        }
        let row = Row::of(part).with_partial(is_partial);
        ready.push_back(row.with_query_metrics(self.metrics.take()));
        self.returned = Some(Returned {
            last,
            comes_again: false,
        });
    }
}
