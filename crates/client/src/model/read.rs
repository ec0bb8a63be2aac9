//! Reads of one row, or of a range of rows.

use std::collections::BTreeSet;

use bytes::Bytes;

use super::{Filter, IntoBytes, limits::check_row, partition::key_after_prefix};
use crate::error::{Error, Result};

/// The server reads counts as signed numbers: `u32::MAX` would be −1.
const MOST: u32 = i32::MAX as u32;

/// A range of timestamps, from `from` to before `to`, in milliseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeRange {
    /// The first timestamp in the range.
    pub from: u64,
    /// The first timestamp after the range.
    pub to: u64,
}

/// The columns, versions and time range that a read requests of a row, and its filter. Shared by
/// gets and scans.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Selection {
    /// The families, each with its requested qualifiers; no qualifiers mean all of them.
    pub(crate) columns: Vec<(Bytes, Vec<Bytes>)>,
    pub(crate) max_versions: Option<u32>,
    pub(crate) time_range: Option<TimeRange>,
    pub(crate) filter: Option<Filter>,
}

/// A read of one row.
///
/// # Example
///
/// ```
/// use hbase_client::Get;
///
/// let get = Get::new("xxxabc").column("f", "q").versions(3);
/// # let _ = get;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a get does nothing until it is given to a table"]
pub struct Get {
    pub(crate) row: Bytes,
    pub(crate) selection: Selection,
}

/// A read of a range of rows, in order.
///
/// # Example
///
/// ```
/// use hbase_client::Scan;
///
/// let whole_table = Scan::new();
/// let from_a_to_before_c = Scan::new().start_row("a").stop_row("c");
/// let partition = Scan::prefix("xxx");
/// # let _ = (whole_table, from_a_to_before_c, partition);
/// ```
#[derive(Clone, Debug, PartialEq)]
#[must_use = "a scan does nothing until it is given to a table"]
pub struct Scan {
    pub(crate) start: Bytes,
    pub(crate) stop: Bytes,
    pub(crate) include_stop: bool,
    pub(crate) limit: Option<u64>,
    pub(crate) caching: Option<u32>,
    pub(crate) max_result_size: Option<u64>,
    /// The only rows of the range to read; empty for all of them.
    pub(crate) rows: BTreeSet<Bytes>,
    /// Whether all stored versions and delete markers are read.
    pub(crate) raw: bool,
    /// Whether each value is replaced by its length.
    pub(crate) value_lengths: bool,
    /// The probability with which each row is read.
    pub(crate) chance: Option<f32>,
    pub(crate) cache_blocks: bool,
    pub(crate) selection: Selection,
}

impl Selection {
    fn family(&mut self, family: Bytes) {
        self.columns.retain(|(existing, _)| *existing != family);
        self.columns.push((family, Vec::new()));
    }

    fn column(&mut self, family: Bytes, qualifier: Bytes) {
        match self.columns.iter_mut().find(|(existing, _)| *existing == family) {
            // The whole family is requested already.
            Some((_, qualifiers)) if qualifiers.is_empty() => {}
            Some((_, qualifiers)) => qualifiers.push(qualifier),
            None => self.columns.push((family, vec![qualifier])),
        }
    }

    fn check(&self) -> Result<()> {
        if self.max_versions == Some(0) {
            return Err(Error::invalid("at least one version must be asked for"));
        }
        match self.time_range {
            Some(TimeRange { from, to }) if from >= to || to > i64::MAX as u64 => {
                return Err(Error::invalid(format!("[{from}, {to}) is no range of time")));
            }
            _ => {}
        }
        self.filter.as_ref().map_or(Ok(()), Filter::check)
    }
}

impl Get {
    /// Creates a get of this row: of the whole row, unless families or columns are named.
    pub fn new(row: impl IntoBytes) -> Self {
        Self {
            row: row.into_bytes(),
            selection: Selection::default(),
        }
    }

    /// Reads all columns of this family.
    pub fn family(mut self, family: impl IntoBytes) -> Self {
        self.selection.family(family.into_bytes());
        self
    }

    /// Reads this column.
    pub fn column(mut self, family: impl IntoBytes, qualifier: impl IntoBytes) -> Self {
        self.selection.column(family.into_bytes(), qualifier.into_bytes());
        self
    }

    /// Reads up to this many versions of each column, newest first. The default is 1.
    pub fn versions(mut self, versions: u32) -> Self {
        self.selection.max_versions = Some(versions.min(MOST));
        self
    }

    /// Reads only versions in this range of time.
    pub fn time_range(mut self, range: TimeRange) -> Self {
        self.selection.time_range = Some(range);
        self
    }

    /// Reads only cells that pass the filter. Replaces an earlier filter.
    ///
    /// As in HBase's own client, the filter is applied to all versions that the family keeps, and
    /// the newest that pass are read. In a family with several versions, an older version may be
    /// found because the newest does not pass (except in a family with `NEW_VERSION_BEHAVIOR`).
    pub fn filter(mut self, filter: Filter) -> Self {
        self.selection.filter = Some(filter);
        self
    }

    pub(crate) fn check(&self) -> Result<()> {
        check_row(&self.row)?;
        self.selection.check()
    }
}

impl Scan {
    /// Creates a scan of the whole table.
    pub fn new() -> Self {
        Self {
            start: Bytes::new(),
            stop: Bytes::new(),
            include_stop: false,
            limit: None,
            caching: None,
            max_result_size: None,
            rows: BTreeSet::new(),
            raw: false,
            value_lengths: false,
            chance: None,
            cache_blocks: true,
            selection: Selection::default(),
        }
    }

    /// Creates a scan of all rows that begin with these bytes.
    pub fn prefix(prefix: impl IntoBytes) -> Self {
        let prefix = prefix.into_bytes();
        let stop = key_after_prefix(&prefix);
        Self::new().start_row(prefix).stop_row(stop)
    }

    /// Starts at this row, or at the next one if it does not exist. An empty key is the start of
    /// the table.
    pub fn start_row(mut self, row: impl IntoBytes) -> Self {
        self.start = row.into_bytes();
        self
    }

    /// Stops before this row. An empty key is the end of the table.
    pub fn stop_row(mut self, row: impl IntoBytes) -> Self {
        self.stop = row.into_bytes();
        self.include_stop = false;
        self
    }

    /// Stops after this row.
    pub fn stop_row_inclusive(mut self, row: impl IntoBytes) -> Self {
        self.stop = row.into_bytes();
        self.include_stop = true;
        self
    }

    /// Reads only these rows of the range.
    pub(crate) fn only_rows(mut self, rows: BTreeSet<Bytes>) -> Self {
        self.rows = rows;
        self
    }

    /// Reads everything that is stored, including deleted versions and delete markers
    /// ([`Cell::kind`](super::Cell::kind) distinguishes them), until a major compaction drops them.
    /// A raw scan accepts families, but no columns.
    pub fn raw(mut self) -> Self {
        self.raw = true;
        self.selection.max_versions = Some(MOST);
        self
    }

    /// Reads the length of each value instead of the value, as four bytes in network order
    /// (`KeyOnlyFilter`): sizes a table without transferring it.
    pub fn value_lengths(mut self) -> Self {
        self.value_lengths = true;
        self
    }

    /// Reads each row with this probability, above 0 and at most 1, and skips the others
    /// (`RandomRowFilter`). The server still reads all of them.
    pub fn random_rows(mut self, chance: f32) -> Self {
        self.chance = Some(chance);
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
    /// `hbase.client.scanner.max.result.size`, 2 MiB.
    pub fn max_result_size(mut self, bytes: u64) -> Self {
        self.max_result_size = Some(bytes);
        self
    }

    /// Reads all columns of this family.
    pub fn family(mut self, family: impl IntoBytes) -> Self {
        self.selection.family(family.into_bytes());
        self
    }

    /// Reads this column.
    pub fn column(mut self, family: impl IntoBytes, qualifier: impl IntoBytes) -> Self {
        self.selection.column(family.into_bytes(), qualifier.into_bytes());
        self
    }

    /// Reads up to this many versions of each column, newest first. The default is 1.
    pub fn versions(mut self, versions: u32) -> Self {
        self.selection.max_versions = Some(versions.min(MOST));
        self
    }

    /// Reads only versions in this range of time.
    pub fn time_range(mut self, range: TimeRange) -> Self {
        self.selection.time_range = Some(range);
        self
    }

    /// Reads only cells that pass the filter, and rows that have such cells. Replaces an earlier
    /// filter.
    ///
    /// As in HBase's own client, the filter is applied to all versions that the family keeps, and
    /// the newest that pass are read. In a family with several versions, an older version may be
    /// found because the newest does not pass (except in a family with `NEW_VERSION_BEHAVIOR`).
    pub fn filter(mut self, filter: Filter) -> Self {
        self.selection.filter = Some(filter);
        self
    }

    pub(crate) fn check(&self) -> Result<()> {
        for bound in [&self.start, &self.stop] {
            if !bound.is_empty() {
                check_row(bound)?;
            }
        }
        if self.caching == Some(0) || self.max_result_size == Some(0) {
            return Err(Error::invalid(
                "a scan asks for at least one row and one byte a call",
            ));
        }
        if let Some(chance) = self.chance
            && !(chance > 0.0 && chance <= 1.0)
        {
            return Err(Error::invalid(format!(
                "rows with a chance of {chance}; it is above 0 and at most 1"
            )));
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
        self.selection.check()
    }

    /// Returns whether the scan ends before this row.
    pub(crate) fn ends_before(&self, row: &[u8]) -> bool {
        !self.stop.is_empty() && (row > &self.stop[..] || (row == self.stop && !self.include_stop))
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

    #[test]
    fn a_raw_scan_takes_no_columns() {
        assert!(Scan::new().raw().family("f").check().is_ok());
        assert!(Scan::new().raw().column("f", "q").check().is_err());
    }

    #[rstest]
    #[case(0.0)]
    #[case(-0.5)]
    #[case(1.01)]
    #[case(f32::NAN)]
    fn refuses_what_is_no_chance(#[case] chance: f32) {
        Scan::new().random_rows(chance).check().unwrap_err();
        Scan::new().random_rows(1.0).check().unwrap();
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
