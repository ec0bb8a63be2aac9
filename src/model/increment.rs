//! Adds to counters.

use std::{fmt, time::Duration};

use bytes::Bytes;

use super::{
    BytesBinary, Durability,
    mutation::{Limits, check_attributes, check_family, check_row, set_attribute, set_ttl},
};
use crate::error::{Error, Result};

/// Adds to counters of one row: cells of eight bytes, big-endian, signed. A cell that is absent counts as 0.
///
/// The server stamps the new cell later than the old one, also where that lies in the future. A sum that does not fit
/// wraps around. A cell of another width than eight bytes makes the call fail.
///
/// # Example
///
/// ```
/// use hbase_txn::Increment;
///
/// let increment = Increment::new("xxxabc").column("f", "visits", 1);
/// assert_eq!(increment.row(), "xxxabc");
/// ```
#[derive(Clone, PartialEq, Eq)]
#[must_use = "an increment does nothing until it is given to a table or a transaction"]
pub struct Increment {
    pub(crate) row: Bytes,
    pub(crate) columns: Vec<Counter>,
    pub(crate) durability: Durability,
    pub(crate) attributes: Vec<(String, Bytes)>,
}

/// A counter that an increment adds to.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Counter {
    pub(crate) family: Bytes,
    pub(crate) qualifier: Bytes,
    pub(crate) amount: i64,
    /// Where the cell is stamped if the column is absent; an existing cell is always stamped past by the server.
    pub(crate) timestamp: Option<u64>,
}

impl Increment {
    /// An increment on this row; it needs at least one [`column`](Self::column).
    pub fn new(row: impl Into<Bytes>) -> Self {
        Self {
            row: row.into(),
            columns: Vec::new(),
            durability: Durability::default(),
            attributes: Vec::new(),
        }
    }

    /// Adds an amount, which may be negative, to a column.
    pub fn column(mut self, family: impl Into<Bytes>, qualifier: impl Into<Bytes>, amount: i64) -> Self {
        self.columns.push(Counter {
            family: family.into(),
            qualifier: qualifier.into(),
            amount,
            timestamp: None,
        });
        self
    }

    /// Lets the new cells expire this long after their timestamp, as [`Put::ttl`](super::Put::ttl) does. Without it a
    /// cell keeps the TTL that it had, which begins anew.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        set_ttl(&mut self.attributes, ttl);
        self
    }

    /// How durable the write is when the server answers.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Sets an attribute that travels with the mutation. A second one of the same name replaces the first.
    pub fn attribute(mut self, name: impl Into<String>, value: impl Into<Bytes>) -> Self {
        set_attribute(&mut self.attributes, name.into(), value.into());
        self
    }

    /// The row key.
    #[must_use]
    pub fn row(&self) -> &Bytes {
        &self.row
    }

    pub(super) fn check(&self, limits: &Limits) -> Result<()> {
        check_row(&self.row)?;
        if self.columns.is_empty() {
            return Err(Error::invalid("an increment without columns"));
        }
        check_attributes(&self.attributes)?;
        for counter in &self.columns {
            check_family(&counter.family)?;
            limits.check_cell(&self.row, &counter.family, &counter.qualifier, size_of::<i64>())?;
        }
        Ok(())
    }
}

impl fmt::Debug for Increment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "increment {} ({} columns)",
            BytesBinary(&self.row),
            self.columns.len()
        )
    }
}
