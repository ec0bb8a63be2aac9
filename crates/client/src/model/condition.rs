//! Requirements on rows, without which a transaction is not applied.

use std::{borrow::Cow, fmt};

use bytes::Bytes;

use super::{
    Cell, Comparison, Filter, IntoBytes, IntoValue, Row, TimeRange,
    comparison::Shown,
    limits::{check_family, check_row, in_row},
};
use crate::error::{Error, Failure, FailureKind, Result};

/// A requirement on a row, without which a transaction is not applied. The row can be one that the
/// transaction does not change, but must be in the same partition.
///
/// Conditions read the newest version of each column, of those in the
/// [time range](Self::time_range) if it has one. **A cell with an empty value counts as
/// absent**, as it does for HBase's own conditions: a column is *present* when its value is not
/// empty.
///
/// A rejected transaction names each condition that did not hold by its label: the one that was set
/// ([`label`](Self::label)), or else a description.
///
/// # Example
///
/// ```
/// use hbase_client::Condition;
///
/// let free = Condition::absent("xxxabc", "f", "owner").label("unowned");
/// let paid = Condition::equal("xxxabc", "f", "state", "paid");
/// assert_eq!(free.label_text(), "unowned");
/// assert_eq!(paid.label_text(), "xxxabc f:state = paid");
/// ```
#[derive(Clone, PartialEq, Eq)]
#[must_use = "a condition does nothing until it is given to a transaction"]
pub struct Condition {
    pub(crate) row: Bytes,
    pub(crate) label: Option<String>,
    pub(crate) check: Check,
    pub(crate) time_range: Option<TimeRange>,
    pub(crate) query_metrics: bool,
}

/// The requirement of a [`Condition`] on its row.
///
/// A check reads the newest version of each column. A column with an empty value counts as absent.
#[derive(Clone, PartialEq, Eq)]
pub enum Check {
    /// The column is absent or its value is empty.
    Absent {
        /// The column family.
        family: Bytes,
        /// The column qualifier. May be empty.
        qualifier: Bytes,
    },
    /// The column has a value that is not empty.
    Present {
        /// The column family.
        family: Bytes,
        /// The column qualifier. May be empty.
        qualifier: Bytes,
    },
    /// The stored value compares with the given one, byte by byte and unsigned. For an absent
    /// column only [`Comparison::NotEqual`] is true.
    Compare {
        /// The column family.
        family: Bytes,
        /// The column qualifier. May be empty.
        qualifier: Bytes,
        /// The operator between the stored value, on its left, and the given one.
        comparison: Comparison,
        /// The given value. Must not be empty.
        value: Bytes,
    },
    /// The value begins with the prefix.
    BeginsWith {
        /// The column family.
        family: Bytes,
        /// The column qualifier. May be empty.
        qualifier: Bytes,
        /// The prefix. Must not be empty.
        prefix: Bytes,
    },
    /// At least one cell of the row passes the filter.
    Matches(Filter),
}

impl Condition {
    fn new(row: impl IntoBytes, check: Check) -> Self {
        Self {
            row: row.into_bytes(),
            label: None,
            check,
            time_range: None,
            query_metrics: false,
        }
    }

    /// Requires that the column has no value, or an empty one.
    pub fn absent(row: impl IntoBytes, family: impl IntoBytes, qualifier: impl IntoBytes) -> Self {
        let (family, qualifier) = (family.into_bytes(), qualifier.into_bytes());
        Self::new(row, Check::Absent { family, qualifier })
    }

    /// Requires that the column has a value that is not empty.
    pub fn present(row: impl IntoBytes, family: impl IntoBytes, qualifier: impl IntoBytes) -> Self {
        let (family, qualifier) = (family.into_bytes(), qualifier.into_bytes());
        Self::new(row, Check::Present { family, qualifier })
    }

    /// Requires that the value of the column compares in this way to the given one, byte by byte,
    /// unsigned. The given value must not be empty. For an absent column only
    /// [`NotEqual`](Comparison::NotEqual) holds.
    ///
    /// The order of bytes is not the order of negative numbers; see
    /// [`IntoValue`](crate::IntoValue#order).
    pub fn compare(
        row: impl IntoBytes,
        family: impl IntoBytes,
        qualifier: impl IntoBytes,
        comparison: Comparison,
        value: impl IntoValue,
    ) -> Self {
        Self::new(
            row,
            Check::Compare {
                family: family.into_bytes(),
                qualifier: qualifier.into_bytes(),
                comparison,
                value: value.into_value(),
            },
        )
    }

    /// Requires that the column has this value: [`compare`](Self::compare) with
    /// [`Comparison::Equal`].
    pub fn equal(
        row: impl IntoBytes,
        family: impl IntoBytes,
        qualifier: impl IntoBytes,
        value: impl IntoValue,
    ) -> Self {
        Self::compare(row, family, qualifier, Comparison::Equal, value)
    }

    /// Requires that the column has another value, or none: [`compare`](Self::compare) with
    /// [`Comparison::NotEqual`].
    pub fn not_equal(
        row: impl IntoBytes,
        family: impl IntoBytes,
        qualifier: impl IntoBytes,
        value: impl IntoValue,
    ) -> Self {
        Self::compare(row, family, qualifier, Comparison::NotEqual, value)
    }

    /// Requires that the value of the column begins with these bytes. The prefix must not be empty.
    pub fn begins_with(
        row: impl IntoBytes,
        family: impl IntoBytes,
        qualifier: impl IntoBytes,
        prefix: impl IntoBytes,
    ) -> Self {
        Self::new(
            row,
            Check::BeginsWith {
                family: family.into_bytes(),
                qualifier: qualifier.into_bytes(),
                prefix: prefix.into_bytes(),
            },
        )
    }

    /// Requires that at least one cell of the row passes the filter. Checks only the newest version
    /// of each column, and only values that are not empty.
    ///
    /// The server reads the whole row for it, all families, while it holds the locks of the
    /// transaction: on a row of 100,000 cells that took 600 ms. There is no filter for "no cell":
    /// such a condition needs a column.
    pub fn matches(row: impl IntoBytes, filter: Filter) -> Self {
        Self::new(row, Check::Matches(filter))
    }

    /// Sets the name of the condition in a rejection, in place of the description.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// Reads only the versions in this time range. A column without one counts as absent.
    ///
    /// [`Table::check_and_mutate`](crate::Table::check_and_mutate) alone takes such a condition. Transactions refuse
    /// it, because they compare rows that they read with their conditions.
    pub fn time_range(mut self, range: TimeRange) -> Self {
        self.time_range = Some(range);
        self
    }

    /// Makes the server report what it has read for the condition, as
    /// [`CheckAndMutateResult::metrics`](crate::CheckAndMutateResult::metrics). Of the supported
    /// releases only 2.6 does, and others ignore this. Transactions ignore it, too.
    pub fn query_metrics(mut self) -> Self {
        self.query_metrics = true;
        self
    }

    /// Returns whether the condition has a time range.
    #[must_use]
    pub fn has_time_range(&self) -> bool {
        self.time_range.is_some()
    }

    /// Returns the row of the condition.
    #[must_use]
    pub fn row(&self) -> &Bytes {
        &self.row
    }

    /// Returns the label, or a description of the condition if it has none.
    #[must_use]
    pub fn label_text(&self) -> Cow<'_, str> {
        match &self.label {
            Some(label) => Cow::Borrowed(label),
            None => Cow::Owned(self.describe()),
        }
    }

    fn describe(&self) -> String {
        let time_range = self.time_range.map(|range| format!(" in {range}"));
        format!(
            "{} {}{}",
            Shown(&self.row),
            self.check,
            time_range.unwrap_or_default()
        )
    }

    /// Returns the column of the condition, or `None` for a filter, which applies to the whole row.
    pub fn column(&self) -> Option<(&Bytes, &Bytes)> {
        match &self.check {
            Check::Absent { family, qualifier }
            | Check::Present { family, qualifier }
            | Check::Compare {
                family, qualifier, ..
            }
            | Check::BeginsWith {
                family, qualifier, ..
            } => Some((family, qualifier)),
            Check::Matches(_) => None,
        }
    }

    /// Returns the families that the condition names.
    pub fn families(&self) -> impl Iterator<Item = &Bytes> {
        let of_filter = match &self.check {
            Check::Matches(filter) => filter.families(),
            _ => Vec::new(),
        };
        self.column()
            .map(|(family, _)| family)
            .into_iter()
            .chain(of_filter)
    }

    /// Returns the number of bytes of keys and values, without the overhead of the protocol.
    #[must_use]
    pub fn size(&self) -> usize {
        self.row.len()
            + self
                .column()
                .map_or(0, |(family, qualifier)| family.len() + qualifier.len())
            + match &self.check {
                Check::Absent { .. } | Check::Present { .. } => 0,
                Check::Compare { value, .. } => value.len(),
                Check::BeginsWith { prefix, .. } => prefix.len(),
                Check::Matches(filter) => filter.size(),
            }
    }

    /// Checks for a condition that HBase would reject or would interpret as something else.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidInput`](crate::ErrorKind::InvalidInput), or
    /// [`LimitExceeded`](crate::ErrorKind::LimitExceeded) for a filter that is too large, with the
    /// condition.
    pub fn check(&self) -> Result<()> {
        check_row(&self.row)
            .and_then(|()| match self.column() {
                Some((family, _)) => check_family(family),
                None => Ok(()),
            })
            .and_then(|()| match &self.check {
                Check::Compare { value, .. } if value.is_empty() => Err(Error::invalid(
                    "a comparison with an empty value, which counts as absent",
                )
                .with_hint("ask for absent or present")),
                Check::BeginsWith { prefix, .. } if prefix.is_empty() => Err(Error::invalid(
                    "a comparison with an empty beginning, which every value has",
                )
                .with_hint("ask for present")),
                Check::Matches(filter) => filter.check(),
                _ => Ok(()),
            })
            .and_then(|()| self.time_range.map_or(Ok(()), TimeRange::check))
            .map_err(|error| self.in_context(error))
    }

    /// Adds this condition to the context of an error.
    pub fn in_context<K: FailureKind>(&self, error: Failure<K>) -> Failure<K> {
        let error = error.at_operation(format!("condition {}", self.label_text()));
        match self.label {
            Some(_) => in_row(error, &self.row),
            // The description begins with the row.
            None => error,
        }
    }

    /// Returns whether the condition holds for a row that was read with its column, or completely
    /// for a filter.
    pub fn holds(&self, row: Option<&Row>) -> bool {
        let value = || {
            let (family, qualifier) = self.column()?;
            row?.value(family, qualifier).filter(|value| !value.is_empty())
        };
        match &self.check {
            Check::Absent { .. } => value().is_none(),
            Check::Present { .. } => value().is_some(),
            Check::Compare {
                comparison,
                value: given,
                ..
            } => match value() {
                Some(stored) => comparison.accepts(stored.cmp(given)),
                None => *comparison == Comparison::NotEqual,
            },
            Check::BeginsWith { prefix, .. } => value().is_some_and(|stored| stored.starts_with(prefix)),
            Check::Matches(filter) => row.is_some_and(|row| {
                newest(row.cells()).any(|cell| !cell.value.is_empty() && filter.passes(cell))
            }),
        }
    }
}

/// Returns the first cell of each column, which is its newest version.
fn newest(cells: &[Cell]) -> impl Iterator<Item = &Cell> {
    let mut before: Option<&Cell> = None;
    cells.iter().filter(move |cell| {
        let older =
            before.is_some_and(|before| before.family == cell.family && before.qualifier == cell.qualifier);
        before = Some(cell);
        !older
    })
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent { family, qualifier } => {
                write!(f, "{}:{} absent", Shown(family), Shown(qualifier))
            }
            Self::Present { family, qualifier } => {
                write!(f, "{}:{} present", Shown(family), Shown(qualifier))
            }
            Self::Compare {
                family,
                qualifier,
                comparison,
                value,
            } => write!(
                f,
                "{}:{} {comparison} {}",
                Shown(family),
                Shown(qualifier),
                Shown(value)
            ),
            Self::BeginsWith {
                family,
                qualifier,
                prefix,
            } => write!(
                f,
                "{}:{} begins with {}",
                Shown(family),
                Shown(qualifier),
                Shown(prefix)
            ),
            Self::Matches(filter) => write!(f, "has {filter}"),
        }
    }
}

impl fmt::Debug for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.label {
            Some(label) => write!(f, "condition {label:?} ({})", self.describe()),
            None => write!(f, "condition {}", self.describe()),
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::{
        error::ErrorKind,
        model::{CellKind, Comparator},
    };

    /// Returns the row of the condition with these values.
    fn row(values: &[&'static str]) -> Option<Row> {
        let cells: Vec<_> = values
            .iter()
            .enumerate()
            .map(|(age, value)| {
                let timestamp = 9 - age as u64;
                Cell::new(
                    "r".into(),
                    "f".into(),
                    "q".into(),
                    timestamp,
                    CellKind::Put,
                    (*value).into(),
                )
            })
            .collect();
        (!cells.is_empty()).then(|| Row::new("r".into(), cells))
    }

    fn compare(comparison: Comparison) -> Condition {
        Condition::compare("r", "f", "q", comparison, "m")
    }

    const ABSENT: Option<&str> = None;

    #[rstest]
    #[case::absent(Condition::absent("r", "f", "q"), [true, true, false, false, false])]
    #[case::present(Condition::present("r", "f", "q"), [false, false, true, true, true])]
    #[case::equal(compare(Comparison::Equal), [false, false, false, true, false])]
    #[case::not_equal(compare(Comparison::NotEqual), [true, true, true, false, true])]
    #[case::less(compare(Comparison::Less), [false, false, true, false, false])]
    #[case::less_or_equal(compare(Comparison::LessOrEqual), [false, false, true, true, false])]
    #[case::greater(compare(Comparison::Greater), [false, false, false, false, true])]
    #[case::greater_or_equal(compare(Comparison::GreaterOrEqual), [false, false, false, true, true])]
    #[case::begins_with(Condition::begins_with("r", "f", "q", "m"), [false, false, false, true, false])]
    #[case::matches(
        Condition::matches("r", Filter::value(Comparison::NotEqual, Comparator::binary("m"))),
        [false, false, true, false, true]
    )]
    fn the_newest_version_is_judged_and_empty_is_absent(
        #[case] condition: Condition,
        #[case] expected: [bool; 5],
    ) {
        condition.check().unwrap();
        for (stored, expected) in [ABSENT, Some(""), Some("a"), Some("m"), Some("z")]
            .into_iter()
            .zip(expected)
        {
            let versions: Vec<_> = stored.into_iter().collect();
            assert_eq!(
                condition.holds(row(&versions).as_ref()),
                expected,
                "{condition:?} on {stored:?}"
            );
            if let Some(newest) = stored {
                for older in ["", "a", "m", "z"] {
                    let row = row(&[newest, older]);
                    assert_eq!(
                        condition.holds(row.as_ref()),
                        expected,
                        "{condition:?} on {row:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_cell_of_another_column_is_none() {
        let stored = row(&["m"]);
        for (family, qualifier) in [("f", "p"), ("g", "q")] {
            assert!(Condition::absent("r", family, qualifier).holds(stored.as_ref()));
            assert!(!Condition::equal("r", family, qualifier, "m").holds(stored.as_ref()));
        }
    }

    #[rstest]
    #[case::absent(Condition::absent("xxxabc", "f", "q"), "xxxabc f:q absent")]
    #[case::present(Condition::present("xxxabc", "f", "q"), "xxxabc f:q present")]
    #[case::compare(Condition::not_equal("xxxabc", "f", "q", "v\n"), r"xxxabc f:q != v\x0A")]
    #[case::begins_with(
        Condition::begins_with("xxxabc", "f", "q", "v\n"),
        r"xxxabc f:q begins with v\x0A"
    )]
    #[case::matches(
        Condition::matches("xxxabc", Filter::value(Comparison::Greater, Comparator::long(5))),
        "xxxabc has value > 5L"
    )]
    #[case::labelled(Condition::present("xxxabc", "f", "q").label("in stock"), "in stock")]
    fn a_label_says_what_it_is(#[case] condition: Condition, #[case] expected: &str) {
        assert_eq!(condition.label_text(), expected);
    }

    #[rstest]
    #[case::no_row(Condition::absent("", "f", "q"), "empty row key")]
    #[case::long_row(Condition::absent(vec![b'r'; 40_000], "f", "q"), "40000 bytes")]
    #[case::no_family(Condition::present("r", "", "q"), "empty column family")]
    #[case::long_family(Condition::present("r", vec![b'f'; 128], "q"), "128 bytes")]
    #[case::empty_value(
        Condition::equal("r", "f", "q", ""),
        "condition r f:q = : a comparison with an empty value"
    )]
    #[case::empty_beginning(Condition::begins_with("r", "f", "q", ""), "an empty beginning")]
    #[case::filter(Condition::matches("r", Filter::all([])), "none in it")]
    #[case::named_by_its_label(
        Condition::equal("r", "f", "q", "").label("in stock"),
        "condition in stock, row r: a comparison with an empty value"
    )]
    fn refuses_what_would_mean_something_else(#[case] condition: Condition, #[case] expected: &str) {
        let error = condition.check().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains(expected), "{error}");
        assert!(error.to_string().len() < 400, "{error}");
    }

    #[test]
    fn names_its_families() {
        let families = |condition: Condition| {
            condition
                .families()
                .map(|family| String::from_utf8_lossy(family).into_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(families(Condition::absent("r", "f", "q")), ["f"]);
        let column = |family| Filter::column_value(family, "q", Comparison::Equal, Comparator::long(1));
        let filter = Filter::any([
            Filter::column_prefix("p"),
            column("f"),
            Filter::all([column("g")]),
        ]);
        assert_eq!(families(Condition::matches("r", filter)), ["f", "g"]);
    }
}
