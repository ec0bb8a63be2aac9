//! Puts: writes of cells.

use std::{fmt, time::Duration};

use bytes::Bytes;

use super::{
    BytesBinary, Durability, IntoBytes, IntoValue, Permission,
    attributes::{check_attributes, mutation_methods, set_acl, set_attribute, set_ttl, set_visibility},
    limits::{Limits, check_family, check_row, check_timestamp},
};
use crate::error::{Error, Result};

/// Writes cells of one row.
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use hbase_client::Put;
///
/// let put = Put::new("xxxabc").cell("f", "q", "value").ttl(Duration::from_secs(3600));
/// assert_eq!(put.row(), "xxxabc");
/// ```
#[derive(Clone, PartialEq, Eq)]
#[must_use = "a put does nothing until it is given to a table or a transaction"]
pub struct Put {
    pub(crate) row: Bytes,
    pub(crate) cells: Vec<Column>,
    pub(crate) timestamp: Option<u64>,
    pub(crate) durability: Durability,
    pub(crate) attributes: Vec<(String, Bytes)>,
}

/// A cell that a put writes, or a value that an append extends.
#[derive(Clone, PartialEq, Eq)]
pub struct Column {
    /// The column family.
    pub family: Bytes,
    /// The column qualifier. May be empty.
    pub qualifier: Bytes,
    /// The version, in milliseconds since 1970. `None` for the timestamp of the mutation, or of the
    /// server if the mutation has none.
    pub timestamp: Option<u64>,
    /// The value. May be empty.
    pub value: Bytes,
}

impl Put {
    /// Creates a put on this row. It needs at least one [`cell`](Self::cell).
    pub fn new(row: impl IntoBytes) -> Self {
        Self {
            row: row.into_bytes(),
            cells: Vec::new(),
            timestamp: None,
            durability: Durability::default(),
            attributes: Vec::new(),
        }
    }

    /// Returns whether all cells have timestamps, so that a second put has no effect.
    pub(crate) fn is_stamped(&self) -> bool {
        self.timestamp.is_some() || self.cells.iter().all(|cell| cell.timestamp.is_some())
    }

    /// Writes a value into a column, with the timestamp of the put, or of the server if the put has
    /// none.
    pub fn cell(self, family: impl IntoBytes, qualifier: impl IntoBytes, value: impl IntoValue) -> Self {
        self.with_cell(
            family.into_bytes(),
            qualifier.into_bytes(),
            None,
            value.into_value(),
        )
    }

    /// Writes a value into a column with a timestamp of its own.
    pub fn cell_at(
        self,
        family: impl IntoBytes,
        qualifier: impl IntoBytes,
        timestamp: u64,
        value: impl IntoValue,
    ) -> Self {
        let (family, qualifier) = (family.into_bytes(), qualifier.into_bytes());
        self.with_cell(family, qualifier, Some(timestamp), value.into_value())
    }

    fn with_cell(mut self, family: Bytes, qualifier: Bytes, timestamp: Option<u64>, value: Bytes) -> Self {
        if self.cells.is_empty() {
            // Many puts have one cell, and a vector begins with room for four.
            self.cells.reserve_exact(1);
        }
        self.cells.push(Column {
            family,
            qualifier,
            timestamp,
            value,
        });
        self
    }

    /// Sets the timestamp of cells without a timestamp of their own, in milliseconds since 1970.
    /// Without it the server uses its clock.
    pub fn timestamp(mut self, timestamp: u64) -> Self {
        self.timestamp = Some(timestamp);
        self
    }

    /// Sets how long after their timestamp the cells expire, by the server's clock. In whole
    /// milliseconds; the TTL of the family remains the upper limit.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        set_ttl(&mut self.attributes, ttl);
        self
    }

    /// Grants these users permissions on the cells alone, besides what they have on the table. Replaces
    /// an earlier access list. The cluster needs HBase's `AccessController` with
    /// `hbase.security.access.early_out` off; without that the list has no effect.
    pub fn acl<'a>(mut self, users: impl IntoIterator<Item = (&'a str, &'a [Permission])>) -> Self {
        set_acl(&mut self.attributes, users);
        self
    }

    /// Returns the cells, each with its own timestamp or that of the put.
    pub fn cells(&self) -> impl Iterator<Item = Column> {
        self.cells.iter().map(|cell| Column {
            timestamp: cell.timestamp.or(self.timestamp),
            ..cell.clone()
        })
    }

    mutation_methods!();

    pub(super) fn check(&self, limits: &Limits) -> Result<()> {
        check_row(&self.row)?;
        if self.cells.is_empty() {
            return Err(Error::invalid("a put without cells"));
        }
        check_timestamp(self.timestamp)?;
        check_attributes(&self.attributes)?;
        for cell in &self.cells {
            check_family(&cell.family)?;
            check_timestamp(cell.timestamp)?;
            limits.check_cell(&self.row, &cell.family, &cell.qualifier, cell.value.len())?;
        }
        Ok(())
    }
}

impl fmt::Debug for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}:{}",
            BytesBinary(&self.family),
            BytesBinary(&self.qualifier)
        )?;
        if let Some(timestamp) = self.timestamp {
            write!(f, " @{timestamp}")?;
        }
        write!(f, " ({} bytes)", self.value.len())
    }
}

impl fmt::Debug for Put {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "put {} ({} cells)", BytesBinary(&self.row), self.cells.len())
    }
}
