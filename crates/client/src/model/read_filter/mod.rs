//! Filters of reads: those that judge rows, count or keep state, besides predicates on cells.

mod check;
mod column;
mod parse;

use std::{
    collections::BTreeSet,
    ops::{Bound, RangeBounds},
};

use bytes::Bytes;

use super::{Comparison, Filter, IntoBytes, ReadComparator};

pub use self::column::{DependentColumnFilter, SingleColumnValueFilter};

/// A filter of a read, for [`Get::filter`](super::Get::filter) and
/// [`Scan::filter`](super::Scan::filter).
///
/// A [`Filter`] is a predicate on single cells, which is also a condition of a transaction; it
/// converts into a `ReadFilter`. The filters here judge whole rows, count cells or rows, or depend
/// on the order of a scan. Only a server can apply them.
///
/// The server creates the filter for each region of a scan, and again when a scan continues after a
/// failure. A filter that counts or ends the scan starts from the beginning each time, and it may end
/// only the part of the scan in that region. [`Scan::limit`](super::Scan::limit) and
/// [`Scan::stop_row`](super::Scan::stop_row) apply to the whole scan.
///
/// Filters are also parsed from HBase's filter language, which its shell accepts.
///
/// A filter consists of at most 256 filters, nested 16 deep. Each of them has at most 16,384 ranges,
/// prefixes or timestamps.
///
/// # Example
///
/// ```
/// use hbase_client::{Comparator, Comparison, Filter, ReadFilter, Scan, SingleColumnValueFilter};
///
/// let is_open = SingleColumnValueFilter::new("f", "state", Comparison::Equal, Comparator::binary("open"));
/// let items_of_open_orders = ReadFilter::all([
///     is_open.filter_if_missing(true).into(),
///     Filter::column_prefix("item:").into(),
/// ]);
/// # let _ = items_of_open_orders;
/// let keys_only = Scan::prefix("order-").filter(ReadFilter::all([
///     ReadFilter::first_key_only(),
///     ReadFilter::key_only(),
/// ]));
/// # let _ = keys_only;
/// ```
#[derive(Clone, Debug, PartialEq)]
#[must_use = "a filter does nothing until it is given to a read"]
pub struct ReadFilter(pub(crate) ReadFilterKind);

/// The kinds of [`ReadFilter`].
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ReadFilterKind {
    Cells(Filter),
    Compare(ComparedPart, Comparison, ReadComparator),
    SingleColumnValue(SingleColumnValueFilter),
    DependentColumn(DependentColumnFilter),
    RowPrefix(Bytes),
    RowRanges(Vec<KeyRange>),
    /// Keys, each with its mask.
    FuzzyRows(Vec<(Bytes, Bytes)>),
    InclusiveStop(Bytes),
    RandomRows(f32),
    Page(u64),
    ColumnPrefixes(BTreeSet<Bytes>),
    ColumnRange(KeyRange),
    ColumnCount(u32),
    ColumnPage {
        limit: u32,
        start: ColumnPageStart,
    },
    Timestamps {
        timestamps: BTreeSet<u64>,
        seek: bool,
    },
    KeyOnly {
        lengths: bool,
    },
    FirstKeyOnly,
    Skip(Box<ReadFilter>),
    WhileMatch(Box<ReadFilter>),
    All(Vec<ReadFilter>),
    Any(Vec<ReadFilter>),
}

/// A range of row keys or qualifiers.
pub(crate) type KeyRange = (Bound<Bytes>, Bound<Bytes>);

/// The part of a cell that a filter compares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ComparedPart {
    Row,
    Family,
    Qualifier,
    Value,
    /// The value of one column, by family and qualifier.
    Column(Bytes, Bytes),
}

/// The first column of a page of columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ColumnPageStart {
    Offset(u32),
    Qualifier(Bytes),
}

impl ReadFilter {
    /// Passes rows whose key compares in this way: `RowFilter`. The server reads all rows of the
    /// scan; a start row and a stop row make it read fewer.
    pub fn row(comparison: Comparison, comparator: impl Into<ReadComparator>) -> Self {
        Self::compare(ComparedPart::Row, comparison, comparator)
    }

    /// Passes cells whose family compares in this way: `FamilyFilter`. Use [`Filter::family`], unless
    /// only a [`ReadComparator`] can make the comparison.
    pub fn family(comparison: Comparison, comparator: impl Into<ReadComparator>) -> Self {
        Self::compare(ComparedPart::Family, comparison, comparator)
    }

    /// Passes cells whose qualifier compares in this way: `QualifierFilter`. Use
    /// [`Filter::qualifier`], unless only a [`ReadComparator`] can make the comparison.
    pub fn qualifier(comparison: Comparison, comparator: impl Into<ReadComparator>) -> Self {
        Self::compare(ComparedPart::Qualifier, comparison, comparator)
    }

    /// Passes cells whose value compares in this way: `ValueFilter`. Use [`Filter::value`], unless
    /// only a [`ReadComparator`] can make the comparison.
    pub fn value(comparison: Comparison, comparator: impl Into<ReadComparator>) -> Self {
        Self::compare(ComparedPart::Value, comparison, comparator)
    }

    /// Passes cells of this column whose value compares in this way: `ColumnValueFilter`. Use
    /// [`Filter::column_value`], unless only a [`ReadComparator`] can make the comparison.
    pub fn column_value(
        family: impl IntoBytes,
        qualifier: impl IntoBytes,
        comparison: Comparison,
        comparator: impl Into<ReadComparator>,
    ) -> Self {
        let column = ComparedPart::Column(family.into_bytes(), qualifier.into_bytes());
        Self::compare(column, comparison, comparator)
    }

    fn compare(part: ComparedPart, comparison: Comparison, comparator: impl Into<ReadComparator>) -> Self {
        Self(ReadFilterKind::Compare(part, comparison, comparator.into()))
    }

    /// Passes rows whose key begins with these bytes: `PrefixFilter`. A scan of only these rows is
    /// [`Scan::prefix`](super::Scan::prefix).
    pub fn row_prefix(prefix: impl IntoBytes) -> Self {
        Self(ReadFilterKind::RowPrefix(prefix.into_bytes()))
    }

    /// Passes rows in at least one of these ranges: `MultiRowRangeFilter`. The server seeks from
    /// range to range.
    ///
    /// # Example
    ///
    /// ```
    /// # use hbase_client::ReadFilter;
    /// let two_days = ReadFilter::row_ranges(["2026-01-03".."2026-01-04", "2026-02-03".."2026-02-04"]);
    /// # let _ = two_days;
    /// ```
    pub fn row_ranges<B, R>(ranges: impl IntoIterator<Item = R>) -> Self
    where
        B: IntoBytes + Clone,
        R: RangeBounds<B>,
    {
        Self(ReadFilterKind::RowRanges(
            ranges.into_iter().map(key_range).collect(),
        ))
    }

    /// Passes rows whose key matches at least one of these keys: `FuzzyRowFilter`. Each key has a
    /// mask of the same length: 0 where the byte must be equal, and 1 where it can be any.
    ///
    /// A longer row key matches by its beginning. HBase may or may not return a row whose key is
    /// shorter. Each key counts as a filter.
    ///
    /// # Example
    ///
    /// ```
    /// # use hbase_client::ReadFilter;
    /// // User 1 to 9, action 99, any year, January.
    /// let january = ReadFilter::fuzzy_rows([("?_99_????_01", &[1, 0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0])]);
    /// # let _ = january;
    /// ```
    pub fn fuzzy_rows<K: IntoBytes, M: IntoBytes>(keys: impl IntoIterator<Item = (K, M)>) -> Self {
        let keys = keys.into_iter();
        Self(ReadFilterKind::FuzzyRows(
            keys.map(|(key, mask)| (key.into_bytes(), mask.into_bytes()))
                .collect(),
        ))
    }

    /// Passes rows up to this one, and ends the scan after it: `InclusiveStopFilter`. The stop row of
    /// a scan itself is [`Scan::stop_row_inclusive`](super::Scan::stop_row_inclusive).
    pub fn inclusive_stop(row: impl IntoBytes) -> Self {
        Self(ReadFilterKind::InclusiveStop(row.into_bytes()))
    }

    /// Passes each row with this probability, above 0 and at most 1: `RandomRowFilter`. The server
    /// still reads all of them.
    pub fn random_rows(chance: f32) -> Self {
        Self(ReadFilterKind::RandomRows(chance))
    }

    /// Passes the first rows of each region, up to this many: `PageFilter`.
    ///
    /// A scan of several regions returns up to this many rows of each. For a number of rows in total,
    /// use [`Scan::limit`](super::Scan::limit).
    pub fn page(rows: u64) -> Self {
        Self(ReadFilterKind::Page(rows))
    }

    /// Passes cells whose qualifier begins with one of these prefixes: `MultipleColumnPrefixFilter`.
    /// The server seeks from prefix to prefix.
    pub fn column_prefixes<P: IntoBytes>(prefixes: impl IntoIterator<Item = P>) -> Self {
        let prefixes = prefixes.into_iter();
        Self(ReadFilterKind::ColumnPrefixes(
            prefixes.map(IntoBytes::into_bytes).collect(),
        ))
    }

    /// Passes cells whose qualifier is in this range: `ColumnRangeFilter`. The server seeks to its
    /// start.
    ///
    /// # Example
    ///
    /// ```
    /// # use hbase_client::ReadFilter;
    /// let march = ReadFilter::column_range("03-01"..="03-31");
    /// # let _ = march;
    /// ```
    pub fn column_range<B: IntoBytes + Clone>(range: impl RangeBounds<B>) -> Self {
        Self(ReadFilterKind::ColumnRange(key_range(range)))
    }

    /// Passes the newest version of the first columns of a row, up to this many:
    /// `ColumnCountGetFilter`. Only for gets, because a server would lose cells of a scan; there, use
    /// [`column_page`](Self::column_page).
    pub fn column_count(columns: u32) -> Self {
        Self(ReadFilterKind::ColumnCount(columns))
    }

    /// Passes the newest version of up to `limit` columns of each row, after the first `offset`
    /// columns: `ColumnPaginationFilter`.
    pub fn column_page(limit: u32, offset: u32) -> Self {
        let start = ColumnPageStart::Offset(offset);
        Self(ReadFilterKind::ColumnPage { limit, start })
    }

    /// Passes the newest version of up to `limit` columns of each row, from this qualifier on:
    /// `ColumnPaginationFilter`.
    pub fn column_page_from(limit: u32, qualifier: impl IntoBytes) -> Self {
        let start = ColumnPageStart::Qualifier(qualifier.into_bytes());
        Self(ReadFilterKind::ColumnPage { limit, start })
    }

    /// Passes cells with these timestamps, in milliseconds since 1970: `TimestampsFilter`.
    pub fn timestamps(timestamps: impl IntoIterator<Item = u64>) -> Self {
        Self(ReadFilterKind::Timestamps {
            timestamps: timestamps.into_iter().collect(),
            seek: false,
        })
    }

    /// Passes the same cells as [`timestamps`](Self::timestamps), but the server seeks to the next
    /// timestamp instead of reading the versions before it: `TimestampsFilter` with `canHint`. Faster
    /// if columns have many versions, and slower if they have few.
    pub fn seek_timestamps(timestamps: impl IntoIterator<Item = u64>) -> Self {
        Self(ReadFilterKind::Timestamps {
            timestamps: timestamps.into_iter().collect(),
            seek: true,
        })
    }

    /// Passes all cells with an empty value: `KeyOnlyFilter`. In a list it
    /// is the last filter.
    pub fn key_only() -> Self {
        Self(ReadFilterKind::KeyOnly { lengths: false })
    }

    /// Passes all cells with the length of the value instead of the value, as four bytes in network
    /// order: `KeyOnlyFilter` with `lenAsVal`. Sizes a table without transferring it.
    pub fn value_lengths() -> Self {
        Self(ReadFilterKind::KeyOnly { lengths: true })
    }

    /// Passes the first cell of each row: `FirstKeyOnlyFilter`. Counts rows with little transfer,
    /// together with [`key_only`](Self::key_only).
    pub fn first_key_only() -> Self {
        Self(ReadFilterKind::FirstKeyOnly)
    }

    /// Passes rows of which all cells pass the filter: `SkipFilter`.
    ///
    /// It passes no row key on, so a filter of row keys has no effect in it.
    pub fn skip(filter: impl Into<Self>) -> Self {
        Self(ReadFilterKind::Skip(Box::new(filter.into())))
    }

    /// Passes what the filter passes, and ends the scan at the first row or cell that does not pass:
    /// `WhileMatchFilter`.
    pub fn while_match(filter: impl Into<Self>) -> Self {
        Self(ReadFilterKind::WhileMatch(Box::new(filter.into())))
    }

    /// Passes what all of these pass: `FilterList`, `MUST_PASS_ALL`. They are asked in this order,
    /// and a filter does not count a cell that an earlier one excludes.
    pub fn all(filters: impl IntoIterator<Item = Self>) -> Self {
        Self(ReadFilterKind::All(filters.into_iter().collect()))
    }

    /// Passes what at least one of these passes: `FilterList`, `MUST_PASS_ONE`.
    pub fn any(filters: impl IntoIterator<Item = Self>) -> Self {
        Self(ReadFilterKind::Any(filters.into_iter().collect()))
    }
}

impl From<Filter> for ReadFilter {
    fn from(filter: Filter) -> Self {
        Self(ReadFilterKind::Cells(filter))
    }
}

impl From<SingleColumnValueFilter> for ReadFilter {
    fn from(filter: SingleColumnValueFilter) -> Self {
        Self(ReadFilterKind::SingleColumnValue(filter))
    }
}

impl From<DependentColumnFilter> for ReadFilter {
    fn from(filter: DependentColumnFilter) -> Self {
        Self(ReadFilterKind::DependentColumn(filter))
    }
}

fn key_range<B: IntoBytes + Clone>(range: impl RangeBounds<B>) -> KeyRange {
    let bytes = |bound: Bound<&B>| bound.cloned().map(IntoBytes::into_bytes);
    (bytes(range.start_bound()), bytes(range.end_bound()))
}
