//! Batches: mutations of any rows, grouped by partition.

use std::fmt;

use futures::{StreamExt, stream};
use hbase_admin::{Admin, low_level::AdminCalls};
use hbase_client::{Append, Delete, Increment, Mutation, Put, low_level::TableCalls};

use super::{
    commit::{
        Committer,
        plan::{self, ExplainedGroup, Explanation, Group},
        sequence::Sequence,
    },
    outcome::GroupOutcome,
};
use crate::error::Result;

/// Mutations of any rows, grouped by partition: each group is one transaction.
///
/// Groups are sent concurrently, a bounded number at a time
/// ([`OpenOptions::concurrency`](super::OpenOptions::concurrency)), and each has its own outcome:
/// the batch as a whole is *not* atomic. A group with a mutation that can't be sent is refused as a
/// whole; the other groups are sent.
///
/// # Example
///
/// ```
/// use hbase_txn::client::{Delete, Put};
///
/// # hbase_fake::FakeHBase::run(async |hbase| {
/// # hbase.create_partitioned_table("orders", &["f"], 3);
/// # let orders = hbase_txn::PartitionedTable::open(&hbase.connect().await?, "orders").await?;
/// let mut batch = orders.batch().delete(Delete::new("ccc1"));
/// batch.extend(["aaa1", "bbb1", "aaa2"].map(|row| Put::new(row).cell("f", "q", "v")));
/// println!("{}", batch.explain().await?);
/// for group in batch.commit().await {
///     println!("{}: {}", group.partition, group.outcome);
///     # assert!(group.outcome.is_committed());
/// }
/// # Ok(()) });
/// ```
#[must_use = "a batch does nothing until it is committed"]
pub struct Batch {
    committer: Committer,
    mutations: Vec<Mutation>,
}

impl Batch {
    pub(super) fn new(committer: Committer) -> Self {
        Self {
            committer,
            mutations: Vec::new(),
        }
    }

    /// Adds a put.
    pub fn put(self, put: Put) -> Self {
        self.add(put)
    }

    /// Adds a delete.
    pub fn delete(self, delete: Delete) -> Self {
        self.add(delete)
    }

    /// Adds an increment.
    pub fn increment(self, increment: Increment) -> Self {
        self.add(increment)
    }

    /// Adds an append.
    pub fn append(self, append: Append) -> Self {
        self.add(append)
    }

    /// Adds a mutation.
    #[expect(clippy::should_implement_trait, reason = "it adds to a list")]
    pub fn add(mut self, mutation: impl Into<Mutation>) -> Self {
        self.mutations.push(mutation.into());
        self
    }

    /// Returns the number of mutations.
    #[must_use]
    pub fn len(&self) -> usize {
        self.mutations.len()
    }

    /// Returns whether the batch has no mutations.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.mutations.is_empty()
    }

    /// Reports what [`commit`](Self::commit) would do: the groups, the region of each, and which
    /// would be refused. Only lookups of regions are sent.
    ///
    /// # Errors
    ///
    /// Returns an error if the table's regions can't be read.
    pub async fn explain(&self) -> Result<Explanation> {
        let table = self.committer.table();
        let terms = table.terms();
        let regions = Admin::new(table.table().connection())
            .until(table.table().deadline())
            .regions(table.name())
            .await?;
        let groups = plan::group(self.mutations.iter().cloned(), &terms.rule)
            .into_iter()
            .map(|group| {
                let place = regions
                    .iter()
                    .find(|place| place.region.contains(group.partition.first_key()));
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

    /// Sends the groups and returns the outcome of each, in the order in which the partitions first
    /// appear in the batch.
    ///
    /// Ends within the operation timeout. Groups whose turn has not come by then are reported as
    /// [`Aborted`](super::Outcome::Aborted) and were not sent.
    #[must_use = "only the outcomes tell which groups were applied"]
    pub async fn commit(self) -> Vec<GroupOutcome> {
        let Self { committer, mutations } = self;
        let deadline = committer.table().table().deadline();
        let groups = plan::group(mutations, &committer.table().terms().rule);
        stream::iter(groups)
            .map(|group: Group| {
                let committer = &committer;
                async move {
                    GroupOutcome {
                        rows: group.rows(),
                        partition: group.partition.clone(),
                        outcome: committer.commit(group, deadline).await,
                    }
                }
            })
            .buffered(committer.table().terms().concurrency)
            .collect()
            .await
    }
}

/// Adds mutations from an iterator. Nothing is checked before [`commit`](Batch::commit), so there
/// is no error to report.
impl<M: Into<Mutation>> Extend<M> for Batch {
    fn extend<I: IntoIterator<Item = M>>(&mut self, mutations: I) {
        self.mutations.extend(mutations.into_iter().map(Into::into));
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch")
            .field("table", self.committer.table().name())
            .field("mutations", &self.mutations)
            .finish()
    }
}
