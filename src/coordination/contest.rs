//! Waiting for something that others hold.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::{
    client::Pauses,
    error::{Error, ErrorKind, Result},
    lock::{LockGuard, LockRequest, SlotRow, SlotsSeen},
};

/// The pauses between two looks at what is held.
const SHORTEST_PAUSE: Duration = Duration::from_millis(2);
pub(super) const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// How often others may come first, where there is room, before there is a pause.
const AT_ONCE: usize = 8;

/// Who wants a hold of a row.
pub(super) trait Contender: Sync {
    /// Tries once, by what was seen last, and notes what is seen. Without a call where that says that there is no room.
    fn try_once(
        &self,
        seen: &mut Option<SlotsSeen>,
        times: Times,
    ) -> impl Future<Output = Result<Tried>> + Send;

    /// Why there is none to be had, as it was last seen.
    fn unavailable(&self, seen: Option<&SlotsSeen>) -> String;
}

/// How one try ended.
pub(super) enum Tried {
    Won(LockGuard),
    /// Others came first, and there is room still.
    Again,
    /// There is no room.
    Full,
}

/// Until when is waited, and when every call must be over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) until: Instant,
    pub(super) deadline: Instant,
}

/// Waits with pauses that grow, until it is time to stop.
pub(super) struct Waiting {
    pauses: Pauses,
    until: Instant,
}

impl Waiting {
    pub(super) fn new(until: Instant, longest: Duration) -> Self {
        let longest = longest.min(LONGEST_PAUSE);
        Self {
            pauses: Pauses::growing(SHORTEST_PAUSE.min(longest), longest),
            until,
        }
    }

    /// Waits for a part of the way; false, at once, when it is time to stop.
    pub(super) async fn goes_on(&mut self) -> bool {
        let now = Instant::now();
        if now >= self.until {
            return false;
        }
        sleep_until(self.until.min(now + self.pauses.next())).await;
        true
    }
}

/// Competes for a hold: the tasks of this process that wait do so in their order, one of them asking at a time.
///
/// Who comes when none of them waits needs no turn for a first try, unless it is `alone` in what it wants: then it keeps the
/// turn as long as it holds, and those behind it ask no server meanwhile. Who does not wait does not queue up either.
pub(super) async fn compete<C: Contender>(
    contender: &C,
    row: &SlotRow,
    request: &LockRequest,
    alone: bool,
) -> Result<LockGuard> {
    let (until, deadline) = request.begin()?;
    let times = Times { until, deadline };
    let waits = Instant::now() < until;
    let mut waiting = Waiting::new(until, LONGEST_PAUSE);
    let (mut seen, mut turn, mut front, mut tries) = (None, None, None, 0);
    loop {
        if turn.is_none() && waits && (alone || tries > 0 || row.is_awaited()) {
            turn = row.turn(until).await.map_err(unavailable)?;
            front = turn.is_some().then(|| row.front());
        }
        let failed = match contender.try_once(&mut seen, times).await {
            Ok(Tried::Won(guard)) if alone => return Ok(guard.with_tenure(row.tenure(turn))),
            Ok(Tried::Won(guard)) => return Ok(guard),
            Ok(Tried::Again) if tries < AT_ONCE => {
                tries += 1;
                continue;
            }
            Ok(Tried::Again | Tried::Full) => None,
            // What the attempt may have won is watched, and the next has a token of its own.
            Err(error) if error.is_outcome_unknown() => Some(error),
            Err(error) => return Err(error),
        };
        let why = contender.unavailable(seen.as_ref());
        if let (Some(front), None) = (&front, &failed) {
            front.refused(why.clone());
        }
        if !waiting.goes_on().await {
            return Err(failed.unwrap_or_else(|| unavailable(why)));
        }
        tries = 1;
        seen = Some(row.look(deadline).await?);
    }
}

fn unavailable(why: String) -> Error {
    Error::new(ErrorKind::LockUnavailable, why).with_retryable(true)
}

/// The ways to ask for a lease that all requests have.
macro_rules! lease_options {
    () => {
        /// The lease: how long it is held unless it is renewed or released; 30 s unless said. Whole milliseconds, from 100 ms
        /// to 30 days, and not longer than the TTL of the table's family.
        pub fn ttl(mut self, lease: std::time::Duration) -> Self {
            self.request = self.request.ttl(lease);
            self
        }

        /// How long it is waited for; not at all unless said. One attempt is made at least, unless other tasks of this
        /// process come first. The time for the calls themselves comes on top: the operation timeout at most.
        pub fn wait(mut self, wait: std::time::Duration) -> Self {
            self.request = self.request.wait(wait);
            self
        }

        /// How much earlier than the server this side counts a lease as over; see
        /// [`LockRequest::skew_margin`](crate::LockRequest::skew_margin).
        pub fn skew_margin(mut self, margin: std::time::Duration) -> Self {
            self.request = self.request.skew_margin(margin);
            self
        }
    };
}

pub(super) use lease_options;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_and_the_last_one_ends_when_it_is_time_to_stop() {
        let began = Instant::now();
        let mut waiting = Waiting::new(began + Duration::from_secs(3), LONGEST_PAUSE);
        let mut number = 0;
        while waiting.goes_on().await {
            number += 1;
        }
        assert!((10..30).contains(&number), "{number}");
        assert_eq!(began.elapsed().as_secs(), 3);
        assert!(!Waiting::new(began, LONGEST_PAUSE).goes_on().await);
    }
}
