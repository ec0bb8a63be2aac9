//! The rows of a region, one result at a time: HBase's `RegionScannerImpl`.

use std::ops::Bound;

use bytes::Bytes;

use super::{
    progress::{Progress, Scope},
    store_scanner::StoreScanner,
};
use crate::{
    cell::Cell,
    exception::Result,
    filter::Filter,
    region::{Region, Release, entry::CellKey, store::RowKey},
};

/// A read of rows that was begun. It sees writes up to its beginning.
pub(crate) struct RegionScanner {
    pub(super) stores: Vec<StoreScanner>,
    /// Families that are read after the filter has let a row pass.
    pub(super) joined: Vec<StoreScanner>,
    pub(super) filter: Option<Box<dyn Filter>>,
    pub(super) reversed: bool,
    /// The rows that are left.
    pub(super) from: Bound<RowKey>,
    pub(super) to: Bound<RowKey>,
    /// The row in which the families are.
    pub(super) row: Option<Bytes>,
    /// The row that has passed the filter and of which further families are read.
    pub(super) joining: Option<Bytes>,
}

impl RegionScanner {
    /// Whether the filter has ended the scan.
    pub(crate) fn is_filter_done(&self) -> bool {
        self.filter.as_ref().is_some_and(|filter| filter.all_remaining())
    }

    /// Reads one result. Returns whether more may follow.
    pub(crate) fn next(
        &mut self,
        region: &Region,
        cells: &mut Vec<Cell>,
        progress: &mut Progress,
    ) -> Result<bool> {
        progress.is_mid_row = false;
        let more = self.read_result(region, cells, progress)?;
        if !progress.is_mid_row {
            self.reset_filter();
        }
        Ok(more && !self.is_filter_done())
    }

    fn reset_filter(&mut self) {
        if let Some(filter) = &mut self.filter {
            filter.reset();
        }
    }

    /// Returns the row whose cells come next, which may have been begun.
    fn peek(&mut self, region: &Region) -> Option<Bytes> {
        if self.stores.iter().any(StoreScanner::is_in_row) {
            return self.row.clone();
        }
        while let Some(bounds) = self.range() {
            let mut rows = region.store.range(bounds);
            let (key, row) = if self.reversed {
                rows.next_back()
            } else {
                rows.next()
            }?;
            if self.reversed {
                self.to = Bound::Excluded(key.clone());
            } else {
                self.from = Bound::Excluded(key.clone());
            }
            let mut has_cells = false;
            for store in &mut self.stores {
                has_cells |= store.seek_row(&key.row, row);
            }
            if has_cells {
                self.row = Some(key.row.clone());
                return self.row.clone();
            }
        }
        None
    }

    /// Returns the rows that are left, or `None` if there are none: a range must not be inverted.
    fn range(&self) -> Option<(Bound<RowKey>, Bound<RowKey>)> {
        let is_valid = match (&self.from, &self.to) {
            (Bound::Unbounded, _) | (_, Bound::Unbounded) => true,
            (Bound::Included(from), Bound::Included(to)) => from <= to,
            (Bound::Excluded(from) | Bound::Included(from), Bound::Excluded(to) | Bound::Included(to)) => {
                from < to
            }
        };
        is_valid.then(|| (self.from.clone(), self.to.clone()))
    }

    /// `nextInternal`.
    fn read_result(
        &mut self,
        region: &Region,
        cells: &mut Vec<Cell>,
        progress: &mut Progress,
    ) -> Result<bool> {
        let before = progress.bytes;
        let has_row_filter = self.filter.as_ref().is_some_and(|filter| filter.has_row_filter());
        if has_row_filter {
            progress.keep_rows_whole();
        }
        let scope = if has_row_filter { Scope::Rows } else { Scope::Cells };
        loop {
            (progress.batch, progress.bytes) = (0, before);
            let row = self.peek(region);
            if progress.is_time_over(Scope::Cells) {
                return Ok(true);
            }
            if self.joining.is_none() {
                let Some(row) = row else {
                    return Ok(false);
                };
                if self.excludes_row(&row)? {
                    if self.is_filter_done() {
                        return Ok(false);
                    }
                    self.skip_row(region, &row, progress)?;
                    if stops_behind_filtered_row(region, scope, progress) {
                        return Ok(true);
                    }
                    continue;
                }
                populate(region, &row, &mut self.stores, &mut self.filter, cells, progress)?;
                if progress.is_any_reached(Scope::Cells) {
                    return Ok(true);
                }
                if !self.passes(cells, before, progress) {
                    cells.clear();
                    self.reset_filter();
                    if self.peek(region).is_none() {
                        return Ok(false);
                    }
                    if stops_behind_filtered_row(region, scope, progress) {
                        return Ok(true);
                    }
                    continue;
                }
                self.join(region, row);
            }
            if let Some(row) = &self.joining {
                populate(region, row, &mut self.joined, &mut self.filter, cells, progress)?;
                cells.sort_by_cached_key(CellKey::of);
                if progress.is_any_reached(Scope::Cells) {
                    return Ok(true);
                }
                self.joining = None;
            }
            let is_last = self.peek(region).is_none();
            if !cells.is_empty() || is_last {
                return Ok(!is_last);
            }
            self.reset_filter();
            if region.release >= Release::V2_6 && progress.is_size_reached(scope) {
                return Ok(true);
            }
        }
    }

    fn excludes_row(&mut self, row: &Bytes) -> Result<bool> {
        match &mut self.filter {
            Some(filter) => filter.excludes_row(row),
            None => Ok(false),
        }
    }

    /// Shows the rest of a row to the filter, which may count it.
    fn skip_row(&mut self, region: &Region, name: &Bytes, progress: &mut Progress) -> Result<()> {
        match region.store.row(name) {
            Some(row) => {
                progress.is_skipping = true;
                let mut none = Vec::new();
                for store in &mut self.stores {
                    while store.is_in_row() {
                        store.next(name, row, &mut none, progress, &mut self.filter)?;
                    }
                }
                progress.is_skipping = false;
            }
            None => leave_row(&mut self.stores),
        }
        self.reset_filter();
        Ok(())
    }

    /// Returns whether the filter lets a row pass that was read, of which it may remove cells.
    fn passes(&mut self, cells: &mut Vec<Cell>, before: (u64, u64), progress: &mut Progress) -> bool {
        let is_empty = cells.is_empty();
        let Some(filter) = &mut self.filter else {
            return !is_empty;
        };
        if !filter.has_row_filter() {
            return !is_empty && !filter.excludes_whole_row();
        }
        filter.row_cells(cells);
        let is_excluded = !cells.is_empty() && filter.excludes_whole_row();
        if is_excluded {
            cells.clear();
        }
        (progress.batch, progress.bytes) = (0, before);
        for cell in &*cells {
            progress.add(cell);
        }
        !is_empty && !is_excluded
    }

    /// Goes to a row in the families that are read after the others.
    fn join(&mut self, region: &Region, name: Bytes) {
        let Some(row) = region.store.row(&name) else {
            return;
        };
        let mut has_cells = false;
        for store in &mut self.joined {
            has_cells |= store.seek_row(&name, row);
        }
        self.joining = has_cells.then_some(name);
    }
}

fn stops_behind_filtered_row(region: &Region, scope: Scope, progress: &Progress) -> bool {
    if region.release >= Release::V2_6 {
        progress.is_any_reached(scope)
    } else {
        progress.is_time_over(scope)
    }
}

/// Leaves a row of which nothing is left: a compaction has dropped its markers since the call before.
fn leave_row(stores: &mut [StoreScanner]) {
    for store in stores {
        store.leave_row();
    }
}

/// `populateResult`: reads the rest of a row up to a limit.
fn populate(
    region: &Region,
    name: &Bytes,
    stores: &mut [StoreScanner],
    filter: &mut Option<Box<dyn Filter>>,
    cells: &mut Vec<Cell>,
    progress: &mut Progress,
) -> Result<()> {
    let Some(row) = region.store.row(name) else {
        leave_row(stores);
        return Ok(());
    };
    while let Some(store) = stores.iter_mut().find(|store| store.is_in_row()) {
        store.next(name, row, cells, progress, filter)?;
        let is_mid_row = stores.iter().any(StoreScanner::is_in_row);
        if is_mid_row && progress.is_batch_full()
            || progress.is_size_reached(Scope::Cells)
            || progress.is_time_over(Scope::Cells)
        {
            progress.is_mid_row = is_mid_row;
            return Ok(());
        }
    }
    Ok(())
}
