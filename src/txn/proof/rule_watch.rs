//! Detects that a table's partition rule changed while the table is open.
//!
//! Atomicity never depends on this: a group is sent to one region that has all its rows, or not at
//! all. But under another rule the client would group rows that the table may separate later, so it
//! stops until the table has its old rule again or is opened again. A changed rule takes effect
//! when regions reopen, so the rule is read again when a region turns out to have been reopened,
//! split, merged or moved. It is also read periodically, in a background task that transactions
//! rarely wait for: a region can reopen on its server without a call noticing.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use futures::{FutureExt, future::Shared};
use tokio::{
    runtime::Handle,
    sync::oneshot,
    task::AbortHandle,
    time::{Instant, timeout_at},
};

/// The maximum time to read the rule. A transaction waits that long only for a reopened region.
pub(super) const RULE_READ: Duration = Duration::from_secs(5);

/// How long a transaction waits for the rule if the last one read is old.
pub(super) const OLD_RULE_WAIT: Duration = Duration::from_millis(500);

/// The time when the rule was last read, and the openings of regions that it covers.
#[derive(Debug)]
pub(in crate::txn) struct RuleWatch {
    interval: Duration,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// When the request of the newest answer was sent.
    asked_at: Instant,
    /// Whether the table's rule changed. Then it is read again before every transaction, until it
    /// is the old rule again.
    changed: bool,
    /// When the last background read began.
    tried_at: Instant,
    /// Whether the last read got no answer from the master. Transactions then do not wait for it.
    silent: bool,
    reading: Option<Reading>,
    /// For each region name, the last opening since which the rule was read.
    openings: HashMap<Bytes, i64>,
}

/// The background task that reads the rule. It is aborted when the watch is dropped.
#[derive(Debug)]
struct Reading {
    task: AbortHandle,
    /// Completes when the task ends in any way. Waiting transactions wake in the order in which they
    /// came, and those of tokio's `watch` do not: a simulation would not repeat itself.
    ended: Shared<oneshot::Receiver<()>>,
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The age of the rule, which decides what a transaction does first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::txn) enum RuleAge {
    /// Send at once.
    Fresh,
    /// Start a background read.
    Aging,
    /// Start a background read and wait for it.
    Old,
    /// The table had another rule when it was last read. Read it again.
    Changed,
}

impl RuleWatch {
    pub(in crate::txn) fn new(interval: Duration) -> Self {
        Self {
            interval,
            state: Mutex::new(State {
                asked_at: Instant::now(),
                changed: false,
                tried_at: Instant::now(),
                silent: false,
                reading: None,
                openings: HashMap::new(),
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(in crate::txn) fn age(&self) -> RuleAge {
        let state = self.state();
        if state.changed {
            return RuleAge::Changed;
        }
        // Early enough to end before a transaction would wait.
        let next_try = self.interval / 4 * 3;
        match state.asked_at.elapsed() >= self.interval && !state.silent {
            true => RuleAge::Old,
            false if state.tried_at.max(state.asked_at).elapsed() >= next_try => RuleAge::Aging,
            false => RuleAge::Fresh,
        }
    }

    /// Starts a background read of the rule in a runtime, unless one is running.
    pub(super) fn start_reading<F: Future<Output = ()> + Send + 'static>(
        &self,
        runtime: &Handle,
        read: impl FnOnce() -> F,
    ) {
        let mut state = self.state();
        // The task itself is finished a moment after those that wait for it wake.
        let is_running = |reading: &Reading| reading.ended.clone().now_or_never().is_none();
        if state.reading.as_ref().is_some_and(is_running) {
            return;
        }
        let (running, ended) = oneshot::channel();
        let read = read();
        let task = runtime.spawn(async move {
            read.await;
            drop(running);
        });
        state.tried_at = Instant::now();
        state.reading = Some(Reading {
            task: task.abort_handle(),
            ended: ended.shared(),
        });
    }

    /// Waits until the background read ends, for at most [`OLD_RULE_WAIT`]. If it takes longer, the
    /// age is no longer [`Old`](RuleAge::Old) until the master answers again. If the caller's
    /// deadline is earlier, reaching it does not mark the master as unresponsive.
    pub(super) async fn reading_ended(&self, deadline: Instant) {
        let silent_at = Instant::now() + OLD_RULE_WAIT;
        let ended = self.state().reading.as_ref().map(|reading| reading.ended.clone());
        if let Some(ended) = ended
            && timeout_at(deadline.min(silent_at), ended).await.is_err()
            && silent_at <= deadline
        {
            self.not_read();
        }
    }

    /// Waits until the background read ends, at most until this time.
    pub(super) async fn until_read(&self, end: Instant) {
        let ended = self.state().reading.as_ref().map(|reading| reading.ended.clone());
        if let Some(ended) = ended {
            // Whether it succeeded is found in the watch.
            let _ = timeout_at(end, ended).await;
        }
    }

    /// Returns whether the rule was read since this time.
    pub(super) fn was_read_since(&self, time: Instant) -> bool {
        self.state().asked_at >= time
    }

    /// Returns whether the rule was read since this opening of the region.
    pub(in crate::txn) fn covers(&self, region: &Bytes, opening: i64) -> bool {
        self.state()
            .openings
            .get(region)
            .is_some_and(|known| *known >= opening)
    }

    /// Records that the rule was read after this opening of the region.
    pub(in crate::txn) fn cover(&self, region: Bytes, opening: i64) {
        self.state().openings.insert(region, opening);
    }

    /// Records whether the table had another rule, from the answer to a request sent at this time.
    pub(in crate::txn) fn was_read(&self, asked_at: Instant, changed: bool) {
        let mut state = self.state();
        state.silent = false;
        if asked_at >= state.asked_at {
            (state.asked_at, state.changed) = (asked_at, changed);
        }
    }

    /// Records that the rule could not be read.
    pub(super) fn not_read(&self) {
        self.state().silent = true;
    }

    /// Returns whether the table had another rule when it was last read.
    pub(super) fn is_changed(&self) -> bool {
        self.state().changed
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use tokio::time::advance;

    use super::*;

    const INTERVAL: Duration = Duration::from_secs(60);
    const SOON: Duration = Duration::from_secs(1);

    #[test]
    fn a_reopened_or_new_region_is_not_covered() {
        let watch = RuleWatch::new(INTERVAL);
        watch.cover("r1".into(), 5);
        assert!(watch.covers(&"r1".into(), 5) && watch.covers(&"r1".into(), 4));
        assert!(!watch.covers(&"r1".into(), 6) && !watch.covers(&"r2".into(), 1));
    }

    #[tokio::test(start_paused = true)]
    async fn rule_ages_from_when_it_was_asked_for() {
        let watch = RuleWatch::new(INTERVAL);
        assert_eq!(watch.age(), RuleAge::Fresh);
        let asked_at = Instant::now();
        advance(INTERVAL / 4 * 3).await;
        assert_eq!(watch.age(), RuleAge::Aging);
        watch.was_read(asked_at, false);
        assert_eq!(watch.age(), RuleAge::Aging);
        advance(INTERVAL / 4).await;
        assert_eq!(watch.age(), RuleAge::Old);
        watch.was_read(Instant::now(), false);
        assert_eq!(watch.age(), RuleAge::Fresh);
    }

    #[tokio::test(start_paused = true)]
    async fn transactions_wait_for_a_silent_master_only_once() {
        let watch = RuleWatch::new(INTERVAL);
        advance(INTERVAL).await;
        watch.start_reading(&Handle::current(), pending);
        let began = Instant::now();
        watch.reading_ended(began + SOON).await;
        assert_eq!(began.elapsed(), OLD_RULE_WAIT);
        assert_eq!(watch.age(), RuleAge::Fresh, "no further try yet");
        advance(INTERVAL).await;
        assert_eq!(watch.age(), RuleAge::Aging);
        watch.was_read(began, false);
        assert_eq!(watch.age(), RuleAge::Old);
    }

    #[tokio::test(start_paused = true)]
    async fn short_deadline_does_not_declare_the_master_silent() {
        let watch = RuleWatch::new(INTERVAL);
        advance(INTERVAL).await;
        watch.start_reading(&Handle::current(), pending);
        let began = Instant::now();
        watch.reading_ended(began + Duration::from_millis(20)).await;
        assert_eq!(began.elapsed(), Duration::from_millis(20));
        assert_eq!(watch.age(), RuleAge::Old);
    }

    #[tokio::test(start_paused = true)]
    async fn one_reading_runs_at_a_time_and_ends_with_the_watch() {
        let (watch, (alive, mut ended)) = (RuleWatch::new(INTERVAL), oneshot::channel::<()>());
        watch.start_reading(&Handle::current(), || async {
            let _alive = alive;
            pending::<()>().await;
        });
        watch.start_reading(&Handle::current(), || -> std::future::Ready<()> {
            panic!("a second one")
        });
        tokio::task::yield_now().await;
        assert!(
            ended
                .try_recv()
                .is_err_and(|error| error == oneshot::error::TryRecvError::Empty)
        );
        drop(watch);
        ended.await.unwrap_err();
    }

    #[tokio::test(start_paused = true)]
    async fn reading_that_ended_is_not_waited_for() {
        let watch = RuleWatch::new(INTERVAL);
        watch.start_reading(&Handle::current(), || ready(()));
        let began = Instant::now();
        watch.reading_ended(began + SOON).await;
        assert_eq!(began.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn changed_rule_is_read_before_every_transaction() {
        let watch = RuleWatch::new(INTERVAL);
        let before = Instant::now();
        advance(SOON).await;
        watch.was_read(Instant::now(), true);
        watch.was_read(before, false);
        assert_eq!((watch.age(), watch.age()), (RuleAge::Changed, RuleAge::Changed));
        watch.was_read(Instant::now(), false);
        assert_eq!(watch.age(), RuleAge::Fresh);
    }
}
