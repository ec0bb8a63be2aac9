//! Attempts to take a lock.

use std::mem;

use futures::future::try_join_all;
use hbase_client::{
    Effect, Get, Mutation, Row,
    low_level::{CallKind, RegionAction},
};
use tokio::time::Instant;

use super::{
    claim::LockClaim,
    location::{LockChange, LockLocation},
    owner::{HeldBy, LockToken, Millis, Owner},
    row_state::{RowLease, RowState},
};
use crate::{
    error::Result,
    lock::{
        hold::{background::Caller, clock::Moment},
        queue::TicketChange,
    },
};

/// The outcome of an attempt to take a lock.
#[derive(Debug)]
pub(in crate::lock) enum AttemptOutcome {
    Won(LockClaim),
    /// Another client holds it, or may hold it: the rows that this attempt does not own.
    Lost(Vec<RowState>),
}

impl AttemptOutcome {
    /// Returns the rows as they were read, except those that the attempt itself took and released.
    fn lost(token: LockToken, mut states: Vec<RowState>) -> Self {
        for state in &mut states {
            if state.lease_of(token).is_some() {
                *state = RowState::default();
            }
        }
        Self::Lost(states)
    }
}

/// An attempt of one token to take one lock.
#[derive(Clone, Debug)]
pub(crate) struct LockAttempt {
    pub(in crate::lock) location: LockLocation,
    /// The owner to write to its rows. The token is used for this one attempt.
    pub(in crate::lock) held: HeldBy,
    pub(in crate::lock) ticket: TicketChange,
}

/// An attempt, as one call makes it.
struct StampedAttempt {
    attempt: LockAttempt,
    /// When its first call was sent. Its cells may date from then, whichever call wrote them.
    since: Moment,
    /// The timestamps of its rows, or none if the server sets them.
    stamps: Vec<u64>,
}

impl StampedAttempt {
    fn unstamped(attempt: &LockAttempt) -> Self {
        Self {
            since: attempt.location.now(),
            attempt: attempt.clone(),
            stamps: Vec::new(),
        }
    }

    /// Returns the attempt with timestamps after those of the cells that hide its first call. They
    /// are after that call, but not always after this moment.
    async fn over_hiding_cells(&self, deadline: Instant) -> Result<Self> {
        Ok(Self {
            stamps: self.attempt.location.stamps_over(deadline).await?,
            attempt: self.attempt.written_again(),
            since: self.since,
        })
    }
}

/// The outcome of an attempt, according to the answer to its call.
struct Settled {
    outcome: AttemptOutcome,
    /// It took all rows, but its cells are hidden, or may be overwritten: the rows were released on a
    /// server whose clock is ahead. It must take them again with later timestamps.
    is_too_early: bool,
}

/// Tries to take locks that are in one region, each independently, in one call, and returns the
/// result of another read after that. A lock that was won in part is released. Cells that are
/// hidden by others cost two more calls.
///
/// # Errors
///
/// Returns the errors of the calls. If the outcome is unknown, an attempt's token may hold its
/// lock, or still take it.
pub(in crate::lock) async fn attempt(
    attempts: &[LockAttempt],
    read_after: Option<Get>,
    caller: &Caller,
    deadline: Instant,
) -> Result<(Vec<AttemptOutcome>, Option<Row>)> {
    let first: Vec<StampedAttempt> = attempts.iter().map(StampedAttempt::unstamped).collect();
    let (mut settled, mut row_after) = send(&first, read_after.clone(), caller, deadline).await?;
    let too_early = || {
        settled
            .iter()
            .zip(&first)
            .filter(|(settled, _)| settled.is_too_early)
    };
    if too_early().next().is_some() {
        let stamped = too_early().map(|(_, attempt)| attempt.over_hiding_cells(deadline));
        let again = async { send(&try_join_all(stamped).await?, read_after, caller, deadline).await };
        let (over, seen) = again.await.map_err(|error| error.with_effect(Effect::Unknown))?;
        let too_early = settled.iter_mut().filter(|settled| settled.is_too_early);
        for (settled, over) in too_early.zip(over) {
            *settled = over;
        }
        row_after = seen;
    }
    let outcomes = settled.into_iter().map(|settled| settled.outcome).collect();
    Ok((outcomes, row_after))
}

/// Makes one call for these attempts.
async fn send(
    attempts: &[StampedAttempt],
    read_after: Option<Get>,
    caller: &Caller,
    deadline: Instant,
) -> Result<(Vec<Settled>, Option<Row>)> {
    let locations: Vec<_> = attempts.iter().map(|sent| &sent.attempt.location).collect();
    let actions = attempts
        .iter()
        .flat_map(|sent| sent.attempt.actions(&sent.stamps));
    let change = LockChange {
        operation: "acquiring the lock",
        actions: actions.collect(),
        // An appended owner cell contains the one that it was appended to.
        read_before: attempts.iter().any(|sent| !sent.attempt.location.rows.appended),
        read_after,
        kind: CallKind::Write,
        caller: Some(caller),
        deadline,
        locations: &locations,
    };
    let outcome = change.send().await?;
    let (mut before, mut after, mut processed) = (
        outcome.before.unwrap_or_default().into_iter(),
        outcome.after.into_iter(),
        outcome.processed.into_iter(),
    );
    let settled = attempts.iter().map(|StampedAttempt { attempt, since, .. }| {
        let rows = attempt.location.rows.rows.len();
        let answer = Answer {
            before: before.by_ref().take(rows).collect(),
            after: after.by_ref().take(rows).collect(),
            // After that of the ticket.
            processed: processed
                .by_ref()
                .skip(usize::from(attempt.ticket.write.is_some()))
                .take(rows)
                .collect(),
        };
        attempt.settle(*since, answer, deadline)
    });
    // Rows may have been won before a failure, whatever its own effect.
    let settled = try_join_all(settled)
        .await
        .map_err(|error| error.with_effect(Effect::Unknown))?;
    Ok((settled, outcome.row_after))
}

/// The rows of one attempt in the answer to its call.
struct Answer {
    before: Vec<RowState>,
    after: Vec<RowState>,
    /// Whether the attempt took the row.
    processed: Vec<bool>,
}

impl Answer {
    /// Returns the rows that the attempt itself took. If a row that it did not take has its token,
    /// another process wrote it: one in an image of the same machine, or a copy of the request.
    fn own(&self) -> Vec<RowState> {
        let rows = self.after.iter().zip(&self.processed);
        rows.map(|(state, processed)| {
            if *processed {
                state.clone()
            } else {
                RowState::default()
            }
        })
        .collect()
    }

    /// Returns whether all rows were taken, but one of them does not show that.
    fn is_hidden(&self, token: LockToken) -> bool {
        self.took_all() && self.after.iter().any(|state| state.lease_of(token).is_none())
    }

    /// Returns whether all rows were taken.
    fn took_all(&self) -> bool {
        self.processed.iter().all(|processed| *processed)
    }

    /// Returns whether a row was taken in the millisecond in which it was released through a gateway.
    fn may_be_freed_again(&self, own: &[RowState], token: LockToken) -> bool {
        let mut rows = self.before.iter().zip(own);
        rows.any(|(before, own)| {
            let lease = own.lease_of(token);
            lease.is_some_and(|lease| before.may_be_freed_again(&lease))
        })
    }
}

impl LockAttempt {
    fn actions(&self, stamps: &[u64]) -> Vec<RegionAction> {
        let Self { location, held, .. } = self;
        let takes =
            (0..location.rows.rows.len()).map(|index| location.take(index, held, stamps.get(index).copied()));
        let mut actions: Vec<_> = takes.collect();
        if let Some(RegionAction::Conditional { mutations, .. }) = actions.first_mut() {
            mutations.extend(self.ticket.give_up.clone());
        }
        let write = self.ticket.write.iter().cloned();
        write.chain(actions).collect()
    }

    async fn settle(&self, since: Moment, answer: Answer, deadline: Instant) -> Result<Settled> {
        let token = self.held.token;
        let own = answer.own();
        let may_be_freed_again = answer.may_be_freed_again(&own, token);
        if !may_be_freed_again
            && let Some(claim) = LockClaim::won(&self.held, since, self.location.now(), &own)
        {
            return Ok(Settled {
                outcome: self
                    .location
                    .clear_underneath(claim, &answer.before, deadline)
                    .await?,
                is_too_early: false,
            });
        }
        // Cells that a late release overwrites are deleted: another attempt may get their timestamp too.
        let before = (!may_be_freed_again).then_some(&answer.before[..]);
        self.location
            .give_back_part(token, before, &own, deadline)
            .await?;
        // The server stamps an append after the existing cell, and no delete marker is ahead of it.
        let is_too_early = if may_be_freed_again {
            answer.took_all()
        } else {
            answer.is_hidden(token) && !self.location.rows.appended
        };
        let mut states = answer.after;
        for (state, own) in states.iter_mut().zip(&own) {
            if own.lease_of(token).is_some() {
                *state = RowState::awaited_by(mem::take(&mut state.tickets));
            }
        }
        Ok(Settled {
            outcome: AttemptOutcome::Lost(states),
            is_too_early,
        })
    }

    /// Returns the attempt for another call. No two owner cells of one token are equal.
    fn written_again(&self) -> Self {
        let mut attempt = self.clone();
        attempt.held.renewal += 1;
        attempt
    }
}

impl LockLocation {
    /// Reads the result of a transaction that was sent at `since`.
    ///
    /// # Errors
    ///
    /// Returns the errors of the calls. The transaction may have acquired the lock nevertheless.
    pub(in crate::lock) async fn find_won(
        &self,
        held: &HeldBy,
        since: Moment,
        deadline: Instant,
    ) -> Result<AttemptOutcome> {
        let states = self.read(deadline).await?;
        match LockClaim::won(held, since, self.now(), &states) {
            Some(claim) => self.clear_underneath(claim, &[], deadline).await,
            None => Ok(AttemptOutcome::Lost(states)),
        }
    }

    /// Returns the state of a row before it was taken. An owner cell that was appended, or that
    /// records what was cleared, contains that state; otherwise it is `seen`. `None` if it is
    /// unknown.
    pub(in crate::lock) fn before(&self, row_lease: &RowLease, seen: Option<&RowState>) -> Option<RowState> {
        if self.rows.appended || row_lease.held.over.is_some() {
            Some(row_lease.before())
        } else {
            seen.cloned()
        }
    }

    /// Ensures that no older cell outlives the hold above it: when the hold ends, the lock must be
    /// free.
    ///
    /// A released row keeps its old cells under the cells that mark it free, and these live as
    /// long. A flush may drop the latter from under a hold; if that hold is shorter, the old one
    /// would become visible again when it ends. A flush may also drop the delete marker from under
    /// two holds. So the hold records what was cleared, and its release passes the record on.
    async fn clear_underneath(
        &self,
        mut claim: LockClaim,
        before: &[RowState],
        deadline: Instant,
    ) -> Result<AttemptOutcome> {
        let before: Vec<RowState> = claim
            .row_leases
            .iter()
            .enumerate()
            .map(|(index, row_lease)| self.before(row_lease, before.get(index)).unwrap_or_default())
            .collect();
        let Some(depth) = deepest(&claim.row_leases, &before) else {
            return Ok(AttemptOutcome::Won(claim));
        };
        // Counted from one before the hold's own timestamp: see `RowLease::before`.
        claim.over = Some(Millis(depth.0.saturating_add(1)));
        claim.renewals += 1;
        let mut actions = Vec::with_capacity(claim.row_leases.len());
        for (index, (row_lease, before)) in claim.row_leases.iter().zip(&before).enumerate() {
            let (ttl, mutations) = self.clearing(index, row_lease, before, &claim);
            actions.push(self.if_held(index, row_lease, mutations));
            claim.longest = claim.longest.max(ttl);
        }
        let after = self
            .change("clearing what lies under the lock", actions, deadline)
            .await?;
        if claim.refresh(&after) {
            Ok(AttemptOutcome::Won(claim))
        } else {
            self.give_back_part(claim.token, None, &after, deadline).await?;
            Ok(AttemptOutcome::lost(claim.token, after))
        }
    }

    /// Returns the mutations that clear one row and record how deep it was cleared, and the TTL of
    /// the hold on that row after that.
    fn clearing(
        &self,
        index: usize,
        row_lease: &RowLease,
        before: &RowState,
        claim: &LockClaim,
    ) -> (Millis, Vec<Mutation>) {
        let remains = row_lease.outlived_by(before);
        // A delete would also remove a hold with the same timestamp. In that case the hold lives as
        // long as the cells under it.
        let (ttl, clear) = match remains {
            Some(remains) if remains.timestamp < row_lease.timestamp => {
                (row_lease.held.ttl, Some(self.clear(index, remains.timestamp)))
            }
            Some(_) => (row_lease.depth(before), None),
            None => (row_lease.held.ttl, None),
        };
        let held = HeldBy {
            ttl,
            renewal: claim.renewals,
            over: claim.over,
            ..row_lease.held.clone()
        };
        let mut mutations = vec![self.rewrite(index, row_lease, &Owner::Held(held), ttl)];
        mutations.extend(clear.map(Mutation::from));
        (ttl, mutations)
    }
}

/// Returns how long after its timestamp a cell may live on a row, the maximum over the rows on
/// which this is longer than the hold. `None` if there is no such row.
fn deepest(row_leases: &[RowLease], before: &[RowState]) -> Option<Millis> {
    let rows = row_leases.iter().zip(before);
    rows.filter(|(row_lease, before)| row_lease.outlived_by(before).is_some())
        .map(|(row_lease, before)| row_lease.depth(before))
        .max()
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;
    use crate::{
        Level,
        lock::{
            LockManager,
            manager::two_processes,
            protocol::layout::{Columns, HELD},
        },
    };
    use hbase_client::{Cell, CellKind, Environment as _, Put, SystemEnvironment};
    use hbase_fake::FakeHBase;

    fn state(held: &HeldBy) -> RowState {
        let owner = Owner::Held(held.clone()).encode();
        let cell = |value: &bytes::Bytes| {
            let [row, family, qualifier] = ["r", "D", "q"].map(bytes::Bytes::from);
            Cell::new(row, family, qualifier, 7, CellKind::Put, value.clone())
        };
        let (marker, owner) = (cell(&HELD), cell(&owner));
        RowState::of_cells(Some(&marker), Some(&owner), Some(&marker), Some(&marker))
    }

    #[test]
    fn lock_is_won_only_by_the_call_that_took_all_its_rows() {
        let held = HeldBy {
            token: LockToken::unique(&SystemEnvironment),
            renewal: 0,
            ttl: Millis(1_000),
            lease: Millis(1_000),
            holder: "holder".into(),
            over: None,
        };
        let answer = |processed: [bool; 2]| Answer {
            before: vec![RowState::default(); 2],
            after: vec![state(&held); 2],
            processed: processed.into(),
        };
        let now = Moment::now(&SystemEnvironment);
        let won = |answer: &Answer| LockClaim::won(&held, now, now, &answer.own()).is_some();
        let all = answer([true, true]);
        assert!(won(&all) && !all.is_hidden(held.token));
        // A token in a row that the call did not take, on a machine that was restored from the same
        // image, is not the call's own.
        for processed in [[false, false], [false, true], [true, false]] {
            let answer = answer(processed);
            assert!(!won(&answer) && !answer.is_hidden(held.token));
            let given_back = answer
                .own()
                .iter()
                .map(|state| state.lease_of(held.token).is_some())
                .collect::<Vec<_>>();
            assert_eq!(given_back, processed);
        }
        let hidden = Answer {
            after: vec![state(&held), RowState::default()],
            ..answer([true, true])
        };
        assert!(!won(&hidden) && hidden.is_hidden(held.token));
    }

    /// A lock gets the timestamp of a release through a gateway, and then a copy of the release comes.
    #[test]
    fn late_copy_of_a_release_through_a_gateway_frees_no_later_hold() {
        FakeHBase::run(async |hbase| {
            let [locks, others] = two_processes(hbase).await?;
            let request = |locks: &LockManager| locks.lock(Level::Dc, "lock");
            let location = request(&locks)?.location;
            let at = Millis::floor(hbase.environment().wall_clock().duration_since(UNIX_EPOCH)?);
            let release = async || {
                let free = Owner::FreedUnconditionally { ttl: Millis(60_000) }.encode();
                for (index, row) in location.rows.rows.iter().enumerate() {
                    let Columns { marker, owner, .. } = location.rows.columns(index);
                    let put = Put::new(row.clone())
                        .cell_at(location.rows.family.clone(), marker.clone(), at.0, "")
                        .cell_at(location.rows.family.clone(), owner.clone(), at.0, free.clone());
                    location.table.put(put).await?;
                }
                Ok::<_, hbase_client::Error>(())
            };
            for _ in 0..3 {
                release().await?;
                let held = request(&locks)?.acquire().await?;
                let now = hbase.environment().wall_clock().duration_since(UNIX_EPOCH)?;
                assert_eq!(Millis::floor(now), at, "not the millisecond of the release");
                release().await?;
                assert!(request(&others)?.try_acquire().await?.is_none());
                assert!(held.release().await?.is_released());
            }
            Ok(())
        });
    }
}
