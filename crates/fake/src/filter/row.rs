//! Filters of whole rows.

use bytes::Bytes;
use hbase_protocol as pb;

use super::{Filter, SeekKey, Verdict};
use crate::{
    cell::Cell,
    exception::{Exception, Result},
};

/// `PrefixFilter`. Without a prefix, it excludes every row.
pub(super) struct Prefix {
    prefix: Option<Bytes>,
    /// Whether it skips the rows before the prefix by a hint.
    hints: bool,
    excluded: bool,
    passed: bool,
    is_ahead: bool,
    reversed: bool,
}

impl Prefix {
    pub(super) fn new(prefix: Option<Bytes>, hints: bool) -> Self {
        Self {
            prefix,
            hints,
            excluded: true,
            passed: false,
            is_ahead: false,
            reversed: false,
        }
    }

    /// The row at which the rows with the prefix begin, in the direction of the scan.
    fn first_row(&self) -> Bytes {
        let prefix = self.prefix.clone().unwrap_or_default();
        if self.reversed { increased(prefix) } else { prefix }
    }
}

/// `PrivateCellUtil.increaseLastNonMaxByte`.
fn increased(bytes: Bytes) -> Bytes {
    let mut bytes = bytes.to_vec();
    if let Some(last) = bytes.iter_mut().rev().find(|byte| **byte != u8::MAX) {
        *last += 1;
    }
    bytes.into()
}

impl Filter for Prefix {
    fn gives_hints(&self) -> bool {
        self.hints
    }

    fn reverse(&mut self) -> Result<()> {
        self.reversed = true;
        Ok(())
    }

    fn reset(&mut self) {
        self.excluded = true;
    }

    fn all_remaining(&self) -> bool {
        self.passed
    }

    fn excludes_row(&mut self, row: &[u8]) -> Result<bool> {
        let Some(prefix) = &self.prefix else {
            return Ok(true);
        };
        if self.passed {
            return Ok(true);
        }
        let beginning = match row.get(..prefix.len()) {
            Some(beginning) => beginning,
            // Without hints, a row shorter than the prefix does not end the scan, whatever its order.
            None if !self.hints => return Ok(true),
            None => row,
        };
        let order = beginning.cmp(prefix);
        let order = if self.reversed { order.reverse() } else { order };
        self.passed = order.is_gt();
        self.excluded = order.is_ne();
        self.is_ahead = self.hints && order.is_lt();
        Ok(if self.hints { self.passed } else { self.excluded })
    }

    fn cell(&mut self, _cell: &Cell) -> Result<Verdict> {
        Ok(if self.is_ahead {
            Verdict::Seek(SeekKey::row(self.first_row()))
        } else if self.excluded {
            Verdict::NextRow
        } else {
            Verdict::Include
        })
    }

    fn excludes_whole_row(&mut self) -> bool {
        self.excluded
    }
}

/// `InclusiveStopFilter`.
pub(super) struct InclusiveStop {
    pub(super) stop_row: Bytes,
    pub(super) reversed: bool,
    pub(super) done: bool,
}

impl Filter for InclusiveStop {
    fn reverse(&mut self) -> Result<()> {
        self.reversed = true;
        Ok(())
    }

    fn all_remaining(&self) -> bool {
        self.done
    }

    fn excludes_row(&mut self, row: &[u8]) -> Result<bool> {
        let order = row.cmp(&self.stop_row);
        self.done |= if self.reversed {
            order.is_lt()
        } else {
            order.is_gt()
        };
        Ok(self.done)
    }

    fn cell(&mut self, _cell: &Cell) -> Result<Verdict> {
        Ok(if self.done {
            Verdict::NextRow
        } else {
            Verdict::Include
        })
    }
}

/// `PageFilter`: the first rows of each region.
pub(super) struct Page {
    pub(super) size: i64,
    pub(super) accepted: i64,
}

impl Filter for Page {
    fn all_remaining(&self) -> bool {
        self.accepted >= self.size
    }

    fn excludes_row(&mut self, _row: &[u8]) -> Result<bool> {
        Ok(self.all_remaining())
    }

    fn cell(&mut self, _cell: &Cell) -> Result<Verdict> {
        Ok(Verdict::Include)
    }

    fn excludes_whole_row(&mut self) -> bool {
        self.accepted += 1;
        self.accepted > self.size
    }

    fn has_row_filter(&self) -> bool {
        true
    }
}

/// `RandomRowFilter`. It draws from the thread's generator, so a seed of that decides.
pub(super) struct RandomRow {
    pub(super) chance: f32,
    pub(super) excluded: bool,
}

impl Filter for RandomRow {
    fn reset(&mut self) {
        self.excluded = false;
    }

    fn excludes_row(&mut self, _row: &[u8]) -> Result<bool> {
        self.excluded = if self.chance < 0.0 {
            true
        } else if self.chance > 1.0 {
            false
        } else {
            // A chance that is no number excludes the row.
            let included = fastrand::f32() < self.chance;
            !included
        };
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

    fn has_row_filter(&self) -> bool {
        true
    }
}

/// A range of rows. An empty bound is no bound.
#[derive(Clone, Debug)]
struct Range {
    start: Bytes,
    start_inclusive: bool,
    stop: Bytes,
    stop_inclusive: bool,
}

impl From<pb::RowRange> for Range {
    fn from(range: pb::RowRange) -> Self {
        let pb::RowRange {
            start_row,
            start_row_inclusive,
            stop_row,
            stop_row_inclusive,
        } = range;
        Self {
            start: start_row.unwrap_or_default(),
            start_inclusive: start_row_inclusive.unwrap_or_default(),
            stop: stop_row.unwrap_or_default(),
            stop_inclusive: stop_row_inclusive.unwrap_or_default(),
        }
    }
}

impl Range {
    fn is_valid(&self) -> bool {
        self.start.is_empty()
            || self.stop.is_empty()
            || self.start < self.stop
            || self.start == self.stop && self.stop_inclusive
    }

    fn begins_by(&self, row: &[u8]) -> bool {
        *row > self.start || row == self.start && self.start_inclusive
    }

    fn ends_before(&self, row: &[u8]) -> bool {
        !self.stop.is_empty() && (*row > self.stop || row == self.stop && !self.stop_inclusive)
    }

    /// Returns whether a range that does not begin before this one overlaps or touches it.
    fn reaches(&self, next: &Self) -> bool {
        self.stop.is_empty()
            || self.stop > next.start
            || self.stop == next.start && (self.stop_inclusive || next.start_inclusive)
    }

    fn extend_to(&mut self, stop: Bytes, inclusive: bool) {
        if self.stop.is_empty() {
            return;
        }
        if self.stop == stop {
            self.stop_inclusive |= inclusive;
        } else if stop.is_empty() || stop > self.stop {
            self.stop = stop;
            self.stop_inclusive = inclusive;
        }
    }
}

/// `MultiRowRangeFilter`.
#[derive(Debug)]
pub(super) struct MultiRowRange {
    /// In order, with gaps in between.
    ranges: Vec<Range>,
    reversed: bool,
    done: bool,
    verdict: Verdict,
}

impl MultiRowRange {
    /// Returns the filter, or why the ranges are invalid.
    pub(super) fn new(ranges: Vec<pb::RowRange>) -> Result<Self, String> {
        let mut ranges: Vec<Range> = ranges.into_iter().map(Range::from).collect();
        if ranges.is_empty() {
            return Err("No ranges found.".to_owned());
        }
        if let Some(range) = ranges.iter().find(|range| !range.is_valid()) {
            return Err(format!("invalid range {:?} to {:?}", range.start, range.stop));
        }
        // Of two ranges with one start, the one that includes it decides.
        ranges.sort_by(|left, right| {
            let inclusive = right.start_inclusive.cmp(&left.start_inclusive);
            left.start.cmp(&right.start).then(inclusive)
        });
        let mut merged: Vec<Range> = Vec::new();
        for range in ranges {
            match merged.last_mut() {
                Some(last) if last.reaches(&range) => last.extend_to(range.stop, range.stop_inclusive),
                _ => merged.push(range),
            }
        }
        Ok(Self {
            ranges: merged,
            reversed: false,
            done: false,
            verdict: Verdict::Include,
        })
    }

    /// The verdict on a row, or `None` after the last range.
    fn judge(&self, row: &[u8]) -> Option<Verdict> {
        let range = if self.reversed {
            self.ranges.iter().rev().find(|range| *row >= range.start)?
        } else {
            self.ranges
                .iter()
                .find(|range| range.stop.is_empty() || *row <= range.stop)?
        };
        let bound = if self.reversed { &range.stop } else { &range.start };
        Some(if range.begins_by(row) && !range.ends_before(row) {
            Verdict::Include
        } else if row == bound {
            Verdict::NextRow
        } else if self.reversed == (row > bound) {
            Verdict::Seek(SeekKey::row(bound.clone()))
        } else {
            // On the excluded far bound of the range.
            Verdict::NextRow
        })
    }
}

impl Filter for MultiRowRange {
    fn gives_hints(&self) -> bool {
        true
    }

    /// HBase misses rows if the last range of a reversed scan has no stop row.
    fn reverse(&mut self) -> Result<()> {
        if self.ranges.iter().any(|range| range.stop.is_empty()) {
            return Err(Exception::not_modelled(
                "MultiRowRangeFilter without a stop row in a reversed scan",
            ));
        }
        self.reversed = true;
        Ok(())
    }

    fn all_remaining(&self) -> bool {
        self.done
    }

    fn excludes_row(&mut self, row: &[u8]) -> Result<bool> {
        if self.done {
            return Ok(true);
        }
        let verdict = self.judge(row);
        self.done = verdict.is_none();
        self.verdict = verdict.unwrap_or(Verdict::NextRow);
        Ok(false)
    }

    fn cell(&mut self, _cell: &Cell) -> Result<Verdict> {
        Ok(self.verdict.clone())
    }
}
