//! Filters and comparators as messages.
//!
//! In a filter the operator reads "stored OP given", in a column condition
//! ([`condition`](super::condition)) the other way round. Both were observed on real servers.

use bytes::Bytes;
use prost::Message;

use super::pb;
use crate::model::{
    BitOperation, Comparator, ComparatorKind, ComparedPart, Comparison, Filter, FilterKind, RegexFlag,
    component_end,
};

/// The Java package of filters and comparators.
const PACKAGE: &str = "org.apache.hadoop.hbase.filter.";
/// A mask that all numbers of eight bytes match and no other value does: its length, and some bit
/// set in the mask or in the number.
const EIGHT_BYTES: [u8; 8] = [0xff; 8];
/// The bit that is set in negative numbers.
const SIGN: [u8; 8] = [0x80, 0, 0, 0, 0, 0, 0, 0];

pub(crate) fn filter_message(filter: &Filter) -> pb::Filter {
    let of = |part, comparison, comparator| compare(comparison, comparator, &|leaf| compared(&part, leaf));
    match &filter.0 {
        FilterKind::Family(comparison, comparator) => of(ComparedPart::Family, *comparison, comparator),
        FilterKind::Qualifier(comparison, comparator) => of(ComparedPart::Qualifier, *comparison, comparator),
        FilterKind::Value(comparison, comparator) => of(ComparedPart::Value, *comparison, comparator),
        FilterKind::ColumnValue {
            family,
            qualifier,
            comparison,
            comparator,
        } => {
            let column = ComparedPart::Column(family.clone(), qualifier.clone());
            of(column, *comparison, comparator)
        }
        FilterKind::ColumnPrefix(prefix) => named(
            "ColumnPrefixFilter",
            &pb::ColumnPrefixFilter {
                prefix: prefix.clone(),
            },
        ),
        FilterKind::All(filters) => all(filters.iter().map(filter_message).collect()),
        FilterKind::Any(filters) => any(filters.iter().map(filter_message).collect()),
    }
}

/// Returns the filter that compares this part of a cell.
pub(super) fn compared(part: &ComparedPart, leaf: Leaf) -> pb::Filter {
    match part {
        ComparedPart::Row => named(
            "RowFilter",
            &pb::RowFilter {
                compare_filter: leaf.into(),
            },
        ),
        ComparedPart::Family => named(
            "FamilyFilter",
            &pb::FamilyFilter {
                compare_filter: leaf.into(),
            },
        ),
        ComparedPart::Qualifier => named(
            "QualifierFilter",
            &pb::QualifierFilter {
                compare_filter: leaf.into(),
            },
        ),
        ComparedPart::Value => named(
            "ValueFilter",
            &pb::ValueFilter {
                compare_filter: leaf.into(),
            },
        ),
        ComparedPart::Column(family, qualifier) => named(
            "ColumnValueFilter",
            &pb::ColumnValueFilter {
                family: family.clone(),
                qualifier: qualifier.clone(),
                compare_op: leaf.operator.into(),
                comparator: leaf.comparator,
            },
        ),
    }
}

/// Returns a filter for the newest version of each column, if its value is not empty. The server
/// applies a filter to every version that the family keeps, so an old one could fulfil a condition.
pub(super) fn newest_not_empty(filter: &Filter) -> pb::Filter {
    let not_empty = Leaf::new(Comparison::NotEqual, binary(Bytes::new()));
    let not_empty = compared(&ComparedPart::Value, not_empty);
    all(vec![newest(), not_empty, filter_message(filter)])
}

/// Returns a filter for rows in which the newest version of a column has this value. `None` means
/// that the column is absent.
pub(super) fn column_equals(family: &Bytes, qualifier: &Bytes, value: Option<&Bytes>) -> pb::Filter {
    // Nothing is less than an empty value, so no existing column passes.
    let (operator, given) = match value {
        Some(value) => (pb::CompareType::Equal, value.clone()),
        None => (pb::CompareType::Less, Bytes::new()),
    };
    let message = pb::SingleColumnValueFilter {
        column_family: Some(family.clone()),
        column_qualifier: Some(qualifier.clone()),
        compare_op: operator.into(),
        comparator: binary(given),
        filter_if_missing: Some(value.is_some()),
        latest_version_only: Some(true),
    };
    named("SingleColumnValueFilter", &message)
}

/// Returns a filter for rows whose newest cells in these columns have only these qualifiers and
/// timestamps.
pub(super) fn no_cells_but(columns: &Comparator, cells: &[(Bytes, u64)]) -> pb::Filter {
    let qualifier = |comparison, comparator| filter_message(&Filter::qualifier(comparison, comparator));
    let others = qualifier(Comparison::NotEqual, columns.clone());
    let these = cells.iter().map(|(name, timestamp)| {
        let timestamps = pb::TimestampsFilter {
            timestamps: vec![timestamp.cast_signed()],
            can_hint: Some(false),
        };
        all(vec![
            qualifier(Comparison::Equal, Comparator::binary(name.clone())),
            named("TimestampsFilter", &timestamps),
        ])
    });
    let filter = any([others].into_iter().chain(these).collect());
    named("SkipFilter", &pb::SkipFilter { filter })
}

/// Returns a filter for rows of which the newest cells have only these timestamps.
pub(super) fn no_other_timestamps(timestamps: impl IntoIterator<Item = u64>) -> pb::Filter {
    let timestamps = pb::TimestampsFilter {
        timestamps: timestamps.into_iter().map(u64::cast_signed).collect(),
        can_hint: Some(false),
    };
    let filter = named("TimestampsFilter", &timestamps);
    named("SkipFilter", &pb::SkipFilter { filter })
}

/// Returns a filter that every row passes, and that makes the server apply the other filters only
/// to the newest version of each column.
pub(super) fn newest() -> pb::Filter {
    // It answers for every cell: include it, and continue with the next column.
    named(
        "ColumnCountGetFilter",
        &pb::ColumnCountGetFilter { limit: i32::MAX },
    )
}

pub(super) fn binary(value: Bytes) -> pb::Comparator {
    comparator_message(
        "BinaryComparator",
        &pb::BinaryComparator {
            comparable: comparable(value),
        },
    )
}

/// Returns a comparator that is equal to all values with this prefix.
pub(super) fn beginning(prefix: Bytes) -> pb::Comparator {
    let message = pb::BinaryPrefixComparator {
        comparable: comparable(prefix),
    };
    comparator_message("BinaryPrefixComparator", &message)
}

/// One comparison of the server.
pub(super) struct Leaf {
    pub(super) operator: pb::CompareType,
    pub(super) comparator: pb::Comparator,
}

impl Leaf {
    pub(super) fn new(comparison: Comparison, comparator: pb::Comparator) -> Self {
        Self {
            operator: operator(comparison),
            comparator,
        }
    }
}

impl From<Leaf> for pb::CompareFilter {
    fn from(leaf: Leaf) -> Self {
        Self {
            compare_op: leaf.operator.into(),
            comparator: Some(leaf.comparator),
        }
    }
}

/// Builds a comparison from those of the server; `wrap` determines what is compared.
pub(super) fn compare(
    comparison: Comparison,
    comparator: &Comparator,
    wrap: &dyn Fn(Leaf) -> pb::Filter,
) -> pb::Filter {
    let leaf = |comparison, comparator| wrap(Leaf::new(comparison, comparator));
    match &comparator.0 {
        ComparatorKind::Binary(value) => leaf(comparison, binary(value.clone())),
        ComparatorKind::Prefix(prefix) => leaf(comparison, beginning(prefix.clone())),
        ComparatorKind::Bits(operation, mask) => leaf(comparison, bits(*operation, mask.clone())),
        ComparatorKind::Long(value) => {
            let bytes = Bytes::copy_from_slice(&value.to_be_bytes());
            if !comparison.asks_for_order() {
                return leaf(comparison, binary(bytes));
            }
            // HBase's LongComparator fails the whole call at the first cell that is not eight bytes
            // wide. Numbers of one sign have the order of their bytes, and any negative number is
            // less than the others.
            let equal_bits =
                |comparison, operation, mask| leaf(comparison, bits(operation, Bytes::copy_from_slice(mask)));
            let is_number = equal_bits(Comparison::Equal, BitOperation::Or, &EIGHT_BYTES);
            let negative = equal_bits(Comparison::Equal, BitOperation::And, &SIGN);
            let not_negative = equal_bits(Comparison::NotEqual, BitOperation::And, &SIGN);
            let in_order = leaf(comparison, binary(bytes));
            let less = matches!(comparison, Comparison::Less | Comparison::LessOrEqual);
            match (less, *value < 0) {
                (true, false) => any(vec![negative, all(vec![is_number, in_order])]),
                (false, false) => all(vec![is_number, not_negative, in_order]),
                (true, true) => all(vec![negative, in_order]),
                (false, true) => any(vec![
                    all(vec![is_number, not_negative]),
                    all(vec![negative, in_order]),
                ]),
            }
        }
        ComparatorKind::Null => leaf(
            comparison,
            comparator_message("NullComparator", &pb::NullComparator {}),
        ),
        ComparatorKind::Substring(text) => {
            let message = pb::SubstringComparator { substr: text.clone() };
            leaf(comparison, comparator_message("SubstringComparator", &message))
        }
        ComparatorKind::Component { offset, bytes } => {
            let message = pb::BinaryComponentComparator {
                value: bytes.clone(),
                offset: *offset,
            };
            let component = comparator_message("BinaryComponentComparator", &message);
            // The check of the filter has refused a component without an end.
            let end = component_end(*offset, bytes).unwrap_or(u32::MAX);
            compare_from(end, comparison, &component, wrap)
        }
    }
}

/// Compares values of at least this length; a shorter one is only not equal. HBase's own comparators
/// read beyond the end of a short value, or fail the call.
pub(super) fn compare_from(
    length: u32,
    comparison: Comparison,
    comparator: &pb::Comparator,
    wrap: &dyn Fn(Leaf) -> pb::Filter,
) -> pb::Filter {
    let has_length = |comparison| {
        // In this charset each byte is a character.
        let message = pb::RegexStringComparator {
            pattern: format!("^.{{{length}}}"),
            pattern_flags: RegexFlag::DotAll as i32,
            charset: "ISO-8859-1".to_owned(),
            engine: None,
        };
        let comparator = comparator_message("RegexStringComparator", &message);
        wrap(Leaf::new(comparison, comparator))
    };
    // A `MUST_PASS_ALL` list does not ask further filters about a cell that one excludes.
    let compared = all(vec![
        has_length(Comparison::Equal),
        wrap(Leaf::new(comparison, comparator.clone())),
    ]);
    match comparison {
        Comparison::NotEqual => any(vec![has_length(Comparison::NotEqual), compared]),
        _ => compared,
    }
}

/// Returns the operator of a filter, which has the stored value on its left.
fn operator(comparison: Comparison) -> pb::CompareType {
    match comparison {
        Comparison::Equal => pb::CompareType::Equal,
        Comparison::NotEqual => pb::CompareType::NotEqual,
        Comparison::Less => pb::CompareType::Less,
        Comparison::LessOrEqual => pb::CompareType::LessOrEqual,
        Comparison::Greater => pb::CompareType::Greater,
        Comparison::GreaterOrEqual => pb::CompareType::GreaterOrEqual,
    }
}

fn bits(operation: BitOperation, mask: Bytes) -> pb::Comparator {
    use pb::bit_comparator::BitwiseOp;
    let bitwise_op = match operation {
        BitOperation::And => BitwiseOp::And,
        BitOperation::Or => BitwiseOp::Or,
        BitOperation::Xor => BitwiseOp::Xor,
    };
    let message = pb::BitComparator {
        comparable: comparable(mask),
        bitwise_op: bitwise_op.into(),
    };
    comparator_message("BitComparator", &message)
}

pub(super) fn comparable(value: Bytes) -> pb::ByteArrayComparable {
    pb::ByteArrayComparable { value: Some(value) }
}

pub(super) fn comparator_message(name: &str, message: &impl Message) -> pb::Comparator {
    pb::Comparator {
        name: format!("{PACKAGE}{name}"),
        serialized_comparator: Some(message.encode_to_vec().into()),
    }
}

pub(super) fn named(name: &str, message: &impl Message) -> pb::Filter {
    pb::Filter {
        name: format!("{PACKAGE}{name}"),
        serialized_filter: Some(message.encode_to_vec().into()),
    }
}

pub(super) fn all(filters: Vec<pb::Filter>) -> pb::Filter {
    list(pb::filter_list::Operator::MustPassAll, filters)
}

pub(super) fn any(filters: Vec<pb::Filter>) -> pb::Filter {
    list(pb::filter_list::Operator::MustPassOne, filters)
}

fn list(operator: pb::filter_list::Operator, filters: Vec<pb::Filter>) -> pb::Filter {
    let message = pb::FilterList {
        operator: operator.into(),
        filters,
    };
    named("FilterList", &message)
}
