//! The hold of one token on a lock, and its end.
//!
//! Every change of a hold has the condition that the owner cell is byte for byte as it was last
//! read, and writes a value that was never there before. So a delayed change has no effect.

use std::time::Duration;

use super::{
    owner::{HeldBy, LockToken, Millis},
    row_state::{Occupant, RowLease, RowState},
};
use crate::{
    error::{ClientErrorKind, Error, ErrorKind, Result},
    lock::{
        hold::{
            clock::Moment,
            lease::{MAX_LEASE, MIN_LEASE},
        },
        queue::ticket::Ticket,
        state::{LockHolder, LockLoss},
    },
};

/// How often a change is tried if other changes of the lock prevent it.
pub(crate) const TRIES: usize = 5;
/// The hint when an answer was lost.
pub(super) const AGAIN: &str = "repeat the call: it changes only this hold";

/// The hold of one token on a lock.
#[derive(Clone, Debug)]
pub(in crate::lock) struct LockClaim {
    pub(in crate::lock) token: LockToken,
    pub(in crate::lock) holder: String,
    /// The TTL of earlier cells that the hold was appended to, or that were cleared from under it.
    pub(in crate::lock) over: Option<Millis>,
    /// When the attempt that took it was sent. The server counts no lease from earlier.
    pub(in crate::lock) since: Moment,
    /// When an answer first showed it. The server counts no lease of the attempt from later.
    pub(in crate::lock) answered: Moment,
    /// One for each row, in order.
    pub(in crate::lock) row_leases: Vec<RowLease>,
    pub(in crate::lock) fencing: i64,
    /// The fencing cell's timestamp when it was last read; renewals increment the cell.
    pub(super) last_fencing: u64,
    pub(in crate::lock) renewals: u64,
    /// The longest cell TTL that was sent, whether or not it was applied.
    pub(in crate::lock) longest: Millis,
    /// The processes that were waiting when the lock was won.
    pub(in crate::lock) awaited_by: Vec<Ticket>,
}

impl LockClaim {
    /// Returns the hold of a token that has all rows and a fencing number.
    pub(in crate::lock) fn won(
        held: &HeldBy,
        since: Moment,
        answered: Moment,
        states: &[RowState],
    ) -> Option<Self> {
        let row_leases: Option<Vec<RowLease>> =
            states.iter().map(|state| state.lease_of(held.token)).collect();
        let first = states.first()?;
        Some(Self {
            answered,
            awaited_by: first.tickets.clone(),
            ..Self::of(held.token, row_leases?, since, first.number?, first.fencing?)
        })
    }

    pub(in crate::lock) fn of(
        token: LockToken,
        row_leases: Vec<RowLease>,
        since: Moment,
        fencing: i64,
        last_fencing: u64,
    ) -> Self {
        let most = |of: fn(&HeldBy) -> u64| {
            row_leases
                .iter()
                .map(|row_lease| of(&row_lease.held))
                .max()
                .unwrap_or_default()
        };
        Self {
            token,
            holder: row_leases
                .first()
                .map(|row_lease| row_lease.held.holder.clone())
                .unwrap_or_default(),
            over: row_leases.first().and_then(|row_lease| row_lease.held.over),
            since,
            answered: since,
            fencing,
            last_fencing,
            renewals: most(|held| held.renewal),
            longest: Millis(most(|held| held.ttl.0)),
            awaited_by: Vec::new(),
            row_leases,
        }
    }

    /// Returns the lease of the request or of the last renewal.
    pub(super) fn own_lease(&self) -> Duration {
        let lease = self.row_leases.first().map(|row_lease| row_lease.held.lease);
        // Another program may have written the cell.
        Duration::from(lease.unwrap_or_default()).clamp(MIN_LEASE, MAX_LEASE)
    }

    /// Returns when the server ends the hold unless it is renewed: the earliest end of its rows.
    pub(in crate::lock) fn end(&self) -> Moment {
        let lease = self.row_leases.iter().map(|row_lease| row_lease.held.ttl).min();
        self.since.after(lease.unwrap_or_default().into())
    }

    /// Returns whether the longest lease that was sent for it has expired.
    pub(in crate::lock) fn is_over(&self, now: Moment) -> bool {
        now.since(self.since) >= self.longest.into()
    }

    /// Returns until when the server may keep the longest lease that was sent. That is later than
    /// this process counts it if the attempt waited for its region to be served.
    pub(in crate::lock) fn latest_end(&self) -> Moment {
        self.answered.after(self.longest.into())
    }

    /// Updates the hold from the rows as they were read. Returns false if a row is no longer held.
    pub(in crate::lock) fn refresh(&mut self, states: &[RowState]) -> bool {
        let mut whole = true;
        for (row_lease, state) in self.row_leases.iter_mut().zip(states) {
            match state.lease_of(self.token) {
                Some(seen) => {
                    // Another process with the token may have renewed it for longer.
                    self.longest = self.longest.max(seen.held.ttl);
                    self.renewals = self.renewals.max(seen.held.renewal);
                    *row_lease = seen;
                }
                None => whole = false,
            }
        }
        if let Some(fencing) = states.first().and_then(|state| state.fencing) {
            self.last_fencing = fencing;
        }
        whole
    }

    /// Returns until when a renewal that was sent at `sent` holds the lock. That is sooner than the
    /// lease if the answer shows that the server counts from an earlier time: its clock was set
    /// forward, or the region moved to a server whose clock is ahead.
    pub(super) fn renewed_until(&self, sent: Moment, lease: Duration, fencing_before: u64) -> Moment {
        sent.after(lease.min(self.left_on_server(fencing_before)))
    }

    /// Returns how long the server will keep the lock after it stamped the fencing cell.
    fn left_on_server(&self, fencing_before: u64) -> Duration {
        // A timestamp that is one more than before may be ahead of the server's clock, and so does
        // not show the time.
        if self.last_fencing <= fencing_before.saturating_add(1) {
            return Duration::MAX;
        }
        let end = self
            .row_leases
            .iter()
            .map(RowLease::end)
            .min()
            .unwrap_or_default();
        Duration::from_millis(end.saturating_sub(self.last_fencing))
    }
}

/// Returns the count of the next renewal. No two values of one token may be equal.
pub(crate) fn next_renewal(renewal: u64) -> Result<u64> {
    renewal.checked_add(1).ok_or_else(|| {
        Error::new(
            ClientErrorKind::Protocol,
            "the number of renewals in the lock's owner cell is at its maximum",
        )
        .with_hint("release the lock, or revoke it")
    })
}

/// Returns why a token does not hold a lock any more, from the current rows and whether its lease
/// has expired.
pub(crate) fn loss(token: LockToken, is_over: bool, states: &[RowState]) -> LockLoss {
    let other = states.iter().find_map(|state| match state.occupant() {
        Some(Occupant::Ours { held, .. }) if held.token == token => None,
        other => other,
    });
    match other {
        Some(occupant) => LockLoss::Taken(LockHolder::of(occupant)),
        None if is_over => LockLoss::Expired,
        None => LockLoss::Removed,
    }
}

pub(crate) fn changed_meanwhile(done: &str) -> Error {
    Error::new(
        ErrorKind::Conflict,
        format!("another client changed the lock each time it was to be {done}"),
    )
    .with_retryable(true)
}

#[cfg(test)]
mod tests {
    use hbase_client::SystemEnvironment;

    use super::*;

    #[test]
    fn renewal_is_shorter_by_a_server_clock_that_is_ahead() {
        const LEASE: Duration = Duration::from_secs(10);
        let token = LockToken::unique(&SystemEnvironment);
        let (acquired, first_fencing) = (1_000_000, 1_000_005);
        let held = HeldBy {
            token,
            renewal: 1,
            // Renewed 4 s after it was acquired.
            ttl: Millis(14_000),
            lease: Millis(10_000),
            holder: "holder".into(),
            over: None,
        };
        let row_lease = RowLease {
            timestamp: acquired,
            value: held.beginning(),
            held,
        };
        let mut claim = LockClaim::of(
            token,
            vec![row_lease],
            Moment::now(&SystemEnvironment),
            1,
            first_fencing,
        );
        let sent = Moment::now(&SystemEnvironment);
        let mut lasts = |fencing: u64| {
            claim.last_fencing = fencing;
            claim.renewed_until(sent, LEASE, first_fencing)
        };
        // As this process assumed.
        assert_eq!(lasts(acquired + 4_000), sent.after(LEASE));
        // The server's clock went forward by 11 s meanwhile: the lease ends 3 s after this
        // timestamp.
        assert_eq!(lasts(acquired + 11_000), sent.after(Duration::from_secs(3)));
        // The lease has expired by the server's clock.
        assert_eq!(lasts(acquired + 20_000), sent);
        // One more than before does not show the time.
        assert_eq!(lasts(first_fencing + 1), sent.after(LEASE));
        assert_eq!(claim.renewed_until(sent, LEASE, u64::MAX), sent.after(LEASE));
    }

    #[test]
    fn counter_of_renewals_that_is_at_its_end_is_an_error() {
        assert_eq!(next_renewal(7).unwrap(), 8);
        assert_eq!(
            next_renewal(u64::MAX).unwrap_err().kind(),
            ClientErrorKind::Protocol
        );
    }
}
