//! Filters with the name of a column and options.

use bytes::Bytes;

use super::super::{Comparison, IntoBytes, ReadComparator, limits::check_family};
use crate::error::{Error, Result};

/// A filter that passes rows by the value of one column: `SingleColumnValueFilter`, or
/// `SingleColumnValueExcludeFilter` with [`exclude_column`](Self::exclude_column).
///
/// The column must be among the columns that are read; in a row without it, all cells pass unless
/// [`filter_if_missing`](Self::filter_if_missing) is set.
///
/// # Example
///
/// ```
/// use hbase_client::{Comparator, Comparison, Scan, SingleColumnValueFilter};
///
/// let large = SingleColumnValueFilter::new("f", "total", Comparison::Greater, Comparator::long(1_000));
/// let scan = Scan::new().filter(large.filter_if_missing(true));
/// # let _ = scan;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a filter does nothing until it is given to a read"]
pub struct SingleColumnValueFilter {
    pub(crate) family: Bytes,
    pub(crate) qualifier: Bytes,
    pub(crate) comparison: Comparison,
    pub(crate) comparator: ReadComparator,
    pub(crate) filter_if_missing: bool,
    pub(crate) latest_version_only: bool,
    pub(crate) exclude_column: bool,
}

impl SingleColumnValueFilter {
    /// Creates a filter that passes rows in which the newest version of this column compares in this
    /// way, and rows without the column.
    pub fn new(
        family: impl IntoBytes,
        qualifier: impl IntoBytes,
        comparison: Comparison,
        comparator: impl Into<ReadComparator>,
    ) -> Self {
        Self {
            family: family.into_bytes(),
            qualifier: qualifier.into_bytes(),
            comparison,
            comparator: comparator.into(),
            filter_if_missing: false,
            latest_version_only: true,
            exclude_column: false,
        }
    }

    /// Sets whether rows without the column are excluded. The default is `false`.
    pub fn filter_if_missing(mut self, filter: bool) -> Self {
        self.filter_if_missing = filter;
        self
    }

    /// Sets whether only the newest version of the column is compared. The default is `true`; with
    /// `false`, a row passes if any version that is read compares in this way. That is not supported for the order
    /// of [`Comparator::long`](crate::Comparator::long), components and decimal numbers, which the
    /// server evaluates in several steps.
    pub fn latest_version_only(mut self, latest: bool) -> Self {
        self.latest_version_only = latest;
        self
    }

    /// Sets whether the column itself is left out of the rows: `SingleColumnValueExcludeFilter`. The
    /// default is `false`.
    pub fn exclude_column(mut self, exclude: bool) -> Self {
        self.exclude_column = exclude;
        self
    }

    pub(super) fn check(&self) -> Result<()> {
        check_family(&self.family)?;
        self.comparator.check(self.comparison)?;
        if self.latest_version_only || self.comparator.is_whole(self.comparison) {
            Ok(())
        } else {
            Err(not_whole(self.comparison, "all versions of a column"))
        }
    }
}

/// A filter that passes the cells of a row with the timestamp of a cell in one column, the dependent
/// column: `DependentColumnFilter`.
///
/// # Example
///
/// ```
/// use hbase_client::{DependentColumnFilter, Get};
///
/// // The cells that were written together with the present state.
/// let get = Get::new("order-1").filter(DependentColumnFilter::new("f", "state"));
/// # let _ = get;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a filter does nothing until it is given to a read"]
pub struct DependentColumnFilter {
    pub(crate) family: Bytes,
    pub(crate) qualifier: Bytes,
    pub(crate) value: Option<(Comparison, ReadComparator)>,
    pub(crate) drop_column: bool,
}

impl DependentColumnFilter {
    /// Creates a filter that passes cells with the timestamp of any cell in this column.
    pub fn new(family: impl IntoBytes, qualifier: impl IntoBytes) -> Self {
        Self {
            family: family.into_bytes(),
            qualifier: qualifier.into_bytes(),
            value: None,
            drop_column: false,
        }
    }

    /// Considers only cells of the column whose value compares in this way. Not supported for the
    /// order of [`Comparator::long`](crate::Comparator::long), components and decimal numbers, which the
    /// server evaluates in several steps.
    pub fn value(mut self, comparison: Comparison, comparator: impl Into<ReadComparator>) -> Self {
        self.value = Some((comparison, comparator.into()));
        self
    }

    /// Sets whether the column itself is left out. The default is `false`.
    pub fn drop_column(mut self, drop: bool) -> Self {
        self.drop_column = drop;
        self
    }

    pub(super) fn check(&self) -> Result<()> {
        check_family(&self.family)?;
        let Some((comparison, comparator)) = &self.value else {
            return Ok(());
        };
        comparator.check(*comparison)?;
        if comparator.is_whole(*comparison) {
            Ok(())
        } else {
            Err(not_whole(*comparison, "a dependent column"))
        }
    }
}

fn not_whole(comparison: Comparison, of: &str) -> Error {
    Error::invalid(format!(
        "{comparison} on {of} with a comparator that the server evaluates in several steps"
    ))
}
