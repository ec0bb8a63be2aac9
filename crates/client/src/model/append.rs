//! Appends to the end of values.

use std::{fmt, time::Duration};

use bytes::Bytes;

use super::{
    BytesBinary, Durability, IntoBytes, IntoValue, Permission, TimeRange,
    attributes::{check_attributes, mutation_methods, set_acl, set_attribute, set_ttl, set_visibility},
    limits::{Limits, check_family, check_row, check_timestamp},
    put::Column,
};
use crate::error::{Error, Result};

/// Appends bytes to values of one row. A cell that is absent counts as empty.
///
/// The server gives the new cell a later timestamp than the old one has, even if that is in the
/// future.
///
/// # Example
///
/// ```
/// use hbase_client::Append;
///
/// let append = Append::new("xxxabc").cell("f", "log", ";paid");
/// assert_eq!(append.row(), "xxxabc");
/// ```
#[derive(Clone, PartialEq, Eq)]
#[must_use = "an append does nothing until it is given to a table or a transaction"]
pub struct Append {
    pub(crate) row: Bytes,
    pub(crate) cells: Vec<Column>,
    /// The timestamp of new cells of absent columns without a timestamp of their own.
    pub(crate) timestamp: Option<u64>,
    pub(crate) time_range: Option<TimeRange>,
    pub(crate) durability: Durability,
    pub(crate) attributes: Vec<(String, Bytes)>,
}

impl Append {
    /// Creates an append on this row. It needs at least one [`cell`](Self::cell).
    pub fn new(row: impl IntoBytes) -> Self {
        Self {
            row: row.into_bytes(),
            cells: Vec::new(),
            timestamp: None,
            time_range: None,
            durability: Durability::default(),
            attributes: Vec::new(),
        }
    }

    /// Appends bytes to the value of a column.
    pub fn cell(mut self, family: impl IntoBytes, qualifier: impl IntoBytes, suffix: impl IntoValue) -> Self {
        self.cells.push(Column {
            family: family.into_bytes(),
            qualifier: qualifier.into_bytes(),
            timestamp: None,
            value: suffix.into_value(),
        });
        self
    }

    /// Sets the timestamp of the new cells, in milliseconds since 1970, of columns that are absent. If a
    /// column has a cell, the server chooses a later timestamp than that cell has. Transactions refuse
    /// an append with a timestamp.
    pub fn timestamp(mut self, timestamp: u64) -> Self {
        self.timestamp = Some(timestamp);
        self
    }

    /// Appends to the newest version in this time range: a column without one counts as absent, and then
    /// the new cell can be older than another version. Transactions refuse an append with a time range.
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

    /// Grants these users permissions on the values alone, besides what they have on the table. Replaces
    /// an earlier access list. The cluster needs HBase's `AccessController` with
    /// `hbase.security.access.early_out` off; without that the list has no effect.
    pub fn acl<'a>(mut self, users: impl IntoIterator<Item = (&'a str, &'a [Permission])>) -> Self {
        set_acl(&mut self.attributes, users);
        self
    }

    mutation_methods!();

    pub(super) fn check(&self, limits: &Limits) -> Result<()> {
        check_row(&self.row)?;
        if self.cells.is_empty() {
            return Err(Error::invalid("an append without cells"));
        }
        check_attributes(&self.attributes)?;
        check_timestamp(self.timestamp)?;
        self.time_range.map_or(Ok(()), TimeRange::check)?;
        for cell in &self.cells {
            check_family(&cell.family)?;
            limits.check_cell(&self.row, &cell.family, &cell.qualifier, cell.value.len())?;
        }
        Ok(())
    }
}

impl fmt::Debug for Append {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "append {} ({} cells)",
            BytesBinary(&self.row),
            self.cells.len()
        )
    }
}
