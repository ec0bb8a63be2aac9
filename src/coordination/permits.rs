//! Requests for permits of a semaphore.

use std::fmt;

use super::{
    contest::{Contender, Contest, ContestOutcome, compete, lease_options, wait_option},
    semaphore::Semaphore,
};
use crate::{
    error::{Error, ErrorKind, Result},
    lock::{Demand, LockGuard, LockRequest, SlotsSeen},
};

/// A request for permits.
#[derive(Clone)]
#[must_use = "a request does nothing until acquire is called"]
pub struct PermitRequest {
    semaphore: Semaphore,
    request: LockRequest,
    count: u32,
}

impl PermitRequest {
    pub(super) fn new(semaphore: Semaphore, request: LockRequest, count: u32) -> Self {
        Self {
            semaphore,
            request,
            count,
        }
    }

    lease_options!();
    wait_option!();

    /// Renews the lease in the background as long as the guard lives, each time a third of it has
    /// passed.
    pub fn auto_renew(mut self) -> Self {
        self.request = self.request.auto_renew();
        self
    }

    /// Acquires the permits. The [fencing number](LockGuard::fencing) of the guard is higher than
    /// that of every permit of this semaphore that was granted before this request.
    ///
    /// Requests that wait are served in about the order in which they began to wait. The waiting tasks of one
    /// process queue up in their order, and only the first of them polls the server. An attempt that does not
    /// wait may pass by those that do.
    ///
    /// # Errors
    ///
    /// - [`LockUnavailable`](ErrorKind::LockUnavailable) if there were not enough free permits
    ///   until the wait was over;
    /// - [`InvalidInput`](crate::ClientErrorKind::InvalidInput) for zero permits, for more permits
    ///   than the semaphore has, and for a lease out of range;
    /// - [`SemaphoreAbsent`](ErrorKind::SemaphoreAbsent) if it was deleted meanwhile;
    /// - the errors of the calls. If an answer was lost, permits that the attempt won are released
    ///   in the background.
    ///
    /// # Cancel safety
    ///
    /// A dropped future leaves no permit behind.
    pub async fn acquire(self) -> Result<LockGuard> {
        let won = match self.check(Semaphore::MAX_PERMITS) {
            Ok(()) => compete(&self, self.semaphore.row(), &self.request, false).await,
            Err(error) => Err(error),
        };
        won.map_err(|error| self.semaphore.in_context(error))
    }

    /// Acquires the permits if they are free. Returns `None` if they are not. Does not wait, even
    /// if [`wait`](Self::wait) is set.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`acquire`](Self::acquire), except
    /// [`LockUnavailable`](ErrorKind::LockUnavailable).
    pub async fn try_acquire(self) -> Result<Option<LockGuard>> {
        match self.wait(std::time::Duration::ZERO).acquire().await {
            Ok(guard) => Ok(Some(guard)),
            Err(error) if error.kind() == ErrorKind::LockUnavailable => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn check(&self, permits: u32) -> Result<()> {
        if (1..=permits).contains(&self.count) {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "{} permits at once are out of range: from 1 to {permits}",
            self.count
        )))
    }

    /// Returns free slots at random, so that concurrent requests rarely choose the same ones.
    /// `None` if there are not enough. The slots are sorted, so if two requests choose the same
    /// ones, usually one of them gets all.
    fn choose(&self, permits: u32, seen: &SlotsSeen) -> Option<Vec<String>> {
        let count = self.count as usize;
        let free = (0..permits).filter(|slot| !seen.held.contains_key(&slot.to_string()));
        let mut chosen = fastrand::choose_multiple(free, count);
        chosen.sort_unstable();
        (chosen.len() == count).then(|| chosen.iter().map(u32::to_string).collect())
    }
}

impl Contender for PermitRequest {
    fn demand(&self) -> Demand {
        Demand {
            need: self.count,
            released: 1,
            of: self.semaphore.permits(),
        }
    }

    async fn try_once(&self, contest: &mut Contest<'_>) -> Result<ContestOutcome> {
        let semaphore = &self.semaphore;
        let permits = match &contest.seen {
            Some(seen) => semaphore.note(seen)?,
            // The semaphore may have been resized since it was last read.
            None if self.count > semaphore.permits() => semaphore.note(contest.read().await?)?,
            None => semaphore.permits(),
        };
        self.check(permits)?;
        let none = SlotsSeen::default();
        let seen = contest.seen.as_ref().unwrap_or(&none);
        let needed = taken(seen).saturating_add(contest.ahead());
        if needed.saturating_add(self.count) > permits {
            return Ok(ContestOutcome::Full);
        }
        let Some(slots) = self.choose(permits, seen) else {
            return Ok(ContestOutcome::Full);
        };
        let guard = contest.attempt(&self.request, &slots).await?;
        let behind = contest.seen.as_ref().unwrap_or(&none);
        let (permits, held) = (semaphore.note(behind), taken(behind));
        let Some(guard) = guard else {
            permits?;
            return Ok(ContestOutcome::Again);
        };
        // The semaphore may have been resized to fewer permits than are held, or deleted, others may
        // have waited longer, or the answer took longer than the lease.
        let needed = held.saturating_add(contest.ahead());
        let fits = |permits: u32| needed <= permits && slots.iter().all(|slot| number(slot) < Some(permits));
        if permits.as_ref().is_ok_and(|permits| fits(*permits)) && guard.is_held() {
            return Ok(ContestOutcome::Won(guard));
        }
        contest.give_back(guard, &slots).await;
        permits?;
        Ok(ContestOutcome::Again)
    }

    fn unavailable(&self, contest: &Contest<'_>) -> String {
        let permits = self.semaphore.permits();
        let seen = contest.seen.as_ref();
        let held = seen.map_or(0, taken);
        let count = self.count;
        let now = self.semaphore.row().wall_clock();
        let holder = seen.and_then(|seen| seen.held.values().next());
        match (holder.map(|holder| holder.at(now)), contest.ahead()) {
            (Some(holder), _) if permits == 1 => {
                format!("the permit is not available: it is held by {holder}")
            }
            (Some(holder), _) if held.saturating_add(count) > permits => {
                format!("{count} of {permits} permits are not available: {held} are held, one by {holder}")
            }
            (_, 0) => format!(
                "{count} of {permits} permits were not available when it was tried, and are free again"
            ),
            (_, ahead) => format!(
                "{count} of {permits} permits are not available: {held} are held, and others, which have waited longer, need {ahead}"
            ),
        }
    }
}

/// Returns the number of held permits, including those beyond a reduced number.
pub(super) fn taken(seen: &SlotsSeen) -> u32 {
    let slots = seen.held.keys().filter(|slot| number(slot).is_some());
    u32::try_from(slots.count()).unwrap_or(u32::MAX)
}

/// Returns the number of a slot, or `None` if another program wrote it.
fn number(slot: &str) -> Option<u32> {
    let number = slot.parse::<u32>().ok()?;
    (number < Semaphore::MAX_PERMITS).then_some(number)
}

impl fmt::Debug for PermitRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PermitRequest")
            .field("semaphore", &self.semaphore.key())
            .field("count", &self.count)
            .field("request", &self.request)
            .finish_non_exhaustive()
    }
}
