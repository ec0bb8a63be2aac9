//! Scans of one region.

use std::{ops::Bound, sync::Arc};

use bytes::Bytes;
use hbase_protocol as pb;

use super::{
    Region, Release,
    read::{Limits, Parts, Progress, RegionScanner, Rows, Scope},
};
use crate::{
    cell::Cell,
    exception::{Exception, Result},
    filter,
};

/// The most bytes of an answer: `hbase.server.scanner.max.result.size`.
const MAX_BYTES: u64 = 100 << 20;

/// A scan that was begun.
pub(crate) struct Scanner {
    rows: RegionScanner,
    /// The most cells of a result.
    batch: Option<usize>,
    bytes: u64,
    read_point: Arc<u64>,
    needs_cursor: bool,
    /// The row of the last result if more of it may follow.
    partial_row: Option<Bytes>,
}

/// What one call asks of a scan.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Call {
    /// The most results.
    pub(crate) results: usize,
    /// The most whole rows.
    pub(crate) rows: Option<u32>,
    /// Whether the client can join parts of rows.
    pub(crate) cuts_rows: bool,
    /// The number of cells after which the time of the call is over.
    pub(crate) cells_in_time: Option<u64>,
}

/// Some results of a scan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Batch {
    /// Cells of one row each, and whether more cells of the row may follow.
    pub(crate) rows: Vec<(Vec<Cell>, bool)>,
    /// Whether the region may have further rows.
    pub(crate) more_in_region: bool,
    /// False if the filter or the number of rows ends the whole scan.
    pub(crate) more_results: bool,
    /// Whether the call ends because its time is over.
    pub(crate) is_heartbeat: bool,
    /// The row that a heartbeat has reached.
    pub(crate) cursor: Option<Bytes>,
}

impl std::fmt::Debug for Scanner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scanner").finish_non_exhaustive()
    }
}

impl Scanner {
    /// The number of the last write that the scan sees.
    pub(crate) fn read_point(&self) -> u64 {
        *self.read_point
    }
}

impl Region {
    pub(crate) fn open_scanner(&mut self, scan: &pb::Scan, now: u64) -> Result<Scanner> {
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
            max_result_size,
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
            need_cursor_result,
            query_metrics_enabled,
        } = scan;
        if query_metrics_enabled == &Some(true) {
            return Err(Exception::not_modelled("query metrics"));
        }
        if consistency.is_some_and(|consistency| consistency != pb::Consistency::Strong as i32) {
            return Err(Exception::not_modelled("reads of replicas"));
        }
        let mut filter = filter
            .as_ref()
            .map(|filter| filter::parse(filter, self.release.filters()))
            .transpose()?;
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
        // Unless a scan says otherwise, servers read such families on demand.
        let joins = *load_column_families_on_demand != Some(false);
        if let (true, Some(filter)) = (reversed, &mut filter) {
            if joins && !query.families().all(|family| filter.needs_family(family)) {
                return Err(Exception::do_not_retry(
                    "Reverse scan with loading CFs on demand is not supported",
                ));
            }
            filter.reverse()?;
        }
        let bound = |row: &Option<Bytes>, inclusive: Option<bool>, default: bool| match row {
            Some(row) if !row.is_empty() => {
                if inclusive.unwrap_or(default) {
                    Bound::Included(self.store.key(row))
                } else {
                    Bound::Excluded(self.store.key(row))
                }
            }
            _ => Bound::Unbounded,
        };
        // A get as a scan: the same row begins and ends it, and nothing says that it is left out.
        let is_get = start_row.as_ref().is_some_and(|row| !row.is_empty()) && start_row == stop_row;
        let start = bound(start_row, *include_start_row, true);
        let stop = bound(stop_row, *include_stop_row, is_get);
        let (from, to) = if reversed { (stop, start) } else { (start, stop) };
        let is_uncommitted = attribute
            .iter()
            .any(|attribute| attribute.name == "_isolationlevel_" && attribute.value() == [1]);
        let read_point = Arc::new(match mvcc_read_point {
            _ if is_uncommitted => i64::MAX as u64,
            Some(point) if *point > 0 => *point,
            _ => self.sequence,
        });
        self.scanners.retain(|point| point.strong_count() > 0);
        self.scanners.push(Arc::downgrade(&read_point));
        let rows = Rows {
            from,
            to,
            reversed,
            joins,
            read_point: *read_point,
        };
        Ok(Scanner {
            rows: query.scanner(self, filter, rows, now),
            batch: batch_size
                .and_then(|size| usize::try_from(size).ok())
                .filter(|size| *size > 0),
            bytes: max_result_size
                .filter(|size| *size > 0)
                .unwrap_or(MAX_BYTES)
                .min(MAX_BYTES),
            read_point,
            needs_cursor: *need_cursor_result == Some(true),
            partial_row: None,
        })
    }

    /// Answers one call of a scan.
    pub(crate) fn next(&mut self, scanner: &mut Scanner, call: Call) -> Result<Batch> {
        let mut progress = Progress::new(Limits {
            batch: scanner.batch,
            bytes: Some(scanner.bytes),
            cells_in_time: call.cells_in_time.filter(|_| call.cuts_rows),
            cuts_rows: call.cuts_rows,
        });
        let mut batch = Batch {
            more_in_region: true,
            more_results: true,
            ..Batch::default()
        };
        let mut whole_rows = 0;
        let has_enough = |whole_rows| call.rows.is_some_and(|most| whole_rows >= most);
        while batch.rows.len() < call.results {
            progress.begin_result();
            let mut cells = Vec::new();
            batch.more_in_region = scanner.rows.next(self, &mut cells, &mut progress)?;
            if let Some(first) = cells.first() {
                let unfinished = match batch.rows.last() {
                    None => scanner.partial_row.as_ref(),
                    Some((last, is_partial)) => {
                        is_partial.then(|| last.first().map(|cell| &cell.row)).flatten()
                    }
                };
                if unfinished.is_some_and(|row| *row != first.row) {
                    whole_rows += 1;
                    if has_enough(whole_rows) {
                        batch.more_results = false;
                        break;
                    }
                }
                let is_partial = progress.is_mid_row();
                batch.rows.push((cells, is_partial));
                if !is_partial {
                    whole_rows += 1;
                    if has_enough(whole_rows) {
                        batch.more_results = false;
                        break;
                    }
                }
            } else if let (false, Some((_, is_partial))) = (batch.more_in_region, batch.rows.last_mut()) {
                *is_partial = false;
            }
            let is_time_over = progress.is_time_over(Scope::Rows);
            let is_full = progress.is_size_reached(Scope::Rows);
            if is_time_over || is_full {
                let is_empty = batch.rows.is_empty();
                batch.is_heartbeat = batch.more_in_region
                    && (is_time_over || is_full && is_empty && self.release >= Release::V2_6);
                if batch.is_heartbeat && scanner.needs_cursor {
                    batch.cursor = progress.last_row();
                }
                break;
            }
            if !batch.more_in_region {
                break;
            }
        }
        if scanner.rows.is_filter_done() && batch.rows.is_empty() {
            batch.more_results = false;
        }
        if let (true, true, Some((cells, is_partial))) =
            (batch.more_results, batch.more_in_region, batch.rows.last())
        {
            let row = cells.first().map(|cell| cell.row.clone());
            scanner.partial_row = row.filter(|_| *is_partial);
        }
        Ok(batch)
    }
}
