//! A condition of a line.

use bytes::Bytes;
use hbase_txn::client::{BytesBinary, Comparator, Comparison, Condition, Filter, FromValue};
use serde::{Deserialize, Deserializer};

use crate::{
    cmd::json_line::{LineValue, keys},
    value_type::ValueType,
    values::Column,
};

/// A condition of a line.
#[derive(Debug, Deserialize)]
#[serde(try_from = "ConditionKeys")]
pub(super) struct LineCondition {
    pub(super) condition: Condition,
    /// The column and the type of a value that is not bytes.
    pub(super) typed: Option<(Column, ValueType)>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ConditionKeys {
    op: Op,
    #[serde(default, deserialize_with = "keys::label")]
    label: Option<String>,
    #[serde(deserialize_with = "keys::row")]
    row: Bytes,
    #[serde(default, deserialize_with = "keys::family")]
    family: Option<Bytes>,
    #[serde(default, deserialize_with = "keys::qualifier")]
    qualifier: Option<Bytes>,
    #[serde(default, deserialize_with = "keys::value")]
    value: Option<LineValue>,
    #[serde(default, deserialize_with = "keys::value_type")]
    value_type: Option<ValueType>,
}

/// The operators of conditions.
#[derive(Clone, Copy)]
enum Op {
    Absent,
    Present,
    BeginsWith,
    Compare(Comparison),
}

impl<'de> Deserialize<'de> for Op {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let words = [
            ("absent", Self::Absent),
            ("present", Self::Present),
            ("begins_with", Self::BeginsWith),
            ("equal", Self::Compare(Comparison::Equal)),
            ("not_equal", Self::Compare(Comparison::NotEqual)),
            ("less", Self::Compare(Comparison::Less)),
            ("less_or_equal", Self::Compare(Comparison::LessOrEqual)),
            ("greater", Self::Compare(Comparison::Greater)),
            ("greater_or_equal", Self::Compare(Comparison::GreaterOrEqual)),
        ];
        keys::op(&words, deserializer)
    }
}

impl TryFrom<ConditionKeys> for LineCondition {
    type Error = String;

    fn try_from(keys: ConditionKeys) -> Result<Self, String> {
        let needed = |key: &str| format!("a condition needs `{key}`");
        let value = LineValue::typed(keys.value, keys.value_type)?;
        let row = keys.row;
        let column = Column {
            family: keys.family.ok_or_else(|| needed("family"))?,
            qualifier: keys.qualifier.ok_or_else(|| needed("qualifier"))?,
        };
        let (family, qualifier) = (column.family.clone(), column.qualifier.clone());
        let (condition, typed) = match (keys.op, value) {
            (Op::Absent, None) => (Condition::absent(row, family, qualifier), None),
            (Op::Present, None) => (Condition::present(row, family, qualifier), None),
            (Op::Absent | Op::Present, Some(_)) => {
                return Err("a condition `absent` or `present` has no `value`".to_owned());
            }
            (Op::BeginsWith, Some((prefix, None))) => {
                (Condition::begins_with(row, family, qualifier, prefix), None)
            }
            (Op::BeginsWith, Some((_, Some(_)))) => {
                return Err("a condition `begins_with` compares bytes: its `value` is a string".to_owned());
            }
            (Op::Compare(comparison), Some((value, None))) => {
                let condition = Condition::compare(row, family, qualifier, comparison, value);
                (condition, None)
            }
            (Op::Compare(comparison), Some((value, Some(value_type)))) => (
                typed_condition(row, &column, comparison, value, value_type)?,
                Some((column, value_type)),
            ),
            (Op::BeginsWith | Op::Compare(_), None) => {
                return Err("a condition that compares needs `value`".to_owned());
            }
        };
        Ok(Self {
            condition: match keys.label {
                Some(label) => condition.label(label),
                None => condition,
            },
            typed,
        })
    }
}

/// Returns a condition on a value that is not bytes, with a label that shows the value.
fn typed_condition(
    row: Bytes,
    column: &Column,
    comparison: Comparison,
    value: Bytes,
    value_type: ValueType,
) -> Result<Condition, String> {
    let shown = value_type.decode(&value).map(|value| value.to_string());
    let label = format!(
        "{} {}:{} {comparison} {}",
        BytesBinary(&row),
        BytesBinary(&column.family),
        BytesBinary(&column.qualifier),
        shown.unwrap_or_default()
    );
    let (family, qualifier) = (column.family.clone(), column.qualifier.clone());
    let condition = match (comparison, value_type) {
        (Comparison::Equal | Comparison::NotEqual, _) => {
            Condition::compare(row, family, qualifier, comparison, value)
        }
        (_, ValueType::Long) => {
            let number = i64::from_value(&value).map_err(|error| error.to_string())?;
            let filter = Filter::column_value(family, qualifier, comparison, Comparator::long(number));
            Condition::matches(row, filter)
        }
        _ => {
            return Err(format!(
                "HBase orders numbers of eight bytes alone (toLong); {} can be equal or not_equal",
                value_type.name()
            ));
        }
    };
    Ok(condition.label(label))
}
