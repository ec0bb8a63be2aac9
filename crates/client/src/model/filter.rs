//! Filters: predicates on the cells of a row.

use std::fmt;

use bytes::Bytes;

use super::{Cell, Comparator, Comparison, IntoBytes, comparison::Shown, limits::check_family};
use crate::error::{Error, ErrorKind, Result};

/// The maximum nesting depth of filters.
const MAX_DEPTH: usize = 16;
/// The maximum number of filters in one: the server applies each of them to each cell.
const MAX_FILTERS: usize = 256;

/// A predicate on cells, for [`Get::filter`](super::Get::filter),
/// [`Scan::filter`](super::Scan::filter) and [`Condition::matches`](super::Condition::matches).
/// Each cell is tested on its own.
///
/// Supports only those of HBase's filters that judge a cell by that cell alone, so that client and
/// server cannot disagree. HBase's other filters are in [`ReadFilter`](super::ReadFilter). A filter
/// consists of at most 256 filters, nested 16 deep.
///
/// # Example
///
/// ```
/// use hbase_client::{Comparator, Comparison, Filter};
///
/// let open_orders = Filter::all([
///     Filter::column_prefix("order:"),
///     Filter::value(Comparison::NotEqual, Comparator::binary("closed")),
/// ]);
/// assert_eq!(open_orders.to_string(), "(qualifier = order:* and value != closed)");
/// ```
#[derive(Clone, PartialEq, Eq)]
#[must_use = "a filter does nothing until it is given to a read or a condition"]
pub struct Filter(pub(crate) FilterKind);

/// The kinds of [`Filter`], named after HBase's filter classes.
#[derive(Clone, PartialEq, Eq)]
pub enum FilterKind {
    /// Compares the family: `FamilyFilter`.
    Family(Comparison, Comparator),
    /// Compares the qualifier: `QualifierFilter`.
    Qualifier(Comparison, Comparator),
    /// Compares the value: `ValueFilter`.
    Value(Comparison, Comparator),
    /// Compares the value of one column, and passes no cell of another column: `ColumnValueFilter`.
    ColumnValue {
        /// The column family.
        family: Bytes,
        /// The column qualifier. May be empty.
        qualifier: Bytes,
        /// The operator between the stored value, on its left, and the comparator.
        comparison: Comparison,
        /// The value that the stored one is compared with.
        comparator: Comparator,
    },
    /// Passes cells whose qualifier begins with these bytes: `ColumnPrefixFilter`.
    ColumnPrefix(Bytes),
    /// Passes cells that pass all filters: `FilterList` with `MUST_PASS_ALL`. The list must not be
    /// empty.
    All(Vec<Filter>),
    /// Passes cells that pass at least one filter: `FilterList` with `MUST_PASS_ONE`. The list must
    /// not be empty.
    Any(Vec<Filter>),
}

impl Filter {
    /// Passes cells whose family compares in this way: `FamilyFilter`.
    pub fn family(comparison: Comparison, comparator: Comparator) -> Self {
        Self(FilterKind::Family(comparison, comparator))
    }

    /// Passes cells whose qualifier compares in this way: `QualifierFilter`.
    pub fn qualifier(comparison: Comparison, comparator: Comparator) -> Self {
        Self(FilterKind::Qualifier(comparison, comparator))
    }

    /// Passes cells whose value compares in this way: `ValueFilter`.
    pub fn value(comparison: Comparison, comparator: Comparator) -> Self {
        Self(FilterKind::Value(comparison, comparator))
    }

    /// Passes cells of this column whose value compares in this way: `ColumnValueFilter`.
    pub fn column_value(
        family: impl IntoBytes,
        qualifier: impl IntoBytes,
        comparison: Comparison,
        comparator: Comparator,
    ) -> Self {
        Self(FilterKind::ColumnValue {
            family: family.into_bytes(),
            qualifier: qualifier.into_bytes(),
            comparison,
            comparator,
        })
    }

    /// Passes cells whose qualifier begins with these bytes: `ColumnPrefixFilter`, which skips
    /// other columns.
    pub fn column_prefix(prefix: impl IntoBytes) -> Self {
        Self(FilterKind::ColumnPrefix(prefix.into_bytes()))
    }

    /// Passes cells that pass all of these: `FilterList`, `MUST_PASS_ALL`.
    pub fn all(filters: impl IntoIterator<Item = Self>) -> Self {
        Self(FilterKind::All(filters.into_iter().collect()))
    }

    /// Passes cells that pass at least one of these: `FilterList`, `MUST_PASS_ONE`.
    pub fn any(filters: impl IntoIterator<Item = Self>) -> Self {
        Self(FilterKind::Any(filters.into_iter().collect()))
    }

    /// Returns whether a cell passes, as the server would decide.
    #[must_use]
    pub fn passes(&self, cell: &Cell) -> bool {
        match &self.0 {
            FilterKind::Family(comparison, comparator) => comparator.accepts(*comparison, &cell.family),
            FilterKind::Qualifier(comparison, comparator) => comparator.accepts(*comparison, &cell.qualifier),
            FilterKind::Value(comparison, comparator) => comparator.accepts(*comparison, &cell.value),
            FilterKind::ColumnValue {
                family,
                qualifier,
                comparison,
                comparator,
            } => {
                cell.family == family
                    && cell.qualifier == qualifier
                    && comparator.accepts(*comparison, &cell.value)
            }
            FilterKind::ColumnPrefix(prefix) => cell.qualifier.starts_with(prefix),
            FilterKind::All(filters) => filters.iter().all(|filter| filter.passes(cell)),
            FilterKind::Any(filters) => filters.iter().any(|filter| filter.passes(cell)),
        }
    }

    /// Rejects a filter that has no meaning, or is too large for a server.
    pub(crate) fn check(&self) -> Result<()> {
        self.check_at(1, &mut PartCount::default())
    }

    pub(super) fn check_at(&self, depth: usize, count: &mut PartCount) -> Result<()> {
        count.add(1, depth)?;
        match &self.0 {
            FilterKind::Family(comparison, comparator)
            | FilterKind::Qualifier(comparison, comparator)
            | FilterKind::Value(comparison, comparator) => comparator.check(*comparison),
            FilterKind::ColumnValue {
                family,
                comparison,
                comparator,
                ..
            } => {
                check_family(family)?;
                comparator.check(*comparison)
            }
            FilterKind::ColumnPrefix(_) => Ok(()),
            FilterKind::All(parts) | FilterKind::Any(parts) if parts.is_empty() => {
                Err(Error::invalid("a list of filters with none in it"))
            }
            FilterKind::All(parts) | FilterKind::Any(parts) => {
                parts.iter().try_for_each(|part| part.check_at(depth + 1, count))
            }
        }
    }

    /// Returns the families of the columns that it names.
    pub(crate) fn families(&self) -> Vec<&Bytes> {
        match &self.0 {
            FilterKind::ColumnValue { family, .. } => vec![family],
            FilterKind::All(filters) | FilterKind::Any(filters) => {
                filters.iter().flat_map(Self::families).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Returns the number of bytes of names and values together.
    pub(crate) fn size(&self) -> usize {
        match &self.0 {
            FilterKind::Family(_, comparator)
            | FilterKind::Qualifier(_, comparator)
            | FilterKind::Value(_, comparator) => comparator.size(),
            FilterKind::ColumnValue {
                family,
                qualifier,
                comparator,
                ..
            } => family.len() + qualifier.len() + comparator.size(),
            FilterKind::ColumnPrefix(prefix) => prefix.len(),
            FilterKind::All(filters) | FilterKind::Any(filters) => filters.iter().map(Self::size).sum(),
        }
    }
}

/// The number of filters in a filter, which is limited.
#[derive(Default)]
pub(super) struct PartCount(usize);

impl PartCount {
    /// Adds filters at this depth.
    pub(super) fn add(&mut self, filters: usize, depth: usize) -> Result<()> {
        self.0 += filters;
        if depth > MAX_DEPTH || self.0 > MAX_FILTERS {
            Err(Error::new(
                ErrorKind::LimitExceeded,
                format!("a filter of more than {MAX_FILTERS} parts, or nested deeper than {MAX_DEPTH}"),
            ))
        } else {
            Ok(())
        }
    }
}

impl fmt::Display for FilterKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, filters: &[Filter], word| {
            f.write_str("(")?;
            for (at, filter) in filters.iter().enumerate() {
                if at > 0 {
                    write!(f, " {word} ")?;
                }
                write!(f, "{filter}")?;
            }
            f.write_str(")")
        };
        match self {
            Self::Family(comparison, comparator) => write!(f, "family {comparison} {comparator}"),
            Self::Qualifier(comparison, comparator) => write!(f, "qualifier {comparison} {comparator}"),
            Self::Value(comparison, comparator) => write!(f, "value {comparison} {comparator}"),
            Self::ColumnValue {
                family,
                qualifier,
                comparison,
                comparator,
            } => write!(
                f,
                "{}:{} {comparison} {comparator}",
                Shown(family),
                Shown(qualifier)
            ),
            Self::ColumnPrefix(prefix) => write!(f, "qualifier = {}*", Shown(prefix)),
            Self::All(filters) => list(f, filters, "and"),
            Self::Any(filters) => list(f, filters, "or"),
        }
    }
}

impl fmt::Debug for FilterKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::model::CellKind;

    fn cell(family: &'static str, qualifier: &'static str, value: &'static str) -> Cell {
        Cell::new(
            "r".into(),
            family.into(),
            qualifier.into(),
            1,
            CellKind::Put,
            value.into(),
        )
    }

    fn equal(value: &'static str) -> Comparator {
        Comparator::binary(value)
    }

    #[rstest]
    #[case::family(Filter::family(Comparison::Equal, equal("f")), "fa=1 fb=2 fc=")]
    #[case::qualifier(Filter::qualifier(Comparison::Greater, equal("a")), "fb=2 fc= gba=2")]
    #[case::value(Filter::value(Comparison::Less, equal("2")), "fa=1 fc=")]
    #[case::column(Filter::column_value("g", "ba", Comparison::Equal, equal("2")), "gba=2")]
    #[case::another_column(Filter::column_value("g", "b", Comparison::NotEqual, equal("3")), "")]
    #[case::prefix(Filter::column_prefix("b"), "fb=2 gba=2")]
    #[case::all(
        Filter::all([Filter::column_prefix("b"), Filter::family(Comparison::Equal, equal("g"))]),
        "gba=2"
    )]
    #[case::any(
        Filter::any([Filter::column_prefix("c"), Filter::family(Comparison::Equal, equal("g"))]),
        "fc= gba=2"
    )]
    fn a_filter_judges_each_cell_by_itself(#[case] filter: Filter, #[case] expected: &str) {
        let cells = [
            cell("f", "a", "1"),
            cell("f", "b", "2"),
            cell("f", "c", ""),
            cell("g", "ba", "2"),
        ];
        let text = |cell: &Cell| {
            [&cell.family[..], &cell.qualifier, b"=", &cell.value]
                .map(String::from_utf8_lossy)
                .concat()
        };
        let passed = cells.iter().filter(|cell| filter.passes(cell)).map(text);
        assert_eq!(passed.collect::<Vec<_>>().join(" "), expected);
        filter.check().unwrap();
    }

    #[rstest]
    #[case::empty_list(Filter::all([]), ErrorKind::InvalidInput)]
    #[case::empty_list_inside(Filter::any([Filter::any([])]), ErrorKind::InvalidInput)]
    #[case::no_family(
        Filter::column_value("", "q", Comparison::Equal, equal("v")),
        ErrorKind::InvalidInput
    )]
    #[case::order_of_bits(
        Filter::value(Comparison::Less, Comparator::bit_and("m")),
        ErrorKind::InvalidInput
    )]
    #[case::too_many(
        Filter::any(std::iter::repeat_n(Filter::column_prefix("p"), MAX_FILTERS)),
        ErrorKind::LimitExceeded
    )]
    #[case::too_deep(
        (0..MAX_DEPTH).fold(Filter::column_prefix("p"), |inner, _| Filter::all([inner])),
        ErrorKind::LimitExceeded
    )]
    fn refuses_what_has_no_meaning_or_is_too_much(#[case] filter: Filter, #[case] expected: ErrorKind) {
        assert_eq!(filter.check().unwrap_err().kind(), expected);
    }

    #[test]
    fn the_largest_filters_that_are_allowed_are() {
        let wide = Filter::any(std::iter::repeat_n(Filter::column_prefix("p"), MAX_FILTERS - 1));
        wide.check().unwrap();
        let deep = (1..MAX_DEPTH).fold(Filter::column_prefix("p"), |inner, _| Filter::all([inner]));
        deep.check().unwrap();
    }
}
