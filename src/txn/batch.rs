//! Any rows, grouped by partition.

use std::fmt;

use futures::{StreamExt, stream};

use super::{
    outcome::GroupOutcome,
    partitioned_table::PartitionedTable,
    plan::{self, ExplainedGroup, Explanation, Group},
    sequence::Sequence,
};
use crate::{
    error::Result,
    model::{Append, Delete, Increment, Mutation, Put},
};

/// Mutations of any rows, grouped by partition: each group is one transaction.
///
/// Groups are sent side by side, a bounded number at a time
/// ([`OpenOptions::concurrency`](super::OpenOptions::concurrency)), and each has an outcome of its own: the batch as
/// a whole is *not* atomic. A group with a mutation that can't be sent is refused as a whole; the others go.
///
/// # Example
///
/// ```no_run
/// # async fn example(orders: hbase_txn::PartitionedTable) -> hbase_txn::Result<()> {
/// use hbase_txn::Put;
///
/// let mut batch = orders.batch();
/// for row in ["aaa1", "bbb1", "aaa2"] {
///     batch.put(Put::new(row).cell("f", "q", "v"));
/// }
/// println!("{}", batch.explain().await?);
/// for group in batch.commit().await {
///     println!("{}: {}", group.partition, group.outcome);
/// }
/// # Ok(()) }
/// ```
#[must_use = "a batch does nothing until it is committed"]
pub struct Batch {
    table: PartitionedTable,
    mutations: Vec<Mutation>,
}

impl Batch {
    pub(super) fn new(table: PartitionedTable) -> Self {
        Self {
            table,
            mutations: Vec::new(),
        }
    }

    /// Adds a put.
    pub fn put(&mut self, put: Put) -> &mut Self {
        self.add(put)
    }

    /// Adds a delete.
    pub fn delete(&mut self, delete: Delete) -> &mut Self {
        self.add(delete)
    }

    /// Adds an increment.
    pub fn increment(&mut self, increment: Increment) -> &mut Self {
        self.add(increment)
    }

    /// Adds an append.
    pub fn append(&mut self, append: Append) -> &mut Self {
        self.add(append)
    }

    /// Adds a mutation.
    pub fn add(&mut self, mutation: impl Into<Mutation>) -> &mut Self {
        self.mutations.push(mutation.into());
        self
    }

    /// How many mutations it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.mutations.len()
    }

    /// Whether it has no mutation.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.mutations.is_empty()
    }

    /// What [`commit`](Self::commit) would do: the groups, where each would go, and what would be refused. Nothing is
    /// sent but look-ups of regions.
    ///
    /// # Errors
    ///
    /// When the table's regions can't be read.
    pub async fn explain(&self) -> Result<Explanation> {
        let regions = self
            .table
            .table()
            .connection()
            .admin()
            .until(self.table.table().deadline())
            .regions(self.table.name())
            .await?;
        let groups = plan::group(self.mutations.iter().cloned(), self.table.rule())
            .into_iter()
            .map(|group| {
                let place = regions
                    .iter()
                    .find(|place| place.region.contains(group.partition.first_key()));
                let terms = self.table.terms();
                let sequence = group
                    .check(terms)
                    .and_then(|_| Sequence::fold(&group.mutations, &terms.limits));
                let folded = sequence.as_ref().map_or(0, Sequence::folded);
                let refusal = match (sequence, place) {
                    (Err(error), _) => Some(error.to_string()),
                    (Ok(_), Some(place)) if !group.partition.is_whole_in(&place.region) => {
                        Some("the partition is cut in two by a region boundary".to_owned())
                    }
                    _ => None,
                };
                ExplainedGroup {
                    rows: group.rows(),
                    mutations: group.mutations.len(),
                    folded,
                    bytes: group.bytes(),
                    region: place.map(|place| place.region.clone()),
                    server: place.and_then(|place| place.server.clone()),
                    refusal,
                    partition: group.partition,
                }
            })
            .collect();
        Ok(Explanation { groups })
    }

    /// Sends the groups, and tells how each ended, in the order in which the partitions first appear in the batch.
    ///
    /// All of it ends within the operation timeout: groups whose turn does not come by then are reported as failed,
    /// and were not sent.
    #[must_use = "only the outcomes tell which groups were applied"]
    pub async fn commit(self) -> Vec<GroupOutcome> {
        let Self { table, mutations } = self;
        let deadline = table.table().deadline();
        let groups = plan::group(mutations, table.rule());
        stream::iter(groups)
            .map(|group: Group| {
                let table = &table;
                async move {
                    GroupOutcome {
                        rows: group.rows(),
                        partition: group.partition.clone(),
                        outcome: table.commit_group(group, deadline).await,
                    }
                }
            })
            .buffered(table.concurrency())
            .collect()
            .await
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch")
            .field("table", self.table.name())
            .field("mutations", &self.mutations)
            .finish()
    }
}
