//! Waiting for latches: one task polls for all waiters of one table, with one call to each of its
//! region servers at a time.
//!
//! The waiters are here; the task that polls for them is in `polling`.

mod polling;

use std::{
    collections::BTreeMap,
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use tokio::{
    sync::{Notify, watch},
    task::AbortHandle,
    time::{Instant, sleep, timeout_at},
};

#[cfg(feature = "thrift")]
pub(crate) use self::polling::PollResult;
pub(crate) use self::polling::{Extent, Source};
use self::polling::{POLL_TIMEOUT, PollBatch};
use super::{layout::Cells, observation::LatchObservation, state::LatchState};
use crate::error::{ClientErrorKind, Error, Result};

/// The pause of a waiter after it has read the latch itself.
const PAUSE: Duration = Duration::from_millis(60);
/// A latch that has not been polled for this long is not reported as open.
const FRESH: Duration = Duration::from_secs(1);

/// The outcome of waiting for a latch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[must_use = "only one of these says that the latch was reached"]
pub enum WaitOutcome {
    /// The remaining count was zero.
    Reached,
    /// The latch's time to live has passed. In a table without the state family it may have been
    /// deleted instead.
    Expired,
    /// The latch does not exist, or was deleted.
    Absent,
    /// The timeout has passed, and the latch is open.
    TimedOut,
}

/// The waiters of one table, and the task that polls for them.
#[derive(Clone)]
pub(crate) struct Watch<S> {
    shared: Arc<Shared<S>>,
}

struct Shared<S> {
    source: S,
    /// Wakes the polling task: a latch was changed.
    now: Notify,
    waiting: Mutex<Waiters>,
}

#[derive(Default)]
struct Waiters {
    /// In order, so that each poll reads them in the same order in every run.
    latches: BTreeMap<Arc<Cells>, Awaited>,
    /// The number of polls that have begun.
    polls: u64,
    /// The number of polling tasks so far, one after the other.
    tasks: u64,
    task: Option<PollTask>,
}

/// The polling task, in the runtime of the connection.
struct PollTask {
    number: u64,
    /// `None` until it has begun.
    task: Option<AbortHandle>,
}

/// The end of the polling task of this number.
struct PollEnd<S> {
    shared: Arc<Shared<S>>,
    task: u64,
}

impl<S> Drop for PollEnd<S> {
    /// If no other task has replaced it, its runtime has ended, or it has panicked: each waiter reads its
    /// latch itself for the error.
    fn drop(&mut self) {
        let mut waiting = self.shared.waiting();
        if let Some(ended) = waiting.task.take_if(|task| task.number == self.task) {
            let latches = mem::take(&mut waiting.latches);
            drop(waiting);
            drop((ended, latches));
        }
    }
}

/// An awaited latch.
struct Awaited {
    progress: watch::Sender<Progress>,
    /// The number of its waiters.
    waiters: usize,
    /// The poll in flight that includes it.
    pending: Option<PendingPoll>,
    /// When the last poll that returned it began.
    notified: Option<Instant>,
}

#[derive(Clone, Copy)]
struct PendingPoll {
    poll: u64,
    since: Instant,
}

/// The last known state of an awaited latch.
#[derive(Clone, Debug, Default)]
struct Progress {
    /// The remaining count; `None` until a poll has seen the latch live.
    left: Option<u64>,
    /// The number of the latch that was seen live. `None` also without a note.
    latch: Option<u64>,
    /// The timestamps of its counts, and the last poll that has seen it live.
    stamps: Vec<(Bytes, u64)>,
    live: u64,
    /// The end, and the poll that found it, or that has seen the latch live for the last time if
    /// the next one of its name exists by now. It is the end for waiters that joined before that
    /// poll.
    ended: Option<(u64, Ended)>,
    /// Why the last attempt to read it failed.
    failed: Option<Arc<str>>,
}

/// The end of a latch, as a poll has found it.
#[derive(Clone, Copy, Debug)]
enum Ended {
    Outcome(WaitOutcome),
    /// Each waiter reads the latch itself for the error.
    Failed,
}

impl<S: Source> Watch<S> {
    pub(crate) fn new(source: S) -> Self {
        Self {
            shared: Arc::new(Shared {
                source,
                now: Notify::new(),
                waiting: Mutex::default(),
            }),
        }
    }

    /// Polls immediately: a latch was changed in this process.
    pub(crate) fn poll_now(&self) {
        self.shared.now.notify_one();
    }

    /// Waits for the latch of this number, or if it is `None` for the one that the first poll finds.
    /// Other latches of the name may follow meanwhile.
    pub(crate) async fn wait(
        &self,
        cells: &Cells,
        mut latch: Option<u64>,
        until: Instant,
    ) -> Result<WaitOutcome> {
        loop {
            let mut waiter = self.shared.join(cells, latch);
            if let Some(outcome) = waiter.wait(until).await? {
                return Ok(outcome);
            }
            latch = waiter.latch;
            let deadline = self.shared.source.deadline().min(Instant::now() + POLL_TIMEOUT);
            let observation = match self.shared.source.read(cells, deadline).await {
                // As in a poll.
                Err(error) if error.is_retryable() && Instant::now() < until => {
                    sleep(PAUSE).await;
                    continue;
                }
                read => read?,
            };
            if let Some(outcome) = observation.state_of(latch, cells.level)?.into() {
                return Ok(outcome);
            }
            latch = latch.or_else(|| observation.latch());
            if Instant::now() >= until {
                return Ok(WaitOutcome::TimedOut);
            }
            // Another latch of the same poll may have caused the failure.
            sleep(PAUSE).await;
        }
    }
}

/// A waiter for one latch. It leaves when it is dropped.
struct LatchWaiter<S: Source> {
    shared: Arc<Shared<S>>,
    cells: Cells,
    /// The number of the latch, once it is known.
    latch: Option<u64>,
    progress: watch::Receiver<Progress>,
    /// The number of polls that had begun before it joined. Their results may be older than what
    /// the waiter knows, for example that it has created the latch.
    before: u64,
}

impl<S: Source> LatchWaiter<S> {
    /// Returns `None` if the polling task has no outcome; the waiter reads the latch itself then.
    async fn wait(&mut self, until: Instant) -> Result<Option<WaitOutcome>> {
        let latch = self.latch;
        let has_ended = |progress: &Progress| progress.ended.is_some() || progress.is_of_another(latch);
        let waited = timeout_at(until, self.progress.wait_for(has_ended)).await;
        match waited.map(|seen| seen.map(|progress| progress.clone())) {
            Ok(Ok(progress)) => Ok(self.outcome(&progress)),
            // The latch was removed from the polls.
            Ok(Err(_)) => Ok(None),
            Err(_) => self.timed_out(),
        }
    }

    fn outcome(&mut self, progress: &Progress) -> Option<WaitOutcome> {
        if progress.is_of_another(self.latch) {
            return None;
        }
        if progress.live > self.before {
            self.latch = self.latch.or(progress.latch);
        }
        match progress.ended {
            Some((poll, Ended::Outcome(outcome))) if poll > self.before => Some(outcome),
            _ => None,
        }
    }

    fn timed_out(&mut self) -> Result<Option<WaitOutcome>> {
        // Cloned, so that it is not locked while the waiters are locked.
        let progress = self.progress.borrow().clone();
        let outcome = self.outcome(&progress);
        if progress.ended.is_some() || progress.is_of_another(self.latch) {
            return Ok(outcome);
        }
        match (progress.failed, progress.left) {
            (Some(why), _) => Err(Error::new(
                ClientErrorKind::DeadlineExceeded,
                format!("timed out, and the latch could not be read: {why}"),
            )
            .with_retryable(true)),
            (None, Some(_)) if self.shared.is_fresh(&self.cells) => Ok(Some(WaitOutcome::TimedOut)),
            // However short the wait, it includes one read.
            (None, _) => Ok(None),
        }
    }
}

impl<S: Source> Drop for LatchWaiter<S> {
    fn drop(&mut self) {
        self.shared.leave(&self.cells, &self.progress);
    }
}

impl<S> Shared<S> {
    fn waiting(&self) -> MutexGuard<'_, Waiters> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Source> Shared<S> {
    fn join(self: &Arc<Self>, cells: &Cells, latch: Option<u64>) -> LatchWaiter<S> {
        let mut waiting = self.waiting();
        let awaited = waiting
            .latches
            .entry(Arc::new(cells.clone()))
            .or_insert_with(|| Awaited {
                progress: watch::Sender::default(),
                waiters: 0,
                pending: None,
                notified: None,
            });
        awaited.waiters += 1;
        let progress = awaited.progress.subscribe();
        let before = waiting.polls;
        let waiter = LatchWaiter {
            shared: Arc::clone(self),
            cells: cells.clone(),
            latch,
            progress,
            before,
        };
        let begins = waiting.task.is_none();
        if begins {
            waiting.tasks += 1;
            waiting.task = Some(PollTask {
                number: waiting.tasks,
                task: None,
            });
        }
        let number = waiting.tasks;
        drop(waiting);
        if begins {
            self.begin_polling(number);
        }
        self.now.notify_one();
        waiter
    }

    /// Begins the polling task of this number. It ends at once if the runtime of the connection has ended.
    fn begin_polling(self: &Arc<Self>, number: u64) {
        let end = PollEnd {
            shared: Arc::clone(self),
            task: number,
        };
        let task = self.source.runtime().spawn(polling::poll_until_replaced(end));
        let mut waiting = self.waiting();
        match waiting.task.as_mut().filter(|task| task.number == number) {
            Some(current) => current.task = Some(task.abort_handle()),
            None => task.abort(),
        }
    }

    fn leave(&self, cells: &Cells, progress: &watch::Receiver<Progress>) {
        let mut waiting = self.waiting();
        if let Some(awaited) = waiting.latches.get_mut(cells)
            && progress.same_channel(&awaited.progress.subscribe())
        {
            awaited.waiters -= 1;
            if awaited.waiters == 0 {
                waiting.latches.remove(cells);
            }
        }
        if waiting.latches.is_empty()
            && let Some(PollTask { task: Some(task), .. }) = waiting.task.take()
        {
            task.abort();
        }
    }

    /// Returns whether the last poll of a latch is recent.
    fn is_fresh(&self, cells: &Cells) -> bool {
        let waiting = self.waiting();
        let notified = waiting.latches.get(cells).and_then(|awaited| awaited.notified);
        notified.is_some_and(|notified| notified.elapsed() < FRESH)
    }

    fn is_any_due(&self) -> bool {
        let waiting = self.waiting();
        waiting.latches.values().any(|awaited| awaited.pending.is_none())
    }

    /// Begins a poll of all latches that no poll in flight includes, for the task of this number.
    /// Returns `None` if another task has replaced it.
    fn begin_poll(&self, task: u64) -> Option<PollBatch> {
        let mut waiting = self.waiting();
        waiting
            .task
            .as_ref()
            .filter(|poll_task| poll_task.number == task)?;
        waiting.polls += 1;
        let pending = PendingPoll {
            poll: waiting.polls,
            since: Instant::now(),
        };
        let due = waiting
            .latches
            .iter_mut()
            .filter(|(_, awaited)| awaited.pending.is_none());
        let cells = due.map(|(cells, awaited)| {
            awaited.pending = Some(pending);
            let is_new = awaited.progress.borrow().left.is_none();
            let extent = if is_new { Extent::All } else { Extent::Counts };
            (Arc::clone(cells), extent)
        });
        Some(PollBatch {
            number: pending.poll,
            cells: cells.collect(),
        })
    }

    /// Notifies the waiters of a latch of its state. Returns whether that was new.
    fn notify(&self, poll: u64, cells: &Cells, seen: &Result<LatchObservation>) -> bool {
        self.note(poll, cells, |progress| progress.see(poll, cells, seen))
    }

    /// Notifies the waiters of a latch that a poll could not read it.
    fn notify_failure(&self, poll: u64, cells: &Cells, error: &Error, why: &Arc<str>) {
        self.note(poll, cells, |progress| {
            progress.failed = Some(Arc::clone(why));
            progress.ended = (!error.is_retryable()).then_some((poll, Ended::Failed));
            progress.ended.is_some()
        });
    }

    fn note(&self, poll: u64, cells: &Cells, see: impl FnOnce(&mut Progress) -> bool) -> bool {
        let mut waiting = self.waiting();
        let Some(awaited) = waiting.latches.get_mut(cells) else {
            return false;
        };
        // Otherwise these are newer waiters, which a later poll includes.
        let Some(pending) = awaited.pending.take_if(|pending| pending.poll == poll) else {
            return false;
        };
        awaited.notified = Some(pending.since);
        let changed = awaited.progress.send_if_modified(see);
        if awaited.progress.borrow().ended.is_some() {
            // A waiter that arrives from now on waits for another latch of this name.
            waiting.latches.remove(cells);
        }
        changed
    }
}

impl Progress {
    /// Records what a poll has read. Returns whether it is new.
    fn see(&mut self, poll: u64, cells: &Cells, seen: &Result<LatchObservation>) -> bool {
        self.failed = None;
        let before = self.left;
        let (mut found_by, mut ended) = (poll, Some(Ended::Failed));
        if let Ok(observation) = seen
            && let Ok(state) = observation.state_of(self.latch, cells.level)
            && let Ok(left) = observation.left()
        {
            if observation
                .latch()
                .is_some_and(|latch| self.latch.is_some_and(|known| known != latch))
            {
                found_by = self.live;
            }
            ended = match state {
                LatchState::Open => {
                    self.left = Some(left);
                    self.latch = self.latch.or_else(|| observation.latch());
                    self.stamps = observation.stamps();
                    self.live = poll;
                    None
                }
                // Without a note, only the existence of the latch is known.
                LatchState::Absent if cells.note.is_none() && before.is_some() => {
                    Some(Ended::Outcome(WaitOutcome::Expired))
                }
                state => Option::from(state).map(Ended::Outcome),
            };
        }
        self.ended = ended.map(|ended| (found_by, ended));
        self.left != before || self.ended.is_some()
    }

    /// Returns whether a latch was seen live that is not the one of this number.
    fn is_of_another(&self, latch: Option<u64>) -> bool {
        latch.is_some() && (self.latch.is_some() || self.ended.is_some()) && self.latch != latch
    }
}
