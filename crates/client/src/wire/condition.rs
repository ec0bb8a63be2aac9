//! Conditions as messages: of the multi-row endpoint, and of changes of a single row.
//!
//! The endpoint's comparisons read "given OP stored". With an empty given value, every operator is
//! true if the column is absent or empty. With any other given value, every operator is false if
//! the column is absent; an empty stored value is compared like the others. All of a call's
//! conditions must hold, so one condition of this client may become several messages.

use bytes::Bytes;

use super::{convert::time_range, filter, pb};
use crate::model::{Check, Comparator, Comparison, Condition, Filter};

/// The smallest value that is not empty.
const SMALLEST: &[u8] = &[0];

/// Returns the messages that hold exactly if the condition does.
///
/// Only [`Comparison::NotEqual`] has no such form: it is sent as "absent", or as "present and
/// another", depending on the caller's knowledge of the cell. If that is wrong, the server may
/// reject a condition that holds, but never accepts one that does not.
pub fn condition_messages(condition: &Condition, cell_is_absent: bool) -> Vec<pb::Condition> {
    let mut messages = messages_of_check(condition, cell_is_absent);
    for message in &mut messages {
        message.time_range = condition.time_range.map(time_range);
    }
    messages
}

fn messages_of_check(condition: &Condition, cell_is_absent: bool) -> Vec<pb::Condition> {
    let row = &condition.row;
    match &condition.check {
        Check::Absent { family, qualifier } => vec![absent(row, family, qualifier)],
        Check::Present { family, qualifier } => vec![present(row, family, qualifier)],
        Check::Compare {
            family,
            qualifier,
            comparison: Comparison::NotEqual,
            ..
        } if cell_is_absent => vec![absent(row, family, qualifier)],
        Check::Compare {
            family,
            qualifier,
            comparison,
            value,
        } => {
            let compared = column(row, family, qualifier, operator(*comparison), value.clone());
            match comparison {
                Comparison::Equal | Comparison::Greater | Comparison::GreaterOrEqual => vec![compared],
                // These are true of an empty value too.
                Comparison::NotEqual | Comparison::Less | Comparison::LessOrEqual => {
                    vec![compared, present(row, family, qualifier)]
                }
            }
        }
        Check::BeginsWith {
            family,
            qualifier,
            prefix,
        } => vec![pb::Condition {
            comparator: Some(filter::beginning(prefix.clone())),
            ..absent(row, family, qualifier)
        }],
        Check::Matches(filter) => vec![pb::Condition {
            row: row.clone(),
            filter: Some(filter::newest_not_empty(filter)),
            ..pb::Condition::default()
        }],
    }
}

/// Returns the one message that holds exactly if the condition does, for a check and change of a
/// single row. Returns `None` for [`Comparison::NotEqual`], which is true for an absent cell and so
/// has no such form.
///
/// In such a message an empty given value means "absent or empty" with every operator except
/// `NOT_EQUAL`, with which it means the opposite; any other value is compared as at the endpoint.
/// "Less" must not be true of an empty value, which requires a filter. So does a prefix: servers take
/// the bytes of any comparator for a whole value (`ProtobufUtil.toCheckAndMutate`).
pub(crate) fn single_row_message(condition: &Condition) -> Option<pb::Condition> {
    let message = single_row_check(condition)?;
    Some(pb::Condition {
        query_metrics_enabled: condition.query_metrics.then_some(true),
        ..message
    })
}

fn single_row_check(condition: &Condition) -> Option<pb::Condition> {
    match &condition.check {
        Check::Compare {
            family,
            qualifier,
            comparison: comparison @ (Comparison::Less | Comparison::LessOrEqual),
            value,
        } => {
            let comparator = Comparator::binary(value.clone());
            let filter = Filter::column_value(family.clone(), qualifier.clone(), *comparison, comparator);
            let filtered = Condition {
                check: Check::Matches(filter),
                ..condition.clone()
            };
            condition_messages(&filtered, false).pop()
        }
        Check::BeginsWith {
            family,
            qualifier,
            prefix,
        } => {
            let comparator = Comparator::prefix(prefix.clone());
            let filter =
                Filter::column_value(family.clone(), qualifier.clone(), Comparison::Equal, comparator);
            let filtered = Condition {
                check: Check::Matches(filter),
                ..condition.clone()
            };
            condition_messages(&filtered, false).pop()
        }
        Check::Compare {
            comparison: Comparison::NotEqual,
            ..
        } => None,
        _ => condition_messages(condition, false).pop(),
    }
}

/// Returns the condition that a column has no cell from this timestamp on, including the future. An
/// empty value at the end counts as none, although it would hide a put: the endpoint cannot
/// distinguish the two.
pub fn absent_from(row: &Bytes, family: &Bytes, qualifier: &Bytes, from_timestamp: u64) -> pb::Condition {
    pb::Condition {
        time_range: Some(pb::TimeRange {
            from: Some(from_timestamp),
            to: Some(i64::MAX as u64),
        }),
        ..absent(row, family, qualifier)
    }
}

/// Returns the condition that a column has this value. `None`, or an empty value, means that it is
/// absent.
pub fn cell_equals(row: &Bytes, family: &Bytes, qualifier: &Bytes, value: Option<&Bytes>) -> pb::Condition {
    let value = value.cloned().unwrap_or_default();
    column(row, family, qualifier, pb::CompareType::Equal, value)
}

/// Returns the condition that each of these columns of one row has this value. `None` means that it
/// is absent; an empty value is a value.
///
/// The condition cannot hold for a row without any cell, so at least one of the columns must have a
/// value. The server reads the whole row.
pub fn columns_equal(row: &Bytes, columns: &[(Bytes, Bytes, Option<Bytes>)]) -> pb::Condition {
    row_passes(row, values(columns).collect())
}

/// Returns the condition that each of these columns has this value, as in [`columns_equal`], and
/// that the columns in `all` have no other cells than these, with these timestamps. This detects a
/// value that was changed and changed back.
pub fn columns_as_seen(
    row: &Bytes,
    columns: &[(Bytes, Bytes, Option<Bytes>)],
    all: &Comparator,
    cells: &[(Bytes, u64)],
) -> pb::Condition {
    let others = filter::no_cells_but(all, cells);
    row_passes(row, values(columns).chain([others]).collect())
}

/// Returns the condition that the newest cells of a row have no other timestamps than these.
///
/// The condition cannot hold for a row without any cell. The server reads the whole row.
pub fn has_only_timestamps(row: &Bytes, timestamps: impl IntoIterator<Item = u64>) -> pb::Condition {
    row_passes(
        row,
        vec![filter::newest(), filter::no_other_timestamps(timestamps)],
    )
}

fn values(columns: &[(Bytes, Bytes, Option<Bytes>)]) -> impl Iterator<Item = pb::Filter> {
    let newest = [filter::newest()].into_iter();
    newest.chain(
        columns
            .iter()
            .map(|(family, qualifier, value)| filter::column_equals(family, qualifier, value.as_ref())),
    )
}

fn row_passes(row: &Bytes, filters: Vec<pb::Filter>) -> pb::Condition {
    pb::Condition {
        row: row.clone(),
        filter: Some(filter::all(filters)),
        ..pb::Condition::default()
    }
}

fn absent(row: &Bytes, family: &Bytes, qualifier: &Bytes) -> pb::Condition {
    cell_equals(row, family, qualifier, None)
}

/// Returns the condition that a column is not smaller than the smallest non-empty value. It is
/// false for an empty value and, as always, for an absent one.
fn present(row: &Bytes, family: &Bytes, qualifier: &Bytes) -> pb::Condition {
    column(
        row,
        family,
        qualifier,
        pb::CompareType::LessOrEqual,
        Bytes::from_static(SMALLEST),
    )
}

fn column(
    row: &Bytes,
    family: &Bytes,
    qualifier: &Bytes,
    operator: pb::CompareType,
    given: Bytes,
) -> pb::Condition {
    pb::Condition {
        row: row.clone(),
        family: Some(family.clone()),
        qualifier: Some(qualifier.clone()),
        compare_type: Some(operator.into()),
        comparator: Some(filter::binary(given)),
        ..pb::Condition::default()
    }
}

/// Returns the operator of a condition, which has the given value on its left.
fn operator(comparison: Comparison) -> pb::CompareType {
    match comparison {
        Comparison::Equal => pb::CompareType::Equal,
        Comparison::NotEqual => pb::CompareType::NotEqual,
        Comparison::Less => pb::CompareType::Greater,
        Comparison::LessOrEqual => pb::CompareType::GreaterOrEqual,
        Comparison::Greater => pb::CompareType::Less,
        Comparison::GreaterOrEqual => pb::CompareType::LessOrEqual,
    }
}

#[cfg(test)]
mod tests {
    use prost::Message;
    use rstest::rstest;

    use super::*;
    use crate::model::TimeRange;

    /// Returns the text of a column condition, given value first, as the server reads it.
    fn text(message: &pb::Condition) -> String {
        let comparator = message.comparator.clone().unwrap();
        assert_eq!(comparator.name, "org.apache.hadoop.hbase.filter.BinaryComparator");
        let given = pb::BinaryComparator::decode(comparator.serialized_comparator.unwrap()).unwrap();
        let given = given.comparable.value.unwrap();
        let (family, qualifier) = (
            message.family.clone().unwrap(),
            message.qualifier.clone().unwrap(),
        );
        assert_eq!(
            (&message.row[..], &family[..], &qualifier[..]),
            (&b"r"[..], &b"f"[..], &b"q"[..])
        );
        format!("{given:?} {:?} stored", message.compare_type())
    }

    const ABSENT: &str = r#"b"" Equal stored"#;
    const PRESENT: &str = r#"b"\0" LessOrEqual stored"#;

    #[rstest]
    #[case::absent(Condition::absent("r", "f", "q"), &[ABSENT])]
    #[case::present(Condition::present("r", "f", "q"), &[PRESENT])]
    #[case::equal(compare(Comparison::Equal), &[r#"b"v" Equal stored"#])]
    #[case::greater(compare(Comparison::Greater), &[r#"b"v" Less stored"#])]
    #[case::greater_or_equal(compare(Comparison::GreaterOrEqual), &[r#"b"v" LessOrEqual stored"#])]
    #[case::less(compare(Comparison::Less), &[r#"b"v" Greater stored"#, PRESENT])]
    #[case::less_or_equal(compare(Comparison::LessOrEqual), &[r#"b"v" GreaterOrEqual stored"#, PRESENT])]
    #[case::not_equal(compare(Comparison::NotEqual), &[r#"b"v" NotEqual stored"#, PRESENT])]
    fn conditions_are_encoded(#[case] condition: Condition, #[case] expected: &[&str]) {
        let texts = |absent| {
            condition_messages(&condition, absent)
                .iter()
                .map(text)
                .collect::<Vec<_>>()
        };
        assert_eq!(texts(false), expected);
        let by_absence = matches!(
            condition.check,
            Check::Compare {
                comparison: Comparison::NotEqual,
                ..
            }
        );
        assert_eq!(texts(true), if by_absence { &[ABSENT] } else { expected });
    }

    fn compare(comparison: Comparison) -> Condition {
        Condition::compare("r", "f", "q", comparison, "v")
    }

    #[rstest]
    #[case::absent(Condition::absent("r", "f", "q"), Some(ABSENT))]
    #[case::present(Condition::present("r", "f", "q"), Some(PRESENT))]
    #[case::equal(compare(Comparison::Equal), Some(r#"b"v" Equal stored"#))]
    #[case::greater(compare(Comparison::Greater), Some(r#"b"v" Less stored"#))]
    #[case::greater_or_equal(compare(Comparison::GreaterOrEqual), Some(r#"b"v" LessOrEqual stored"#))]
    #[case::not_equal(compare(Comparison::NotEqual), None)]
    fn condition_messages_of_a_single_row(#[case] condition: Condition, #[case] expected: Option<&str>) {
        let message = single_row_message(&condition);
        assert_eq!(message.as_ref().map(text).as_deref(), expected);
    }

    #[test]
    fn prefix_of_a_single_row_is_a_filter() {
        let message = single_row_message(&Condition::begins_with("r", "f", "q", "v")).unwrap();
        assert!(message.filter.is_some() && message.comparator.is_none());
    }

    #[rstest]
    #[case::less(Comparison::Less)]
    #[case::less_or_equal(Comparison::LessOrEqual)]
    fn empty_value_is_excluded_by_a_filter(#[case] comparison: Comparison) {
        let message = single_row_message(&compare(comparison)).unwrap();
        assert!(message.filter.is_some() && message.comparator.is_none());
    }

    #[rstest]
    #[case::column(Condition::present("r", "f", "q"))]
    #[case::less(compare(Comparison::Less))]
    #[case::row(Condition::matches("r", Filter::value(Comparison::Equal, Comparator::binary("v"))))]
    fn time_range_is_part_of_each_message(#[case] condition: Condition) {
        let condition = condition.time_range(TimeRange { from: 3, to: 7 });
        let single = single_row_message(&condition);
        for message in condition_messages(&condition, false).into_iter().chain(single) {
            let range = message.time_range.unwrap();
            assert_eq!((range.from, range.to), (Some(3), Some(7)));
        }
    }

    #[test]
    fn filter_sees_only_newest_nonempty_values() {
        let filter = Filter::value(Comparison::Less, Comparator::binary("v"));
        let messages = condition_messages(&Condition::matches("r", filter), false);
        assert_eq!(messages.len(), 1);
        let filter = messages[0].filter.clone().unwrap();
        let list = pb::FilterList::decode(filter.serialized_filter.unwrap()).unwrap();
        assert_eq!(list.operator(), pb::filter_list::Operator::MustPassAll);
        let names: Vec<_> = list
            .filters
            .iter()
            .map(|part| part.name.rsplit('.').next().unwrap())
            .collect();
        assert_eq!(names, ["ColumnCountGetFilter", "ValueFilter", "ValueFilter"]);
    }

    #[test]
    fn a_range_that_must_be_empty_reaches_into_the_future() {
        let column: [Bytes; 3] = ["r".into(), "f".into(), "q".into()];
        let message = absent_from(&column[0], &column[1], &column[2], 7);
        assert_eq!(text(&message), ABSENT);
        let range = message.time_range.unwrap();
        assert_eq!((range.from, range.to), (Some(7), Some(i64::MAX as u64)));
        let held = |value: Option<&Bytes>| text(&cell_equals(&column[0], &column[1], &column[2], value));
        assert_eq!(held(None), ABSENT);
        assert_eq!(held(Some(&Bytes::new())), ABSENT);
        assert_eq!(held(Some(&"v".into())), r#"b"v" Equal stored"#);
    }
}
