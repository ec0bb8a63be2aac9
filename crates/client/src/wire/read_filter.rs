//! Filters of reads as messages.

use std::{
    collections::BTreeSet,
    ops::Bound::{self, Excluded, Included, Unbounded},
};

use bytes::Bytes;

use super::{
    filter::{
        Leaf, all, any, comparable, comparator_message, compare, compare_from, compared, filter_message,
        named,
    },
    pb,
};
use crate::model::{
    ColumnPageStart, Comparison, DependentColumnFilter, KeyRange, ReadComparator, ReadFilter,
    ReadFilterKind as Kind, Regex, RegexEngine, SingleColumnValueFilter,
};

/// The length of the shortest decimal number: its scale, and one byte of digits.
const SHORTEST_DECIMAL: u32 = 5;
/// The byte of a processed mask for a byte that must be equal.
const FIXED: u8 = 0xff;

pub(super) fn read_filter_message(filter: &ReadFilter) -> pb::Filter {
    match &filter.0 {
        Kind::Cells(filter) => filter_message(filter),
        Kind::Compare(part, comparison, comparator) => {
            compare_read(*comparison, comparator, &|leaf| compared(part, leaf))
        }
        Kind::SingleColumnValue(filter) => compare_read(filter.comparison, &filter.comparator, &|leaf| {
            single_column_value(filter, leaf)
        }),
        Kind::DependentColumn(filter) => dependent_column(filter),
        Kind::RowPrefix(prefix) => {
            let prefix = Some(prefix.clone());
            named("PrefixFilter", &pb::PrefixFilter { prefix })
        }
        Kind::RowRanges(ranges) => row_ranges(ranges.iter().map(row_range)),
        Kind::FuzzyRows(keys) => {
            let message = pb::FuzzyRowFilter {
                fuzzy_keys_data: keys.iter().map(|(key, mask)| fuzzy_key(key, mask)).collect(),
                is_mask_v2: None,
            };
            named("FuzzyRowFilter", &message)
        }
        Kind::InclusiveStop(row) => {
            let stop_row_key = Some(row.clone());
            named("InclusiveStopFilter", &pb::InclusiveStopFilter { stop_row_key })
        }
        Kind::RandomRows(chance) => {
            let chance = *chance;
            named("RandomRowFilter", &pb::RandomRowFilter { chance })
        }
        Kind::Page(rows) => {
            let page_size = rows.cast_signed();
            named("PageFilter", &pb::PageFilter { page_size })
        }
        Kind::ColumnPrefixes(prefixes) => {
            let sorted_prefixes = without_extensions(prefixes);
            named(
                "MultipleColumnPrefixFilter",
                &pb::MultipleColumnPrefixFilter { sorted_prefixes },
            )
        }
        Kind::ColumnRange((min, max)) => {
            let message = pb::ColumnRangeFilter {
                min_column: bytes_of(min),
                min_column_inclusive: Some(is_inclusive(min)),
                max_column: bytes_of(max),
                max_column_inclusive: Some(is_inclusive(max)),
            };
            named("ColumnRangeFilter", &message)
        }
        Kind::ColumnCount(columns) => {
            let limit = columns.cast_signed();
            named("ColumnCountGetFilter", &pb::ColumnCountGetFilter { limit })
        }
        Kind::ColumnPage { limit, start } => {
            let (offset, column_offset) = match start {
                ColumnPageStart::Offset(offset) => (Some(offset.cast_signed()), None),
                ColumnPageStart::Qualifier(qualifier) => (None, Some(qualifier.clone())),
            };
            let message = pb::ColumnPaginationFilter {
                limit: limit.cast_signed(),
                offset,
                column_offset,
            };
            named("ColumnPaginationFilter", &message)
        }
        Kind::Timestamps { timestamps, seek } => {
            let message = pb::TimestampsFilter {
                timestamps: timestamps
                    .iter()
                    .map(|timestamp| timestamp.cast_signed())
                    .collect(),
                can_hint: Some(*seek),
            };
            named("TimestampsFilter", &message)
        }
        Kind::KeyOnly { lengths } => {
            let len_as_val = *lengths;
            named("KeyOnlyFilter", &pb::KeyOnlyFilter { len_as_val })
        }
        Kind::FirstKeyOnly => named("FirstKeyOnlyFilter", &pb::FirstKeyOnlyFilter {}),
        Kind::Skip(filter) => {
            let filter = read_filter_message(filter);
            named("SkipFilter", &pb::SkipFilter { filter })
        }
        Kind::WhileMatch(filter) => {
            let filter = read_filter_message(filter);
            named("WhileMatchFilter", &pb::WhileMatchFilter { filter })
        }
        Kind::All(filters) => all(filters.iter().map(read_filter_message).collect()),
        Kind::Any(filters) => any(filters.iter().map(read_filter_message).collect()),
    }
}

/// Returns a filter for rows of these keys, which the server seeks one after the other.
pub(super) fn only_rows(rows: &BTreeSet<Bytes>) -> pb::Filter {
    row_ranges(
        rows.iter()
            .map(|row| row_range(&(Included(row.clone()), Included(row.clone())))),
    )
}

fn row_ranges(ranges: impl Iterator<Item = pb::RowRange>) -> pb::Filter {
    let row_range_list = ranges.collect();
    named("MultiRowRangeFilter", &pb::MultiRowRangeFilter { row_range_list })
}

fn row_range((start, stop): &KeyRange) -> pb::RowRange {
    pb::RowRange {
        start_row: Some(bytes_of(start).unwrap_or_default()),
        start_row_inclusive: Some(is_inclusive(start)),
        stop_row: Some(bytes_of(stop).unwrap_or_default()),
        stop_row_inclusive: Some(is_inclusive(stop)),
    }
}

fn bytes_of(bound: &Bound<Bytes>) -> Option<Bytes> {
    match bound {
        Included(bytes) | Excluded(bytes) => Some(bytes.clone()),
        Unbounded => None,
    }
}

fn is_inclusive(bound: &Bound<Bytes>) -> bool {
    !matches!(bound, Excluded(_))
}

/// Returns a key with a mask in the form that servers of all releases understand: not processed, unless no
/// byte is free. Processed masks have two versions (HBASE-26537), and by the first one a mask of zeros leaves
/// all bytes free (HBASE-15676).
fn fuzzy_key(key: &Bytes, mask: &Bytes) -> pb::BytesBytesPair {
    let fixed = |at: &u8| *at == 0;
    // Servers compare a masked row with the key, so other bytes than the fixed ones must be zero.
    let key = key
        .iter()
        .zip(mask)
        .map(|(byte, at)| if fixed(at) { *byte } else { 0 });
    pb::BytesBytesPair {
        first: key.collect(),
        second: if mask.iter().all(fixed) {
            vec![FIXED; mask.len()].into()
        } else {
            mask.clone()
        },
    }
}

/// Leaves out prefixes that extend another one. The server tries only the last prefix before a
/// qualifier: of "a" and "ab", "ac" would pass neither.
fn without_extensions(prefixes: &BTreeSet<Bytes>) -> Vec<Bytes> {
    let mut shortest: Vec<Bytes> = Vec::new();
    for prefix in prefixes {
        if !shortest.last().is_some_and(|last| prefix.starts_with(last)) {
            shortest.push(prefix.clone());
        }
    }
    shortest
}

fn single_column_value(filter: &SingleColumnValueFilter, leaf: Leaf) -> pb::Filter {
    let message = pb::SingleColumnValueFilter {
        column_family: Some(filter.family.clone()),
        column_qualifier: Some(filter.qualifier.clone()),
        compare_op: leaf.operator.into(),
        comparator: leaf.comparator,
        filter_if_missing: Some(filter.filter_if_missing),
        latest_version_only: Some(filter.latest_version_only),
    };
    if filter.exclude_column {
        named(
            "SingleColumnValueExcludeFilter",
            &pb::SingleColumnValueExcludeFilter {
                single_column_value_filter: message,
            },
        )
    } else {
        named("SingleColumnValueFilter", &message)
    }
}

fn dependent_column(filter: &DependentColumnFilter) -> pb::Filter {
    let with = |compare_filter| {
        let message = pb::DependentColumnFilter {
            compare_filter,
            column_family: Some(filter.family.clone()),
            column_qualifier: Some(filter.qualifier.clone()),
            drop_dependent_column: Some(filter.drop_column),
        };
        named("DependentColumnFilter", &message)
    };
    match &filter.value {
        Some((comparison, comparator)) => compare_read(*comparison, comparator, &|leaf| with(leaf.into())),
        None => with(pb::CompareFilter {
            compare_op: pb::CompareType::NoOp.into(),
            comparator: None,
        }),
    }
}

/// Builds a comparison from those of the server; `wrap` determines what is compared.
fn compare_read(
    comparison: Comparison,
    comparator: &ReadComparator,
    wrap: &dyn Fn(Leaf) -> pb::Filter,
) -> pb::Filter {
    match comparator {
        ReadComparator::Comparator(comparator) => compare(comparison, comparator, wrap),
        ReadComparator::Regex(regex) => wrap(Leaf::new(comparison, regex_comparator(regex))),
        ReadComparator::BigDecimal { unscaled, scale } => {
            let comparable = comparable(decimal(*unscaled, *scale));
            let message = pb::BigDecimalComparator { comparable };
            let comparator = comparator_message("BigDecimalComparator", &message);
            compare_from(SHORTEST_DECIMAL, comparison, &comparator, wrap)
        }
    }
}

fn regex_comparator(regex: &Regex) -> pb::Comparator {
    let message = pb::RegexStringComparator {
        pattern: regex.pattern.clone(),
        pattern_flags: regex.flags.iter().fold(0, |flags, flag| flags | *flag as i32),
        charset: regex.charset.clone(),
        engine: Some(
            match regex.engine {
                RegexEngine::Java => "JAVA",
                RegexEngine::Joni => "JONI",
            }
            .to_owned(),
        ),
    };
    comparator_message("RegexStringComparator", &message)
}

/// Returns a decimal number as Java stores it: the scale, then the digits as a signed number in as
/// few bytes as possible.
fn decimal(unscaled: i128, scale: i32) -> Bytes {
    let digits = unscaled.to_be_bytes();
    let sign = if unscaled < 0 { 0xff } else { 0 };
    let is_sign_only = |at: usize| digits[at] == sign && (digits[at + 1] ^ sign) < 0x80;
    let first = (0..digits.len() - 1)
        .find(|at| !is_sign_only(*at))
        .unwrap_or(digits.len() - 1);
    [&scale.to_be_bytes()[..], &digits[first..]].concat().into()
}

#[cfg(test)]
mod tests {
    use prost::Message;
    use rstest::rstest;

    use super::*;
    use crate::model::{Comparator, Filter, RegexFlag};

    /// Returns the last part of the class, and the message.
    fn sent(filter: impl Into<ReadFilter>) -> (String, Bytes) {
        let message = read_filter_message(&filter.into());
        let class = message
            .name
            .strip_prefix("org.apache.hadoop.hbase.filter.")
            .unwrap();
        (class.to_owned(), message.serialized_filter.unwrap())
    }

    #[rstest]
    #[case::prefix(ReadFilter::row_prefix("ab"), "PrefixFilter", b"\x0a\x02ab")]
    #[case::stop(ReadFilter::inclusive_stop("ab"), "InclusiveStopFilter", b"\x0a\x02ab")]
    #[case::page(ReadFilter::page(300), "PageFilter", b"\x08\xac\x02")]
    #[case::random(ReadFilter::random_rows(0.5), "RandomRowFilter", b"\x0d\0\0\0\x3f")]
    #[case::count(ReadFilter::column_count(2), "ColumnCountGetFilter", b"\x08\x02")]
    #[case::columns(ReadFilter::column_page(2, 1), "ColumnPaginationFilter", b"\x08\x02\x10\x01")]
    #[case::columns_from(
        ReadFilter::column_page_from(2, "q"),
        "ColumnPaginationFilter",
        b"\x08\x02\x1a\x01q"
    )]
    #[case::timestamps(ReadFilter::timestamps([3, 1]), "TimestampsFilter", b"\x0a\x02\x01\x03\x10\0")]
    #[case::seek(ReadFilter::seek_timestamps([1]), "TimestampsFilter", b"\x0a\x01\x01\x10\x01")]
    #[case::key_only(ReadFilter::key_only(), "KeyOnlyFilter", b"\x08\0")]
    #[case::lengths(ReadFilter::value_lengths(), "KeyOnlyFilter", b"\x08\x01")]
    #[case::first(ReadFilter::first_key_only(), "FirstKeyOnlyFilter", b"")]
    #[case::range(
        ReadFilter::column_range("a".."b"),
        "ColumnRangeFilter",
        b"\x0a\x01a\x10\x01\x1a\x01b\x20\0"
    )]
    #[case::open_range(ReadFilter::column_range("a"..), "ColumnRangeFilter", b"\x0a\x01a\x10\x01\x20\x01")]
    #[case::rows(
        ReadFilter::row_ranges(["a"..="b"]),
        "MultiRowRangeFilter",
        b"\x0a\x0a\x0a\x01a\x10\x01\x1a\x01b\x20\x01"
    )]
    // The byte that can be any is zero in the key.
    #[case::fuzzy(
        ReadFilter::fuzzy_rows([("a?", [0, 1])]),
        "FuzzyRowFilter",
        b"\x0a\x08\x0a\x02a\0\x12\x02\0\x01"
    )]
    #[case::fuzzy_without_a_free_byte(
        ReadFilter::fuzzy_rows([("ab", [0, 0])]),
        "FuzzyRowFilter",
        b"\x0a\x08\x0a\x02ab\x12\x02\xff\xff"
    )]
    #[case::prefixes(
        ReadFilter::column_prefixes(["b", "ab", "a"]),
        "MultipleColumnPrefixFilter",
        b"\x0a\x01a\x0a\x01b"
    )]
    fn filters_have_the_bytes_of_hbase(
        #[case] filter: ReadFilter,
        #[case] class: &str,
        #[case] expected: &[u8],
    ) {
        let (name, bytes) = sent(filter);
        assert_eq!((&*name, &bytes[..]), (class, expected));
    }

    #[test]
    fn single_column_filter_has_its_options() {
        let filter = SingleColumnValueFilter::new("f", "q", Comparison::Equal, Comparator::null())
            .filter_if_missing(true)
            .latest_version_only(false)
            .exclude_column(true);
        let (class, bytes) = sent(filter);
        assert_eq!(class, "SingleColumnValueExcludeFilter");
        let message = pb::SingleColumnValueExcludeFilter::decode(bytes).unwrap();
        let inner = message.single_column_value_filter;
        assert_eq!(inner.column_family.as_deref(), Some(&b"f"[..]));
        assert_eq!(inner.column_qualifier.as_deref(), Some(&b"q"[..]));
        assert_eq!(
            (inner.filter_if_missing, inner.latest_version_only),
            (Some(true), Some(false))
        );
        assert_eq!(
            inner.comparator.name,
            "org.apache.hadoop.hbase.filter.NullComparator"
        );
    }

    #[test]
    fn dependent_column_without_a_value_compares_nothing() {
        let (class, bytes) = sent(DependentColumnFilter::new("f", "q").drop_column(true));
        assert_eq!(class, "DependentColumnFilter");
        let message = pb::DependentColumnFilter::decode(bytes).unwrap();
        assert_eq!(message.compare_filter.compare_op(), pb::CompareType::NoOp);
        assert_eq!(message.compare_filter.comparator, None);
        assert_eq!(message.drop_dependent_column, Some(true));
    }

    #[test]
    fn regular_expression_has_its_flags_engine_and_charset() {
        let regex = Regex::new("a+")
            .flags([RegexFlag::CaseInsensitive, RegexFlag::Multiline])
            .engine(RegexEngine::Joni)
            .charset("ISO-8859-1");
        let (class, bytes) = sent(ReadFilter::row(Comparison::NotEqual, regex));
        assert_eq!(class, "RowFilter");
        let message = pb::RowFilter::decode(bytes).unwrap().compare_filter;
        assert_eq!(message.compare_op(), pb::CompareType::NotEqual);
        let bytes = message.comparator.unwrap().serialized_comparator.unwrap();
        let message = pb::RegexStringComparator::decode(bytes).unwrap();
        let expected = pb::RegexStringComparator {
            pattern: "a+".into(),
            pattern_flags: 10,
            charset: "ISO-8859-1".into(),
            engine: Some("JONI".into()),
        };
        assert_eq!(message, expected);
    }

    #[test]
    fn wrappers_and_lists_contain_their_filters() {
        let inner = Filter::column_prefix("p");
        let skip = ReadFilter::skip(inner.clone());
        let (class, bytes) = sent(ReadFilter::all([ReadFilter::while_match(skip), inner.into()]));
        assert_eq!(class, "FilterList");
        let list = pb::FilterList::decode(bytes).unwrap();
        let [while_match, prefix] = &list.filters[..] else {
            panic!("{list:?}");
        };
        assert!(prefix.name.ends_with(".ColumnPrefixFilter"));
        assert!(while_match.name.ends_with(".WhileMatchFilter"));
        let message = pb::WhileMatchFilter::decode(while_match.serialized_filter.clone().unwrap()).unwrap();
        assert!(message.filter.name.ends_with(".SkipFilter"));
        let message = pb::SkipFilter::decode(message.filter.serialized_filter.unwrap()).unwrap();
        assert_eq!(message.filter, *prefix);
    }

    #[rstest]
    #[case(150, 2, b"\0\0\0\x02\0\x96")]
    #[case(-25, 1, b"\0\0\0\x01\xe7")]
    #[case(0, -1, b"\xff\xff\xff\xff\0")]
    #[case(-1, 0, b"\0\0\0\0\xff")]
    #[case(-128, 0, b"\0\0\0\0\x80")]
    #[case(128, 0, b"\0\0\0\0\0\x80")]
    #[case(i128::MIN, 0, &[&[0; 4][..], &[0x80], &[0; 15]].concat())]
    fn decimals_are_stored_as_in_java(#[case] unscaled: i128, #[case] scale: i32, #[case] expected: &[u8]) {
        assert_eq!(&decimal(unscaled, scale)[..], expected);
    }
}
