//! Waiting for latches and barriers: one task polls for all waiters of one table, with calls that several
//! names share.
//!
//! | file | contents |
//! |---|---|
//! | `mod` | the waiters of a table |
//! | `polling` | the task that polls for them |
//! | `pace` | when a name is polled next |
//! | `latches` | the progress of a latch, and its waiters |

mod latches;
mod pace;
mod polling;

use std::{
    collections::BTreeMap,
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{Notify, watch},
    task::AbortHandle,
    time::{Instant, timeout_at},
};

pub use self::latches::WaitOutcome;
#[cfg(feature = "thrift")]
pub(crate) use self::latches::{LatchProgress, LatchSource};
pub(crate) use self::polling::{Extent, PollResult, Source};
use self::{
    pace::Pace,
    polling::{Key, PollBatch, Seen},
};
use crate::error::{Error, Result};

/// The pause of a waiter after it has read its row itself.
pub(super) const PAUSE: Duration = Duration::from_millis(60);
/// A name that has not been polled for this long is not reported as unchanged.
const FRESH: Duration = Duration::from_millis(100);

/// The last known state of an awaited name.
pub(crate) trait Progress: Clone + Default + Send + Sync + 'static {
    type Key: Ord + Clone + Send + Sync + 'static;
    type Seen: Send + 'static;

    /// Records what a poll has read. Returns whether that is news for its waiters; `None` if
    /// [all](Extent::All) must be read to know.
    fn see(&mut self, poll: u64, key: &Self::Key, extent: Extent, seen: Result<Self::Seen>) -> Option<bool>;

    /// Records that a poll could not read it. Returns whether that is news for its waiters.
    fn fail(&mut self, poll: u64, error: &Error, why: &Arc<str>) -> bool;

    /// Returns whether its waiters know what they need. Later waiters wait for another one of this name.
    fn has_ended(&self) -> bool;

    /// Returns how many arrivals it waits for. `None` until it was read.
    fn left(&self) -> Option<u64>;

    /// Returns when it expires, by the clock of its server, in milliseconds. `None` if that is not known.
    fn expires(&self) -> Option<u64>;
}

/// The waiters of one table, and the task that polls for them.
#[derive(Clone)]
pub(crate) struct Watch<S: Source> {
    shared: Arc<Shared<S>>,
}

struct Shared<S: Source> {
    source: S,
    /// Wakes the polling task: a name is to be polled at once.
    now: Notify,
    waiting: Mutex<Waiters<S::Progress>>,
}

struct Waiters<P: Progress> {
    /// In order, so that each poll reads them in the same order in every run.
    names: BTreeMap<Arc<P::Key>, Awaited<P>>,
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
struct PollEnd<S: Source> {
    shared: Arc<Shared<S>>,
    task: u64,
}

impl<S: Source> Drop for PollEnd<S> {
    /// If no other task has replaced it, its runtime has ended, or it has panicked: each waiter reads its
    /// row itself for the error.
    fn drop(&mut self) {
        let mut waiting = self.shared.waiting();
        if let Some(ended) = waiting.task.take_if(|task| task.number == self.task) {
            let names = mem::take(&mut waiting.names);
            drop(waiting);
            drop((ended, names));
        }
    }
}

/// An awaited name.
struct Awaited<P> {
    progress: watch::Sender<P>,
    /// The number of its waiters.
    waiters: usize,
    pace: Pace,
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

impl<S: Source> Watch<S> {
    pub(crate) fn new(source: S) -> Self {
        Self {
            shared: Arc::new(Shared {
                source,
                now: Notify::new(),
                waiting: Mutex::new(Waiters {
                    names: BTreeMap::new(),
                    polls: 0,
                    tasks: 0,
                    task: None,
                }),
            }),
        }
    }

    /// Polls a name immediately, if it is awaited: this process has changed it.
    pub(crate) fn poll_now(&self, key: &Key<S>) {
        if let Some(awaited) = self.shared.waiting().names.get_mut(key) {
            awaited.pace.hurry();
            self.shared.now.notify_one();
        }
    }

    /// Joins the waiters of a name, which is polled immediately.
    pub(super) fn join(&self, key: &Key<S>) -> Waiter<S> {
        self.shared.join(key)
    }
}

/// A waiter for one name. It leaves when it is dropped.
pub(super) struct Waiter<S: Source> {
    shared: Arc<Shared<S>>,
    key: Key<S>,
    progress: watch::Receiver<S::Progress>,
    /// The number of polls that had begun before it joined. Their results may be older than what
    /// the waiter knows, for example that it has created the latch.
    before: u64,
}

impl<S: Source> Waiter<S> {
    /// Waits until the progress is as it should be. Returns it; `None` if the name was removed from the
    /// polls before, and an error once the time is over.
    pub(super) async fn wait_for(
        &mut self,
        is_decided: impl FnMut(&S::Progress) -> bool,
        until: Instant,
    ) -> Result<Option<S::Progress>, TimeOver> {
        let waited = timeout_at(until, self.progress.wait_for(is_decided)).await;
        match waited {
            Ok(Ok(progress)) => Ok(Some(progress.clone())),
            Ok(Err(_)) => Ok(None),
            Err(_) => Err(TimeOver),
        }
    }

    /// Returns the last known progress.
    fn progress(&self) -> S::Progress {
        self.progress.borrow().clone()
    }

    /// Returns whether the last poll of its name is recent.
    fn is_fresh(&self) -> bool {
        let waiting = self.shared.waiting();
        let notified = waiting.names.get(&self.key).and_then(|awaited| awaited.notified);
        notified.is_some_and(|notified| notified.elapsed() < FRESH)
    }
}

/// The time of a waiter is over.
pub(super) struct TimeOver;

impl<S: Source> Drop for Waiter<S> {
    fn drop(&mut self) {
        self.shared.leave(&self.key, &self.progress);
    }
}

impl<S: Source> Shared<S> {
    fn waiting(&self) -> MutexGuard<'_, Waiters<S::Progress>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn join(self: &Arc<Self>, key: &Key<S>) -> Waiter<S> {
        let mut waiting = self.waiting();
        let awaited = waiting
            .names
            .entry(Arc::new(key.clone()))
            .or_insert_with(|| Awaited {
                progress: watch::Sender::default(),
                waiters: 0,
                pace: Pace::default(),
                pending: None,
                notified: None,
            });
        awaited.waiters += 1;
        awaited.pace.join();
        let progress = awaited.progress.subscribe();
        let before = waiting.polls;
        let waiter = Waiter {
            shared: Arc::clone(self),
            key: key.clone(),
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

    fn leave(&self, key: &Key<S>, progress: &watch::Receiver<S::Progress>) {
        let mut waiting = self.waiting();
        if let Some(awaited) = waiting.names.get_mut(key)
            && progress.same_channel(&awaited.progress.subscribe())
        {
            awaited.waiters -= 1;
            if awaited.waiters == 0 {
                waiting.names.remove(key);
            }
        }
        if waiting.names.is_empty()
            && let Some(PollTask { task: Some(task), .. }) = waiting.task.take()
        {
            task.abort();
        }
    }

    /// Returns when the next name that no poll in flight includes is due.
    fn next_due(&self) -> Option<Instant> {
        let waiting = self.waiting();
        let idle = waiting.names.values().filter(|awaited| awaited.pending.is_none());
        idle.map(|awaited| awaited.pace.due()).min()
    }

    /// Begins a poll of the names that are due, or almost, and that no poll in flight includes, for the
    /// task of this number. Returns `None` if another task has replaced it.
    fn begin_poll(&self, task: u64) -> Option<PollBatch<Key<S>>> {
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
            .names
            .iter_mut()
            .filter(|(_, awaited)| awaited.pending.is_none() && awaited.pace.is_due(pending.since));
        let names = due.map(|(key, awaited)| {
            awaited.pending = Some(pending);
            awaited.pace.begin();
            let is_new = awaited.progress.borrow().left().is_none();
            let extent = if is_new { Extent::All } else { Extent::Counts };
            (Arc::clone(key), extent)
        });
        Some(PollBatch {
            number: pending.poll,
            names: names.collect(),
        })
    }

    /// Notifies the waiters of a name of what a poll has read. Returns whether it must be read once more,
    /// all of it.
    fn notify(&self, poll: u64, key: &Key<S>, extent: Extent, seen: Result<Seen<S>>) -> bool {
        self.note(poll, key, |progress| progress.see(poll, key, extent, seen))
    }

    /// Notifies the waiters of a name that a poll could not read it.
    fn notify_failure(&self, poll: u64, key: &Key<S>, error: &Error, why: &Arc<str>) {
        self.note(poll, key, |progress| Some(progress.fail(poll, error, why)));
    }

    fn note(&self, poll: u64, key: &Key<S>, see: impl FnOnce(&mut S::Progress) -> Option<bool>) -> bool {
        let mut waiting = self.waiting();
        let Some(awaited) = waiting.names.get_mut(key) else {
            return false;
        };
        // Otherwise these are newer waiters, which a later poll includes.
        let Some(pending) = awaited.pending.filter(|pending| pending.poll == poll) else {
            return false;
        };
        let mut news = None;
        awaited.progress.send_if_modified(|progress| {
            news = see(progress);
            news == Some(true)
        });
        if news.is_none() {
            return true;
        }
        awaited.pending = None;
        awaited.notified = Some(pending.since);
        let (left, expires, has_ended) = {
            let progress = awaited.progress.borrow();
            (progress.left(), progress.expires(), progress.has_ended())
        };
        awaited
            .pace
            .see(left, expires.map(|expires| self.source.distance(expires)));
        if has_ended {
            waiting.names.remove(key);
        }
        false
    }
}

#[cfg(test)]
mod tests;
