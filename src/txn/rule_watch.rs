//! Notices when a table's partition rule changes under an open client.
//!
//! Atomicity never depends on this: a group is sent to one region that has all its rows, or not at
//! all. But under another rule the client would group rows that the table may part tomorrow, so it
//! stops until the table has its old rule again or is opened again. A changed rule takes effect
//! when regions reopen, so the rule is read again when a region turns out to have been reopened,
//! split, merged or moved. It is also read from time to time, in a background task that
//! transactions rarely wait for: a region can reopen on its server without a call noticing.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use tokio::{
    sync::watch,
    task::AbortHandle,
    time::{Instant, timeout_at},
};

/// How long a transaction waits for the rule when the one that it knows is old.
pub(super) const OLD_RULE_WAIT: Duration = Duration::from_millis(500);

/// When the rule was last read, and which openings of regions it was read for.
#[derive(Debug)]
pub(super) struct RuleWatch {
    interval: Duration,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// When the newest answer was asked for.
    asked_at: Instant,
    /// Whether it has another rule: then the rule is read again before every transaction, until it
    /// is the old one.
    changed: bool,
    /// When the last background reading began.
    tried_at: Instant,
    /// Whether the master did not answer lately. No transaction waits for it then.
    silent: bool,
    reading: Option<Reading>,
    /// Per region name, the opening that the rule is known to be no older than.
    openings: HashMap<Bytes, i64>,
}

/// The background task that reads the rule; it ends with the watch.
#[derive(Debug)]
struct Reading {
    task: AbortHandle,
    /// Closed when the task ends, however it does.
    ended: watch::Receiver<()>,
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What must happen before a transaction may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RuleAge {
    /// Nothing.
    Fresh,
    /// A background reading.
    Aging,
    /// A background reading, whose end is waited for.
    Old,
    /// The table had another rule when it was last read. It must be read again.
    Changed,
}

impl RuleWatch {
    pub(super) fn new(interval: Duration) -> Self {
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

    pub(super) fn age(&self) -> RuleAge {
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

    /// Runs a reading of the rule in the background, unless one runs already.
    pub(super) fn start_reading<F: Future<Output = ()> + Send + 'static>(&self, read: impl FnOnce() -> F) {
        let mut state = self.state();
        let is_running = |reading: &Reading| reading.ended.has_changed().is_ok();
        if state.reading.as_ref().is_some_and(is_running) {
            return;
        }
        let (running, ended) = watch::channel(());
        let read = read();
        let task = tokio::spawn(async move {
            read.await;
            drop(running);
        });
        state.tried_at = Instant::now();
        state.reading = Some(Reading {
            task: task.abort_handle(),
            ended,
        });
    }

    /// Waits until the background reading ends, for at most [`OLD_RULE_WAIT`]. If it takes longer,
    /// the age is no longer [`Old`](RuleAge::Old) until the master answers again. An earlier
    /// deadline of one caller proves nothing to the others.
    pub(super) async fn reading_ended(&self, deadline: Instant) {
        let silent_at = Instant::now() + OLD_RULE_WAIT;
        let ended = self.state().reading.as_ref().map(|reading| reading.ended.clone());
        if let Some(mut ended) = ended
            && timeout_at(deadline.min(silent_at), ended.changed())
                .await
                .is_err()
            && silent_at <= deadline
        {
            self.not_read();
        }
    }

    /// Whether the rule was read since this opening of the region.
    pub(super) fn covers(&self, region: &Bytes, opening: i64) -> bool {
        self.state()
            .openings
            .get(region)
            .is_some_and(|known| *known >= opening)
    }

    /// Notes that the rule was read after this opening of the region.
    pub(super) fn cover(&self, region: Bytes, opening: i64) {
        self.state().openings.insert(region, opening);
    }

    /// Notes whether the table had another rule in an answer to a request of that time.
    pub(super) fn was_read(&self, asked_at: Instant, changed: bool) {
        let mut state = self.state();
        state.silent = false;
        if asked_at >= state.asked_at {
            (state.asked_at, state.changed) = (asked_at, changed);
        }
    }

    /// Notes that the rule could not be read.
    pub(super) fn not_read(&self) {
        self.state().silent = true;
    }

    /// Whether the table had another rule when it was last read.
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
        watch.start_reading(pending);
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
        watch.start_reading(pending);
        let began = Instant::now();
        watch.reading_ended(began + Duration::from_millis(20)).await;
        assert_eq!(began.elapsed(), Duration::from_millis(20));
        assert_eq!(watch.age(), RuleAge::Old);
    }

    #[tokio::test(start_paused = true)]
    async fn one_reading_runs_at_a_time_and_ends_with_the_watch() {
        let (watch, (alive, mut ended)) = (RuleWatch::new(INTERVAL), tokio::sync::oneshot::channel::<()>());
        watch.start_reading(|| async {
            let _alive = alive;
            pending::<()>().await;
        });
        watch.start_reading(|| -> std::future::Ready<()> { panic!("a second one") });
        tokio::task::yield_now().await;
        assert!(
            ended
                .try_recv()
                .is_err_and(|error| error == tokio::sync::oneshot::error::TryRecvError::Empty)
        );
        drop(watch);
        ended.await.unwrap_err();
    }

    #[tokio::test(start_paused = true)]
    async fn reading_that_ended_is_not_waited_for() {
        let watch = RuleWatch::new(INTERVAL);
        watch.start_reading(|| ready(()));
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
