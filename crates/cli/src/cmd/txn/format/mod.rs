//! The format of the lines of `txn apply`. The file `condition` has its conditions.

mod condition;

use std::collections::HashMap;

use bytes::Bytes;
use hbase_txn::{TransactionId, client::Condition};
use serde::Deserialize;

use self::condition::LineCondition;
use crate::{
    cell_types::ValueTypes,
    cmd::json_line::{self, LineMutation, Object, keys},
};

/// A line: changes and conditions in one partition, or mutations of any rows. It has at least one
/// mutation or condition.
#[derive(Debug)]
pub(super) struct Transaction {
    /// The partition's prefix; `None` derives the partitions from the rows.
    pub(super) prefix: Option<Bytes>,
    /// The id of its record.
    pub(super) id: Option<TransactionId>,
    pub(super) conditions: Vec<Condition>,
    pub(super) mutations: Vec<LineMutation>,
    /// The types of the conditions' values, by row.
    pub(super) value_types: RowTypes,
}

/// The types of values, by row.
pub(super) type RowTypes = HashMap<Bytes, ValueTypes>;

impl Transaction {
    /// Parses a line. The error names the column, counted in bytes from 1.
    pub(super) fn parse(number: u64, text: &[u8]) -> Result<Self, String> {
        let Object(keys) = json_line::parse::<Object<LineKeys>>(number, text)?;
        if keys.mutations.is_empty() && keys.conditions.is_empty() {
            return Err(format!(
                "line {number}, column {}: neither mutations nor conditions",
                text.len()
            ));
        }
        let (mut conditions, mut value_types) = (Vec::new(), RowTypes::new());
        for Object(LineCondition { condition, typed }) in keys.conditions {
            if let Some((column, value_type)) = typed {
                let of_row = value_types.entry(condition.row().clone()).or_default();
                of_row.add(column, value_type);
            }
            conditions.push(condition);
        }
        Ok(Self {
            prefix: keys.prefix,
            id: keys.id,
            conditions,
            value_types,
            mutations: keys
                .mutations
                .into_iter()
                .map(|Object(mutation)| mutation)
                .collect(),
        })
    }

    /// Whether the line is a single transaction, whatever rows it has.
    pub(super) fn is_whole(&self) -> bool {
        self.prefix.is_some() || self.id.is_some() || !self.conditions.is_empty()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LineKeys {
    #[serde(default, deserialize_with = "keys::prefix")]
    prefix: Option<Bytes>,
    #[serde(default, deserialize_with = "keys::id")]
    id: Option<TransactionId>,
    #[serde(default, deserialize_with = "keys::conditions")]
    conditions: Vec<Object<LineCondition>>,
    #[serde(default, deserialize_with = "keys::mutations")]
    mutations: Vec<Object<LineMutation>>,
}

#[cfg(test)]
mod tests;
