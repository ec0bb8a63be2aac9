//! What one token has of a lock, and how it knows when that is over.
//!
//! Every change of a hold is made under the condition that the owner cell is, to the byte, what was last seen, and writes
//! one that was never there before. So a change that comes late changes nothing.

use std::time::Duration;

use super::{
    clock::Moment,
    owner::{HeldBy, LockToken, Millis},
    sight::{Grip, Occupant, Sight},
    state::{LockHolder, LockLoss},
};
use crate::error::{Error, ErrorKind};

/// How often a change is tried that is refused because the lock was changed meanwhile.
pub(crate) const TRIES: usize = 5;

/// What one token has of a lock.
#[derive(Clone, Debug)]
pub(super) struct Hold {
    pub(super) token: LockToken,
    pub(super) holder: String,
    /// What the hold was appended to, or what was cleared from under it.
    pub(super) over: Option<Millis>,
    /// When the attempt that took it was sent: no lease began before.
    pub(super) since: Moment,
    /// One for each row, in their order.
    pub(super) grips: Vec<Grip>,
    pub(super) fencing: u64,
    /// The fencing cell's timestamp when it was last seen; renewals count it on.
    pub(super) last_fencing: u64,
    pub(super) renewals: u64,
    /// The longest cell TTL that was sent, whether or not it arrived.
    pub(super) longest: Millis,
}

impl Hold {
    /// The hold of a token that has all rows, and can say its fencing number.
    pub(super) fn won(held: &HeldBy, since: Moment, sights: &[Sight]) -> Option<Self> {
        let grips: Option<Vec<Grip>> = sights.iter().map(|sight| sight.grip(held.token)).collect();
        let first = sights.first()?;
        Some(Self {
            fencing: first.number?,
            ..Self::of(held.token, grips?, since, first.fencing?)
        })
    }

    pub(super) fn of(token: LockToken, grips: Vec<Grip>, since: Moment, fencing: u64) -> Self {
        let most = |of: fn(&HeldBy) -> u64| grips.iter().map(|grip| of(&grip.held)).max().unwrap_or_default();
        Self {
            token,
            holder: grips
                .first()
                .map(|grip| grip.held.holder.clone())
                .unwrap_or_default(),
            over: grips.first().and_then(|grip| grip.held.over),
            since,
            fencing,
            last_fencing: fencing,
            renewals: most(|held| held.renewal),
            longest: Millis(most(|held| held.ttl.0)),
            grips,
        }
    }

    /// Whether the longest lease that was sent for it is over.
    pub(super) fn is_over(&self) -> bool {
        self.since.elapsed() >= self.longest.into()
    }

    /// Takes over what is seen of it now. False when a row is no longer held.
    pub(super) fn look_again(&mut self, sights: &[Sight]) -> bool {
        let mut whole = true;
        for (grip, sight) in self.grips.iter_mut().zip(sights) {
            match sight.grip(self.token) {
                Some(seen) => {
                    // Somebody else with the token may have renewed it for longer.
                    self.longest = self.longest.max(seen.held.ttl);
                    self.renewals = self.renewals.max(seen.held.renewal);
                    *grip = seen;
                }
                None => whole = false,
            }
        }
        if let Some(fencing) = sights.first().and_then(|sight| sight.fencing) {
            self.last_fencing = fencing;
        }
        whole
    }

    /// Until when it is held by a renewal that was sent then. Sooner than the lease says, when the answer shows that the server
    /// counts from earlier: its clock was set forward, or the region is on one that is ahead.
    pub(super) fn renewed_until(&self, sent: Moment, lease: Duration, fencing_before: u64) -> Moment {
        sent.after(lease.min(self.left_on_server(fencing_before)))
    }

    /// How long the server will keep it from when it stamped the fencing cell.
    fn left_on_server(&self, fencing_before: u64) -> Duration {
        // One more than it was: the cell may be ahead of the server's clock, and then says nothing of the time.
        if self.last_fencing <= fencing_before + 1 {
            return Duration::MAX;
        }
        let end = self.grips.iter().map(Grip::end).min().unwrap_or_default();
        Duration::from_millis(end.saturating_sub(self.last_fencing))
    }
}

/// Why a token does not hold a lock any more, by what is in its place, and whether its lease is over.
pub(crate) fn loss(token: LockToken, is_over: bool, sights: &[Sight]) -> LockLoss {
    let other = sights.iter().find_map(|sight| match sight.occupant() {
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
        format!("the lock was changed by somebody else each time it was {done}"),
    )
    .with_retryable(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_renewal_that_shows_the_servers_clock_ahead_lasts_that_much_shorter() {
        const LEASE: Duration = Duration::from_secs(10);
        let token = LockToken::unique();
        let (acquired, first_fencing) = (1_000_000, 1_000_005);
        let held = HeldBy {
            token,
            renewal: 1,
            // Renewed 4 s after it was acquired.
            ttl: Millis(14_000),
            holder: "somebody".into(),
            over: None,
        };
        let grip = Grip {
            timestamp: acquired,
            value: held.beginning(),
            held,
        };
        let mut hold = Hold::of(token, vec![grip], Moment::now(), first_fencing);
        let sent = Moment::now();
        let mut lasts = |fencing: u64| {
            hold.last_fencing = fencing;
            hold.renewed_until(sent, LEASE, first_fencing)
        };
        // As this side thought.
        assert_eq!(lasts(acquired + 4_000), sent.after(LEASE));
        // The server's clock went on by 11 s meanwhile: it ends the lease 3 s after it stamped this.
        assert_eq!(lasts(acquired + 11_000), sent.after(Duration::from_secs(3)));
        // By its clock the lease is over.
        assert_eq!(lasts(acquired + 20_000), sent);
        // One more than it was says nothing of the time.
        assert_eq!(lasts(first_fencing + 1), sent.after(LEASE));
    }
}
