//! Release of a lock, whole or in part, and its revocation.

use std::time::Duration;

use hbase_client::{
    BytesBinary, Mutation,
    low_level::{CallKind, RegionAction},
};
use tokio::time::{Instant, sleep};

use super::{
    claim::{self, AGAIN, LockClaim, TRIES},
    location::{LockChange, LockLocation},
    owner::{LockToken, Millis, Owner},
    row_state::{Occupant, RowLease, RowState},
};
use crate::{
    error::{Error, Result, unknown_if},
    lock::state::{LockHolder, NAMELESS, ReleaseOutcome},
};

/// A hold is deleted on release, not overwritten, if more than this is left of its lease.
/// Overwriting cells live as long as the lease would have, and a Java client's lease written over
/// them may be shorter (its default is 90 s).
pub(crate) const LONG_REST: Duration = Duration::from_secs(90);

/// The hint when an answer was lost.
const CHECK_HOLDER: &str = "read the present holder before you revoke it again";

/// The pause before a release whose answer was lost is sent again.
const RESEND: Duration = Duration::from_millis(20);

/// The context of a release that found a row changed.
#[derive(Clone, Copy, Debug)]
struct ReleaseContext {
    /// No client acquired or revoked the lock since it was last read.
    is_untouched: bool,
    /// The release was sent before, and the answer was lost.
    is_unanswered: bool,
    /// The lease has expired.
    is_over: bool,
}

impl ReleaseContext {
    /// Returns whether this release released a row itself. The answer may be that to a second copy
    /// of the request, or to a second request that found the row released.
    fn is_given_back(self, row_lease: &RowLease, state: &RowState) -> bool {
        // If no cell marks the row free, a Java client may have deleted it, or it expired.
        let is_deleted = self.is_unanswered && !self.is_over && state.occupant().is_none();
        self.is_untouched && (state.was_given_back(row_lease) || is_deleted)
    }
}

impl LockLocation {
    /// Releases the hold of another process's token.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`vacate`](Self::vacate).
    pub(in crate::lock) async fn release(
        &self,
        token: LockToken,
        deadline: Instant,
    ) -> Result<ReleaseOutcome> {
        match self.resume(token, deadline).await? {
            Ok(claim) => {
                let vacated = self.vacate(&claim, deadline).await;
                vacated.map_err(|error| error.with_hint_if_unknown(AGAIN))
            }
            Err(loss) => Ok(ReleaseOutcome::Lost(loss)),
        }
    }

    /// Releases the lock.
    ///
    /// # Errors
    ///
    /// Returns the errors of the calls. If the outcome is unknown, the lock may still be held until
    /// its lease expires; or an answer was lost and the lock is not held any more, due to that
    /// release or for another reason.
    pub(in crate::lock) async fn vacate(
        &self,
        claim: &LockClaim,
        deadline: Instant,
    ) -> Result<ReleaseOutcome> {
        let mut row_leases: Vec<Option<RowLease>> = claim.row_leases.iter().cloned().map(Some).collect();
        let mut given_back = vec![false; row_leases.len()];
        let mut unanswered: Option<Error> = None;
        let mut tries = 0;
        while tries < TRIES {
            let (actions, indexes) = self.give_back_actions(&row_leases, self.now().since(claim.answered));
            let change = LockChange {
                operation: "releasing the lock",
                caller: None,
                actions,
                read_before: false,
                read_after: None,
                kind: CallKind::Write,
                deadline,
                locations: &[self],
            };
            let outcome = match change.send().await {
                Ok(outcome) => outcome,
                // A second release is harmless: it finds nothing to release. But a client that
                // acquires the lock in between must not be reported as one that revoked it.
                Err(error) if error.is_outcome_unknown() && Instant::now() + RESEND < deadline => {
                    unanswered = Some(error);
                    sleep(RESEND).await;
                    continue;
                }
                // The lost answer is what makes the outcome unknown, not this failure.
                Err(error) => {
                    return Err(unanswered.unwrap_or_else(|| unknown_if(given_back.contains(&true))(error)));
                }
            };
            tries += 1;
            let after = outcome.after;
            let context = ReleaseContext {
                // A client that revokes a lock increments its fencing cell.
                is_untouched: after.first().and_then(|state| state.fencing) == Some(claim.last_fencing),
                is_unanswered: unanswered.is_some(),
                is_over: claim.is_over(self.now()),
            };
            for (index, processed) in indexes.into_iter().zip(outcome.processed) {
                let row_lease = row_leases[index].as_ref();
                given_back[index] = processed
                    || row_lease.is_some_and(|row_lease| context.is_given_back(row_lease, &after[index]));
            }
            row_leases = after.iter().map(|state| state.lease_of(claim.token)).collect();
            if row_leases.iter().all(Option::is_none) {
                let (row, held_for) = (self.rows.lock_row(), self.now().since(claim.since));
                match after.first() {
                    Some(first) if self.rows.has_queue() => {
                        self.releases.record(row, first.tickets.clone(), held_for);
                    }
                    _ => self.releases.record_hold(row, held_for),
                }
                return match (given_back.iter().all(|given_back| *given_back), unanswered) {
                    (true, _) => Ok(ReleaseOutcome::Released),
                    (false, Some(error)) if !claim.is_over(self.now()) => Err(error),
                    (false, _) => {
                        let loss = claim::loss(claim.token, claim.is_over(self.now()), &after);
                        Ok(ReleaseOutcome::Lost(loss))
                    }
                };
            }
            // The hold was renewed meanwhile.
        }
        Err(claim::changed_meanwhile("released"))
    }

    /// Returns the action that takes one row from a holder, if it still holds it.
    fn evict_action(&self, index: usize, holder: &Occupant, state: &RowState) -> Option<RegionAction> {
        if let Occupant::Ours { held, .. } = holder
            && let Some(row_lease) = state.lease_of(held.token)
        {
            let mut mutations = self.giving_up_over(index, &row_lease, None);
            // The count tells the holder that this was not its own release.
            mutations.extend(self.count(index));
            return Some(self.if_held(index, &row_lease, mutations));
        }
        // The holder's client writes no owner. A delete would hide the next holder until the
        // servers' clocks have passed a timestamp that is ahead of them. The marker's lifetime is
        // unknown, so the empty cell over it has no TTL.
        let (timestamp, marker) = state.marker_of(holder)?;
        Some(self.if_marked(index, marker, vec![self.blank(index, timestamp)]))
    }

    /// Releases the rows that the token holds. `before` are the rows before the attempt. Returns
    /// whether the token holds none after that: a late request of its own may have changed a row
    /// since the row was read.
    pub(in crate::lock) async fn give_back_part(
        &self,
        token: LockToken,
        before: Option<&[RowState]>,
        states: &[RowState],
        deadline: Instant,
    ) -> Result<bool> {
        let actions: Vec<RegionAction> = states
            .iter()
            .enumerate()
            .rev()
            .filter_map(|(index, state)| {
                let before = before.and_then(|before| before.get(index));
                if let Some(row_lease) = state.hidden(token) {
                    return self.restore_action(index, &row_lease, before?);
                }
                let row_lease = state.lease_of(token)?;
                let mutations = self.giving_up_over(index, &row_lease, before);
                Some(self.if_held(index, &row_lease, mutations))
            })
            .collect();
        if actions.is_empty() {
            return Ok(true);
        }
        let after = self
            .change("releasing a part of the lock", actions, deadline)
            .await?;
        Ok(after.iter().all(|state| state.lease_of(token).is_none()))
    }

    /// Returns the action that restores the record of remaining cells if a hidden hold overwrote
    /// it.
    fn restore_action(&self, index: usize, row_lease: &RowLease, before: &RowState) -> Option<RegionAction> {
        row_lease.outlived_by(before)?;
        let mark_free = self.mark_free(index, row_lease, row_lease.depth(before));
        Some(self.if_held(index, row_lease, vec![mark_free]))
    }

    /// Returns the actions that release the held rows, the last row first, and the indexes of these
    /// rows.
    fn give_back_actions(
        &self,
        row_leases: &[Option<RowLease>],
        age: Duration,
    ) -> (Vec<RegionAction>, Vec<usize>) {
        row_leases
            .iter()
            .enumerate()
            .rev()
            .filter_map(|(index, row_lease)| {
                let row_lease = row_lease.as_ref()?;
                Some((
                    self.give_back_action(index, row_lease, row_lease.whole_depth(), age),
                    index,
                ))
            })
            .unzip()
    }

    /// Returns the action that releases one row. The hold is at least of this age, and no cell under it
    /// lives longer than `ttl` after its timestamp.
    fn give_back_action(
        &self,
        index: usize,
        row_lease: &RowLease,
        ttl: Millis,
        age: Duration,
    ) -> RegionAction {
        self.if_held(index, row_lease, self.giving_up(index, row_lease, ttl, age))
    }

    fn giving_up(&self, index: usize, row_lease: &RowLease, ttl: Millis, age: Duration) -> Vec<Mutation> {
        let is_long = Duration::from(ttl).saturating_sub(age) > LONG_REST;
        if is_long && !self.rows.appended {
            // A flush may drop the delete marker from under two later holds, so the owner cell
            // keeps the record.
            vec![
                self.clear(index, row_lease.timestamp).into(),
                self.mark_free(index, row_lease, ttl),
            ]
        } else {
            // Uses the marker's own timestamp, so that it does not hide a client with a slower
            // clock, and lives as long as any cell under it.
            vec![self.giving_back(index, row_lease, ttl)]
        }
    }

    /// Returns the mutations that release a row. `before` is the row before it was taken, or `None`
    /// if that is unknown.
    fn giving_up_over(&self, index: usize, row_lease: &RowLease, before: Option<&RowState>) -> Vec<Mutation> {
        match self.before(row_lease, before) {
            Some(before) => self.giving_up(index, row_lease, row_lease.depth(&before), Duration::ZERO),
            // It is unknown how long the cells under it live.
            None => vec![self.wipe(index, row_lease).into()],
        }
    }

    /// Returns the mutation that overwrites a hold. No cell under it lives longer than `ttl` after
    /// its timestamp.
    pub(in crate::lock) fn giving_back(&self, index: usize, row_lease: &RowLease, ttl: Millis) -> Mutation {
        self.rewrite(index, row_lease, &Owner::Free { ttl }, ttl)
    }

    /// Revokes the lock, or only the hold of this token, and logs that. Returns `None` if there was
    /// no such holder, or if its hold ended otherwise meanwhile.
    pub(in crate::lock) async fn evict(
        &self,
        name: &str,
        only: Option<LockToken>,
        deadline: Instant,
    ) -> Result<Option<LockHolder>> {
        let mut states = self.read(deadline).await?;
        let is_meant = |holder: &Occupant| only.is_none() || holder.token() == only;
        let holders: Vec<_> = states
            .iter()
            .map(|state| state.occupant().filter(is_meant))
            .collect();
        let Some(hit) = holders.iter().flatten().next().cloned().map(LockHolder::of) else {
            return Ok(None);
        };
        let mut is_evicted = false;
        for _ in 0..TRIES {
            let actions: Vec<_> = (0..holders.len())
                .rev()
                .filter_map(|index| self.evict_action(index, holders[index].as_ref()?, &states[index]))
                .collect();
            if actions.is_empty() {
                return Ok(is_evicted.then_some(hit));
            }
            let change = LockChange {
                operation: "revoking the lock",
                caller: None,
                actions,
                read_before: false,
                read_after: None,
                kind: CallKind::Write,
                deadline,
                locations: &[self],
            };
            let outcome = change.send().await.map_err(unknown_if(is_evicted));
            let outcome = outcome.map_err(|error| {
                if error.is_outcome_unknown() {
                    self.log_eviction(name, &hit, "the answer to a forced release was lost");
                }
                error.with_hint_if_unknown(CHECK_HOLDER)
            })?;
            if !is_evicted && outcome.processed.contains(&true) {
                is_evicted = true;
                self.log_eviction(name, &hit, "released by force");
            }
            states = outcome.after;
        }
        Err(claim::changed_meanwhile("revoked"))
    }

    fn log_eviction(&self, name: &str, holder: &LockHolder, what: &str) {
        tracing::warn!(
            table = %self.table.name(),
            lock = %BytesBinary(name.as_bytes()),
            holder = holder.name.as_deref().unwrap_or(NAMELESS),
            token = holder.token.map(tracing::field::display),
            "{what}"
        );
    }
}
