//! Gets.

use std::ops::Bound;

use bytes::Bytes;
use hbase_protocol as pb;

use super::{
    Region,
    read::{Parts, Progress, Query, Rows},
};
use crate::{
    cell::Cell,
    exception::{Exception, Result},
    filter::{self, Filter},
};

/// The answer to a get.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Read {
    pub(crate) cells: Vec<Cell>,
    /// Whether there is a cell, if only that was asked.
    pub(crate) exists: Option<bool>,
}

impl Region {
    pub(crate) fn get(&mut self, get: &pb::Get, now: u64) -> Result<Read> {
        let pb::Get {
            row,
            column,
            attribute,
            filter,
            time_range,
            max_versions: _,
            cache_blocks: _,
            store_limit,
            store_offset,
            existence_only,
            consistency,
            cf_time_range,
            load_column_families_on_demand,
            query_metrics_enabled,
        } = get;
        if query_metrics_enabled == &Some(true) {
            return Err(Exception::not_modelled("query metrics"));
        }
        if consistency.is_some_and(|consistency| consistency != pb::Consistency::Strong as i32) {
            return Err(Exception::not_modelled("reads of replicas"));
        }
        if !self.contains(row) {
            return Err(self.wrong_region(row, "get"));
        }
        let query = self.query(&Parts {
            columns: column,
            attributes: attribute,
            time_range: time_range.as_ref(),
            family_ranges: cf_time_range,
            max_versions: get.max_versions(),
            store_limit: *store_limit,
            store_offset: *store_offset,
        })?;
        let filter = filter
            .as_ref()
            .map(|filter| filter::parse(filter, self.release.filters()))
            .transpose()?;
        // Unless a get says otherwise, servers read families on demand.
        let joins = *load_column_families_on_demand != Some(false);
        let cells = self.read_row(&query, row, now, filter, joins)?;
        Ok(match existence_only {
            Some(true) => Read {
                exists: Some(!cells.is_empty()),
                cells: Vec::new(),
            },
            _ => Read { cells, exists: None },
        })
    }

    /// Returns what a query finds in one row, up to the last write.
    pub(super) fn read_row(
        &self,
        query: &Query,
        row: &Bytes,
        now: u64,
        filter: Option<Box<dyn Filter>>,
        joins: bool,
    ) -> Result<Vec<Cell>> {
        let rows = Rows {
            from: Bound::Included(self.store.key(row)),
            to: Bound::Included(self.store.key(row)),
            reversed: false,
            joins,
            read_point: self.sequence,
        };
        let mut cells = Vec::new();
        let mut scanner = query.scanner(self, filter, rows, now);
        scanner.next(self, &mut cells, &mut Progress::unlimited())?;
        Ok(cells)
    }

    pub(super) fn wrong_region(&self, row: &[u8], what: &str) -> Exception {
        Exception::new(
            "regionserver.WrongRegionException",
            format!(
                "Requested row out of range for {what} on HRegion, row='{}'",
                row.escape_ascii()
            ),
        )
    }
}
