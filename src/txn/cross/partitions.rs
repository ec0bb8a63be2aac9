//! Several partitions that are read at one moment, and changed together.

use std::{array, fmt, sync::Arc, time::Duration};

use futures::future::try_join_all;
use hbase_client::{
    IntoBytes,
    low_level::{Pauses, TableCalls},
};
use tokio::time::Instant;

use super::{
    attempt::{self, Ended, Failed, Member, Members, others_in_the_way},
    intent::{PartAddress, PartitionState},
    resolve::Written,
};
use crate::{
    error::{Error, ErrorKind, Result},
    partition::Partition,
    txn::{
        commit::{Claimed, Committer, plan::Group},
        outcome::FailedCondition,
        partitioned_table::PartitionedTable,
        record::{
            RecordRequest,
            digest::Digest,
            settle::{Claim, Unsettled},
        },
        snapshot::{self, Snapshot, SnapshotOptions},
        update::{Applied, Change, OPERATION, UpdateOptions, UpdateView, Updated},
    },
};

/// Several partitions, perhaps of several tables, that are read at one moment and changed together.
///
/// The first one is *home*, which keeps the decision on an update and its record. The tables need the
/// attribute of [`with_cross_partition`](crate::TableDescriptorExt::with_cross_partition); what is
/// guaranteed says [`CrossTransaction`](crate::CrossTransaction).
///
/// # Example
///
/// ```
/// use hbase_txn::{CrossPartitions, Error, client::Put};
/// # use hbase_txn::{PartitionRule, PartitionedTable, TableDescriptorExt, admin::Admin, client::{FamilyDescriptor, TableDescriptor}};
///
/// # hbase_fake::FakeHBase::run(async |hbase| {
/// # let connection = hbase.connect().await?;
/// # let accounts = TableDescriptor::new("accounts")?
/// #     .with_family(FamilyDescriptor::new("f"))
/// #     .with_partition_rule(&PartitionRule::delimiter("/")?)
/// #     .with_multi_row_mutation_endpoint()
/// #     .with_cross_partition();
/// # Admin::new(&connection).create_table(&accounts, &[]).await?;
/// # let accounts = PartitionedTable::open(&connection, "accounts").await?;
/// # accounts.transaction("alice").put(Put::new("alice/balance").cell("f", "cents", 1000i64)).commit().await.into_result()?;
/// let both = CrossPartitions::new([(&accounts, "alice"), (&accounts, "bob")])?;
/// let moved = both
///     .update(|[alice, bob]| {
///         let from = alice.get::<i64>("alice/balance", "f", "cents")?.unwrap_or(0);
///         let to = bob.get::<i64>("bob/balance", "f", "cents")?.unwrap_or(0);
///         if from < 250 {
///             return Ok(false);
///         }
///         alice.put(Put::new("alice/balance").cell("f", "cents", from - 250))?;
///         bob.put(Put::new("bob/balance").cell("f", "cents", to + 250))?;
///         Ok::<_, Error>(true)
///     })
///     .await?;
/// # assert_eq!(moved.into_value(), Some(true));
/// let [alice, bob] = both.snapshot().await?;
/// let sum = alice.get::<i64>("alice/balance", "f", "cents")?.unwrap_or(0)
///     + bob.get::<i64>("bob/balance", "f", "cents")?.unwrap_or(0);
/// assert_eq!(sum, 1000);
/// # Ok(()) });
/// ```
pub struct CrossPartitions<const N: usize> {
    members: [(Committer, Partition); N],
}

impl<const N: usize> CrossPartitions<N> {
    /// Takes partitions by their tables and bare prefixes. The first one is home.
    ///
    /// # Errors
    ///
    /// - [`CrossPartitionUnsupported`](ErrorKind::CrossPartitionUnsupported) if a table lacks the
    ///   attribute;
    /// - [`InvalidInput`](crate::ClientErrorKind::InvalidInput) for a prefix that is none under the rule of
    ///   its table, for a partition that is named twice, and for no partition;
    /// - [`LimitExceeded`](crate::ClientErrorKind::LimitExceeded) for more than 16.
    pub fn new(partitions: [(&PartitionedTable, impl IntoBytes); N]) -> Result<Self> {
        if N == 0 {
            return Err(Error::invalid("no partition"));
        }
        let mut members = Vec::with_capacity(N);
        for (table, prefix) in partitions {
            let partition = table
                .rule()
                .partition(prefix)
                .map_err(|error| error.at_table(table.name()))?;
            members.push((table.committer().clone(), partition));
        }
        let all = members.iter().map(|(committer, partition)| Member {
            committer: committer.clone(),
            group: Group::new(partition.clone()),
        });
        Members::new(all.collect())?;
        let Ok(members) = members.try_into() else {
            unreachable!("there is one for each");
        };
        Ok(Self { members })
    }

    fn deadline(&self) -> Instant {
        self.members[0].0.table().table().deadline()
    }

    /// Reads all partitions at one moment, within the default limits of [`SnapshotOptions`].
    ///
    /// The moment lies between the call and its answer. The call waits for no transaction, and writes
    /// nothing. If transactions change the partitions while they are read, they are read again.
    ///
    /// # Errors
    ///
    /// - the errors of [`PartitionedTable::snapshot`];
    /// - [`PartitionHeld`](ErrorKind::PartitionHeld) if a transaction holds a partition and its home can't
    ///   be asked;
    /// - [`DeadlineExceeded`](crate::ClientErrorKind::DeadlineExceeded) if the partitions change each time
    ///   until the operation timeout is over.
    pub async fn snapshot(&self) -> Result<[Snapshot; N]> {
        self.snapshot_with(array::from_fn(|_| SnapshotOptions::new()))
            .await
    }

    /// Reads a range of each partition, all at one moment.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`snapshot`](Self::snapshot).
    pub async fn snapshot_with(&self, options: [SnapshotOptions; N]) -> Result<[Snapshot; N]> {
        let deadline = self.deadline();
        let mut pauses = Pauses::after_conflicts();
        loop {
            let snapshots = self.read(&options, deadline).await?;
            if self.stood_still(&snapshots, deadline).await? {
                return Ok(snapshots);
            }
            if !pauses.wait_before(deadline).await {
                return Err(self.in_context(snapshot::OPERATION, others_in_the_way()));
            }
        }
    }

    async fn read(&self, options: &[SnapshotOptions; N], deadline: Instant) -> Result<[Snapshot; N]> {
        let parts = self.members.iter().zip(options);
        let read = parts.map(|((committer, partition), options)| {
            snapshot::read(committer, partition.clone(), options, deadline)
        });
        let snapshots = try_join_all(read).await?;
        Ok(snapshots
            .try_into()
            .unwrap_or_else(|_| unreachable!("there is one for each")))
    }

    /// Returns whether no transaction changed a partition from its snapshot to a moment that is the same for
    /// all: the one before this call.
    async fn stood_still(&self, snapshots: &[Snapshot; N], deadline: Instant) -> Result<bool> {
        let parts = self.members.iter().zip(snapshots);
        let still = parts.map(async |((committer, partition), snapshot)| {
            let state = committer.state(partition, deadline).await?;
            if !state.is_same(snapshot.state()) {
                return Ok(false);
            }
            let Some(holder) = state.holder().filter(|_| !snapshot.is_laid_over()) else {
                return Ok(true);
            };
            let written = committer.committed_by(partition, holder, deadline).await?;
            Ok::<_, Error>(matches!(written, Written::Nothing))
        });
        let still = try_join_all(still).await;
        let still = still.map_err(|error| self.in_context(snapshot::OPERATION, error))?;
        Ok(still.into_iter().all(|still| still))
    }

    /// Reads the partitions and applies changes that depend on their contents, as
    /// [`PartitionedTable::update`] does for one partition.
    ///
    /// The closure gets a view of each partition. If the update succeeds, or ends with an error of the closure,
    /// all views showed the same moment; otherwise the closure is run again.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`PartitionedTable::update`] and [`snapshot`](Self::snapshot), and
    /// [`InvalidInput`](crate::ClientErrorKind::InvalidInput) if the closure changes a partition after the first
    /// one in a way that [`CrossTransaction`](crate::CrossTransaction) does not allow there.
    pub async fn update<T, E>(
        &self,
        change: impl FnMut(&mut [UpdateView<'_>; N]) -> Result<T, E> + Send,
    ) -> Result<Updated<T>, E>
    where
        T: Send,
        E: From<Error> + Send,
    {
        self.update_with(UpdateOptions::new(), change).await
    }

    /// Reads the partitions and applies changes that depend on their contents, with options. They hold for
    /// each partition, and must have no range. An update across partitions always has a record.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`update`](Self::update).
    pub async fn update_with<T, E>(
        &self,
        options: UpdateOptions,
        mut change: impl FnMut(&mut [UpdateView<'_>; N]) -> Result<T, E> + Send,
    ) -> Result<Updated<T>, E>
    where
        T: Send,
        E: From<Error> + Send,
    {
        let Some(mut update) = Update::begin(self, options).await? else {
            return Ok(Updated::Replayed);
        };
        loop {
            let snapshots = update.read().await?;
            let mut views = update.views(&snapshots);
            let value = match change(&mut views) {
                Ok(value) => value,
                Err(error) => {
                    drop(views);
                    // Perhaps it failed because the views are of different moments.
                    if self.stood_still(&snapshots, update.deadline).await? {
                        return Err(error);
                    }
                    update.go_on().await?;
                    continue;
                }
            };
            let change = Update::finish(views)?;
            match update.apply(&snapshots, change).await? {
                Applied::Done(attempts) => return Ok(Updated::Done { value, attempts }),
                Applied::Replayed => return Ok(Updated::Replayed),
                Applied::Conflict => {}
            }
        }
    }

    fn in_context(&self, operation: &'static str, error: Error) -> Error {
        let (committer, partition) = &self.members[0];
        let error = error.at_operation(operation).at_table(committer.table().name());
        partition.in_context(error)
    }
}

/// An update across its attempts.
struct Update<'a, const N: usize> {
    partitions: &'a CrossPartitions<N>,
    options: UpdateOptions,
    /// The claim on the caller's id.
    claimed: Option<Claimed>,
    deadline: Instant,
    /// When the attempt began.
    began: Instant,
    pauses: Pauses,
    attempts: u32,
}

impl<'a, const N: usize> Update<'a, N> {
    /// Begins an update. Returns `None` if an update with the same id was already applied.
    async fn begin(partitions: &'a CrossPartitions<N>, options: UpdateOptions) -> Result<Option<Self>> {
        let deadline = partitions.deadline();
        let (committer, home) = &partitions.members[0];
        let claim = async {
            if options.snapshot.is_range() {
                return Err(Error::invalid("a range of an update across partitions"));
            }
            let Some(id) = options.callers_id()? else {
                return Ok(None);
            };
            let claim = Claim::new(committer.table(), home, &id, Digest::UPDATE)?;
            let seen = claim.read_for_commit(deadline).await?;
            Ok(Some(Claimed { claim, seen }))
        };
        let claimed = claim
            .await
            .map_err(|error| partitions.in_context(OPERATION, error))?;
        if claimed.as_ref().is_some_and(Claimed::is_committed) {
            return Ok(None);
        }
        Ok(Some(Self {
            partitions,
            options,
            claimed,
            deadline,
            began: Instant::now(),
            pauses: Pauses::after_conflicts(),
            attempts: 0,
        }))
    }

    /// Begins an attempt by reading the partitions, which no transaction holds.
    async fn read(&mut self) -> Result<[Snapshot; N]> {
        self.attempts += 1;
        self.began = Instant::now();
        let options = self.options.snapshot.clone().for_update();
        self.partitions
            .read(&array::from_fn(|_| options.clone()), self.deadline)
            .await
    }

    fn views<'s>(&'s self, snapshots: &'s [Snapshot; N]) -> [UpdateView<'s>; N] {
        array::from_fn(|index| {
            let table = self.partitions.members[index].0.table();
            let snapshot = &snapshots[index];
            UpdateView::new(
                snapshot,
                table.name(),
                table.terms(),
                &self.options,
                true,
                self.deadline,
            )
        })
    }

    /// Converts the views into the changes to send, or `None` if the closure only read.
    fn finish(views: [UpdateView<'_>; N]) -> Result<Option<Vec<Change>>> {
        if views.iter().all(UpdateView::only_reads) {
            return Ok(None);
        }
        views
            .into_iter()
            .map(UpdateView::finish)
            .collect::<Result<_>>()
            .map(Some)
    }

    /// Ends an attempt: sends the changes and determines the outcome.
    async fn apply(&mut self, snapshots: &[Snapshot; N], changes: Option<Vec<Change>>) -> Result<Applied> {
        let took = self.began.elapsed();
        let ended = match changes {
            None if self.partitions.stood_still(snapshots, self.deadline).await? => {
                return Ok(Applied::Done(self.attempts));
            }
            None => None,
            Some(changes) => self.send(snapshots, changes, took).await?,
        };
        match ended {
            Some(applied) => Ok(applied),
            None => self.go_on().await.map(|()| Applied::Conflict),
        }
    }

    /// Pauses before the next attempt.
    async fn go_on(&mut self) -> Result<()> {
        let may_go_on = self.attempts < self.options.attempts && self.pauses.wait_before(self.deadline).await;
        if may_go_on { Ok(()) } else { Err(self.gave_up()) }
    }

    /// Returns `None` after a conflict.
    async fn send(
        &mut self,
        snapshots: &[Snapshot; N],
        changes: Vec<Change>,
        took: Duration,
    ) -> Result<Option<Applied>> {
        let states: Vec<PartitionState> = snapshots
            .iter()
            .map(|snapshot| snapshot.state().clone())
            .collect();
        let mut reads = Vec::with_capacity(N);
        let mut members = Vec::with_capacity(N);
        for ((committer, _), mut change) in self.partitions.members.iter().zip(changes) {
            change.group.guard_timestamps = !change.group.mutations.is_empty();
            reads.push(change.reads);
            members.push(Member {
                committer: committer.clone(),
                group: change.group,
            });
        }
        if let Some(claimed) = &mut self.claimed {
            let seen = claimed.claim.read_for_commit(self.deadline).await;
            claimed.seen = seen.map_err(|error| self.partitions.in_context(OPERATION, error))?;
            if claimed.is_committed() {
                return Ok(Some(Applied::Replayed));
            }
            members[0].group.record = Some(RecordRequest {
                fixed_contents: false,
                ..RecordRequest::of_caller(claimed.claim.id.clone())
            });
        }
        let members = Arc::new(Members::new(members)?);
        let ended = attempt::run(
            Arc::clone(&members),
            states,
            self.claimed.as_ref(),
            took,
            self.deadline,
        )
        .await;
        let failed = |Failed { error, claim }| match claim {
            Some(claim) => Unsettled::new(error, Some(claim)).into_error(),
            None => error,
        };
        match ended.map_err(failed)? {
            Ended::Committed => Ok(Some(Applied::Done(self.attempts))),
            Ended::Conflict => Ok(None),
            Ended::Rejected(rejection) => {
                let index = members.index_of(&rejection).unwrap_or_default();
                // Everything that the closure read is unchanged: it would return the same again.
                let of_caller = |failed: &FailedCondition| !reads[index].contains(&failed.position);
                if rejection.failed.iter().all(of_caller) {
                    return Err(rejection.into());
                }
                Ok(None)
            }
        }
    }

    fn gave_up(&self) -> Error {
        let what = "gave up, nothing was applied: what was read had changed before it could be written";
        let error = Error::new(ErrorKind::Conflict, what).with_retryable(true);
        self.partitions
            .in_context(OPERATION, error.at_attempt(self.attempts))
    }
}

impl<const N: usize> fmt::Debug for CrossPartitions<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut list = f.debug_list();
        for (committer, partition) in &self.members {
            list.entry(&PartAddress::new(committer.table().name(), partition).to_string());
        }
        list.finish()
    }
}
