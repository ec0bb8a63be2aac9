//! Filters that are refused before anything is sent.

use std::ops::Bound;

use bytes::Bytes;

use super::{
    super::{
        BytesBinary, Comparison, ReadComparator,
        filter::PartCount,
        limits::{check_family, check_row, check_timestamp},
    },
    ColumnPageStart, ComparedPart, KeyRange, ReadFilter, ReadFilterKind,
};
use crate::error::{Error, ErrorKind, Result};

/// The maximum number of ranges, prefixes or timestamps of one filter.
const MAX_ENTRIES: usize = 16_384;
/// The server reads counts of columns as signed numbers.
const MAX_COLUMNS: u32 = i32::MAX as u32;

impl ReadFilter {
    /// Rejects a filter that has no meaning, or is too large for a server.
    pub(in crate::model) fn check(&self) -> Result<()> {
        self.check_at(1, &mut PartCount::default())
    }

    /// Rejects a filter that loses cells in a scan: HBase ends the family in which a row has more
    /// columns than `ColumnCountGetFilter` passes, for all further rows of the region.
    pub(in crate::model) fn check_in_scan(&self) -> Result<()> {
        match &self.0 {
            ReadFilterKind::ColumnCount(columns) => Err(Error::invalid(
                "a scan with a count of columns loses cells of further rows",
            )
            .with_hint(format!("use ReadFilter::column_page({columns}, 0)"))),
            ReadFilterKind::Skip(filter) | ReadFilterKind::WhileMatch(filter) => filter.check_in_scan(),
            ReadFilterKind::All(filters) | ReadFilterKind::Any(filters) => {
                filters.iter().try_for_each(Self::check_in_scan)
            }
            _ => Ok(()),
        }
    }

    fn check_at(&self, depth: usize, parts: &mut PartCount) -> Result<()> {
        use ReadFilterKind as Kind;
        if let Kind::Cells(filter) = &self.0 {
            return filter.check_at(depth, parts);
        }
        parts.add(1, depth)?;
        match &self.0 {
            Kind::Cells(_) | Kind::KeyOnly { .. } | Kind::FirstKeyOnly => Ok(()),
            Kind::Compare(part, comparison, comparator) => part.check(*comparison, comparator),
            Kind::SingleColumnValue(filter) => filter.check(),
            Kind::DependentColumn(filter) => filter.check(),
            Kind::RowPrefix(prefix) if prefix.is_empty() => Ok(()),
            Kind::RowPrefix(row) | Kind::InclusiveStop(row) => check_row(row),
            Kind::RowRanges(ranges) => {
                check_entries("ranges of rows", ranges.len())?;
                ranges.iter().try_for_each(|range| {
                    [&range.0, &range.1].into_iter().try_for_each(check_row_bound)?;
                    check_range("rows", range)
                })
            }
            Kind::FuzzyRows(keys) => {
                check_entries("fuzzy keys", keys.len())?;
                parts.add(keys.len(), depth)?;
                keys.iter().try_for_each(check_fuzzy_key)
            }
            Kind::RandomRows(chance) => check_chance(*chance),
            Kind::Page(rows) => check_limit("a page", *rows, i64::MAX as u64),
            Kind::ColumnPrefixes(prefixes) => check_entries("column prefixes", prefixes.len()),
            Kind::ColumnRange(range) => check_range("columns", range),
            Kind::ColumnCount(columns) => check_limit("a count", (*columns).into(), MAX_COLUMNS.into()),
            Kind::ColumnPage { limit, start } => {
                let offset = match start {
                    ColumnPageStart::Offset(offset) => *offset,
                    ColumnPageStart::Qualifier(_) => 0,
                };
                let most = MAX_COLUMNS.saturating_sub(offset);
                check_limit("a page of columns", (*limit).into(), most.into())
            }
            Kind::Timestamps { timestamps, .. } => {
                check_entries("timestamps", timestamps.len())?;
                timestamps
                    .iter()
                    .try_for_each(|timestamp| check_timestamp(Some(*timestamp)))
            }
            Kind::Skip(filter) | Kind::WhileMatch(filter) => filter.check_at(depth + 1, parts),
            Kind::All(filters) | Kind::Any(filters) => {
                check_entries("filters", filters.len())?;
                filters
                    .iter()
                    .try_for_each(|filter| filter.check_at(depth + 1, parts))
            }
        }
    }
}

impl ComparedPart {
    fn check(&self, comparison: Comparison, comparator: &ReadComparator) -> Result<()> {
        match (self, comparator) {
            // A list asks all of its filters about a row key, and the comparator fails at a short one.
            (Self::Row, ReadComparator::BigDecimal { .. }) => {
                return Err(Error::invalid(
                    "row keys cannot be compared with a decimal number",
                ));
            }
            (Self::Column(family, _), _) => check_family(family)?,
            _ => {}
        }
        comparator.check(comparison)
    }
}

fn check_entries(what: &str, count: usize) -> Result<()> {
    match count {
        0 => Err(Error::invalid(format!("a filter of no {what}"))),
        1..=MAX_ENTRIES => Ok(()),
        _ => Err(Error::new(
            ErrorKind::LimitExceeded,
            format!("a filter of {count} {what}; the limit is {MAX_ENTRIES}"),
        )),
    }
}

fn check_limit(what: &str, limit: u64, most: u64) -> Result<()> {
    match limit {
        0 => Err(Error::invalid(format!("{what} of nothing"))),
        limit if limit > most => Err(Error::invalid(format!(
            "{what} up to {limit}, which is more than {most}"
        ))),
        _ => Ok(()),
    }
}

fn check_chance(chance: f32) -> Result<()> {
    if chance > 0.0 && chance <= 1.0 {
        Ok(())
    } else {
        Err(Error::invalid(format!(
            "rows with a chance of {chance}; it is above 0 and at most 1"
        )))
    }
}

fn check_row_bound(bound: &Bound<Bytes>) -> Result<()> {
    match bound {
        Bound::Unbounded => Ok(()),
        Bound::Included(row) | Bound::Excluded(row) => check_row(row),
    }
}

fn check_range(what: &str, range: &KeyRange) -> Result<()> {
    let (start, end, both_included) = match range {
        (Bound::Included(start), Bound::Included(end)) => (start, end, true),
        (Bound::Included(start) | Bound::Excluded(start), Bound::Included(end) | Bound::Excluded(end)) => {
            (start, end, false)
        }
        _ => return Ok(()),
    };
    if start < end || start == end && both_included {
        Ok(())
    } else {
        Err(Error::invalid(format!(
            "no {what} are between {} and {}",
            BytesBinary(start),
            BytesBinary(end)
        )))
    }
}

fn check_fuzzy_key((key, mask): &(Bytes, Bytes)) -> Result<()> {
    check_row(key)?;
    let shown = BytesBinary(key);
    if key.len() != mask.len() {
        return Err(Error::invalid(format!(
            "fuzzy key {shown} of {} bytes has a mask of {}",
            key.len(),
            mask.len()
        )));
    }
    match mask.iter().find(|byte| **byte > 1) {
        Some(byte) => Err(Error::invalid(format!(
            "the mask of fuzzy key {shown} has the byte {byte}; it has only 0 and 1"
        ))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::model::{Comparator, DependentColumnFilter, Filter, Regex, SingleColumnValueFilter};

    const KEY: &str = "abc";

    fn five() -> Comparator {
        Comparator::long(5)
    }

    #[rstest]
    #[case::empty_list(ReadFilter::any([]), "no filters")]
    #[case::empty_list_of_cells(Filter::any([]).into(), "none in it")]
    #[case::empty_list_inside(ReadFilter::skip(ReadFilter::all([])), "no filters")]
    #[case::no_pages(ReadFilter::page(0), "a page of nothing")]
    #[case::long_page(ReadFilter::page(u64::MAX), "more than")]
    #[case::no_columns(ReadFilter::column_count(0), "a count of nothing")]
    #[case::no_page_of_columns(ReadFilter::column_page(0, 3), "a page of columns of nothing")]
    #[case::overflow(ReadFilter::column_page(i32::MAX as u32, 1), "more than 2147483646")]
    #[case::no_ranges(ReadFilter::row_ranges::<&str, std::ops::Range<&str>>([]), "no ranges of rows")]
    #[case::inverted_rows(ReadFilter::row_ranges(["b".."a"]), "no rows are between b and a")]
    #[case::no_row(ReadFilter::row_ranges(["a".."a"]), "no rows are between a and a")]
    #[case::empty_row(ReadFilter::row_ranges([""..]), "an empty row key")]
    #[case::inverted_columns(ReadFilter::column_range("b"..="a"), "no columns are between b and a")]
    #[case::no_fuzzy_keys(ReadFilter::fuzzy_rows::<&str, &[u8; 3]>([]), "no fuzzy keys")]
    #[case::short_mask(ReadFilter::fuzzy_rows([(KEY, "")]), "fuzzy key abc of 3 bytes has a mask of 0")]
    #[case::mask(ReadFilter::fuzzy_rows([(KEY, vec![0, 1, 2])]), "has the byte 2")]
    #[case::no_stop(ReadFilter::inclusive_stop(""), "an empty row key")]
    #[case::no_prefixes(ReadFilter::column_prefixes::<&str>([]), "no column prefixes")]
    #[case::no_timestamps(ReadFilter::timestamps([]), "no timestamps")]
    #[case::latest(ReadFilter::timestamps([u64::MAX]), "out of range")]
    #[case::no_chance(ReadFilter::random_rows(0.0), "a chance of 0")]
    #[case::negative_chance(ReadFilter::random_rows(-0.5), "a chance of -0.5")]
    #[case::more_than_certain(ReadFilter::random_rows(1.01), "a chance of 1.01")]
    #[case::not_a_chance(ReadFilter::random_rows(f32::NAN), "a chance of NaN")]
    #[case::order_of_regex(
        ReadFilter::row(Comparison::Less, Regex::new("a")),
        "< with a regular expression"
    )]
    #[case::decimal_row(
        ReadFilter::row(Comparison::Less, ReadComparator::BigDecimal { unscaled: 1, scale: 0 }),
        "row keys cannot be compared"
    )]
    #[case::no_family(
        ReadFilter::column_value("", "q", Comparison::Equal, five()),
        "an empty column family"
    )]
    #[case::no_family_of_a_column(
        SingleColumnValueFilter::new("", "q", Comparison::Equal, five()).into(),
        "an empty column family"
    )]
    #[case::order_in_all_versions(
        SingleColumnValueFilter::new("f", "q", Comparison::Less, five())
            .latest_version_only(false)
            .into(),
        "< on all versions of a column"
    )]
    #[case::order_of_a_dependent_column(
        DependentColumnFilter::new("f", "q").value(Comparison::Less, five()).into(),
        "< on a dependent column"
    )]
    fn filters_without_a_meaning_are_refused(#[case] filter: ReadFilter, #[case] why: &str) {
        let error = filter.check().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains(why), "{error}");
    }

    #[rstest]
    #[case::too_many(ReadFilter::any(std::iter::repeat_n(ReadFilter::first_key_only(), 256)))]
    #[case::too_many_cells(ReadFilter::any(
        std::iter::repeat_n(Filter::any([Filter::column_prefix("p")]).into(), 128)
    ))]
    #[case::too_many_fuzzy_keys(ReadFilter::fuzzy_rows(
        std::iter::repeat_n((KEY, vec![0; 3]), 256)
    ))]
    #[case::too_deep((0..16).fold(ReadFilter::first_key_only(), |inner, _| ReadFilter::skip(inner)))]
    #[case::too_many_timestamps(ReadFilter::timestamps(0..=16_384))]
    fn filters_too_large_for_a_server_are_refused(#[case] filter: ReadFilter) {
        assert_eq!(filter.check().unwrap_err().kind(), ErrorKind::LimitExceeded);
    }

    #[rstest]
    #[case(ReadFilter::any(std::iter::repeat_n(ReadFilter::first_key_only(), 255)))]
    #[case((1..16).fold(ReadFilter::first_key_only(), |inner, _| ReadFilter::skip(inner)))]
    #[case(ReadFilter::timestamps(1..=16_384))]
    #[case(ReadFilter::column_page(i32::MAX as u32, 0))]
    #[case(ReadFilter::row_ranges(["a"..="a"]))]
    #[case(ReadFilter::random_rows(1.0))]
    #[case(ReadFilter::column_range(""..="a"))]
    #[case(SingleColumnValueFilter::new("f", "q", Comparison::Less, five()).into())]
    #[case(
        SingleColumnValueFilter::new("f", "q", Comparison::Equal, five())
            .latest_version_only(false)
            .into()
    )]
    fn the_largest_allowed_filters_are_accepted(#[case] filter: ReadFilter) {
        filter.check().unwrap();
    }
}
