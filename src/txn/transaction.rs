//! Mutations of one partition.

use std::fmt;

use super::{
    outcome::Outcome,
    partitioned_table::PartitionedTable,
    plan::{Group, check_mutation},
};
use crate::{
    error::{Error, ErrorKind, Result},
    model::{BytesBinary, Delete, Mutation, Partition, Put},
};

/// Mutations of one partition, applied together or not at all.
///
/// What can't be part of it is refused when it is added. Nothing is sent before [`commit`](Self::commit).
#[must_use = "a transaction does nothing until it is committed"]
pub struct Transaction {
    table: PartitionedTable,
    group: Group,
}

impl Transaction {
    pub(super) fn new(table: PartitionedTable, group: Group) -> Self {
        Self { table, group }
    }

    /// The partition that it is in.
    #[must_use]
    pub fn partition(&self) -> &Partition {
        &self.group.partition
    }

    /// Adds a put.
    ///
    /// # Errors
    ///
    /// As [`add`](Self::add).
    pub fn put(&mut self, put: Put) -> Result<&mut Self> {
        self.add(put)
    }

    /// Adds a delete.
    ///
    /// # Errors
    ///
    /// As [`add`](Self::add).
    pub fn delete(&mut self, delete: Delete) -> Result<&mut Self> {
        self.add(delete)
    }

    /// Adds a mutation.
    ///
    /// # Errors
    ///
    /// [`OtherPartition`](ErrorKind::OtherPartition), naming the row and both partitions;
    /// [`InvalidInput`](ErrorKind::InvalidInput), [`FamilyNotFound`](ErrorKind::FamilyNotFound), naming the
    /// mutation. The transaction stays as it was.
    pub fn add(&mut self, mutation: impl Into<Mutation>) -> Result<&mut Self> {
        let mutation = mutation.into();
        check_mutation(&mutation, self.table.terms())
            .and_then(|()| self.check_partition(&mutation))
            .map_err(|error| error.at_table(self.table.name()))?;
        self.group.mutations.push(mutation);
        Ok(self)
    }

    /// Sends it, and tells how it ended.
    ///
    /// What was surely not applied is tried again within the operation timeout; nothing else is. Dropping the
    /// future before it was sent sends nothing; afterwards the outcome is as unknown as with a lost answer.
    pub async fn commit(self) -> Outcome {
        let deadline = self.table.table().deadline();
        self.table.commit_group(&self.group, deadline).await
    }

    fn check_partition(&self, mutation: &Mutation) -> Result<()> {
        let of_row = self.table.partition_of(mutation.row());
        if of_row == self.group.partition {
            return Ok(());
        }
        let error = Error::new(
            ErrorKind::OtherPartition,
            format!(
                "row {} is in partition {of_row}; this transaction is in partition {}",
                BytesBinary(mutation.row()),
                self.group.partition
            ),
        );
        Err(mutation
            .blame(error.with_hint("rows of several partitions go into a batch: one transaction each")))
    }
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction")
            .field("table", self.table.name())
            .field("partition", &self.group.partition)
            .field("mutations", &self.group.mutations)
            .finish()
    }
}
