//! A condition of a line.

use bytes::Bytes;
use hbase_txn::{Comparison, Condition};
use serde::{Deserialize, Deserializer};

use crate::cmd::json_line::keys;

/// A condition of a line.
#[derive(Debug, Deserialize)]
#[serde(try_from = "ConditionKeys")]
pub(super) struct LineCondition(pub(super) Condition);

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
    value: Option<Bytes>,
}

/// The operators of conditions.
#[derive(Clone, Copy)]
enum Op {
    Absent,
    Present,
    Compare(Comparison),
}

impl<'de> Deserialize<'de> for Op {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let words = [
            ("absent", Self::Absent),
            ("present", Self::Present),
            ("eq", Self::Compare(Comparison::Equal)),
            ("ne", Self::Compare(Comparison::NotEqual)),
            ("lt", Self::Compare(Comparison::Less)),
            ("le", Self::Compare(Comparison::LessOrEqual)),
            ("gt", Self::Compare(Comparison::Greater)),
            ("ge", Self::Compare(Comparison::GreaterOrEqual)),
        ];
        keys::op(&words, deserializer)
    }
}

impl TryFrom<ConditionKeys> for LineCondition {
    type Error = String;

    fn try_from(keys: ConditionKeys) -> Result<Self, String> {
        let needed = |key: &str| format!("a condition needs `{key}`");
        let (row, value) = (keys.row, keys.value);
        let family = keys.family.ok_or_else(|| needed("family"))?;
        let qualifier = keys.qualifier.ok_or_else(|| needed("qualifier"))?;
        let condition = match (keys.op, value) {
            (Op::Absent, None) => Condition::absent(row, family, qualifier),
            (Op::Present, None) => Condition::present(row, family, qualifier),
            (Op::Absent | Op::Present, Some(_)) => {
                return Err("a condition `absent` or `present` has no `value`".to_owned());
            }
            (Op::Compare(comparison), Some(value)) => {
                Condition::compare(row, family, qualifier, comparison, value)
            }
            (Op::Compare(_), None) => return Err("a condition that compares needs `value`".to_owned()),
        };
        Ok(Self(match keys.label {
            Some(label) => condition.label(label),
            None => condition,
        }))
    }
}
