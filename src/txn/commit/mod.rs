//! Sends the transaction of one group until it has an outcome or its deadline passes.
//!
//! At the start of each loop iteration, nothing of the transaction is applied, and no request in
//! flight can still be applied. Each earlier attempt was refused before it was applied, was answered that
//! a condition does not hold, or was not answered. One that leaves a record was fenced off after that, and one
//! without a record is repeated only if it was refused or answered.
//!
//! | file | what |
//! |---|---|
//! | `plan` | the contents of a group and the checks that may refuse it; no I/O |
//! | `sequence` | folds the operations of each cell into one equivalent operation; timestamps; no I/O |
//! | `prepared` | a checked and folded group, ready to send; no I/O |
//! | `read` | the reads of a commit: the rows of its conditions, timestamps |
//! | `admission` | admits the writers of each partition |
//! | `endpoint_request` `group_commit` | several transactions of a region in one call |
//! | `without_endpoint` | commits by an atomic `Multi` |
//! | `partition_version` `deletions` | the version cell, the deletion mark |

pub(super) mod admission;
pub(super) mod deletions;
pub(super) mod endpoint_request;
pub(super) mod group_commit;
pub(super) mod partition_version;
pub(super) mod plan;
pub(super) mod prepared;
pub(super) mod read;
pub(super) mod sequence;
pub(super) mod without_endpoint;

use std::{borrow::Cow, collections::HashSet, pin::pin, sync::Arc, time::Duration};

use bytes::Bytes;
use hbase_client::{
    Cell, Comparison, Condition, Effect, EndpointCall, Increment, Mutation, RemoteException, Table,
    low_level::{CallKind, CallerSpan, Check, Pauses, RegionCall, TableCalls, condition, pb},
};
use prost::Message;
use tokio::time::{Instant, timeout, timeout_at};

use self::{
    admission::{Admission, Sharing},
    deletions::DeletionMark,
    endpoint_request::{EndpointRequest, encode_mutations},
    group_commit::{GroupCommit, Member, RowHash, SendRequest, VersionChange},
    plan::Group,
    prepared::{Prepared, in_context},
    read::{Found, Newest, Rows},
    sequence::{GuardedRow, Sequence, ToRead},
};
use super::{
    cross::{intent, resolve::Peers},
    outcome::{FailedCondition, Outcome, Rejection},
    part::Ending,
    partition_call::PartitionCall,
    proof::{
        probe::{self, METHOD, SERVICE},
        proven_table::ProvenTable,
        rule_reading,
        terms::Terms,
    },
    record::{
        SeenRecord,
        settle::{Claim, Fenced, Purpose, Unsettled, settled_elsewhere},
    },
};
use crate::{
    error::{ClientErrorKind, Error, ErrorKind, Result},
    observe::ObservedCommit,
};

/// How often a transaction is repeated that the server refuses because a cell is no counter, while the partition
/// is free: the holder may have gone in between, or another program wrote a counter of this library.
const MAX_UNEXPLAINED: usize = 10;
/// How long the first attempt under a caller's id may take before the record is read beside it.
const AT_ONCE: Duration = Duration::from_millis(20);

/// The contents of one request.
struct Attempt<'a> {
    mutations: Cow<'a, [Mutation]>,
    /// Those of the transaction's parts and of its record.
    further: Vec<Mutation>,
    conditions: Vec<pb::Condition>,
    /// The change of the partition's version, if the table has versions.
    version: Option<Increment>,
    /// The server's clock must have passed this timestamp when the attempt is sent.
    floor: u64,
}

/// The results of earlier reads and attempts.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) record: Option<SeenRecord>,
    /// The rows that the conditions name.
    rows: Option<Rows>,
}

/// The claim of several attempts that follow each other, and the record as it was last seen.
#[derive(Clone, Debug)]
pub(super) struct Claimed {
    pub(super) claim: Claim,
    pub(super) seen: Option<SeenRecord>,
}

/// Commits transactions of one table. Cheap to clone: each transaction and each call has one.
#[derive(Clone)]
pub(super) struct Committer {
    shared: Arc<Shared>,
}

#[derive(Clone)]
struct Shared {
    table: ProvenTable,
    /// `None` if admission is turned off.
    admission: Option<Arc<Admission>>,
    peers: Arc<Peers>,
}

impl Claimed {
    /// Returns whether the record states a commit.
    pub(super) fn is_committed(&self) -> bool {
        self.seen.as_ref().is_some_and(SeenRecord::is_committed)
    }
}

impl Committer {
    pub(super) fn new(table: ProvenTable, admission: Option<Arc<Admission>>) -> Self {
        let shared = Arc::new(Shared {
            table,
            admission,
            peers: Arc::default(),
        });
        Self { shared }
    }

    pub(super) fn table(&self) -> &ProvenTable {
        &self.shared.table
    }

    pub(super) fn peers(&self) -> &Peers {
        &self.shared.peers
    }

    fn admission(&self) -> Option<&Arc<Admission>> {
        self.shared.admission.as_ref()
    }

    /// Returns the same committer with other settings for the calls of its table.
    pub(super) fn map_table(self, map: impl FnOnce(Table) -> Table) -> Self {
        let mut shared = Arc::unwrap_or_clone(self.shared);
        shared.table = shared.table.map_table(map);
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Checks a group and sends it when its turn comes.
    pub(super) async fn commit(&self, group: Group, deadline: Instant) -> Outcome {
        self.commit_next(group, None, deadline).await
    }

    /// Commits a group that may be one of several attempts under one claim.
    pub(super) async fn commit_next(
        &self,
        group: Group,
        earlier: Option<&mut Claimed>,
        deadline: Instant,
    ) -> Outcome {
        let ending = Ending::of(&group.parts);
        let observed = ObservedCommit::begin(self.table().name());
        // Pinned, so that the large future is not copied into the one of the span.
        let commit = pin!(self.commit_checked(&group, earlier, deadline));
        let outcome = observed.within(commit).await;
        observed.end(outcome.name(), outcome.error());
        ending.notify(&outcome);
        outcome
    }

    async fn commit_checked(
        &self,
        group: &Group,
        mut earlier: Option<&mut Claimed>,
        deadline: Instant,
    ) -> Outcome {
        let in_context = |error| in_context(self.table(), group, error);
        let claim = earlier.as_ref().map(|earlier| earlier.claim.clone());
        let prepared = match Prepared::new(self.table(), group, claim, deadline) {
            Ok(prepared) => prepared,
            Err(error) => return Outcome::Invalid(in_context(error)),
        };
        if let Err(changed) = rule_reading::keep_fresh(self.table(), deadline).await {
            return Outcome::Invalid(in_context(changed));
        }
        let ended = if self.table().terms().endpoint {
            let record = earlier.as_ref().and_then(|earlier| earlier.seen.clone());
            let mut seen = Seen { record, rows: None };
            let is_first = earlier.is_none();
            let ended = self
                .commit_by_endpoint(&prepared, &mut seen, is_first, deadline)
                .await;
            if let Some(earlier) = &mut earlier {
                earlier.seen = seen.record;
            }
            ended
        } else {
            let admission = self.admission();
            Box::pin(without_endpoint::commit(
                self.table(),
                &prepared,
                admission,
                deadline,
            ))
            .await
        };
        match ended {
            Ok(outcome) => outcome,
            Err(error) => {
                let error = in_context(explain(error));
                classify(error, prepared.claim)
            }
        }
    }

    /// `is_first`: the record was not read yet.
    async fn commit_by_endpoint(
        &self,
        prepared: &Prepared<'_>,
        seen: &mut Seen,
        is_first: bool,
        deadline: Instant,
    ) -> Result<Outcome> {
        let mut sharing = if prepared.may_share() {
            Sharing::Shared
        } else {
            Sharing::Alone
        };
        let mut first = match prepared.claim_of_caller() {
            Some(claim) if is_first => {
                let attempted = self.read_and_attempt(claim, prepared, seen, sharing, deadline);
                Box::pin(attempted).await.transpose()
            }
            _ => None,
        };
        if let Some(found) = seen.record.as_ref().filter(|found| found.is_committed()) {
            return Ok(Outcome::Committed(prepared.committed(prepared.is_replay(found))));
        }
        let mut pauses = Pauses::after_conflicts();
        let mut unexplained = 0;
        loop {
            let attempted = match first.take() {
                Some(attempted) => attempted,
                None => self.attempt(prepared, seen, sharing, deadline).await,
            };
            let lost = match attempted {
                Ok(true) => return Ok(Outcome::Committed(prepared.committed(false))),
                Ok(false) => None,
                // The answer is lost; the fence below finds out whether the attempt was applied. Time is left,
                // because a call that several transactions share ends with the first of their deadlines.
                Err(error)
                    if error.is_outcome_unknown()
                        && prepared.claim.is_some()
                        && Instant::now() < deadline =>
                {
                    Some(error)
                }
                Err(error) if self.may_be_held(&error) => {
                    unexplained += 1;
                    if unexplained > MAX_UNEXPLAINED {
                        return Err(error);
                    }
                    if Box::pin(self.free_if_held(prepared.group, error, deadline)).await? {
                        unexplained = 0;
                    }
                    if pauses.wait_before(deadline).await {
                        continue;
                    }
                    return Err(others_in_the_way());
                }
                Err(error) => return Err(error),
            };
            sharing = Sharing::Alone;
            if let Some(claim) = &prepared.claim {
                // A copy of the attempt may be in flight and would find the conditions met.
                let fenced = claim.fence(seen.record.as_ref(), Purpose::Commit, deadline);
                let fenced = Box::pin(fenced).await;
                match fenced.map_err(|error| unless_settled(error, lost.clone()))? {
                    Fenced::InPlace(record) => seen.record = Some(record),
                    Fenced::Found(found) if found.is_committed() => {
                        return Ok(Outcome::Committed(prepared.committed(prepared.is_replay(&found))));
                    }
                    // The attempt had seen another record, so it can't be applied any more.
                    Fenced::Found(aborted) if claim.may_follow(&aborted) => seen.record = Some(aborted),
                    Fenced::Found(_) => return Err(settled_elsewhere()),
                }
            }
            if let Some(rejection) = Box::pin(self.judge(prepared.group, seen, deadline)).await? {
                return Ok(Outcome::Rejected(rejection));
            }
            // The obstacle is gone, or was not one of the caller's conditions.
            if !pauses.wait_before(deadline).await {
                return Err(lost.map_or_else(others_in_the_way, fenced_off));
            }
        }
    }

    /// Makes the first attempt under a caller's id, under the condition that there is no record. Reads
    /// the record if the attempt was not applied, or meanwhile if it is not answered at once. Returns
    /// whether the attempt was applied, or `None` if it was not and can't be: there is a record, which
    /// is in `seen` then.
    ///
    /// # Errors
    ///
    /// Returns [`Aborted`](ErrorKind::Aborted) if a caller may have been told since the commit began
    /// that the transaction is not applied.
    async fn read_and_attempt(
        &self,
        claim: &Claim,
        prepared: &Prepared<'_>,
        seen: &mut Seen,
        sharing: Sharing,
        deadline: Instant,
    ) -> Result<Option<bool>> {
        // Locks and latches of the transaction are not asked for one that was committed before.
        if !prepared.group.parts.is_empty() {
            seen.record = claim.read_for_commit(deadline).await?;
            return Ok(None);
        }
        let mut unread = Seen::default();
        let mut attempt = pin!(self.attempt(prepared, &mut unread, sharing, deadline));
        let at_once = timeout(AT_ONCE, &mut attempt).await;
        let mut read = pin!(claim.read(deadline));
        let (read, attempt) = match at_once {
            Ok(Ok(true)) => return Ok(Some(true)),
            Ok(attempt) => (read.await, attempt),
            Err(_) => tokio::select! {
                biased;
                read = &mut read => match read {
                    Ok(None) => (read, attempt.await),
                    Err(error) if error.kind() != ErrorKind::IdReused => (Err(error), attempt.await),
                    found => (found, Ok(false)),
                },
                attempt = &mut attempt => match attempt {
                    Ok(true) => return Ok(Some(true)),
                    attempt => (read.await, attempt),
                },
            },
        };
        match (read, attempt) {
            (Ok(found @ Some(_)), _) => {
                seen.record = claim.may_go_on(found)?;
                Ok(None)
            }
            (Err(error), _) if error.kind() == ErrorKind::IdReused => Err(error),
            (_, attempt) => attempt.map(Some),
        }
    }

    /// Sends the transaction once, when its turn comes. Returns `false` if a condition does not hold.
    pub(super) async fn attempt(
        &self,
        prepared: &Prepared<'_>,
        seen: &mut Seen,
        sharing: Sharing,
        deadline: Instant,
    ) -> Result<bool> {
        let _turn = match self.admission() {
            Some(admission) => {
                let partition = &prepared.group.partition;
                Some(admission.enter(partition, sharing, deadline).await?)
            }
            None => None,
        };
        let attempt = self.form(prepared, seen, deadline).await?;
        match (self.admission(), sharing) {
            (Some(admission), Sharing::Shared) => {
                let group_commit = &admission.group_commit;
                self.send_shared(group_commit, prepared, attempt, deadline).await
            }
            _ => Box::pin(self.send(&attempt.into_request(prepared), deadline)).await,
        }
    }

    /// Builds the next attempt after reading what it needs.
    async fn form<'a>(
        &self,
        prepared: &'a Prepared<'_>,
        seen: &mut Seen,
        deadline: Instant,
    ) -> Result<Attempt<'a>> {
        let Prepared { group, sequence, .. } = prepared;
        let sets_version = prepared.sets_version();
        if seen.rows.is_none() && group.conditions.iter().any(is_not_equal) {
            seen.rows = Some(Box::pin(read::rows_of_conditions(self.table(), group, deadline)).await?);
        }
        let mut conditions = Vec::new();
        for condition in group.all_conditions() {
            let absent = seen
                .rows
                .as_ref()
                .is_none_or(|rows| rows.value_is_absent(condition));
            conditions.extend(condition::condition_messages(condition, absent));
        }
        let of_caller = conditions.len();
        let terms = self.table().terms();
        let mut further = Vec::new();
        let mut floor = 0;
        let mut to_read = to_stamp(group, sequence);
        let as_they_are = sequence.mutations().filter(|_| to_read.is_empty());
        let mutations =
            if let Some(mutations) = as_they_are {
                Cow::Borrowed(mutations)
            } else {
                let mark = DeletionMark::of(terms, &group.partition);
                to_read.extend(mark.as_ref().map(DeletionMark::to_read));
                let newest = Box::pin(self.newest_timestamps(prepared, to_read, deadline)).await?;
                let found = |row: &Bytes| newest.by_row.get(row);
                let stamped = sequence.stamp(newest.now, |row| found(row).map(Found::seen))?;
                // While a transaction holds the partition, no other one writes what was read here.
                if !sets_version {
                    conditions.extend(stamped.guards.iter().map(|cell| {
                        condition::absent_from(&cell.row, &cell.family, &cell.qualifier, cell.from)
                    }));
                    conditions.extend(guards_of_rows(&stamped.rows, &newest));
                }
                if let Some(mark) = mark.filter(|_| !sets_version) {
                    if stamped.ahead {
                        let seen = found(&mark.row).map_or(0, |found| found.newest);
                        conditions.push(mark.unchanged(seen));
                    }
                    if stamped.ahead || sequence.deletes() {
                        further.extend(mark.change().map(Mutation::from));
                    }
                }
                floor = stamped.floor;
                Cow::Owned(stamped.mutations)
            };
        check_guards(conditions.len() - of_caller, terms)?;
        let version = if terms.partition_version && !mutations.is_empty() && !sets_version {
            partition_version::bump(self.table().environment(), &group.partition)
        } else {
            None
        };
        // Without an increment of the version no server refuses it while the partition is held.
        if mutations.is_empty()
            && !sets_version
            && let Some(row) = read::state_row(self.table(), &group.partition)
        {
            conditions.push(intent::is(&row, None));
        }
        for part in &group.parts {
            let changes = timeout_at(deadline, part.changes()).await;
            let changes = changes.map_err(|_| no_time_for_parts())??;
            conditions.extend(changes.seen);
            further.extend(changes.mutations);
        }
        if let Some(claim) = &prepared.claim {
            conditions.push(claim.condition(seen.record.as_ref()));
            let record = claim.committed(seen.record.as_ref())?;
            further.push(record.into());
        }
        Ok(Attempt {
            mutations,
            further,
            conditions,
            version,
            floor,
        })
    }

    /// Reads the newest timestamps. If the transaction deletes rows that have no cell, it first puts
    /// placeholders there, so that the server can check that the rows have no other cell. Another
    /// delete may take a placeholder away before it is read.
    async fn newest_timestamps(
        &self,
        prepared: &Prepared<'_>,
        to_read: Vec<ToRead>,
        deadline: Instant,
    ) -> Result<Newest> {
        let (table, partition) = (self.table(), &prepared.group.partition);
        let guards = !prepared.sets_version();
        let takes_placeholders =
            guards && table.terms().replay_window.is_some() && !prepared.is_one_mutation();
        let read = async |to_read| read::newest_timestamps(table, partition, to_read, guards, deadline).await;
        let mut newest = read(to_read.clone()).await?;
        let mut empty = newest.deleted_rows_without_cells();
        let mut pauses = Pauses::after_conflicts();
        while takes_placeholders && !empty.is_empty() {
            deletions::put_placeholders(table, partition, empty, deadline).await?;
            newest = read(to_read.clone()).await?;
            empty = newest.deleted_rows_without_cells();
            // A marker that is ahead of the clock may hide each placeholder.
            empty.retain(|row| !newest.by_row[row].is_ahead);
            if !empty.is_empty() && !pauses.wait_before(deadline).await {
                return Err(others_in_the_way());
            }
        }
        Ok(newest)
    }

    /// Sends an attempt together with others of its region. Returns `false` if a condition does not
    /// hold.
    async fn send_shared(
        &self,
        group_commit: &Arc<GroupCommit>,
        prepared: &Prepared<'_>,
        attempt: Attempt<'_>,
        deadline: Instant,
    ) -> Result<bool> {
        let first_key = prepared.group.partition.first_key();
        let table = self.table().table();
        let region = match table.known_region(first_key) {
            Some(region) => region,
            None => {
                let call = RegionCall::new(table, "finding a region", first_key, CallKind::Read, deadline);
                let location = Box::pin(call.into_location()).await?;
                location.region().name.clone()
            }
        };
        let member = attempt.into_member(prepared, deadline);
        group_commit.send(&region, member, self).await
    }

    /// Returns whether an error may be that of a partition that a transaction across partitions holds: its
    /// version is no counter.
    pub(super) fn may_be_held(&self, error: &Error) -> bool {
        let refused = error.remote().is_some_and(RemoteException::is_no_counter);
        refused && self.table().terms().cross_partition && error.effect() == Effect::None
    }

    /// Frees the partition of a transaction that the server refused with this error. Returns whether it was
    /// held.
    ///
    /// # Errors
    ///
    /// Returns the error if a cell of the caller is no counter, or that of freeing the partition.
    pub(super) async fn free_if_held(&self, group: &Group, error: Error, deadline: Instant) -> Result<bool> {
        let rows = read::rows_of_conditions(self.table(), group, deadline).await?;
        match rows.state(&group.partition)?.holder() {
            Some(holder) => self.free(&group.partition, holder, deadline).await.map(|()| true),
            None if rows.has_only_counters(group) => Ok(false),
            None => Err(error),
        }
    }

    /// Returns the rejection if one consistent read shows that a condition does not hold.
    pub(super) async fn judge(
        &self,
        group: &Group,
        seen: &mut Seen,
        deadline: Instant,
    ) -> Result<Option<Rejection>> {
        if group.all_conditions().next().is_none() {
            return Ok(None);
        }
        // A holder that has committed may still have to be applied.
        let rows = loop {
            let rows = read::rows_of_conditions(self.table(), group, deadline).await?;
            match rows.state(&group.partition)?.holder() {
                Some(holder) => self.free(&group.partition, holder, deadline).await?,
                None => break rows,
            }
        };
        let parts = group.parts.iter().map(|part| (part.condition(), Some(part)));
        let failed: Vec<_> = group
            .conditions
            .iter()
            .map(|condition| (condition, None))
            .chain(parts)
            .enumerate()
            .filter(|(_, (condition, _))| !condition.holds(rows.get(condition.row())))
            .map(|(position, (condition, part))| FailedCondition {
                label: part.map_or_else(|| condition.label_text().into_owned(), |part| part.failure()),
                row: condition.row().clone(),
                found: found(condition, &rows),
                position,
                is_of_part: part.is_some(),
            })
            .collect();
        seen.rows = Some(rows);
        Ok((!failed.is_empty()).then(|| Rejection {
            table: self.table().name().clone(),
            partition: group.partition.clone(),
            failed,
        }))
    }
}

impl SendRequest for Committer {
    fn runtime(&self) -> &tokio::runtime::Handle {
        self.table().table().runtime()
    }

    async fn send(&self, request: &EndpointRequest, deadline: Instant) -> Result<bool> {
        let first_key = request.partitions[0].first_key();
        let kind = if request.is_idempotent() {
            CallKind::IdempotentWrite
        } else {
            CallKind::Write
        };
        let mut call =
            PartitionCall::of_several(self.table(), &request.partitions, first_key, kind, deadline)
                .needing(request.needs());
        if request.has_mutations() {
            call.set_floor(request.floor);
        }
        let message = EndpointCall::new(first_key.clone(), SERVICE, METHOD, request.message());
        let answer = call.endpoint(&message).await?;
        read_answer(answer, request.is_conditional())
    }
}

impl Attempt<'_> {
    /// Returns the request of a call of its own.
    fn into_request(mut self, prepared: &Prepared<'_>) -> EndpointRequest {
        let version = self.version.take();
        self.further.extend(version.map(Mutation::from));
        self.encode(prepared)
    }

    /// Returns what may share a call.
    fn into_member(mut self, prepared: &Prepared<'_>, deadline: Instant) -> Member {
        let version = self.version.take().map(|change| VersionChange {
            row: RowHash::of(change.row()),
            message: encode_mutations([&change.into()], prepared.durability),
        });
        let rows = self.all_mutations().map(|mutation| RowHash::of(mutation.row()));
        Member {
            rows: rows.collect(),
            mutations: self.mutations.len() + self.further.len(),
            durability: prepared.durability,
            version,
            deadline,
            caller: CallerSpan::current(),
            request: self.encode(prepared),
        }
    }

    fn all_mutations(&self) -> impl Iterator<Item = &Mutation> {
        self.mutations.iter().chain(&self.further)
    }

    fn encode(self, prepared: &Prepared<'_>) -> EndpointRequest {
        EndpointRequest::new(
            &prepared.group.partition,
            self.mutations.iter().chain(&self.further),
            self.conditions,
            prepared.durability,
            prepared.is_repeatable(),
        )
        .that_holds(prepared.sets_version())
        .with_floor(self.floor)
    }
}

/// Returns what to read before the timestamps are decided: what deletes cover; of a guarded
/// transaction all that it writes, of another one the cells that a condition names. A write to a cell
/// that the caller has checked must be visible afterwards, whatever its timestamp is.
fn to_stamp(group: &Group, sequence: &Sequence<'_>) -> Vec<ToRead> {
    // Most transactions.
    if !group.guard_timestamps && group.conditions.is_empty() && !sequence.deletes() {
        return Vec::new();
    }
    let mut columns: HashSet<(&Bytes, &Bytes, &Bytes)> = HashSet::new();
    // A filter reads the whole row.
    let mut rows: HashSet<&Bytes> = HashSet::new();
    for condition in &group.conditions {
        match condition.column() {
            Some((family, qualifier)) => {
                columns.insert((condition.row(), family, qualifier));
            }
            None => {
                rows.insert(condition.row());
            }
        }
    }
    sequence.to_read(|row, family, qualifier| {
        group.guard_timestamps || columns.contains(&(row, family, qualifier)) || rows.contains(row)
    })
}

/// Returns the conditions that rows and families have only the cells that were found.
fn guards_of_rows<'a>(
    guarded: &'a [GuardedRow],
    newest: &'a Newest,
) -> impl Iterator<Item = pb::Condition> + 'a {
    let found = |guard: &'a GuardedRow| Some((guard, newest.by_row.get(&guard.row)?));
    guarded.iter().filter_map(found).flat_map(|(guard, found)| {
        let absent_from =
            |((family, qualifier), from)| condition::absent_from(&guard.row, family, qualifier, from);
        let columns = found.columns(guard.family.as_ref()).into_iter();
        let mut conditions = Vec::new();
        if found.has_cells {
            conditions.push(condition::has_only_timestamps(&guard.row, found.timestamps()));
            if found.is_ahead {
                // Two columns may then have one timestamp.
                conditions.extend(columns.map(|(column, newest)| absent_from((column, newest + 1))));
            }
        } else {
            conditions.extend(columns.map(|(column, _)| absent_from((column, guard.from))));
        }
        conditions
    })
}

/// Refuses more guards of timestamps than the transaction may have conditions: the server reads a cell
/// for each while it holds the row locks.
fn check_guards(guards: usize, terms: &Terms) -> Result<()> {
    if guards <= terms.max_conditions {
        Ok(())
    } else {
        Err(Error::new(
            ClientErrorKind::LimitExceeded,
            format!(
                "a transaction of {guards} cells whose timestamps are guarded, each by a condition; the limit is {}",
                terms.max_conditions
            ),
        )
        .with_hint("split it, or open the table with a higher max_conditions"))
    }
}

fn is_not_equal(condition: &Condition) -> bool {
    matches!(
        Check::of(condition),
        Check::Compare {
            comparison: Comparison::NotEqual,
            ..
        }
    )
}

fn found(condition: &Condition, rows: &Rows) -> Option<Cell> {
    let (family, qualifier) = condition.column()?;
    rows.get(condition.row())?.cell(family, qualifier).cloned()
}

/// After a failed fence, earlier attempts may still be applied. After
/// [`IdReused`](ErrorKind::IdReused) they can't: the record belongs to another transaction, and
/// this one can't be applied over it. `lost`: the error of an attempt whose answer was lost, which says
/// more than that of the fence.
fn unless_settled(error: Error, lost: Option<Error>) -> Error {
    match error.kind() {
        ErrorKind::IdReused => error,
        _ => lost.unwrap_or(error).with_effect(Effect::Unknown),
    }
}

/// Returns the error of a commit whose last attempt was not answered, and that has no time for another.
fn fenced_off(lost: Error) -> Error {
    Error::new(
        ClientErrorKind::DeadlineExceeded,
        "gave up, nothing was applied: the last attempt was not answered in time, and can't be applied any more",
    )
    .with_retryable(true)
    .with_source(lost)
}

fn others_in_the_way() -> Error {
    Error::new(
        ClientErrorKind::DeadlineExceeded,
        "gave up, nothing was applied: other writers were in the way each time",
    )
    .with_retryable(true)
}

fn no_time_for_parts() -> Error {
    Error::new(
        ClientErrorKind::DeadlineExceeded,
        "gave up, nothing was applied: a lock of the transaction was being renewed, or a latch read, until its time was over",
    )
    .with_retryable(true)
}

/// Reads from the endpoint's answer whether the conditions held. To a call without conditions,
/// releases before 2.4.5 return an empty answer, later ones `processed`. Any other answer proves
/// nothing about the outcome.
fn read_answer(answer: Bytes, conditional: bool) -> Result<bool> {
    let bad = |what| Error::new(ClientErrorKind::Protocol, what).with_effect(Effect::Unknown);
    match pb::MutateRowsResponse::decode(answer).map(|answer| answer.processed) {
        Ok(Some(true)) => Ok(true),
        Ok(None) if !conditional => Ok(true),
        Ok(Some(false)) if conditional => Ok(false),
        Ok(Some(false)) => Err(bad(
            "the endpoint says that conditions failed, and there were none",
        )),
        Ok(None) => Err(bad("the endpoint does not say whether the conditions held")),
        Err(error) => Err(bad("the endpoint's answer can't be read").with_source(error)),
    }
}

fn explain(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Client(ClientErrorKind::EndpointMissing) => error.with_hint(probe::ATTACH_ENDPOINT),
        _ => error,
    }
}

pub(super) fn classify(error: Error, claim: Option<Claim>) -> Outcome {
    match error.kind() {
        _ if error.is_outcome_unknown() => Outcome::Unknown(Unsettled::new(error, claim)),
        ErrorKind::PartitionCut
        | ErrorKind::PartitionRuleChanged
        | ErrorKind::FeatureUnknown
        | ErrorKind::Client(ClientErrorKind::ConditionsUnsupported)
        | ErrorKind::AtomicityUnsupported
        | ErrorKind::CrossPartitionUnsupported
        | ErrorKind::ClockSkew
        | ErrorKind::IdReused => Outcome::Invalid(error),
        // A region that is too busy is asked again, and a transaction that is too large never fits.
        ErrorKind::Client(ClientErrorKind::LimitExceeded) if !error.is_retryable() => Outcome::Invalid(error),
        _ => Outcome::Aborted(error),
    }
}

#[cfg(test)]
mod tests;
