//! The state of a lock for callers: its holder, and how a hold ended.

use std::{
    fmt,
    time::{Duration, SystemTime},
};

use super::{
    name::LockName,
    protocol::{
        owner::LockToken,
        row_state::{Occupant, RowState},
    },
};
use crate::observe::LOCK_LOSSES;

/// The displayed name of a holder without one.
pub(super) const NAMELESS: &str = "a client that leaves no name";

/// The holder of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockHolder {
    /// The name that the holder specified. `None` if its client writes none, as Java clients do.
    pub name: Option<String>,
    /// The holder's token. `None` if its client writes none, as Java clients do.
    pub token: Option<LockToken>,
    /// When the lock was acquired, by the region server's clock; by the client's own clock for a
    /// Java client.
    pub since: SystemTime,
    /// How long the server keeps the lock from `since`; renewals extend it. `None` if the client
    /// does not record it.
    pub lease: Option<Duration>,
}

/// The state of a lock at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockInfo {
    /// Its name. `None` for a lock in a partition, and for a key that is not a valid name, such as
    /// another program's key with too few `#`.
    pub name: Option<LockName>,
    /// Its key without the leading byte of the row, in the notation of HBase's shell for bytes;
    /// prefix and id with a `#` between them for a lock in a partition.
    pub key: String,
    /// Its holder; `None` if it is free.
    pub holder: Option<LockHolder>,
    /// The number of processes that wait for it, up to 64. Java clients and locks in partitions do not
    /// say that they wait.
    pub waiting: usize,
    /// The last fencing number, while it is kept; renewals raise it too. `None` in a list.
    pub fencing: Option<i64>,
    /// Whether the rows of the lock disagree: a client that writes no owner deleted or took the
    /// lock row while a client that does held the lock.
    pub rows_disagree: bool,
}

/// The reason why a hold of a lock ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LockLoss {
    /// The lease expired.
    Expired,
    /// It was revoked before its lease expired: by a Java client's release, or by force.
    Removed,
    /// Another client holds the lock.
    Taken(LockHolder),
    /// A transaction released the lock.
    Released,
    /// A transaction that releases the lock was sent, and its answer was lost: the lock may still
    /// be held.
    Unknown,
    /// Its [session](super::Session) ended: another hold of it was lost, or it was closed.
    SessionEnded,
}

/// The outcome of a release.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use = "a lock that was lost before it was released did not protect what was done under it"]
pub enum ReleaseOutcome {
    /// The lock was held until now, and is free.
    Released,
    /// The lock was not held any more.
    Lost(LockLoss),
}

impl ReleaseOutcome {
    /// Returns whether the lock was held until it was released.
    #[must_use]
    pub fn is_released(&self) -> bool {
        matches!(self, Self::Released)
    }
}

impl LockLoss {
    /// Reports the loss of a lock that a guard held. A release by a transaction is none.
    pub(super) fn report(&self) {
        let reason = match self {
            Self::Expired => "expired",
            Self::Removed => "removed",
            Self::Taken(_) => "taken",
            Self::Unknown => "unknown",
            Self::Released | Self::SessionEnded => return,
        };
        LOCK_LOSSES.count(|| [reason]);
    }
}

/// Returns the reason why a lock with these rows is not available at a time of the wall clock.
/// `None` if it is free.
pub(crate) fn refusal(states: &[RowState], now: SystemTime) -> Option<String> {
    let occupant = states.iter().find_map(RowState::occupant)?;
    Some(format!("it is held by {}", LockHolder::of(occupant).at(now)))
}

impl LockHolder {
    pub(crate) fn of(occupant: Occupant) -> Self {
        match occupant {
            Occupant::Ours { since, held } => Self {
                name: Some(held.holder),
                token: Some(held.token),
                since: time_of(since),
                lease: Some(held.ttl.into()),
            },
            Occupant::Foreign { since, .. } => Self {
                name: None,
                token: None,
                since: time_of(since),
                lease: None,
            },
        }
    }

    /// Returns the remaining lease by this machine's wall clock, and as accurate as that clock.
    /// `None` if the holder's client does not record its lease.
    #[must_use]
    pub fn remaining(&self) -> Option<Duration> {
        self.remaining_at(SystemTime::now())
    }

    /// Returns the remaining lease at a time of the wall clock. `None` if the holder's client does
    /// not record its lease.
    #[must_use]
    pub fn remaining_at(&self, now: SystemTime) -> Option<Duration> {
        let end = self.since.checked_add(self.lease?)?;
        Some(end.duration_since(now).unwrap_or_default())
    }

    /// Returns how long the lock has been held, by this machine's wall clock and as accurate as
    /// that clock.
    #[must_use]
    pub fn age(&self) -> Duration {
        self.age_at(SystemTime::now())
    }

    /// Returns how long the lock had been held at a time of the wall clock.
    #[must_use]
    pub fn age_at(&self, now: SystemTime) -> Duration {
        now.duration_since(self.since).unwrap_or_default()
    }

    /// Returns the holder with its age and remaining lease at this time, for messages.
    pub(crate) fn at(&self, now: SystemTime) -> AtTime<'_, Self> {
        AtTime { what: self, now }
    }
}

impl LockInfo {
    /// Creates the info from the states of the rows, in their order. The first row decides among
    /// clients of this library.
    pub(crate) fn of(name: Option<LockName>, key: String, states: &[RowState]) -> Self {
        let occupants: Vec<_> = states.iter().map(RowState::occupant).collect();
        let token = |occupant: &Option<Occupant>| occupant.as_ref().and_then(Occupant::token);
        let rows_disagree = occupants
            .windows(2)
            .any(|pair| pair[0].is_some() && token(&pair[0]) != token(&pair[1]));
        Self {
            name,
            key,
            holder: occupants.into_iter().flatten().next().map(LockHolder::of),
            waiting: states.first().map_or(0, |state| state.tickets.len()),
            fencing: states.first().and_then(|state| state.number),
            rows_disagree,
        }
    }
}

fn time_of(timestamp: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH
        .checked_add(Duration::from_millis(timestamp))
        .unwrap_or(SystemTime::UNIX_EPOCH)
}

impl LockLoss {
    /// Returns the loss for a guard that knew of another one before the rows showed this.
    ///
    /// Rows show the present holder. If there is none, they do not show when the hold ended: a renewal
    /// whose answer was lost, or that was refused, may or may not have prolonged the lease.
    pub(crate) fn after(self, known: Option<Self>) -> Self {
        match (known, self) {
            // It is unknown whether the transaction released it before another client acquired it.
            (Some(Self::Unknown), _) => Self::Unknown,
            (Some(known), Self::Expired | Self::Removed) => known,
            (_, loss) => loss,
        }
    }

    /// Returns the loss with the times of the other holder at this time, for messages.
    pub(crate) fn at(&self, now: SystemTime) -> AtTime<'_, Self> {
        AtTime { what: self, now }
    }
}

/// A holder or a loss, displayed as of a time of the wall clock.
pub(crate) struct AtTime<'a, T> {
    what: &'a T,
    now: SystemTime,
}

impl fmt::Display for AtTime<'_, LockHolder> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.what.name {
            // The name comes from another process, so control characters are escaped.
            Some(name) => write!(f, "{}", name.escape_debug())?,
            None => f.write_str(NAMELESS)?,
        }
        match self.what.remaining_at(self.now) {
            Some(left) => write!(f, ", {} left", rounded(left)),
            None => write!(f, ", for {}", rounded(self.what.age_at(self.now))),
        }
    }
}

/// Formats a duration for people: `108 ms`, `59.9 s`, `4.5 min`.
fn rounded(duration: Duration) -> String {
    /// A unit in seconds. It is used from two of the larger unit on.
    const UNITS: [(&str, f64); 3] = [("d", 86_400.0), ("h", 3_600.0), ("min", 60.0)];
    let seconds = duration.as_secs_f64();
    if seconds < 1.0 {
        return format!("{} ms", duration.as_millis());
    }
    let larger = UNITS.iter().find(|(_, unit)| seconds >= 2.0 * unit);
    let (name, unit) = larger.unwrap_or(&("s", 1.0));
    format!("{:.1} {name}", seconds / unit)
}

impl fmt::Display for LockHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.at(SystemTime::now()).fmt(f)
    }
}

impl fmt::Display for AtTime<'_, LockLoss> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.what {
            LockLoss::Expired => f.write_str("its lease expired"),
            LockLoss::Removed => f.write_str("it was revoked before its lease expired"),
            LockLoss::Taken(holder) => write!(f, "it was taken by {}", holder.at(self.now)),
            LockLoss::Released => f.write_str("a transaction released it"),
            LockLoss::Unknown => {
                f.write_str("a transaction that releases it was sent, and its outcome is unknown")
            }
            LockLoss::SessionEnded => f.write_str("its session has ended"),
        }
    }
}

impl std::error::Error for LockLoss {}

impl fmt::Display for LockLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.at(SystemTime::now()).fmt(f)
    }
}

impl fmt::Display for ReleaseOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Released => f.write_str("released"),
            Self::Lost(loss) => write!(f, "no longer held: {loss}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(0, "0 ms")]
    #[case(108, "108 ms")]
    #[case(59_891, "59.9 s")]
    #[case(119_000, "119.0 s")]
    #[case(270_000, "4.5 min")]
    #[case(86_400_000, "24.0 h")]
    #[case(2_592_000_000, "30.0 d")]
    fn durations_are_rounded_for_people(#[case] milliseconds: u64, #[case] text: &str) {
        assert_eq!(rounded(Duration::from_millis(milliseconds)), text);
    }
}
