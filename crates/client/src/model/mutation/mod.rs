//! A change of one row, of any kind.

use bytes::Bytes;

use super::{
    Append, Delete, Durability, Increment, Put, TimeRange,
    attributes::{RETURN_RESULTS_ATTRIBUTE, VISIBILITY_ATTRIBUTE},
    delete::DeleteScope,
    increment::Counter,
    limits::{Limits, in_row},
    put::Column,
};
use crate::error::{Error, Failure, FailureKind, Result};

/// A change of one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// Writes cells.
    Put(Put),
    /// Deletes cells, columns, families, or the row.
    Delete(Delete),
    /// Adds to counters.
    Increment(Increment),
    /// Appends to the end of values.
    Append(Append),
}

impl Mutation {
    /// Returns the row key.
    #[must_use]
    pub fn row(&self) -> &Bytes {
        match self {
            Self::Put(put) => &put.row,
            Self::Delete(delete) => &delete.row,
            Self::Increment(increment) => &increment.row,
            Self::Append(append) => &append.row,
        }
    }

    /// Returns the durability of the write at the time of the server's answer.
    #[must_use]
    pub fn durability(&self) -> Durability {
        match self {
            Self::Put(put) => put.durability,
            Self::Delete(delete) => delete.durability,
            Self::Increment(increment) => increment.durability,
            Self::Append(append) => append.durability,
        }
    }

    /// Returns the attributes that travel with the mutation, by name, in the order in which they
    /// were set.
    #[must_use]
    pub fn attributes(&self) -> &[(String, Bytes)] {
        match self {
            Self::Put(put) => &put.attributes,
            Self::Delete(delete) => &delete.attributes,
            Self::Increment(increment) => &increment.attributes,
            Self::Append(append) => &append.attributes,
        }
    }

    /// Returns whether its cells have a visibility expression.
    #[must_use]
    pub fn has_visibility(&self) -> bool {
        let mut attributes = self.attributes().iter();
        attributes.any(|(name, _)| name == VISIBILITY_ATTRIBUTE)
    }

    /// Returns whether it is an increment or append with a timestamp or a time range.
    #[must_use]
    pub fn has_times(&self) -> bool {
        match self {
            Self::Put(_) | Self::Delete(_) => false,
            Self::Increment(increment) => increment.timestamp.is_some() || increment.time_range.is_some(),
            Self::Append(append) => append.timestamp.is_some() || append.time_range.is_some(),
        }
    }

    /// Returns the time range of an increment or append.
    pub(crate) fn time_range(&self) -> Option<TimeRange> {
        match self {
            Self::Put(_) | Self::Delete(_) => None,
            Self::Increment(increment) => increment.time_range,
            Self::Append(append) => append.time_range,
        }
    }

    /// Returns whether an increment or append asks for its new cells.
    pub(crate) fn returns_result(&self) -> bool {
        let mut attributes = self.attributes().iter();
        let off = |(name, value): &(String, Bytes)| name == RETURN_RESULTS_ATTRIBUTE && **value == [0];
        !attributes.any(off)
    }

    /// Rejects a visibility expression in an atomic action, of which the server drops a mutation with
    /// an invalid one and reports success.
    pub(crate) fn check_invisible(&self) -> Result<()> {
        if self.has_visibility() {
            Err(Error::invalid(
                "a visibility expression: if it is invalid, the server drops the mutation without an error",
            )
            .with_hint("write the row with a single put or delete"))
        } else {
            Ok(())
        }
    }

    /// Returns whether applying the mutation twice has the same effect as once.
    pub(crate) fn is_repeatable(&self) -> bool {
        match self {
            Self::Put(put) => put.is_stamped(),
            Self::Delete(delete) => delete.timestamp.is_some(),
            Self::Increment(_) | Self::Append(_) => false,
        }
    }

    pub(crate) fn is_delete(&self) -> bool {
        matches!(self, Self::Delete(_))
    }

    /// Returns whether the server's clock stamps any part of it.
    pub(crate) fn is_stamped_by_server(&self) -> bool {
        match self {
            Self::Put(put) => !put.is_stamped(),
            Self::Delete(delete) => {
                let mut scopes = delete.scopes.iter();
                delete.timestamp.is_none()
                    && (delete.scopes.is_empty() || scopes.any(|scope| scope.timestamp().is_none()))
            }
            Self::Increment(_) | Self::Append(_) => true,
        }
    }

    /// Returns the families that the mutation names. Empty for a delete of a whole row.
    pub fn families(&self) -> impl Iterator<Item = &Bytes> {
        let (cells, scopes, counters): (&[Column], &[DeleteScope], &[Counter]) = match self {
            Self::Put(put) => (&put.cells, &[], &[]),
            Self::Delete(delete) => (&[], &delete.scopes, &[]),
            Self::Increment(increment) => (&[], &[], &increment.columns),
            Self::Append(append) => (&append.cells, &[], &[]),
        };
        cells
            .iter()
            .map(|cell| &cell.family)
            .chain(scopes.iter().map(DeleteScope::family))
            .chain(counters.iter().map(|counter| &counter.family))
    }

    /// Returns the number of bytes of keys and values, without the overhead of the protocol.
    #[must_use]
    pub fn size(&self) -> usize {
        let of_cells = |cells: &[Column]| {
            cells
                .iter()
                .map(|cell| cell.family.len() + cell.qualifier.len() + cell.value.len())
                .sum::<usize>()
        };
        self.row().len()
            + match self {
                Self::Put(put) => of_cells(&put.cells),
                Self::Append(append) => of_cells(&append.cells),
                Self::Delete(delete) => delete.scopes.iter().map(DeleteScope::size).sum(),
                Self::Increment(increment) => increment
                    .columns
                    .iter()
                    .map(|counter| counter.family.len() + counter.qualifier.len() + size_of::<i64>())
                    .sum(),
            }
    }

    /// Checks for a mutation that HBase would reject or would interpret as something else.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput), with the row of the
    /// mutation.
    pub fn check(&self, limits: &Limits) -> Result<()> {
        match self {
            Self::Put(put) => put.check(limits),
            Self::Delete(delete) => delete.check(),
            Self::Increment(increment) => increment.check(limits),
            Self::Append(append) => append.check(limits),
        }
        .map_err(|error| self.in_context(error))
    }

    /// Adds this mutation to the context of an error.
    pub fn in_context<K: FailureKind>(&self, error: Failure<K>) -> Failure<K> {
        let operation = match self {
            Self::Put(_) => "put",
            Self::Delete(_) => "delete",
            Self::Increment(_) => "increment",
            Self::Append(_) => "append",
        };
        in_row(error.at_operation(operation), self.row())
    }
}

impl From<Put> for Mutation {
    fn from(put: Put) -> Self {
        Self::Put(put)
    }
}

impl From<Delete> for Mutation {
    fn from(delete: Delete) -> Self {
        Self::Delete(delete)
    }
}

impl From<Increment> for Mutation {
    fn from(increment: Increment) -> Self {
        Self::Increment(increment)
    }
}

impl From<Append> for Mutation {
    fn from(append: Append) -> Self {
        Self::Append(append)
    }
}

#[cfg(test)]
mod tests;
