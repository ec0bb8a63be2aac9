//! Waiting for permits, readers, writers, leaders and members.

use std::{slice, time::Duration};

use hbase_client::low_level::Pauses;
use tokio::time::{Instant, sleep_until};

use crate::{
    error::{Error, ErrorKind, Result},
    lock::{LockGuard, LockRequest, SlotRow, SlotsSeen, while_open},
    observe,
};

/// The pauses between two reads of the row.
pub(super) const MIN_PAUSE: Duration = Duration::from_millis(2);
pub(super) const MAX_PAUSE: Duration = Duration::from_millis(500);
/// The minimum number of slots to choose from: large enough that few requests choose the same one,
/// and small enough to keep the row short.
const FEWEST_SLOTS: usize = 16;
/// How often an attempt is repeated without a pause if others came first and there still is room.
const AT_ONCE: usize = 8;

/// A request for a hold of a row.
pub(super) trait Contender: Sync {
    /// Tries once, based on the last state of the row, and records the new one. Makes no call if
    /// there is no room.
    fn try_once(
        &self,
        seen: &mut Option<SlotsSeen>,
        times: Times,
    ) -> impl Future<Output = Result<ContestOutcome>> + Send;

    /// Returns why the hold is not available, according to the last state of the row.
    fn unavailable(&self, seen: Option<&SlotsSeen>) -> String;
}

/// The outcome of one try.
pub(super) enum ContestOutcome {
    Won(LockGuard),
    /// Others came first, but there still is room.
    Again,
    /// There is no room.
    Full,
}

/// The end of the wait, and the deadline of every call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) until: Instant,
    pub(super) deadline: Instant,
}

/// Growing pauses until the wait is over.
pub(super) struct Waiting {
    pauses: Pauses,
    until: Instant,
}

impl Waiting {
    pub(super) fn new(until: Instant, longest: Duration) -> Self {
        let longest = longest.min(MAX_PAUSE);
        Self {
            pauses: Pauses::growing(MIN_PAUSE.min(longest), longest),
            until,
        }
    }

    /// Pauses. Returns false immediately if the wait is over.
    pub(super) async fn goes_on(&mut self) -> bool {
        let now = Instant::now();
        if now >= self.until {
            return false;
        }
        sleep_until(self.until.min(now + self.pauses.next_pause())).await;
        true
    }
}

/// Competes for a hold: the waiting tasks of this process take turns in their order, and one of
/// them polls at a time.
///
/// A task that arrives when none waits needs no turn for its first try, unless at most one hold is
/// possible (`alone`): then it keeps the turn while it holds, and the tasks behind it make no
/// calls. A task that does not wait is not queued.
pub(super) async fn compete<C: Contender>(
    contender: &C,
    row: &SlotRow,
    request: &LockRequest,
    alone: bool,
) -> Result<LockGuard> {
    let contest = async {
        let guard = compete_unobserved(contender, row, request, alone).await?;
        request.admit(guard)
    };
    let contest = while_open(slice::from_ref(request), contest);
    observe::acquisition("coordination", row.table().name(), contest).await
}

async fn compete_unobserved<C: Contender>(
    contender: &C,
    row: &SlotRow,
    request: &LockRequest,
    alone: bool,
) -> Result<LockGuard> {
    let (until, deadline) = request.begin()?;
    let times = Times { until, deadline };
    let waits = Instant::now() < until;
    let mut waiting = Waiting::new(until, MAX_PAUSE);
    let (mut seen, mut turn, mut first_waiter, mut tries) = (None, None, None, 0);
    loop {
        if turn.is_none() && waits && (alone || tries > 0 || row.is_awaited()) {
            turn = row.turn(until).await.map_err(unavailable)?;
            first_waiter = turn.is_some().then(|| row.first_waiter());
        }
        let failed = match contender.try_once(&mut seen, times).await {
            Ok(ContestOutcome::Won(guard)) if alone => {
                return Ok(guard.with_local_claim(row.local_claim(turn)));
            }
            Ok(ContestOutcome::Won(guard)) => return Ok(guard),
            Ok(ContestOutcome::Again) if tries < AT_ONCE => {
                tries += 1;
                continue;
            }
            Ok(ContestOutcome::Again | ContestOutcome::Full) => None,
            // The attempt, which may have won, is watched. The next one has its own token.
            Err(error) if error.is_outcome_unknown() => Some(error),
            Err(error) => return Err(error),
        };
        let why = contender.unavailable(seen.as_ref());
        if let (Some(first_waiter), None) = (&first_waiter, &failed) {
            first_waiter.refused(why.clone());
        }
        if !waiting.goes_on().await {
            return Err(failed.unwrap_or_else(|| unavailable(why)));
        }
        tries = 1;
        seen = Some(row.read(deadline).await?);
    }
}

/// Chooses a slot that is free, of those with this prefix: at random, so that concurrent requests
/// rarely choose the same one. `None` if `most` are held.
pub(super) fn free_slot(seen: &SlotsSeen, prefix: &str, most: usize) -> Option<String> {
    let among = (2 * seen.held.len()).clamp(FEWEST_SLOTS, most);
    let slots = (0..among).map(|slot| format!("{prefix}{slot}"));
    fastrand::choose_multiple(slots.filter(|slot| !seen.held.contains_key(slot)), 1).pop()
}

fn unavailable(why: String) -> Error {
    Error::new(ErrorKind::LockUnavailable, why).with_retryable(true)
}

/// The lease options of all requests.
macro_rules! lease_options {
    () => {
        /// Sets the lease: how long the hold lasts unless it is renewed or released; 30 s unless
        /// specified. Whole milliseconds, from 100 ms to 30 days, and not longer than the TTL of
        /// the table's family.
        pub fn ttl(mut self, lease: std::time::Duration) -> Self {
            self.request = self.request.ttl(lease);
            self
        }

        /// Sets how much earlier than the server this client counts a lease as expired; see
        /// [`LockRequest::skew_margin`](crate::lock::LockRequest::skew_margin).
        pub fn skew_margin(mut self, margin: std::time::Duration) -> Self {
            self.request = self.request.skew_margin(margin);
            self
        }

        /// Makes it a hold of a session; see
        /// [`LockRequest::session`](crate::lock::LockRequest::session).
        pub fn session(mut self, session: &crate::lock::Session) -> Self {
            self.request = self.request.session(session);
            self
        }
    };
}

/// The wait option of requests that do not wait by default.
macro_rules! wait_option {
    () => {
        /// Sets how long to wait; no time unless specified. At least one attempt is made, unless
        /// other tasks of this process come first. The calls themselves may take the operation
        /// timeout in addition.
        pub fn wait(mut self, wait: std::time::Duration) -> Self {
            self.request = self.request.wait(wait);
            self
        }
    };
}

pub(super) use {lease_options, wait_option};

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_and_the_last_one_ends_when_it_is_time_to_stop() {
        let began = Instant::now();
        let mut waiting = Waiting::new(began + Duration::from_secs(3), MAX_PAUSE);
        let mut number = 0;
        while waiting.goes_on().await {
            number += 1;
        }
        assert!((10..30).contains(&number), "{number}");
        assert_eq!(began.elapsed().as_secs(), 3);
        assert!(!Waiting::new(began, MAX_PAUSE).goes_on().await);
    }
}
