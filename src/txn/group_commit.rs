//! Sends queued transactions of one partition in one call.
//!
//! Transactions that consist only of mutations, on disjoint rows, may be applied together: if the
//! whole is atomic, so is each part. While a call of their partition is in flight they queue up,
//! and the next call takes as many as fit, in their order. No timer collects them: a lone
//! transaction is sent at once.
//!
//! If the call was applied, all are committed. If it was certainly not applied, each is sent again
//! alone and gets its own outcome, so a transaction that the server refuses does not fail the
//! others. If the outcome is unknown, it is unknown for all.

use std::{collections::HashSet, sync::Arc, time::Duration};

use bytes::Bytes;
use hbase_client::{Durability, Effect, Mutation, Partition};
use tokio::time::Instant;

use super::{
    admission::{Admission, Share, Turn, Waited},
    outcome::{Committed, Outcome},
    plan::Group,
    prepared::Prepared,
    settle::Unsettled,
};
use crate::error::{ClientErrorKind, Error};

/// The limits of one shared call, which keep it short.
const MAX_MUTATIONS: usize = 512;
const MAX_BYTES: usize = 1 << 20;

/// Sends prepared groups.
pub(super) trait SendPrepared: Clone + Send + Sync + 'static {
    /// Sends one call with all mutations of a group and returns how it ended, by the deadline.
    fn send(&self, prepared: Prepared<'_>, deadline: Instant) -> impl Future<Output = Outcome> + Send;
}

/// A transaction that may share a call: without conditions, record or timestamps.
#[derive(Debug)]
pub(super) struct Member {
    /// The folded mutations.
    mutations: Vec<Mutation>,
    rows: HashSet<Bytes>,
    bytes: usize,
    durability: Durability,
    deadline: Instant,
    share: Share,
}

/// The limits of one shared call.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShareLimits {
    pub(super) mutations: usize,
    pub(super) bytes: usize,
}

impl ShareLimits {
    /// Returns limits that keep calls short and stay within those of one transaction.
    pub(super) fn within(max_mutations: usize, max_bytes: usize) -> Self {
        Self {
            mutations: max_mutations.min(MAX_MUTATIONS),
            bytes: max_bytes.min(MAX_BYTES),
        }
    }
}

impl Member {
    fn new(prepared: &Prepared<'_>, deadline: Instant) -> Self {
        let group = prepared.group;
        let mutations = prepared.sequence.mutations().unwrap_or(&group.mutations);
        let rows: HashSet<_> = mutations.iter().map(|mutation| mutation.row().clone()).collect();
        Self {
            share: Share {
                rows: rows.len(),
                mutations: group.mutations.len(),
            },
            mutations: mutations.to_vec(),
            rows,
            bytes: group.bytes(),
            durability: prepared.durability,
            deadline,
        }
    }
}

/// Members that fit into one call.
#[derive(Debug)]
struct SharedCall {
    all: Member,
    latest_deadline: Instant,
    members: usize,
}

impl SharedCall {
    fn of(first: Member) -> Self {
        Self {
            latest_deadline: first.deadline,
            all: first,
            members: 1,
        }
    }

    /// Adds a member, or returns it if it does not fit.
    fn add(&mut self, member: Member, limits: ShareLimits, now: Instant) -> Result<Share, Member> {
        if !self.fits(&member, limits, now) {
            return Err(member);
        }
        self.all.mutations.extend(member.mutations);
        self.all.rows.extend(member.rows);
        self.all.bytes += member.bytes;
        self.all.deadline = self.all.deadline.min(member.deadline);
        self.latest_deadline = self.latest_deadline.max(member.deadline);
        self.members += 1;
        Ok(member.share)
    }

    fn fits(&self, member: &Member, limits: ShareLimits, now: Instant) -> bool {
        let left = |deadline: Instant| deadline.saturating_duration_since(now);
        // The call ends with the earliest deadline, and a later answer is lost to all members. The
        // deadlines must be similar, so that no member loses much of its time to another.
        let shortest: Duration = left(self.all.deadline.min(member.deadline));
        let longest = left(self.latest_deadline.max(member.deadline));
        self.all.mutations.len() + member.mutations.len() <= limits.mutations
            && self.all.bytes + member.bytes <= limits.bytes
            && self.all.durability == member.durability
            && shortest >= longest / 2
            && self.all.rows.is_disjoint(&member.rows)
    }
}

impl Admission {
    /// Commits a transaction that may share its call with others, when its turn comes.
    ///
    /// A future that is dropped while it waits leaves nothing behind. If it is dropped while its
    /// mutations are in flight, its own call is abandoned like any other call; a shared call
    /// continues.
    pub(super) async fn commit_simple(
        self: &Arc<Self>,
        prepared: Prepared<'_>,
        deadline: Instant,
        sender: &impl SendPrepared,
    ) -> Outcome {
        let limits = self.share_limits();
        let partition = &prepared.group.partition;
        if let Some(turn) = self.enter_at_once(partition) {
            return alone(turn, prepared, deadline, sender).await;
        }
        let mut ticket = self.queue(partition, Some(Member::new(&prepared, deadline)));
        loop {
            match ticket.wait(deadline).await {
                Waited::Turn(turn, Some(member)) => {
                    let (now, first) = (Instant::now(), SharedCall::of(member));
                    if !turn.can_share_with_next(|next| first.fits(next, limits, now)) {
                        return alone(turn, prepared, deadline, sender).await;
                    }
                    ticket.rejoin(&turn, first.all);
                    // In a task: dropping this future must not stop the call of the other members.
                    tokio::spawn(share(turn, partition.clone(), limits, sender.clone()));
                }
                Waited::Turn(turn, None) => return alone(turn, prepared, deadline, sender).await,
                Waited::Shared(outcome) => return outcome,
                Waited::NotSent => return Outcome::Aborted(self.not_sent(partition)),
                Waited::Lost => {
                    return Outcome::Unknown(Unsettled::new(self.in_context(lost(), partition), None));
                }
            }
        }
    }
}

async fn alone(turn: Turn, prepared: Prepared<'_>, deadline: Instant, sender: &impl SendPrepared) -> Outcome {
    let outcome = sender.send(prepared, deadline).await;
    drop(turn);
    outcome
}

/// Sends one call with as many waiting transactions as fit, and notifies them of the outcome.
async fn share(turn: Turn, partition: Partition, limits: ShareLimits, sender: impl SendPrepared) {
    let now = Instant::now();
    let mut call: Option<SharedCall> = None;
    turn.gather(|member| match &mut call {
        Some(call) => call.add(member, limits, now),
        None => {
            let share = member.share;
            call = Some(SharedCall::of(member));
            Ok(share)
        }
    });
    let Some(SharedCall { all, members, .. }) = call else {
        return;
    };
    let group = Group {
        mutations: all.mutations,
        ..Group::new(partition)
    };
    tracing::trace!(partition = %group.partition, members, "sharing a call");
    match sender
        .send(Prepared::folded(&group, all.durability), all.deadline)
        .await
    {
        Outcome::Committed(whole) => turn.notify(|Share { rows, mutations }| {
            Outcome::Committed(Committed {
                rows,
                mutations,
                ..whole.clone()
            })
        }),
        Outcome::Unknown(unsettled) => {
            let error = Arc::new(unsettled.into_error());
            turn.notify(|_| {
                Outcome::Unknown(Unsettled::new(
                    turn.in_context(shared_error(&error, members)),
                    None,
                ))
            });
        }
        refused_or_failed => {
            tracing::debug!(partition = %group.partition, members, outcome = %refused_or_failed, "sending singly");
            turn.send_back();
        }
    }
}

/// Returns the error of one member of a failed call.
fn shared_error(error: &Arc<Error>, members: usize) -> Error {
    let what = match members {
        1 => "its call failed".to_owned(),
        _ => format!("its call, which carried {members} transactions, failed"),
    };
    let shared = Error::new(error.kind(), what).with_effect(error.effect());
    let shared = match error.remote() {
        Some(remote) => shared.with_remote(remote.clone()),
        None => shared,
    };
    shared.with_source(Arc::clone(error))
}

fn lost() -> Error {
    Error::new(
        ClientErrorKind::DeadlineExceeded,
        "the call that carried it and others was not answered in time",
    )
    .with_effect(Effect::Unknown)
}

#[cfg(test)]
mod tests;
