//! Increments of counters.

use std::{fmt, time::Duration};

use bytes::Bytes;

use super::{
    BytesBinary, Durability, IntoBytes, Permission, TimeRange,
    attributes::{check_attributes, mutation_methods, set_acl, set_attribute, set_ttl, set_visibility},
    limits::{Limits, check_family, check_row, check_timestamp},
};
use crate::error::{Error, Result};

/// Adds to counters of one row: cells of eight bytes, big-endian, signed. A cell that is absent
/// counts as 0.
///
/// The server gives the new cell a later timestamp than the old one has, even if that is in the
/// future. A sum that overflows wraps around. A cell that is not eight bytes wide makes the call
/// fail.
///
/// # Example
///
/// ```
/// use hbase_client::Increment;
///
/// let increment = Increment::new("xxxabc").column("f", "visits", 1);
/// assert_eq!(increment.row(), "xxxabc");
/// ```
#[derive(Clone, PartialEq, Eq)]
#[must_use = "an increment does nothing until it is given to a table or a transaction"]
pub struct Increment {
    pub(crate) row: Bytes,
    pub(crate) columns: Vec<Counter>,
    /// The timestamp of new cells of absent columns without a timestamp of their own.
    pub(crate) timestamp: Option<u64>,
    pub(crate) time_range: Option<TimeRange>,
    pub(crate) durability: Durability,
    pub(crate) attributes: Vec<(String, Bytes)>,
}

/// A counter that an increment adds to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counter {
    /// The column family.
    pub family: Bytes,
    /// The column qualifier. May be empty.
    pub qualifier: Bytes,
    /// The amount that is added. May be negative.
    pub amount: i64,
    /// The timestamp of the new cell if the column is absent, in milliseconds since 1970. If a cell
    /// exists, the server chooses a later timestamp than that cell has.
    pub timestamp: Option<u64>,
}

impl Increment {
    /// Creates an increment on this row. It needs at least one [`column`](Self::column).
    pub fn new(row: impl IntoBytes) -> Self {
        Self {
            row: row.into_bytes(),
            columns: Vec::new(),
            timestamp: None,
            time_range: None,
            durability: Durability::default(),
            attributes: Vec::new(),
        }
    }

    /// Adds an amount, which may be negative, to a column.
    pub fn column(mut self, family: impl IntoBytes, qualifier: impl IntoBytes, amount: i64) -> Self {
        self.columns.push(Counter {
            family: family.into_bytes(),
            qualifier: qualifier.into_bytes(),
            amount,
            timestamp: None,
        });
        self
    }

    /// Sets the timestamp of the new cells, in milliseconds since 1970, of columns that are absent. If a
    /// column has a cell, the server chooses a later timestamp than that cell has. Transactions refuse
    /// an increment with a timestamp.
    pub fn timestamp(mut self, timestamp: u64) -> Self {
        self.timestamp = Some(timestamp);
        self
    }

    /// Adds to the newest version in this time range: a column without one counts as absent, and then
    /// the new cell can be older than another version. Transactions refuse an increment with a time range.
    pub fn time_range(mut self, range: TimeRange) -> Self {
        self.time_range = Some(range);
        self
    }

    /// Sets how long after their timestamp the new cells expire, like
    /// [`Put::ttl`](super::Put::ttl). Without it a cell keeps the TTL that it had, which starts
    /// again.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        set_ttl(&mut self.attributes, ttl);
        self
    }

    /// Grants these users permissions on the counters alone, besides what they have on the table. Replaces
    /// an earlier access list. The cluster needs HBase's `AccessController` with
    /// `hbase.security.access.early_out` off; without that the list has no effect.
    pub fn acl<'a>(mut self, users: impl IntoIterator<Item = (&'a str, &'a [Permission])>) -> Self {
        set_acl(&mut self.attributes, users);
        self
    }

    mutation_methods!();

    pub(super) fn check(&self, limits: &Limits) -> Result<()> {
        check_row(&self.row)?;
        if self.columns.is_empty() {
            return Err(Error::invalid("an increment without columns"));
        }
        check_attributes(&self.attributes)?;
        check_timestamp(self.timestamp)?;
        self.time_range.map_or(Ok(()), TimeRange::check)?;
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
