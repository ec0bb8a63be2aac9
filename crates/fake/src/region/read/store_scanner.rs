//! The scanner of one family: HBase's `StoreScanner`, row by row.

use std::{
    cmp::Reverse,
    collections::{BTreeSet, btree_map},
    ops::Bound::Excluded,
};

use bytes::Bytes;

use super::{
    matcher::{Matcher, behind},
    progress::Progress,
    step::Step,
};
use crate::{
    cell::Cell,
    exception::{Exception, Result},
    filter::{Filter, SeekKey},
    region::{
        entry::{CellKey, Entry, Row},
        store::to_cell,
    },
};

/// The cells of one family that a read visits.
#[derive(Debug)]
pub(super) struct StoreScanner {
    pub(super) family: Bytes,
    matcher: Matcher,
    read_point: u64,
    /// Files, and memory as `None`, of which no cell is in the range of times.
    left_out: BTreeSet<Option<u32>>,
    /// The most cells of a row, and how many are left out before them.
    limit: Option<usize>,
    offset: usize,
    reversed: bool,
    /// Cells of the row that were included.
    count: usize,
    /// The position in the present row, or `None` behind its last cell.
    position: Option<CellKey>,
    /// Rows before this key are skipped.
    hint: Option<SeekKey>,
    is_closed: bool,
}

/// The rules of a read for one family.
pub(super) struct Rules {
    pub(super) family: Bytes,
    pub(super) matcher: Matcher,
    pub(super) read_point: u64,
    pub(super) left_out: BTreeSet<Option<u32>>,
    pub(super) limit: Option<usize>,
    pub(super) offset: usize,
    pub(super) reversed: bool,
}

impl StoreScanner {
    pub(super) fn new(rules: Rules) -> Self {
        Self {
            family: rules.family,
            matcher: rules.matcher,
            read_point: rules.read_point,
            left_out: rules.left_out,
            limit: rules.limit,
            offset: rules.offset,
            reversed: rules.reversed,
            count: 0,
            position: None,
            hint: None,
            is_closed: false,
        }
    }

    /// Goes to the first cell of a row. Returns whether there is one.
    pub(super) fn seek_row(&mut self, name: &Bytes, row: &Row) -> bool {
        self.position = None;
        if self.is_closed {
            return false;
        }
        let mut start = CellKey::first_of(self.family.clone(), Bytes::new());
        if let Some(hint) = &self.hint {
            let order = name.cmp(&hint.row);
            let order = if self.reversed { order.reverse() } else { order };
            if order.is_lt() || order.is_eq() && self.family < hint.family {
                return false;
            }
            if order.is_eq() && self.family == hint.family {
                start = key_of(hint);
            }
        }
        self.position = Some(start);
        let is_in_row = self.rest(row).any(|(key, entry)| self.is_read(key, entry));
        if !is_in_row {
            self.position = None;
        }
        is_in_row
    }

    /// Whether cells of the present row are left, visible or not.
    pub(super) fn is_in_row(&self) -> bool {
        self.position.is_some() && !self.is_closed
    }

    fn rest<'a>(&self, row: &'a Row) -> Rest<'a> {
        Rest {
            row,
            family: self.family.clone(),
            cells: self.position.clone().map(|position| row.range(position..)),
        }
    }

    fn is_read(&self, key: &CellKey, entry: &Entry) -> bool {
        key.sequence.0 <= self.read_point && !self.left_out.contains(&entry.file)
    }

    /// Reads cells of the present row up to its end or a limit.
    pub(super) fn next(
        &mut self,
        name: &Bytes,
        row: &Row,
        cells: &mut Vec<Cell>,
        progress: &mut Progress,
        filter: &mut Option<Box<dyn Filter>>,
    ) -> Result<()> {
        use super::progress::Scope::Cells;
        if !progress.has_limit(Cells) || !self.matcher.is_in_row {
            self.count = 0;
            self.matcher.enter_row();
        }
        let mut rest = self.rest(row);
        while let Some((key, entry)) = rest.next() {
            if !self.is_read(key, entry) {
                continue;
            }
            if progress.is_time_over(Cells) {
                self.position = Some(key.clone());
                return Ok(());
            }
            progress.look_at(name);
            let cell = || to_cell(name, key, entry);
            let step = self.matcher.step(key, entry, cell, filter.as_deref_mut())?;
            let is_included = matches!(
                step,
                Step::Include | Step::IncludeAndNextColumn | Step::IncludeAndNextRow
            );
            if is_included {
                self.count += 1;
                if self.count > self.offset {
                    let cell = match filter {
                        Some(filter) => filter.transform(cell()),
                        None => cell(),
                    };
                    progress.add(&cell);
                    if !progress.is_skipping {
                        cells.push(cell);
                    }
                    if self.limit.is_some_and(|limit| self.count >= limit + self.offset) {
                        self.leave_row();
                        return Ok(());
                    }
                }
            }
            match step {
                Step::Include | Step::Skip => {}
                Step::IncludeAndNextColumn | Step::NextColumn => {
                    self.refuse_endless_seek(row, key)?;
                    self.seek_column(&mut rest, key);
                }
                Step::IncludeAndNextRow | Step::NextRow => rest.end(),
                Step::Seek(to) => self.seek(&mut rest, name, key, to),
                Step::Done => {
                    self.is_closed = true;
                    return Ok(());
                }
            }
            if is_included && (progress.is_batch_full() || progress.is_size_reached(Cells)) {
                self.keep_position(rest);
                return Ok(());
            }
        }
        self.leave_row();
        // HBase goes on to the next row here, where the filter ends the read.
        self.is_closed |= filter.as_ref().is_some_and(|filter| filter.all_remaining());
        Ok(())
    }

    fn keep_position(&mut self, mut rest: Rest<'_>) {
        match rest.find(|(key, entry)| self.is_read(key, entry)) {
            Some((key, _)) => self.position = Some(key.clone()),
            None => self.leave_row(),
        }
    }

    pub(super) fn leave_row(&mut self) {
        self.position = None;
        self.matcher.is_in_row = false;
    }

    /// HBase's server goes on without end when it leaves the unnamed column at a marker and a file
    /// has the next kind of cell with the same timestamp: the file counts its sequence as none.
    fn refuse_endless_seek(&self, row: &Row, key: &CellKey) -> Result<()> {
        let is_endless = key.qualifier.is_empty() && key.kind.0.is_delete() && {
            let target = behind(key);
            let mut between = row.range((Excluded(key), Excluded(&target)));
            between.any(|(cell, entry)| {
                entry.file.is_some() && self.is_read(cell, entry) && cell.kind == target.kind
            })
        };
        if is_endless {
            Err(Exception::not_modelled(
                "a raw scan that leaves the unnamed column at a marker behind which a file has more of its timestamp",
            ))
        } else {
            Ok(())
        }
    }

    fn seek_column(&self, rest: &mut Rest<'_>, key: &CellKey) {
        let next = if key.qualifier.is_empty() {
            behind(key)
        } else {
            match self.matcher.next_column() {
                Some(column) => CellKey::first_of(self.family.clone(), column.clone()),
                None => CellKey::last_of(self.family.clone(), key.qualifier.clone()),
            }
        };
        // A key that is not ahead leaves the read where it is.
        rest.seek(next.max(key.clone()));
    }

    fn seek(&mut self, rest: &mut Rest<'_>, name: &Bytes, key: &CellKey, to: SeekKey) {
        if to.row == *name {
            let target = key_of(&to);
            if !self.reversed && target > *key {
                rest.seek(target);
            }
        } else if (to.row > *name) != self.reversed {
            self.hint = Some(to);
            rest.end();
        }
    }
}

/// The rest of a row's cells in a family.
struct Rest<'a> {
    row: &'a Row,
    family: Bytes,
    cells: Option<btree_map::Range<'a, CellKey, Entry>>,
}

impl Rest<'_> {
    fn seek(&mut self, key: CellKey) {
        self.cells = Some(self.row.range(key..));
    }

    fn end(&mut self) {
        self.cells = None;
    }
}

impl<'a> Iterator for Rest<'a> {
    type Item = (&'a CellKey, &'a Entry);

    fn next(&mut self) -> Option<Self::Item> {
        let cells = self.cells.as_mut()?;
        cells.next().filter(|(key, _)| key.family == self.family)
    }
}

fn key_of(hint: &SeekKey) -> CellKey {
    CellKey {
        timestamp: Reverse(hint.timestamp),
        ..CellKey::first_of(hint.family.clone(), hint.qualifier.clone())
    }
}
