//! Adds to the end of values.

use std::{fmt, time::Duration};

use bytes::Bytes;

use super::{
    BytesBinary, Durability,
    mutation::{Column, Limits, check_attributes, check_family, check_row, set_attribute, set_ttl},
};
use crate::error::{Error, Result};

/// Adds bytes to the end of values of one row. A cell that is absent counts as empty.
///
/// The server stamps the new cell later than the old one, also where that lies in the future.
///
/// # Example
///
/// ```
/// use hbase_txn::Append;
///
/// let append = Append::new("xxxabc").cell("f", "log", ";paid");
/// assert_eq!(append.row(), "xxxabc");
/// ```
#[derive(Clone, PartialEq, Eq)]
#[must_use = "an append does nothing until it is given to a table or a transaction"]
pub struct Append {
    pub(crate) row: Bytes,
    pub(crate) cells: Vec<Column>,
    pub(crate) durability: Durability,
    pub(crate) attributes: Vec<(String, Bytes)>,
}

impl Append {
    /// An append on this row; it needs at least one [`cell`](Self::cell).
    pub fn new(row: impl Into<Bytes>) -> Self {
        Self {
            row: row.into(),
            cells: Vec::new(),
            durability: Durability::default(),
            attributes: Vec::new(),
        }
    }

    /// Adds bytes to the end of a column's value.
    pub fn cell(
        mut self,
        family: impl Into<Bytes>,
        qualifier: impl Into<Bytes>,
        suffix: impl Into<Bytes>,
    ) -> Self {
        self.cells.push(Column {
            family: family.into(),
            qualifier: qualifier.into(),
            timestamp: None,
            value: suffix.into(),
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
        if self.cells.is_empty() {
            return Err(Error::invalid("an append without cells"));
        }
        check_attributes(&self.attributes)?;
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
