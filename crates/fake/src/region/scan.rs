//! Scans of one region.

use std::{collections::VecDeque, ops::Bound, sync::Arc};

use bytes::Bytes;
use hbase_protocol as pb;

use super::{
    Region,
    query::{Moment, Parts, Query},
    store::RowKey,
};
use crate::{
    cell::Cell,
    exception::{Exception, Result},
    filter::{self, Filter},
};

/// A scan that was begun. It sees writes up to its beginning.
pub(crate) struct Scanner {
    query: Query,
    filter: Option<Box<dyn Filter>>,
    reversed: bool,
    /// The rows that are left.
    from: Bound<RowKey>,
    to: Bound<RowKey>,
    /// The most cells of a result.
    batch: Option<usize>,
    read_point: Arc<u64>,
    /// The rest of a row that was cut.
    rest: VecDeque<Cell>,
}

/// When a batch ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// The number of rows, or of results of a scan whose rows are cut.
    pub(crate) rows: usize,
    /// The size of the cells, roughly, after which no further result begins.
    pub(crate) bytes: u64,
}

/// Some results of a scan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Batch {
    /// Cells of one row each, and whether more cells of the row follow.
    pub(crate) rows: Vec<(Vec<Cell>, bool)>,
    /// Whether the region may have further rows.
    pub(crate) more_in_region: bool,
    /// False if the filter ends the whole scan.
    pub(crate) more_results: bool,
}

impl std::fmt::Debug for Scanner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scanner")
            .field("query", &self.query)
            .finish_non_exhaustive()
    }
}

impl Scanner {
    fn is_filter_done(&self) -> bool {
        self.filter.as_ref().is_some_and(|filter| filter.all_remaining())
    }

    /// The number of the last write that the scan sees.
    pub(crate) fn read_point(&self) -> u64 {
        *self.read_point
    }
}

impl Region {
    pub(crate) fn open_scanner(&mut self, scan: &pb::Scan, _now: u64) -> Result<Scanner> {
        let pb::Scan {
            column,
            attribute,
            start_row,
            stop_row,
            filter,
            time_range,
            max_versions: _,
            cache_blocks: _,
            batch_size,
            max_result_size: _,
            store_limit,
            store_offset,
            load_column_families_on_demand,
            reversed,
            consistency,
            caching: _,
            allow_partial_results: _,
            cf_time_range,
            mvcc_read_point,
            include_start_row,
            include_stop_row,
            read_type: _,
            // Cursors come with heartbeats only, and no scan here takes so long.
            need_cursor_result: _,
            query_metrics_enabled,
        } = scan;
        if query_metrics_enabled == &Some(true) {
            return Err(Exception::not_modelled("query metrics"));
        }
        if consistency.is_some_and(|consistency| consistency != pb::Consistency::Strong as i32) {
            return Err(Exception::not_modelled("reads of replicas"));
        }
        let mut filter = filter.as_ref().map(filter::parse).transpose()?;
        let cuts_rows = batch_size.is_some_and(|size| size > 0);
        if cuts_rows && filter.as_ref().is_some_and(|filter| filter.has_row_filter()) {
            return Err(Exception::io(
                "Cannot set batch on a scan using a filter that returns true for filter.hasFilterRow",
            ));
        }
        let query = self.query(&Parts {
            columns: column,
            attributes: attribute,
            time_range: time_range.as_ref(),
            family_ranges: cf_time_range,
            max_versions: scan.max_versions(),
            store_limit: *store_limit,
            store_offset: *store_offset,
        })?;
        let reversed = *reversed == Some(true);
        if let (true, Some(filter)) = (reversed, &mut filter) {
            // Unless a scan says otherwise, servers read such families on demand.
            let on_demand = *load_column_families_on_demand != Some(false);
            if on_demand && !query.families().all(|family| filter.needs_family(family)) {
                return Err(Exception::do_not_retry(
                    "Reverse scan with loading CFs on demand is not supported",
                ));
            }
            filter.reverse()?;
        }
        let bound = |row: &Option<Bytes>, inclusive: Option<bool>, default: bool| match row {
            Some(row) if !row.is_empty() => match inclusive.unwrap_or(default) {
                true => Bound::Included(self.store.key(row)),
                false => Bound::Excluded(self.store.key(row)),
            },
            _ => Bound::Unbounded,
        };
        // A get as a scan: the same row begins and ends it, and nothing says that it is left out.
        let is_get = start_row.as_ref().is_some_and(|row| !row.is_empty()) && start_row == stop_row;
        let start = bound(start_row, *include_start_row, true);
        let stop = bound(stop_row, *include_stop_row, is_get);
        let (from, to) = if reversed { (stop, start) } else { (start, stop) };
        let read_point = Arc::new(
            mvcc_read_point
                .filter(|point| *point > 0)
                .unwrap_or(self.sequence),
        );
        self.scanners.retain(|point| point.strong_count() > 0);
        self.scanners.push(Arc::downgrade(&read_point));
        Ok(Scanner {
            query,
            filter,
            reversed,
            from,
            to,
            batch: batch_size
                .and_then(|size| usize::try_from(size).ok())
                .filter(|size| *size > 0),
            read_point,
            rest: VecDeque::new(),
        })
    }

    pub(crate) fn next(&mut self, scanner: &mut Scanner, limits: Limits, now: u64) -> Result<Batch> {
        let mut batch = Batch {
            more_in_region: true,
            more_results: true,
            ..Batch::default()
        };
        let mut bytes = 0;
        while batch.rows.len() < limits.rows && bytes < limits.bytes {
            if scanner.rest.is_empty() && !self.read_next_row(scanner, now)? {
                batch.more_in_region = false;
                batch.more_results = !batch.rows.is_empty() || !scanner.is_filter_done();
                break;
            }
            let count = scanner.batch.unwrap_or(usize::MAX).min(scanner.rest.len());
            let cells: Vec<Cell> = scanner.rest.drain(..count).collect();
            bytes += cells.iter().map(size).sum::<u64>();
            let is_partial =
                scanner.batch.is_some_and(|most| cells.len() == most) && !scanner.rest.is_empty();
            batch.rows.push((cells, is_partial));
        }
        // Where a result is full, a server does not know whether its row goes on.
        let is_full = batch
            .rows
            .last()
            .is_some_and(|(cells, _)| scanner.batch == Some(cells.len()));
        if batch.more_in_region && scanner.rest.is_empty() && !is_full && self.is_at_end(scanner) {
            batch.more_in_region = false;
        }
        Ok(batch)
    }

    fn is_at_end(&self, scanner: &Scanner) -> bool {
        scanner.is_filter_done()
            || range(scanner).is_none_or(|range| {
                let mut rows = self.store.range(range);
                rows.all(|(_, row)| !scanner.query.has_cells(row, *scanner.read_point))
            })
    }

    /// Reads the next row with cells. Returns whether there is one.
    fn read_next_row(&self, scanner: &mut Scanner, now: u64) -> Result<bool> {
        let moment = Moment {
            read_point: *scanner.read_point,
            now,
        };
        while let Some(bounds) = range(scanner) {
            if scanner.is_filter_done() {
                return Ok(false);
            }
            let mut rows = self.store.range(bounds);
            let next = if scanner.reversed {
                rows.next_back()
            } else {
                rows.next()
            };
            let Some((key, row)) = next else {
                return Ok(false);
            };
            if scanner.reversed {
                scanner.to = Bound::Excluded(key.clone());
            } else {
                scanner.from = Bound::Excluded(key.clone());
            }
            let cells = match &mut scanner.filter {
                None => scanner.query.read(self, &key.row, row, moment, None)?,
                Some(filter) => {
                    filter.reset();
                    if filter.excludes_row(&key.row)? {
                        continue;
                    }
                    let mut cells = scanner
                        .query
                        .read(self, &key.row, row, moment, Some(&mut **filter))?;
                    if filter.has_row_filter() {
                        filter.row_cells(&mut cells);
                    }
                    if !cells.is_empty() && filter.excludes_whole_row() {
                        cells.clear();
                    }
                    cells
                }
            };
            if !cells.is_empty() {
                scanner.rest = cells.into();
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Returns the rows that are left, or `None` if there are none: a range must not be inverted.
fn range(scanner: &Scanner) -> Option<(Bound<RowKey>, Bound<RowKey>)> {
    let is_valid = match (&scanner.from, &scanner.to) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => true,
        (Bound::Included(from), Bound::Included(to)) => from <= to,
        (Bound::Excluded(from) | Bound::Included(from), Bound::Excluded(to) | Bound::Included(to)) => {
            from < to
        }
    };
    is_valid.then(|| (scanner.from.clone(), scanner.to.clone()))
}

fn size(cell: &Cell) -> u64 {
    let lengths = [&cell.row, &cell.family, &cell.qualifier, &cell.value].map(|part| part.len() as u64);
    lengths.iter().sum::<u64>() + 24
}
