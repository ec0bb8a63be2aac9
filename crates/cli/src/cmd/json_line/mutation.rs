//! A mutation of a line.

use std::time::Duration;

use bytes::Bytes;
use hbase_txn::client::{Append, Delete, Increment, Mutation, Put};
use serde::{Deserialize, Deserializer};

use super::{LineValue, keys};
use crate::{value_type::ValueType, values::Column};

/// A mutation of a line.
#[derive(Debug, Deserialize)]
#[serde(try_from = "MutationKeys")]
pub(in crate::cmd) struct LineMutation {
    pub(in crate::cmd) mutation: Mutation,
    /// Whether it is a delete that gets the server's time.
    pub(in crate::cmd) deletes_now: bool,
    /// The counter that it changes.
    pub(in crate::cmd) counter: Option<Column>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MutationKeys {
    op: Op,
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
    #[serde(default, deserialize_with = "keys::ttl")]
    ttl_ms: Option<u64>,
    #[serde(default, deserialize_with = "keys::timestamp")]
    timestamp: Option<u64>,
    #[serde(default, deserialize_with = "keys::amount")]
    amount: Option<i64>,
}

/// The operations of mutations.
#[derive(Clone, Copy)]
enum Op {
    Put,
    Delete,
    Increment,
    Append,
}

impl<'de> Deserialize<'de> for Op {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let words = [
            ("put", Self::Put),
            ("delete", Self::Delete),
            ("increment", Self::Increment),
            ("append", Self::Append),
        ];
        keys::op(&words, deserializer)
    }
}

impl TryFrom<MutationKeys> for LineMutation {
    type Error = String;

    fn try_from(keys: MutationKeys) -> Result<Self, String> {
        let deletes_now = matches!(keys.op, Op::Delete) && keys.timestamp.is_none();
        let mut counter = None;
        let mutation = match keys.op {
            Op::Put => keys.put()?.into(),
            Op::Delete => keys.delete()?.into(),
            Op::Increment => {
                let (increment, column) = keys.increment()?;
                counter = Some(column);
                increment.into()
            }
            Op::Append => keys.append()?.into(),
        };
        Ok(Self {
            mutation,
            deletes_now,
            counter,
        })
    }
}

impl MutationKeys {
    fn put(self) -> Result<Put, String> {
        const WHAT: &str = "a put";
        self.refuse_amount()?;
        let Column { family, qualifier } = self.column(WHAT)?;
        let value = needed(WHAT, "value", LineValue::bytes(self.value, self.value_type)?)?;
        let mut put = Put::new(self.row).cell(family, qualifier, value);
        if let Some(millis) = self.ttl_ms {
            put = put.ttl(Duration::from_millis(millis));
        }
        if let Some(timestamp) = self.timestamp {
            put = put.timestamp(timestamp);
        }
        Ok(put)
    }

    /// Deletes a family without a qualifier, and a row without a family.
    fn delete(self) -> Result<Delete, String> {
        self.refuse_amount()?;
        self.refuse_value("a delete", "")?;
        if self.ttl_ms.is_some() {
            return Err(
                "a delete can't have `ttl_ms`: its marker would expire and what it deleted come back"
                    .to_owned(),
            );
        }
        let delete = Delete::new(self.row);
        let delete = match (self.family, self.qualifier) {
            (Some(family), Some(qualifier)) => delete.column(family, qualifier),
            (Some(family), None) => delete.family(family),
            (None, None) => delete,
            (None, Some(_)) => return Err("a delete with `qualifier` needs `family`".to_owned()),
        };
        Ok(match self.timestamp {
            Some(timestamp) => delete.timestamp(timestamp),
            None => delete,
        })
    }

    fn increment(self) -> Result<(Increment, Column), String> {
        const WHAT: &str = "an increment";
        self.refuse_value(WHAT, ", but `amount`")?;
        self.refuse_timestamp(WHAT)?;
        let column = self.column(WHAT)?;
        let amount = needed(WHAT, "amount", self.amount)?;
        let (family, qualifier) = (column.family.clone(), column.qualifier.clone());
        let increment = Increment::new(self.row).column(family, qualifier, amount);
        let increment = match self.ttl_ms {
            Some(millis) => increment.ttl(Duration::from_millis(millis)),
            None => increment,
        };
        Ok((increment, column))
    }

    fn append(self) -> Result<Append, String> {
        const WHAT: &str = "an append";
        self.refuse_amount()?;
        self.refuse_timestamp(WHAT)?;
        let Column { family, qualifier } = self.column(WHAT)?;
        let value = needed(WHAT, "value", LineValue::bytes(self.value, self.value_type)?)?;
        let append = Append::new(self.row).cell(family, qualifier, value);
        Ok(match self.ttl_ms {
            Some(millis) => append.ttl(Duration::from_millis(millis)),
            None => append,
        })
    }

    fn column(&self, what: &str) -> Result<Column, String> {
        Ok(Column {
            family: needed(what, "family", self.family.clone())?,
            qualifier: needed(what, "qualifier", self.qualifier.clone())?,
        })
    }

    fn refuse_value(&self, what: &str, instead: &str) -> Result<(), String> {
        match (&self.value, self.value_type) {
            (None, None) => Ok(()),
            (Some(_), _) => Err(format!("{what} has no `value`{instead}")),
            (None, Some(_)) => Err(format!("{what} has no `value_type`{instead}")),
        }
    }

    fn refuse_amount(&self) -> Result<(), String> {
        match self.amount {
            Some(_) => Err("`amount` is for increments".to_owned()),
            None => Ok(()),
        }
    }

    fn refuse_timestamp(&self, what: &str) -> Result<(), String> {
        match self.timestamp {
            Some(_) => Err(format!(
                "{what} can't have `timestamp`: the server stamps it later than the cell that it changes"
            )),
            None => Ok(()),
        }
    }
}

fn needed<T>(what: &str, key: &str, value: Option<T>) -> Result<T, String> {
    value.ok_or_else(|| format!("{what} needs `{key}`"))
}
