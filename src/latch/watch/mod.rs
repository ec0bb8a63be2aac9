//! Waiting for latches: one task for all that wait in one table, and one call to each of its region servers at a time.
//!
//! Those who wait are here; the task that looks for them is `looking`.

mod looking;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    runtime::{self, Handle},
    sync::{Notify, watch},
    task::AbortHandle,
    time::{Instant, sleep, timeout_at},
};

#[cfg(feature = "thrift")]
pub(crate) use self::looking::Sights;
pub(crate) use self::looking::{Extent, Source};
use self::looking::{LOOK, Look};
use super::{layout::Cells, state::LatchState};
use crate::error::{Error, ErrorKind, Result};

/// The pause of one who has found out for himself what is wrong, or that nothing is.
const PAUSE: Duration = Duration::from_millis(60);
/// After so long without news of a latch it is not said to be open any more.
const FRESH: Duration = Duration::from_secs(1);
/// How often the task that looks says that it runs, and after how long without that another one takes its place.
const BEATS: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(1));

/// How waiting for a latch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[must_use = "only one of these says that the latch was reached"]
pub enum WaitOutcome {
    /// All was counted down.
    Reached,
    /// The latch's own time was over. In a table without the state family it may have been deleted instead.
    Expired,
    /// There is no such latch, or it was deleted.
    Absent,
    /// The time to wait was over, and the latch is open.
    TimedOut,
}

/// Those who wait in one table, and the task that looks for them.
#[derive(Clone)]
pub(crate) struct Watch<S> {
    shared: Arc<Shared<S>>,
}

struct Shared<S> {
    source: S,
    /// That a look is worth while at once.
    now: Notify,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    latches: HashMap<Arc<Cells>, Awaited>,
    /// How many looks have begun.
    looks: u64,
    /// How many tasks have looked, one after the other.
    tasks: u64,
    task: Option<Looker>,
}

/// The task that looks. It lives on the runtime of one who waits, or waited: nobody drives it when that one does something else.
struct Looker {
    number: u64,
    task: AbortHandle,
    runtime: runtime::Id,
    /// When it last said that it runs.
    beat: Instant,
}

/// A latch that somebody waits for.
struct Awaited {
    progress: watch::Sender<Progress>,
    /// How many wait for it.
    waiters: usize,
    /// The look that is to tell of it; none when it may be looked at.
    asked: Option<Asked>,
    /// When the look began that has told of it last.
    told: Option<Instant>,
}

#[derive(Clone, Copy)]
struct Asked {
    look: u64,
    since: Instant,
}

/// What is known of a latch that is awaited.
#[derive(Clone, Debug, Default)]
struct Progress {
    /// What is left; none as long as nobody has seen it live.
    left: Option<u64>,
    ended: Option<(u64, Ended)>,
    /// Why it could not be read, the last time that was tried.
    failed: Option<Arc<str>>,
}

/// As a look has found.
#[derive(Clone, Copy, Debug)]
enum Ended {
    Outcome(WaitOutcome),
    /// Each who waits finds out for himself what is wrong.
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

    /// Something has changed here, so that a look is worth while.
    pub(crate) fn look_now(&self) {
        self.shared.now.notify_one();
    }

    /// Waits for a latch.
    pub(crate) async fn wait(&self, cells: &Cells, until: Instant) -> Result<WaitOutcome> {
        loop {
            let mut place = self.shared.join(cells);
            if let Some(outcome) = place.wait(until).await? {
                return Ok(outcome);
            }
            let deadline = self.shared.source.deadline().min(Instant::now() + LOOK);
            let sight = self.shared.source.look(cells, deadline).await?;
            if let Some(outcome) = sight.state(cells.level)?.into() {
                return Ok(outcome);
            }
            if Instant::now() >= until {
                return Ok(WaitOutcome::TimedOut);
            }
            // Others of those that are looked at together may be what is wrong.
            sleep(PAUSE).await;
        }
    }
}

/// A waiter's place, which is left when it is dropped.
struct Place<S: Source> {
    shared: Arc<Shared<S>>,
    cells: Cells,
    progress: watch::Receiver<Progress>,
    /// How many looks had begun before. What they find may be older than what the waiter knows, as that he has made the latch.
    before: u64,
}

impl<S: Source> Place<S> {
    /// None when the task that looks can't say what is wrong.
    async fn wait(&mut self, until: Instant) -> Result<Option<WaitOutcome>> {
        let has_ended = |progress: &Progress| progress.ended.is_some();
        loop {
            // Who shares a runtime with the task that looks is not awake when it is not.
            let check = match self.shared.is_looked_for_here() {
                true => until,
                false => until.min(Instant::now() + BEATS.1),
            };
            let waited = timeout_at(check, self.progress.wait_for(has_ended)).await;
            match waited.map(|seen| seen.map(|progress| progress.ended)) {
                Ok(Ok(ended)) => return Ok(self.outcome(ended)),
                // Nobody looks any more.
                Ok(Err(_)) => return Ok(None),
                Err(_) if Instant::now() >= until => return self.timed_out(),
                Err(_) => self.shared.look_if_nobody_does(),
            }
        }
    }

    fn outcome(&self, ended: Option<(u64, Ended)>) -> Option<WaitOutcome> {
        match ended {
            Some((look, Ended::Outcome(outcome))) if look > self.before => Some(outcome),
            _ => None,
        }
    }

    fn timed_out(&self) -> Result<Option<WaitOutcome>> {
        // Not held while the others' lock is.
        let Progress { left, failed, ended } = self.progress.borrow().clone();
        if ended.is_some() {
            return Ok(self.outcome(ended));
        }
        match (failed, left) {
            (Some(why), _) => Err(Error::new(
                ErrorKind::DeadlineExceeded,
                format!("the time to wait is over, and the latch could not be read: {why}"),
            )
            .with_retryable(true)),
            (None, Some(_)) if self.shared.is_fresh(&self.cells) => Ok(Some(WaitOutcome::TimedOut)),
            // However short the time: one look is due.
            (None, _) => Ok(None),
        }
    }
}

impl<S: Source> Drop for Place<S> {
    fn drop(&mut self) {
        self.shared.leave(&self.cells, &self.progress);
    }
}

impl<S: Source> Shared<S> {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn join(self: &Arc<Self>, cells: &Cells) -> Place<S> {
        let mut waiting = self.waiting();
        let awaited = waiting
            .latches
            .entry(Arc::new(cells.clone()))
            .or_insert_with(|| Awaited {
                progress: watch::Sender::default(),
                waiters: 0,
                asked: None,
                told: None,
            });
        awaited.waiters += 1;
        let progress = awaited.progress.subscribe();
        let before = waiting.looks;
        self.look_on(&mut waiting);
        drop(waiting);
        self.now.notify_one();
        Place {
            shared: Arc::clone(self),
            cells: cells.clone(),
            progress,
            before,
        }
    }

    /// Whether the task that looks is driven by whoever drives the caller.
    fn is_looked_for_here(&self) -> bool {
        let waiting = self.waiting();
        let here = Handle::current().id();
        waiting.task.as_ref().is_some_and(|looker| looker.runtime == here)
    }

    /// Begins another task that looks, here, if nobody drives the one that there is.
    fn look_if_nobody_does(self: &Arc<Self>) {
        self.look_on(&mut self.waiting());
    }

    /// Makes sure that a task looks.
    fn look_on(self: &Arc<Self>, waiting: &mut Waiting) {
        if let Some(looker) = &waiting.task {
            if !looker.task.is_finished() && looker.beat.elapsed() < BEATS.1 {
                return;
            }
            looker.task.abort();
            // It will tell nobody any more.
            for awaited in waiting.latches.values_mut() {
                awaited.asked = None;
            }
        }
        waiting.tasks += 1;
        let task = tokio::spawn(looking::look_again_and_again(Arc::clone(self), waiting.tasks));
        waiting.task = Some(Looker {
            number: waiting.tasks,
            task: task.abort_handle(),
            runtime: Handle::current().id(),
            beat: Instant::now(),
        });
    }

    /// The task of this number says that it runs. Whether it is still the one that looks.
    fn beat(&self, number: u64) -> bool {
        let mut waiting = self.waiting();
        let looker = waiting.task.as_mut().filter(|looker| looker.number == number);
        match looker {
            Some(looker) => {
                looker.beat = Instant::now();
                true
            }
            None => false,
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
            && let Some(looker) = waiting.task.take()
        {
            looker.task.abort();
        }
    }

    /// Whether what was last seen of a latch is not long ago.
    fn is_fresh(&self, cells: &Cells) -> bool {
        let waiting = self.waiting();
        let told = waiting.latches.get(cells).and_then(|awaited| awaited.told);
        told.is_some_and(|told| told.elapsed() < FRESH)
    }

    fn is_any_due(&self) -> bool {
        let waiting = self.waiting();
        waiting.latches.values().any(|awaited| awaited.asked.is_none())
    }

    /// Begins a look at all that nobody is looking at, for the task of this number; none when another one has taken its place.
    fn begin_look(&self, task: u64) -> Option<Look> {
        let mut waiting = self.waiting();
        waiting.task.as_ref().filter(|looker| looker.number == task)?;
        waiting.looks += 1;
        let asked = Asked {
            look: waiting.looks,
            since: Instant::now(),
        };
        let due = waiting
            .latches
            .iter_mut()
            .filter(|(_, awaited)| awaited.asked.is_none());
        let cells = due.map(|(cells, awaited)| {
            awaited.asked = Some(asked);
            let is_new = awaited.progress.borrow().left.is_none();
            let extent = if is_new { Extent::All } else { Extent::Counts };
            (Arc::clone(cells), extent)
        });
        Some(Look {
            number: asked.look,
            cells: cells.collect(),
        })
    }

    /// Tells those who wait for a latch what a look has seen of it. Whether it was something new.
    fn tell(&self, look: u64, cells: &Cells, seen: &Result<(LatchState, u64)>) -> bool {
        self.note(look, cells, |progress| progress.see(look, cells, seen))
    }

    /// Tells those who wait for a latch that a look could not read it.
    fn tell_failure(&self, look: u64, cells: &Cells, error: &Error, why: &Arc<str>) {
        self.note(look, cells, |progress| {
            progress.failed = Some(Arc::clone(why));
            progress.ended = (!error.is_retryable()).then_some((look, Ended::Failed));
            progress.ended.is_some()
        });
    }

    fn note(&self, look: u64, cells: &Cells, see: impl FnOnce(&mut Progress) -> bool) -> bool {
        let mut waiting = self.waiting();
        let Some(awaited) = waiting.latches.get_mut(cells) else {
            return false;
        };
        // Else others wait by now, for whom another look is on its way.
        let Some(asked) = awaited.asked.take_if(|asked| asked.look == look) else {
            return false;
        };
        awaited.told = Some(asked.since);
        let changed = awaited.progress.send_if_modified(see);
        if awaited.progress.borrow().ended.is_some() {
            // Who comes now waits for another latch of this name.
            waiting.latches.remove(cells);
        }
        changed
    }
}

impl Progress {
    /// Notes what was seen. Whether it is new.
    fn see(&mut self, look: u64, cells: &Cells, seen: &Result<(LatchState, u64)>) -> bool {
        self.failed = None;
        let before = self.left;
        let ended = match seen {
            Err(_) => Some(Ended::Failed),
            Ok((LatchState::Open, left)) => {
                self.left = Some(*left);
                None
            }
            // Without a note nobody knows more than that it was there.
            Ok((LatchState::Absent, _)) if cells.note.is_none() && before.is_some() => {
                Some(Ended::Outcome(WaitOutcome::Expired))
            }
            Ok((state, _)) => Option::from(*state).map(Ended::Outcome),
        };
        self.ended = ended.map(|ended| (look, ended));
        self.left != before || self.ended.is_some()
    }
}
