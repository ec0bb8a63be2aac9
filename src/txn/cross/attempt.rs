//! One attempt of a transaction across partitions. It runs in a task of the connection's runtime, so that
//! it continues if its caller is dropped.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures::future::{join_all, try_join_all};
use hbase_client::{
    Durability, Effect,
    low_level::{KEEP_THE_RUNTIME, TableCalls},
};
use tokio::time::Instant;

use super::{
    intent::{Holder, Intent, PartAddress, PartitionState, version_row},
    part, redo,
    resolve::MAX_LEASE,
};
use crate::{
    error::{ClientErrorKind, Error, ErrorKind, Result},
    partition::Partition,
    random,
    txn::{
        commit::{
            Claimed, Committer, Seen,
            admission::Sharing,
            classify,
            plan::Group,
            prepared::{Prepared, in_context},
        },
        outcome::{Committed, Outcome, Rejection},
        record::{TransactionId, digest::Digest, settle::Claim},
    },
};

/// The maximum number of partitions.
const MAX_PARTITIONS: usize = 16;
/// The shortest lease.
const MIN_LEASE: Duration = Duration::from_secs(1);
/// One part in this many of the time left is reserved for determining the outcome of an attempt.
const KEPT_FOR_SETTLING: u32 = 5;
/// A lease is this many times as long as the partitions took to be read: a hold and a commit take about
/// twice as long.
const LEASE_OF_READS: u32 = 8;

/// What the transaction does in one partition.
pub(super) struct Member {
    pub(super) committer: Committer,
    pub(super) group: Group,
}

/// The partitions of a transaction. The first one is home.
pub(super) struct Members {
    pub(super) all: Vec<Member>,
    /// What is written in each partition but home.
    redo: Vec<Bytes>,
}

/// One attempt, under an id that no other one has.
struct Attempt {
    members: Arc<Members>,
    states: Vec<PartitionState>,
    id: TransactionId,
    /// The claim on the id of the caller, and its record as last seen.
    claimed: Option<Claimed>,
    lease: Duration,
    /// When the decision must have been made.
    deadline: Instant,
    /// When what has been held must have been released.
    release_by: Instant,
}

/// How an attempt ended.
#[derive(Clone, Debug)]
pub(super) enum Ended {
    Committed,
    /// Certainly nothing was applied.
    Conflict,
    Rejected(Rejection),
}

/// Whether a partition is held after an attempt to hold it.
enum Hold {
    Held(Holder),
    /// The partition was changed since it was read, or a condition of the caller does not hold.
    Refused,
    /// It may be held nevertheless, by this holder.
    Failed(Option<Holder>, Error),
}

impl Member {
    pub(super) fn partition(&self) -> &Partition {
        &self.group.partition
    }

    /// Refuses a partition that can't be part of a transaction after these others.
    fn check_partition(&self, before: &[Self]) -> Result<()> {
        let (table, partition) = (self.committer.table(), self.partition());
        if !table.terms().cross_partition {
            let what = "the table has no transactions across partitions";
            return Err(Error::new(ErrorKind::CrossPartitionUnsupported, what)
                .with_hint("alter the table to allow transactions across partitions, and open it again"));
        }
        version_row(partition)?;
        let is_same =
            |other: &Self| other.committer.table().name() == table.name() && other.partition() == partition;
        let is_elsewhere =
            |other: &Self| !Arc::ptr_eq(other.committer.table().environment(), table.environment());
        if before.first().is_some_and(is_elsewhere) {
            return Err(
                Error::invalid("tables of different connections in a transaction across partitions")
                    .with_hint("open all tables by one connection"),
            );
        }
        if before.iter().any(is_same) {
            return Err(
                Error::invalid("a partition twice in a transaction across partitions")
                    .with_hint("put all its changes and conditions into one of the two"),
            );
        }
        Ok(())
    }

    /// Refuses contents that could not be sent.
    fn check_contents(&self) -> Result<()> {
        if let Some(part) = self.group.parts.first() {
            let what = "a lock or a latch in a transaction across partitions";
            return Err(Error::invalid(what).at_operation(part.condition().label_text().into_owned()));
        }
        if self.group.mutations.is_empty() && self.group.conditions.is_empty() {
            return Ok(());
        }
        let prepared = Prepared::new(self.committer.table(), &self.group, None, Instant::now())?;
        if prepared.durability.is_weak() {
            let what = "a transaction across partitions must be at least SYNC_WAL: a crash would lose a part";
            return Err(Error::new(ErrorKind::WeakDurability, what));
        }
        Ok(())
    }

    /// Returns the redo of a partition that is not home.
    fn redo(&self) -> Result<Bytes> {
        self.group.mutations.iter().try_for_each(redo::check)?;
        let durability = match self.group.mutations.as_slice() {
            [] => Durability::UseDefault,
            _ => self.group.check(self.committer.table().terms())?,
        };
        Ok(redo::encode(&self.group.mutations, durability))
    }

    fn address(&self) -> PartAddress {
        PartAddress::new(self.committer.table().name(), self.partition())
    }

    /// Sends a group that is part of an attempt.
    async fn send(&self, group: &Group, claimed: Option<&Claimed>, deadline: Instant) -> Result<bool> {
        let claim = claimed.map(|claimed| claimed.claim.clone());
        let prepared = Prepared::new(self.committer.table(), group, claim, deadline)?;
        let mut seen = Seen::default();
        seen.record = claimed.and_then(|claimed| claimed.seen.clone());
        self.committer
            .attempt(&prepared, &mut seen, Sharing::Alone, deadline)
            .await
    }

    /// Returns the rejection if one consistent read of the free partition shows that a condition of the
    /// caller does not hold.
    async fn judge(&self, deadline: Instant) -> Result<Option<Rejection>> {
        let judged = self
            .committer
            .judge(&self.group, &mut Seen::default(), deadline)
            .await;
        judged.map_err(|error| self.in_context(error))
    }

    pub(super) fn in_context(&self, error: Error) -> Error {
        in_context(self.committer.table(), &self.group, error)
    }
}

impl Members {
    /// # Errors
    ///
    /// Returns an error if these partitions can't be in one transaction.
    pub(super) fn new(members: Vec<Member>) -> Result<Self> {
        if members.len() > MAX_PARTITIONS {
            let count = members.len();
            let what = format!("a transaction across {count} partitions; the limit is {MAX_PARTITIONS}");
            return Err(members[0].in_context(Error::new(ClientErrorKind::LimitExceeded, what)));
        }
        let mut redo = Vec::with_capacity(members.len());
        for (index, member) in members.iter().enumerate() {
            let in_context = |error| member.in_context(error);
            member.check_partition(&members[..index]).map_err(in_context)?;
            member.check_contents().map_err(in_context)?;
            if index > 0 {
                redo.push(member.redo().map_err(in_context)?);
            }
        }
        let home = &members[0];
        let bytes: usize = redo.iter().map(Bytes::len).sum();
        let limit = redo::MAX_BYTES;
        if bytes > limit {
            let what = format!(
                "{bytes} bytes of changes in the partitions after the first one; the limit is {limit}"
            );
            return Err(home.in_context(Error::new(ClientErrorKind::LimitExceeded, what)));
        }
        Ok(Self { all: members, redo })
    }

    /// Returns the position of the partition that did not meet a condition.
    pub(super) fn index_of(&self, rejection: &Rejection) -> Option<usize> {
        self.all.iter().position(|member| {
            *member.committer.table().name() == rejection.table && *member.partition() == rejection.partition
        })
    }

    pub(super) fn home(&self) -> &Member {
        &self.all[0]
    }

    fn others(&self) -> &[Member] {
        &self.all[1..]
    }

    /// Reads the state of each partition once no transaction holds it.
    pub(super) async fn free_states(&self, deadline: Instant) -> Result<Vec<PartitionState>> {
        let read = self.all.iter().map(async |member| {
            let state = member.committer.free_state(member.partition(), deadline).await;
            state.map_err(|error| member.in_context(error))
        });
        try_join_all(read).await
    }
}

impl Members {
    /// Returns the outcome of an attempt for the caller. Of several partitions the first one names it.
    pub(super) fn outcome(&self, ended: Result<Ended, Failed>) -> Outcome {
        match ended {
            Ok(Ended::Committed) => Outcome::Committed(self.committed(false)),
            Ok(Ended::Rejected(rejection)) => Outcome::Rejected(rejection),
            Ok(Ended::Conflict) => Outcome::Aborted(self.home().in_context(others_in_the_way())),
            Err(Failed { error, claim }) => classify(error, claim),
        }
    }

    pub(super) fn committed(&self, replayed: bool) -> Committed {
        Committed {
            partition: self.home().partition().clone(),
            rows: self.all.iter().map(|member| member.group.rows()).sum(),
            mutations: self.all.iter().map(|member| member.group.mutations.len()).sum(),
            replayed,
            results: Vec::new(),
        }
    }
}

/// The error of an attempt, and the claim by which its outcome can be determined if it is not known.
#[derive(Clone)]
pub(super) struct Failed {
    pub(super) error: Error,
    pub(super) claim: Option<Claim>,
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self { error, claim: None }
    }
}

/// Runs an attempt in the runtime of the connection, and determines its outcome by the deadline.
/// `took`: how long the states took to be read.
pub(super) async fn run(
    members: Arc<Members>,
    states: Vec<PartitionState>,
    claimed: Option<&Claimed>,
    took: Duration,
    deadline: Instant,
) -> Result<Ended, Failed> {
    let left = deadline.saturating_duration_since(Instant::now());
    let attempt = Attempt {
        id: TransactionId::unique_in(members.home().committer.table().environment()),
        members: Arc::clone(&members),
        states,
        claimed: claimed.cloned(),
        lease: took.saturating_mul(LEASE_OF_READS).clamp(MIN_LEASE, MAX_LEASE),
        deadline: deadline - left / KEPT_FOR_SETTLING,
        release_by: deadline,
    };
    let claim = match claimed {
        Some(claimed) => claimed.claim.clone(),
        None => attempt.claim()?,
    };
    let home = members.home();
    let running = home.committer.table().table().runtime().spawn(attempt.run());
    let ended = running.await.unwrap_or_else(|_| {
        let what = "the runtime of the connection has ended";
        Err(Error::new(ClientErrorKind::Closed, what)
            .with_effect(Effect::Unknown)
            .with_hint(KEEP_THE_RUNTIME))
    });
    ended.map_err(|error| Failed {
        claim: error.is_outcome_unknown().then_some(claim),
        error,
    })
}

/// Returns the error of a transaction that others did not let through in time.
pub(super) fn others_in_the_way() -> Error {
    let what = "gave up, nothing was applied: other transactions were in the way each time";
    Error::new(ClientErrorKind::DeadlineExceeded, what).with_retryable(true)
}

impl Attempt {
    /// Returns the claim on the record of the decision.
    fn claim(&self) -> Result<Claim> {
        let home = self.members.home();
        Claim::new(home.committer.table(), home.partition(), &self.id, Digest::UPDATE)
    }

    /// Holds the partitions, decides at home, and applies or releases what is held.
    ///
    /// # Errors
    ///
    /// Returns an error if nothing was applied, or, with an unknown effect, if the decision is not known.
    async fn run(self) -> Result<Ended> {
        let holds = self.holds();
        let held = join_all(holds).await;
        let mut holders = Vec::new();
        let (mut refused, mut failed) = (Vec::new(), None);
        for (index, hold) in held.into_iter().enumerate() {
            let member = &self.members.others()[index];
            match hold {
                Hold::Held(holder) => holders.push((index + 1, holder)),
                Hold::Refused => refused.push(member),
                Hold::Failed(holder, error) => {
                    holders.extend(holder.map(|holder| (index + 1, holder)));
                    failed.get_or_insert_with(|| member.in_context(error.with_effect(Effect::None)));
                }
            }
        }
        if refused.is_empty() && failed.is_none() {
            return self.decide(holders).await;
        }
        self.release(holders).await;
        match failed {
            Some(error) => Err(error),
            None => self.judge(refused).await,
        }
    }

    /// Holds each partition but home.
    fn holds(&self) -> impl Iterator<Item = impl Future<Output = Hold>> {
        let parts: Vec<_> = self.members.all.iter().map(Member::address).collect();
        let states = self.states.iter().enumerate().skip(1);
        self.members
            .others()
            .iter()
            .zip(states)
            .map(move |(member, (index, state))| {
                let servers = member.committer.table().servers();
                let intent = Intent {
                    attempt: self.id.clone(),
                    nonce: random::bits_64(member.committer.table().environment()),
                    parts: parts.clone(),
                    index,
                    lease_end: servers.latest_now().saturating_add(millis(self.lease)),
                    lease: self.lease,
                };
                self.hold(member, state, intent)
            })
    }

    async fn hold(&self, member: &Member, state: &PartitionState, intent: Intent) -> Hold {
        let now = member.committer.table().servers().latest_now();
        let (step, holder) = match part::hold(member.partition(), state, &intent, now) {
            Ok(hold) => hold,
            Err(error) => return Hold::Failed(None, error),
        };
        let mut group = Group::new(member.partition().clone());
        group.conditions.clone_from(&member.group.conditions);
        group.parts.push(step);
        let held = async {
            if member.send(&group, None, self.deadline).await? {
                return Ok(true);
            }
            // A copy of the call may have been applied before.
            let state = member.committer.state(member.partition(), self.deadline).await?;
            Ok(state.holder().is_some_and(|found| found.value == holder.value))
        };
        match held.await {
            Ok(true) => Hold::Held(holder),
            Ok(false) => Hold::Refused,
            Err(error) => Hold::Failed(Some(holder), error),
        }
    }

    /// Decides for the commit at home, while all others are held.
    async fn decide(&self, holders: Vec<(usize, Holder)>) -> Result<Ended> {
        let home = self.members.home();
        let timestamp = home.committer.table().servers().latest_now();
        let group = match self.deciding(timestamp) {
            Ok(group) => group,
            Err(error) => {
                self.release(holders).await;
                return Err(home.in_context(error));
            }
        };
        let lost = match home.send(&group, self.claimed.as_ref(), self.deadline).await {
            Ok(true) => {
                self.apply(holders, timestamp);
                return Ok(Ended::Committed);
            }
            Ok(false) => None,
            Err(error) if error.is_outcome_unknown() => Some(error),
            Err(error) => {
                self.release(holders).await;
                if !home.committer.may_be_held(&error) {
                    return Err(home.in_context(error));
                }
                let freed = home.committer.free_if_held(&home.group, error, self.release_by);
                freed.await.map_err(|error| home.in_context(error))?;
                return Ok(Ended::Conflict);
            }
        };
        // A copy of the call may be in flight, so only the record decides.
        match home
            .committer
            .settle(home.partition(), &self.id, self.release_by)
            .await
        {
            Ok(true) => {
                self.apply(holders, timestamp);
                Ok(Ended::Committed)
            }
            Ok(false) => {
                self.release(holders).await;
                self.judge(vec![home]).await
            }
            Err(error) => Err(home.in_context(lost.unwrap_or(error).with_effect(Effect::Unknown))),
        }
    }

    /// Returns the group that decides at home, with what is to be written in the others.
    fn deciding(&self, timestamp: u64) -> Result<Group> {
        let home = self.members.home();
        let record = self.claim()?.committed(None)?;
        let redo = &self.members.redo;
        let step = part::decide(home.partition(), &self.states[0], record, redo, timestamp)?;
        let mut group = home.group.clone();
        group.parts.push(step);
        Ok(group)
    }

    /// Releases what is held or may be, without a change. Visitors release the rest.
    async fn release(&self, holders: Vec<(usize, Holder)>) {
        let released = holders.iter().map(async |(index, holder)| {
            let member = &self.members.all[*index];
            let released = member
                .committer
                .release(member.partition(), holder, Vec::new(), self.release_by)
                .await;
            if let Err(error) = released {
                tracing::debug!(partition = %member.partition(), id = %self.id, %error, "could not release a partition");
            }
        });
        join_all(released).await;
    }

    /// Applies the redo in the background, and forgets it once it is certain that no partition needs it. Visitors
    /// apply the rest.
    fn apply(&self, holders: Vec<(usize, Holder)>, timestamp: u64) {
        let (members, id) = (Arc::clone(&self.members), self.id.clone());
        let table = members.home().committer.table().table();
        let (runtime, deadline) = (table.runtime().clone(), table.deadline());
        runtime.spawn(async move {
            let applied = holders.iter().map(async |(index, holder)| {
                let member = &members.all[*index];
                let redo = member.group.mutations.clone();
                let (committer, partition) = (&member.committer, member.partition());
                // Another process may have applied it.
                Ok::<_, Error>(
                    committer.release(partition, holder, redo, deadline).await?
                        || committer.is_gone(partition, holder, deadline).await?,
                )
            });
            let applied = join_all(applied).await;
            let home = members.home();
            let mut finished = Ok(());
            if applied.iter().all(|applied| matches!(applied, Ok(true))) {
                finished = home.committer.finish(home.partition(), &id, timestamp).await;
            }
            let failures = applied.into_iter().filter_map(Result::err).chain(finished.err());
            for error in failures {
                tracing::debug!(%id, %error, "could not apply a committed transaction everywhere");
            }
        });
    }

    /// Finds out whether one of these partitions, which are not held by this attempt, does not meet a
    /// condition of the caller.
    async fn judge(&self, refused: Vec<&Member>) -> Result<Ended> {
        for member in refused {
            if let Some(rejection) = member.judge(self.release_by).await? {
                return Ok(Ended::Rejected(rejection));
            }
        }
        Ok(Ended::Conflict)
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
