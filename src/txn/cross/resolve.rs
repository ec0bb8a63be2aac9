//! Frees partitions of intents whose transaction has a decision, or whose lease is over.
//!
//! The decision is at home: the redo while it is kept, else the record. A visitor that finds none waits for
//! the end of the lease, and then writes an abort, which the commit excludes. No clock decides about
//! safety: a fence that is too early only aborts the transaction.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use futures::{FutureExt, future::BoxFuture};
use hbase_client::{
    Get, Mutation, Put, Row, TableDescriptor, TableName,
    low_level::{CallKind, Pauses, TableCalls, condition},
};
use tokio::{
    sync::OnceCell,
    time::{Instant, sleep, timeout_at},
};

use super::{
    intent::{self, Holder, PartAddress, PartitionState, version_row},
    part, redo,
};
use crate::{
    error::{ClientErrorKind, Error, ErrorKind, Result},
    partition::Partition,
    random,
    table_descriptor::TableDescriptorExt,
    txn::{
        commit::{
            Committer, Seen, admission::Sharing, endpoint_request::EndpointRequest,
            group_commit::SendRequest, plan::Group, prepared::Prepared,
        },
        partition_call::PartitionCall,
        proof::{opening::Settings, proven_table::ProvenTable, servers::Needs},
        record::{
            self, Record, State, TransactionId,
            digest::Digest,
            record_row,
            settle::{Claim, Purpose},
        },
    },
};

/// The longest lease that a visitor waits for.
pub(super) const MAX_LEASE: Duration = Duration::from_secs(10);

/// Whether the lease of an intent is over is known only if the clocks were compared.
const CLOCK: Needs = Needs {
    conditions: false,
    clock: true,
    atomic_multi: false,
    refuses_increment: false,
};
/// The column that is written to prove that an intent is gone, and how long it is kept.
const MARK: &str = "p";
const MARK_TTL: Duration = Duration::from_secs(60);

/// The other tables that intents name, opened when they are needed.
#[derive(Default)]
pub(in crate::txn) struct Peers {
    opened: Mutex<HashMap<TableName, Arc<OnceCell<Committer>>>>,
}

/// The decision on an attempt.
#[derive(Debug)]
pub(super) enum Decision {
    /// There is none, so it is not committed yet.
    Pending,
    /// It is not committed, and can't be any more.
    Aborted,
    Committed(Kept),
}

/// The redo of a committed attempt, by column; empty once it is applied everywhere.
#[derive(Debug, Default)]
pub(super) struct Kept {
    redo: HashMap<Bytes, Bytes>,
}

/// What the holder of a partition has committed there.
#[derive(Debug)]
pub(in crate::txn) enum Written {
    /// Nothing: when the decision was read, it was not committed.
    Nothing,
    /// These mutations, which are not applied yet.
    Redo(Vec<Mutation>),
    /// It is committed, and applied by now.
    Applied,
}

impl Decision {
    fn of(row: Option<&Row>) -> Result<Self> {
        let cells = row.map(Row::cells).unwrap_or_default().iter();
        let redo = cells.filter(|cell| cell.family == TableDescriptor::VERSION_FAMILY);
        let redo: HashMap<_, _> = redo
            .map(|cell| (cell.qualifier.clone(), cell.value.clone()))
            .collect();
        let record = row.and_then(|row| row.value(record::FAMILY, record::QUALIFIER));
        let record = record.map(|value| Record::decode(value)).transpose()?;
        Ok(match record.map(|record| record.state) {
            // The record expires, and the redo does not.
            _ if !redo.is_empty() => Self::Committed(Kept { redo }),
            Some(State::Committed) => Self::Committed(Kept::default()),
            Some(State::Aborted) => Self::Aborted,
            None => Self::Pending,
        })
    }
}

impl Kept {
    /// Returns what the attempt writes in the partition at a position, or `None` if it is applied there.
    pub(super) fn of(&self, index: usize, partition: &Partition) -> Result<Option<Vec<Mutation>>> {
        let redo = self.redo.get(&redo::qualifier(index));
        redo.map(|value| redo::decode(value, partition)).transpose()
    }
}

impl Committer {
    /// Reads the version and the intent of a partition.
    pub(in crate::txn) async fn state(
        &self,
        partition: &Partition,
        deadline: Instant,
    ) -> Result<PartitionState> {
        let row = version_row(partition)?;
        let get = Get::new(row.clone()).family(TableDescriptor::VERSION_FAMILY);
        let call = PartitionCall::new(self.table(), partition, &row, CallKind::Read, deadline);
        PartitionState::of(call.get(&get).await?.as_ref())
    }

    /// Reads the state of a partition once no transaction holds it.
    pub(in crate::txn) async fn free_state(
        &self,
        partition: &Partition,
        deadline: Instant,
    ) -> Result<PartitionState> {
        loop {
            let state = self.state(partition, deadline).await?;
            match state.holder() {
                None => return Ok(state),
                Some(holder) => self.free(partition, holder, deadline).await?,
            }
        }
    }

    /// Frees a partition from its holder: applies what it has committed, or rolls it back if it is aborted,
    /// which a visitor may do after its lease. Boxed, because it is rare.
    ///
    /// # Errors
    ///
    /// Returns [`PartitionHeld`](ErrorKind::PartitionHeld) if the deadline passes before, or home
    /// can't be asked.
    pub(in crate::txn) fn free<'a>(
        &'a self,
        partition: &'a Partition,
        holder: &'a Holder,
        deadline: Instant,
    ) -> BoxFuture<'a, Result<()>> {
        async move {
            let freed = self.free_by_decision(partition, holder, deadline).await;
            freed.map_err(|error| in_the_way(holder, error))
        }
        .boxed()
    }

    async fn free_by_decision(
        &self,
        partition: &Partition,
        holder: &Holder,
        deadline: Instant,
    ) -> Result<()> {
        let intent = &holder.intent;
        let (committer, home) = self.peer(intent.home(), deadline).await?;
        let lease_over = Instant::now() + intent.lease.min(MAX_LEASE);
        let mut pauses = Pauses::after_conflicts();
        loop {
            match committer
                .decision(&home, &intent.attempt, CLOCK, deadline)
                .await?
            {
                Decision::Aborted => {
                    self.release(partition, holder, Vec::new(), deadline).await?;
                    return Ok(());
                }
                Decision::Committed(kept) => {
                    let Some(redo) = kept.of(intent.index, partition)? else {
                        return self.check_finished(partition, holder, deadline).await;
                    };
                    self.release(partition, holder, redo, deadline).await?;
                    return Ok(());
                }
                Decision::Pending => {}
            }
            let now = Instant::now();
            if now >= lease_over || self.table().servers().past() > intent.lease_end {
                committer.fence(&home, &intent.attempt, deadline).await?;
                if pauses.wait_before(deadline).await {
                    continue;
                }
                return Err(holder.in_the_way("it is being aborted"));
            }
            let left = lease_over - now;
            let pause = pauses.next_pause().min(left);
            if now + pause >= deadline {
                let left = left.as_millis();
                return Err(holder.in_the_way(&format!("its lease ends in {left} ms at the latest")));
            }
            sleep(pause).await;
        }
    }

    /// Returns what the holder of a partition has committed there, at a moment after the intent was read.
    ///
    /// # Errors
    ///
    /// Returns [`PartitionHeld`](ErrorKind::PartitionHeld) if home can't be asked.
    pub(in crate::txn) fn committed_by<'a>(
        &'a self,
        partition: &'a Partition,
        holder: &'a Holder,
        deadline: Instant,
    ) -> BoxFuture<'a, Result<Written>> {
        async move {
            let intent = &holder.intent;
            let decided = async {
                let (committer, home) = self.peer(intent.home(), deadline).await?;
                let needs = Needs::default();
                let decision = committer
                    .decision(&home, &intent.attempt, needs, deadline)
                    .await?;
                let Decision::Committed(kept) = decision else {
                    return Ok(Written::Nothing);
                };
                match kept.of(intent.index, partition)? {
                    Some(redo) => Ok(Written::Redo(redo)),
                    None => {
                        self.check_finished(partition, holder, deadline).await?;
                        Ok(Written::Applied)
                    }
                }
            };
            decided.await.map_err(|error| in_the_way(holder, error))
        }
        .boxed()
    }

    /// Checks that the intent of an attempt that was applied everywhere is gone.
    async fn check_finished(&self, partition: &Partition, holder: &Holder, deadline: Instant) -> Result<()> {
        let state = self.state(partition, deadline).await?;
        let is_there = state.holder().is_some_and(|found| found.value == holder.value);
        if is_there && self.mark(partition, Some(&holder.value), deadline).await? {
            return Err(holder
                .in_the_way(
                    "home says that it is applied everywhere; a table was restored alone, or its rows were deleted",
                )
                .with_retryable(false));
        }
        Ok(())
    }

    /// Applies mutations and frees the partition, under the condition that the holder still holds it.
    /// Returns whether it did.
    pub(super) async fn release(
        &self,
        partition: &Partition,
        holder: &Holder,
        mutations: Vec<Mutation>,
        deadline: Instant,
    ) -> Result<bool> {
        let table = self.table();
        let version = random::bits_64(table.environment());
        let mut group = Group::of_redo(partition.clone(), mutations);
        let now = table.servers().latest_now();
        group.parts.push(part::free(partition, holder, version, now)?);
        let prepared = Prepared::new(table, &group, None, deadline)?;
        self.attempt(&prepared, &mut Seen::default(), Sharing::Alone, deadline)
            .await
    }

    /// Returns whether the intent of a holder is certainly gone: the server has written something under the
    /// condition that another one is there, or none. A read is no proof, because a server whose regions were
    /// opened elsewhere may still answer it.
    pub(super) async fn is_gone(
        &self,
        partition: &Partition,
        holder: &Holder,
        deadline: Instant,
    ) -> Result<bool> {
        let state = self.state(partition, deadline).await?;
        let found = state.holder().map(|found| &found.value);
        if found == Some(&holder.value) {
            return Ok(false);
        }
        self.mark(partition, found, deadline).await
    }

    /// Writes a cell that means nothing, under the condition that the partition has this intent, or none.
    async fn mark(&self, partition: &Partition, intent: Option<&Bytes>, deadline: Instant) -> Result<bool> {
        let row = version_row(partition)?;
        let mark = Put::new(row.clone()).cell(TableDescriptor::VERSION_FAMILY, MARK, "");
        let mark = mark.ttl(MARK_TTL).into();
        let condition = intent::is(&row, intent);
        let durability = self.table().table().durable();
        let request = EndpointRequest::new(partition, [&mark], vec![condition], durability, true);
        self.send(&request, deadline).await
    }

    /// Reads the decision on an attempt at home.
    pub(super) async fn decision(
        &self,
        home: &Partition,
        attempt: &TransactionId,
        needs: Needs,
        deadline: Instant,
    ) -> Result<Decision> {
        let row = record_row(home, attempt)?;
        let get = Get::new(row.clone())
            .family(TableDescriptor::VERSION_FAMILY)
            .column(record::FAMILY, record::QUALIFIER);
        let call = PartitionCall::new(self.table(), home, &row, CallKind::Read, deadline);
        Decision::of(call.needing(needs).get(&get).await?.as_ref())
    }

    /// Aborts an attempt, unless it has a decision.
    pub(super) async fn fence(
        &self,
        home: &Partition,
        attempt: &TransactionId,
        deadline: Instant,
    ) -> Result<()> {
        let claim = Claim::new(self.table(), home, attempt, Digest::UPDATE)?;
        let row = record_row(home, attempt)?;
        let abort = claim.aborted(None, Purpose::Commit)?.into();
        let family = Bytes::from_static(TableDescriptor::VERSION_FAMILY.as_bytes());
        let redo = Bytes::from_static(redo::FIRST.as_bytes());
        let conditions = vec![
            claim.condition(None),
            condition::cell_equals(&row, &family, &redo, None),
        ];
        let durability = self.table().table().durable();
        let request = EndpointRequest::new(home, [&abort], conditions, durability, true);
        self.send(&request, deadline).await?;
        Ok(())
    }

    /// Determines the decision on an attempt whose commit was sent: aborts it if there is none.
    pub(super) async fn settle(
        &self,
        home: &Partition,
        attempt: &TransactionId,
        deadline: Instant,
    ) -> Result<bool> {
        let mut pauses = Pauses::after_conflicts();
        loop {
            let needs = Needs::default();
            match self.decision(home, attempt, needs, deadline).await? {
                Decision::Committed(_) => return Ok(true),
                Decision::Aborted => return Ok(false),
                Decision::Pending => self.fence(home, attempt, deadline).await?,
            }
            if !pauses.wait_before(deadline).await {
                return Err(Error::new(
                    ClientErrorKind::DeadlineExceeded,
                    "the decision on a transaction could not be read",
                ));
            }
        }
    }

    /// Forgets the redo of an attempt that is applied everywhere.
    pub(super) async fn finish(
        &self,
        home: &Partition,
        attempt: &TransactionId,
        timestamp: u64,
    ) -> Result<()> {
        let delete = redo::forget(record_row(home, attempt)?, timestamp);
        Ok(self.table().table().delete(delete).await?)
    }

    /// Returns the committer of another table, and the partition there.
    async fn peer(&self, address: &PartAddress, deadline: Instant) -> Result<(Self, Partition)> {
        let committer = if address.table == *self.table().name() {
            self.clone()
        } else {
            let connection = self.table().table().connection();
            let opened = self.peers().of(&address.table);
            let open = async || {
                // Whatever the application allows: each partition is checked when it is called.
                let settings = Settings {
                    weak_durability: true,
                    cut_partitions: true,
                    ..Settings::default()
                };
                let table = ProvenTable::open(connection, address.table.clone(), &settings, deadline).await?;
                Ok::<_, Error>(Self::new(table, None))
            };
            let opened = timeout_at(deadline, opened.get_or_try_init(open)).await;
            opened.map_err(|_| not_opened(&address.table))??.clone()
        };
        let partition = committer.table().terms().rule.partition(address.prefix.clone())?;
        Ok((committer, partition))
    }
}

fn not_opened(table: &TableName) -> Error {
    let what = "the table was not opened in time";
    Error::new(ClientErrorKind::DeadlineExceeded, what).at_table(table)
}

fn in_the_way(holder: &Holder, error: Error) -> Error {
    match error.kind() {
        ErrorKind::PartitionHeld => error,
        _ => holder
            .in_the_way("its outcome can't be determined")
            .with_source(error),
    }
}

impl Peers {
    fn of(&self, table: &TableName) -> Arc<OnceCell<Committer>> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(opened.entry(table.clone()).or_default())
    }
}

impl fmt::Debug for Peers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peers").finish_non_exhaustive()
    }
}
