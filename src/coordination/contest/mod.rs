//! Waiting for permits, readers, writers, leaders and members.

use std::{slice, time::Duration};

use hbase_client::low_level::Pauses;
use tokio::time::{Instant, sleep_until};

use crate::{
    error::{Error, ErrorKind, Result},
    lock::{Demand, LockGuard, LockRequest, SlotRow, SlotsSeen, Waiter, while_open},
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
    /// Returns what it waits for in line.
    fn demand(&self) -> Demand;

    /// Tries once, based on the last state of the row. Makes no call if there is no room, or if the
    /// processes that have waited longer need it.
    fn try_once(&self, contest: &mut Contest<'_>) -> impl Future<Output = Result<ContestOutcome>> + Send;

    /// Returns why the hold is not available.
    fn unavailable(&self, contest: &Contest<'_>) -> String;
}

/// The outcome of one try.
pub(super) enum ContestOutcome {
    Won(LockGuard),
    /// Others came first, but there still is room.
    Again,
    /// There is no room.
    Full,
}

/// A contest for a hold: the row as it was last seen, and a place in the line.
pub(super) struct Contest<'r> {
    row: &'r SlotRow,
    /// The end of the wait.
    pub(super) until: Instant,
    /// The deadline of every call.
    pub(super) deadline: Instant,
    pub(super) seen: Option<SlotsSeen>,
    waiter: Waiter,
}

impl Contest<'_> {
    /// Tries once to take these slots, all or none, and sees the row as it is after that.
    pub(super) async fn attempt(
        &mut self,
        request: &LockRequest,
        slots: &[String],
    ) -> Result<Option<LockGuard>> {
        let attempt = self
            .row
            .attempt_in_line(request, slots, &mut self.waiter, self.deadline);
        let (guard, seen) = attempt.await?;
        self.seen = Some(seen);
        Ok(guard)
    }

    /// Reads the row.
    pub(super) async fn read(&mut self) -> Result<&SlotsSeen> {
        let seen = self.row.read(self.deadline).await?;
        seen.report_to(&mut self.waiter);
        Ok(self.seen.insert(seen))
    }

    /// Reads the row, and keeps its place in the line.
    async fn poll(&mut self) -> Result<()> {
        self.seen = Some(self.row.poll(&mut self.waiter, self.deadline).await?);
        Ok(())
    }

    /// Gives back slots that it may not keep. If that fails, they are released in the background.
    pub(super) async fn give_back(&mut self, guard: LockGuard, slots: &[String]) {
        if let Err(error) = guard.release().await {
            tracing::debug!(%error, "cannot give back slots at once");
        }
        if let Some(seen) = &mut self.seen {
            seen.held.retain(|slot, _| !slots.contains(slot));
        }
    }

    /// Returns what processes that have waited longer need.
    pub(super) fn ahead(&self) -> u32 {
        self.waiter.ahead()
    }

    /// Pauses. Returns false immediately if the wait is over.
    async fn pause(&mut self) -> bool {
        let now = Instant::now();
        if now >= self.until {
            return false;
        }
        sleep_until(self.until.min(now + self.waiter.pause())).await;
        true
    }
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
/// calls. A task that does not wait is not queued, neither in this process nor among processes.
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
    let arrived = Instant::now();
    let waits = arrived < until;
    let demand = if waits {
        contender.demand()
    } else {
        Demand::UNORDERED
    };
    let mut contest = Contest {
        row,
        until,
        deadline,
        seen: None,
        waiter: row.waiter(demand, arrived),
    };
    let (mut turn, mut first_waiter, mut tries, mut polls) = (None, None, 0, false);
    loop {
        if turn.is_none() && waits && (alone || tries > 0 || row.is_awaited()) {
            let is_behind = row.is_awaited();
            turn = row.turn(until).await.map_err(unavailable)?;
            first_waiter = turn.is_some().then(|| row.first_waiter());
            if is_behind {
                // What it knows is as old as its wait for the turn.
                contest.waiter = row.waiter(demand, arrived);
                contest.seen = None;
            }
        }
        // Others waited when this process acquired a hold last: it stands in line behind them.
        if polls || waits && tries == 0 && contest.waiter.remember_others().is_some() {
            contest.poll().await?;
            polls = false;
        }
        let failed = match contender.try_once(&mut contest).await {
            Ok(ContestOutcome::Won(guard)) => {
                contest.waiter.acquired_while_others_wait();
                return Ok(if alone {
                    guard.with_local_claim(row.local_claim(turn))
                } else {
                    guard
                });
            }
            Ok(ContestOutcome::Again) if tries < AT_ONCE => {
                tries += 1;
                continue;
            }
            Ok(ContestOutcome::Again | ContestOutcome::Full) => None,
            // The attempt, which may have won, is watched. The next one has its own token.
            Err(error) if error.is_outcome_unknown() => Some(error),
            Err(error) => return Err(error),
        };
        let why = contender.unavailable(&contest);
        if let (Some(first_waiter), None) = (&first_waiter, &failed) {
            first_waiter.refused(why.clone());
        }
        if !contest.pause().await {
            return Err(failed.unwrap_or_else(|| unavailable(why)));
        }
        (tries, polls) = (1, true);
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
        /// others have waited longer. The calls themselves may take the operation
        /// timeout in addition.
        pub fn wait(mut self, wait: std::time::Duration) -> Self {
            self.request = self.request.wait(wait);
            self
        }
    };
}

pub(super) use {lease_options, wait_option};

#[cfg(test)]
mod tests;
