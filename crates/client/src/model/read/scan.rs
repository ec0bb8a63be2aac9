//! Reads of a range of rows.

use std::collections::BTreeSet;

use bytes::Bytes;

use super::selection::{Consistency, IsolationLevel, MOST, Selection, TimeRange, selection_methods};
use crate::{
    error::{Error, Result},
    model::{
        BytesBinary, IntoBytes, ReadFilter, TableName,
        attributes::set_attribute,
        limits::key_after_prefix,
        limits::{check_row, key_before},
    },
};

/// How a server reads the files of a region for a scan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ReadType {
    /// Positional reads at first, and a stream once the scan has read a few blocks. The default.
    #[default]
    Default,
    /// One stream through each file: for long scans.
    Stream,
    /// Positional reads: for short scans.
    Pread,
}

/// A read of a range of rows, in ascending order or [in descending order](Self::reversed).
///
/// # Example
///
/// ```
/// use hbase_client::Scan;
///
/// let whole_table = Scan::new();
/// let from_a_to_before_c = Scan::new().start_row("a").stop_row("c");
/// let partition = Scan::prefix("xxx");
/// let last_of_the_partition = Scan::prefix("xxx").reversed().limit(1);
/// # let _ = (whole_table, from_a_to_before_c, partition, last_of_the_partition);
/// ```
#[derive(Clone, Debug, PartialEq)]
#[must_use = "a scan does nothing until it is given to a table"]
pub struct Scan {
    pub(crate) start: Bytes,
    pub(crate) include_start: bool,
    pub(crate) stop: Bytes,
    pub(crate) include_stop: bool,
    pub(crate) reversed: bool,
    /// Whether the bounds are those of a prefix.
    pub(crate) is_prefix: bool,
    /// The most cells of each returned part of a row.
    pub(crate) batch: Option<u32>,
    /// Whether parts of rows are returned as they arrive.
    pub(crate) partial_results: bool,
    pub(crate) read_type: ReadType,
    pub(crate) read_point: Option<u64>,
    pub(crate) track_metrics: bool,
    pub(crate) metrics_by_region: bool,
    pub(crate) limit: Option<u64>,
    pub(crate) caching: Option<u32>,
    pub(crate) max_result_size: Option<u64>,
    /// The only rows of the range to read; empty for all of them.
    pub(crate) rows: BTreeSet<Bytes>,
    /// Whether all stored versions and delete markers are read.
    pub(crate) raw: bool,
    pub(crate) cache_blocks: bool,
    pub(crate) selection: Selection,
}

impl Scan {
    /// Creates a scan of the whole table.
    pub fn new() -> Self {
        Self {
            start: Bytes::new(),
            include_start: true,
            stop: Bytes::new(),
            include_stop: false,
            reversed: false,
            is_prefix: false,
            batch: None,
            partial_results: false,
            read_type: ReadType::Default,
            read_point: None,
            track_metrics: false,
            metrics_by_region: false,
            limit: None,
            caching: None,
            max_result_size: None,
            rows: BTreeSet::new(),
            raw: false,
            cache_blocks: true,
            selection: Selection::default(),
        }
    }

    /// Creates a scan of all rows that begin with these bytes.
    pub fn prefix(prefix: impl IntoBytes) -> Self {
        let prefix = prefix.into_bytes();
        Self {
            stop: key_after_prefix(&prefix),
            start: prefix,
            is_prefix: true,
            ..Self::new()
        }
    }

    /// Starts at this row, or at the next one if it does not exist. An empty key is the start of
    /// the table, or the end of it for a [reversed](Self::reversed) scan.
    pub fn start_row(self, row: impl IntoBytes) -> Self {
        self.start_at(row.into_bytes(), true)
    }

    /// Starts after this row.
    pub fn start_row_exclusive(self, row: impl IntoBytes) -> Self {
        self.start_at(row.into_bytes(), false)
    }

    fn start_at(self, start: Bytes, include_start: bool) -> Self {
        Self {
            // There is no row with an empty key.
            include_start: include_start || start.is_empty(),
            start,
            is_prefix: false,
            ..self
        }
    }

    /// Stops before this row. An empty key is the end of the table, or the start of it for a
    /// [reversed](Self::reversed) scan.
    pub fn stop_row(self, row: impl IntoBytes) -> Self {
        self.stop_at(row.into_bytes(), false)
    }

    /// Stops after this row.
    pub fn stop_row_inclusive(self, row: impl IntoBytes) -> Self {
        self.stop_at(row.into_bytes(), true)
    }

    fn stop_at(self, stop: Bytes, include_stop: bool) -> Self {
        Self {
            stop,
            include_stop,
            is_prefix: false,
            ..self
        }
    }

    /// Reads rows in descending order, from the start row, which is the largest, down to the stop
    /// row. A scan of a [prefix](Self::prefix) keeps its rows. The cells of a row keep their order.
    ///
    /// # Example
    ///
    /// ```
    /// use hbase_client::Scan;
    ///
    /// let from_c_to_after_a = Scan::new().start_row("c").stop_row("a").reversed();
    /// # let _ = from_c_to_after_a;
    /// ```
    pub fn reversed(self) -> Self {
        let (start, stop) = (self.start.clone(), self.stop.clone());
        let scan = if self.is_prefix {
            self.start_row_exclusive(stop).stop_row_inclusive(start)
        } else {
            self
        };
        Self {
            reversed: true,
            ..scan
        }
    }

    /// Returns rows in parts of this many cells, the last of a row with fewer: for rows that are too
    /// wide to be held whole. Each part is a [`Row`](crate::Row) of its own with the row's key, and
    /// [`Row::may_have_more_cells`](crate::Row::may_have_more_cells) says whether others follow.
    /// Java's `setBatch`.
    ///
    /// [`limit`](Self::limit) counts rows, not their parts. If a region moves while one of its rows
    /// is read, the next part continues after the last returned cell, as of a later moment. HBase
    /// rejects a batch with a filter that judges whole rows.
    pub fn batch(mut self, cells: u32) -> Self {
        self.batch = Some(cells.min(MOST));
        self
    }

    /// Returns the parts of rows as they arrive, which are as large as
    /// [`max_result_size`](Self::max_result_size) allows, and have at most as many cells as a
    /// [`batch`](Self::batch). Java's `setAllowPartialResults`.
    pub fn allow_partial_results(mut self) -> Self {
        self.partial_results = true;
        self
    }

    /// Sets how servers read files for this scan.
    pub fn read_type(mut self, read_type: ReadType) -> Self {
        self.read_type = read_type;
        self
    }

    /// Reads as of the moment at which another scanner of the same region was opened, whose
    /// [`mvcc_read_point`](crate::ResultScanner::mvcc_read_point) this is.
    ///
    /// # Limits
    ///
    /// HBase keeps no versions for it: what is overwritten, deleted or expired meanwhile may be
    /// missing, silently, once the region has been flushed, compacted or reopened. Only sensible for
    /// a region with no such change. Points of different regions have no relation, so use it only
    /// for a range inside of one region.
    pub fn mvcc_read_point(mut self, point: u64) -> Self {
        self.read_point = Some(point);
        self
    }

    /// Makes the servers count the rows that they read for this scan and those that they filter
    /// out, for [`ResultScanner::metrics`](crate::ResultScanner::metrics).
    pub fn scan_metrics(mut self) -> Self {
        self.track_metrics = true;
        self
    }

    /// Collects the [`scan_metrics`](Self::scan_metrics) also for each region.
    pub fn scan_metrics_by_region(mut self) -> Self {
        self.metrics_by_region = true;
        self.scan_metrics()
    }

    /// Reads only these rows of the range.
    pub(crate) fn only_rows(mut self, rows: BTreeSet<Bytes>) -> Self {
        self.rows = rows;
        self
    }

    /// Reads everything that is stored, including deleted versions and delete markers
    /// ([`Cell::kind`](crate::Cell::kind) distinguishes them), until a major compaction drops them.
    /// A raw scan accepts families, but no columns.
    pub fn raw(mut self) -> Self {
        self.raw = true;
        self.selection.max_versions = Some(MOST);
        self
    }

    /// Sets whether the server keeps the blocks that it reads in its block cache. The default is
    /// `true`; a scan of a whole table would evict the blocks of other clients.
    pub fn cache_blocks(mut self, cache: bool) -> Self {
        self.cache_blocks = cache;
        self
    }

    /// Returns at most this many rows.
    pub fn limit(mut self, rows: u64) -> Self {
        self.limit = Some(rows);
        self
    }

    /// Sets the maximum number of rows per call of the server. The size limits a call as well.
    pub fn caching(mut self, rows: u32) -> Self {
        self.caching = Some(rows.min(MOST));
        self
    }

    /// Sets the approximate number of bytes per call of the server. The default is
    /// `hbase.client.scanner.max.result.size`, 1 MiB unless it is set.
    pub fn max_result_size(mut self, bytes: u64) -> Self {
        self.max_result_size = Some(bytes);
        self
    }

    selection_methods!();

    pub(crate) fn check(&self, table: &TableName) -> Result<()> {
        for bound in [&self.start, &self.stop] {
            if !bound.is_empty() {
                check_row(bound)?;
            }
        }
        let is_inverted = if self.reversed {
            self.start < self.stop
        } else {
            self.start > self.stop
        };
        let is_bounded = !self.start.is_empty() && !self.stop.is_empty();
        // The rows of `hbase:meta` are not in the order of their bytes: `MetaCellComparator`.
        if is_bounded && is_inverted && !table.is_meta() {
            let (order, hint) = if self.reversed {
                ("before", "a reversed scan starts at the largest row")
            } else {
                ("after", "a scan with reversed() reads down to its stop row")
            };
            return Err(Error::invalid(format!(
                "start row {} is {order} stop row {}",
                BytesBinary(&self.start),
                BytesBinary(&self.stop)
            ))
            .with_hint(hint));
        }
        if self.caching == Some(0) || self.max_result_size == Some(0) || self.batch == Some(0) {
            return Err(Error::invalid(
                "a scan asks for at least one row, one cell and one byte a call",
            ));
        }
        if self.raw
            && self
                .selection
                .columns
                .iter()
                .any(|(_, qualifiers)| !qualifiers.is_empty())
        {
            return Err(Error::invalid("a raw scan takes families, but no columns"));
        }
        self.selection.check()?;
        let filter = self.selection.filter.as_deref();
        filter.map_or(Ok(()), ReadFilter::check_in_scan)
    }

    /// Returns whether the scan, an ascending one, ends before this row.
    pub(crate) fn ends_before(&self, row: &[u8]) -> bool {
        !self.stop.is_empty() && (row > &self.stop[..] || (row == self.stop && !self.include_stop))
    }

    /// Returns whether the scan has rows beyond the far end of a region: its end key, or its start
    /// key for a reversed scan.
    pub(crate) fn goes_beyond(&self, boundary: &[u8]) -> bool {
        !boundary.is_empty()
            && if self.reversed {
                boundary > &self.stop[..]
            } else {
                !self.ends_before(boundary)
            }
    }

    /// Returns a row of the region in which the scan continues at `row`, which may belong to it.
    pub(crate) fn row_of_region(&self, row: &Bytes, is_included: bool) -> Bytes {
        if self.reversed && (row.is_empty() || !is_included) {
            key_before(row)
        } else {
            row.clone()
        }
    }

    /// Returns whether rows are returned in parts.
    pub(crate) fn is_in_parts(&self) -> bool {
        self.batch.is_some() || self.partial_results
    }
}

impl Default for Scan {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::model::Get;

    #[test]
    fn reversed_prefix_begins_before_the_next_one_and_keeps_its_rows() {
        let scan = Scan::prefix("xxx").reversed().reversed();
        assert_eq!((&scan.start[..], scan.include_start), (&b"xxy"[..], false));
        assert_eq!((&scan.stop[..], scan.include_stop), (&b"xxx"[..], true));
        let to_the_end = Scan::prefix(&b"\xff"[..]).reversed();
        assert_eq!(
            (&to_the_end.start[..], to_the_end.include_start),
            (&b""[..], true)
        );
        // Bounds of one's own stay as they are.
        let scan = Scan::prefix("xxx").start_row("xxz").reversed();
        assert_eq!((scan.start, scan.include_start), ("xxz".into(), true));
    }

    #[rstest]
    #[case::ascending(Scan::new(), "b", true, b"b")]
    #[case::descending(Scan::new().reversed(), "b", true, b"b")]
    #[case::behind_a_zero(Scan::new().reversed(), "b\0", false, b"b")]
    #[case::the_first_row(Scan::new().reversed(), "\0", false, b"")]
    fn region_of_a_row_is_found_by_a_row_in_it(
        #[case] scan: Scan,
        #[case] row: &'static str,
        #[case] included: bool,
        #[case] expected: &[u8],
    ) {
        assert_eq!(scan.row_of_region(&row.into(), included), expected);
    }

    #[test]
    fn row_before_another_is_the_largest_that_is_smaller() {
        let before = |row: &'static str| Scan::new().reversed().row_of_region(&row.into(), false);
        let (of_b, last) = (before("b"), before(""));
        assert_eq!((of_b[0], of_b[1], of_b.len()), (b'a', 0xff, i16::MAX as usize));
        assert!(last.iter().all(|byte| *byte == 0xff) && last.len() == i16::MAX as usize);
    }

    #[rstest]
    #[case::up_to_the_stop(Scan::new().stop_row("m"), "m", false)]
    #[case::up_to_the_stop_included(Scan::new().stop_row_inclusive("m"), "m", true)]
    #[case::up_before_the_stop(Scan::new().stop_row("m"), "l", true)]
    #[case::end_of_the_table(Scan::new(), "", false)]
    #[case::down_to_the_stop(Scan::new().stop_row_inclusive("m").reversed(), "m", false)]
    #[case::down_before_the_stop(Scan::new().stop_row("m").reversed(), "n", true)]
    fn scan_goes_on_beyond_a_region(#[case] scan: Scan, #[case] boundary: &str, #[case] expected: bool) {
        assert_eq!(scan.goes_beyond(boundary.as_bytes()), expected);
    }

    #[test]
    fn a_prefix_ends_before_the_next_one() {
        let stop_of = |prefix: &'static [u8]| Scan::prefix(prefix).stop;
        assert_eq!(stop_of(b"xxx"), "xxy");
        assert_eq!(&stop_of(b"a\xff")[..], b"b");
        assert_eq!(stop_of(b"\xff\xff"), "");
    }

    #[test]
    fn a_column_of_a_family_that_is_read_whole_adds_nothing() {
        let get = Get::new("r")
            .family("f")
            .column("f", "q")
            .column("g", "a")
            .column("g", "b");
        let expected: Vec<(Bytes, Vec<Bytes>)> =
            vec![("f".into(), vec![]), ("g".into(), vec!["a".into(), "b".into()])];
        assert_eq!(get.selection.columns, expected);
    }

    fn table() -> TableName {
        TableName::new("default", "orders").unwrap()
    }

    #[test]
    fn bounds_are_in_the_order_of_the_table() {
        let scan = Scan::new().start_row("orders,,").stop_row("orders ,,");
        let error = scan.check(&table()).unwrap_err();
        assert!(error.to_string().contains("is after stop row"), "{error}");
        scan.check(&TableName::meta()).unwrap();
    }

    #[test]
    fn a_raw_scan_takes_no_columns() {
        assert!(Scan::new().raw().family("f").check(&table()).is_ok());
        assert!(Scan::new().raw().column("f", "q").check(&table()).is_err());
    }

    #[test]
    fn scan_takes_no_count_of_columns() {
        let count = ReadFilter::skip(ReadFilter::column_count(3));
        assert!(Get::new("r").filter(count.clone()).check().is_ok());
        let error = Scan::new()
            .filter(ReadFilter::any([count]))
            .check(&table())
            .unwrap_err();
        assert!(error.to_string().contains("loses cells"), "{error}");
    }

    #[rstest]
    #[case("b", false, "a", false)]
    #[case("b", false, "b", true)]
    #[case("b", true, "b", false)]
    #[case("b", true, "ba", true)]
    #[case("", false, "zzz", false)]
    fn knows_where_it_ends(
        #[case] stop: &'static str,
        #[case] inclusive: bool,
        #[case] row: &str,
        #[case] over: bool,
    ) {
        let scan = if inclusive {
            Scan::new().stop_row_inclusive(stop)
        } else {
            Scan::new().stop_row(stop)
        };
        assert_eq!(scan.ends_before(row.as_bytes()), over);
    }

    #[test]
    fn maximum_count_is_never_negative_on_the_wire() {
        let most = Some(i32::MAX as u32);
        assert_eq!(Get::new("r").versions(u32::MAX).selection.max_versions, most);
        let scan = Scan::new().versions(u32::MAX).caching(u32::MAX);
        assert_eq!((scan.selection.max_versions, scan.caching), (most, most));
    }

    #[rstest]
    #[case(Get::new(""))]
    #[case(Get::new("r").versions(0))]
    #[case(Get::new("r").time_range(TimeRange { from: 5, to: 5 }))]
    fn refuses_what_reads_nothing(#[case] get: Get) {
        get.check().unwrap_err();
    }
}
