//! Waiting for latches: one task for all that wait in one table, and one call to each of its region servers at a time.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{Notify, watch},
    task::AbortHandle,
    time::{Instant, sleep, timeout, timeout_at},
};

use super::{
    layout::Cells,
    sight::{self, Participants, Sight},
    state::LatchState,
};
use crate::{
    client::Table,
    error::{Error, ErrorKind, Result},
};

/// The pause between two looks: the first, and the longest when nothing changes.
const PAUSES: (Duration, Duration) = (Duration::from_millis(25), Duration::from_millis(60));
/// How much of a second goes by for each latch that is looked at.
const EACH: Duration = Duration::from_micros(30);
/// How long a look may take before it is begun anew.
const LOOK: Duration = Duration::from_secs(10);

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
pub(super) struct Watch {
    shared: Arc<Shared>,
}

struct Shared {
    table: Table,
    /// That a look is worth while at once.
    now: Notify,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    latches: HashMap<Cells, Awaited>,
    task: Option<AbortHandle>,
}

/// A latch that somebody waits for.
struct Awaited {
    progress: watch::Sender<Progress>,
    /// How many wait for it.
    waiters: usize,
}

/// What is known of a latch that is awaited.
#[derive(Clone, Debug, Default)]
struct Progress {
    /// What is left; none as long as nobody has seen it live.
    left: Option<u64>,
    ended: Option<Ended>,
    /// Why it could not be read, the last time that was tried.
    failed: Option<Arc<str>>,
}

#[derive(Clone, Copy, Debug)]
enum Ended {
    Outcome(WaitOutcome),
    /// Each who waits finds out for himself what is wrong.
    Failed,
}

impl Watch {
    pub(super) fn new(table: Table) -> Self {
        Self {
            shared: Arc::new(Shared {
                table,
                now: Notify::new(),
                waiting: Mutex::default(),
            }),
        }
    }

    /// Something has changed here, so that a look is worth while.
    pub(super) fn look_now(&self) {
        self.shared.now.notify_one();
    }

    /// Waits for a latch.
    pub(super) async fn wait(&self, cells: &Cells, until: Instant) -> Result<WaitOutcome> {
        loop {
            let mut place = self.shared.join(cells);
            if let Some(outcome) = place.wait(until).await? {
                return Ok(outcome);
            }
            let sight = look(&self.shared.table, cells).await?;
            if let Some(outcome) = sight.state(cells.level)?.into() {
                return Ok(outcome);
            }
            if Instant::now() >= until {
                return Ok(WaitOutcome::TimedOut);
            }
            // Others of those that are looked at together may be what is wrong.
            sleep(PAUSES.1).await;
        }
    }
}

async fn look(table: &Table, cells: &Cells) -> Result<Sight> {
    let row = table.get(sight::get(cells, Participants::None)).await?;
    Sight::of(cells, row.as_ref())
}

/// A waiter's place, which is left when it is dropped.
struct Place {
    shared: Arc<Shared>,
    cells: Cells,
    progress: watch::Receiver<Progress>,
}

impl Place {
    /// None when the task that looks can't say what is wrong.
    async fn wait(&mut self, until: Instant) -> Result<Option<WaitOutcome>> {
        let has_ended = |progress: &Progress| progress.ended.is_some();
        let waited = timeout_at(until, self.progress.wait_for(has_ended)).await;
        let ended = match waited.map(|seen| seen.map(|progress| progress.ended)) {
            Ok(Ok(ended)) => ended,
            // Nobody looks any more.
            Ok(Err(_)) => None,
            Err(_) => return self.timed_out(),
        };
        Ok(match ended {
            Some(Ended::Outcome(outcome)) => Some(outcome),
            Some(Ended::Failed) | None => None,
        })
    }

    fn timed_out(&self) -> Result<Option<WaitOutcome>> {
        let progress = self.progress.borrow();
        match (&progress.failed, progress.left) {
            (Some(why), _) => Err(Error::new(
                ErrorKind::DeadlineExceeded,
                format!("the time to wait is over, and the latch could not be read: {why}"),
            )
            .with_retryable(true)),
            (None, Some(_)) => Ok(Some(WaitOutcome::TimedOut)),
            // However short the time: one look is due.
            (None, None) => Ok(None),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.shared.leave(&self.cells, &self.progress);
    }
}

impl Shared {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn join(self: &Arc<Self>, cells: &Cells) -> Place {
        let mut waiting = self.waiting();
        let awaited = waiting.latches.entry(cells.clone()).or_insert_with(|| Awaited {
            progress: watch::Sender::default(),
            waiters: 0,
        });
        awaited.waiters += 1;
        let progress = awaited.progress.subscribe();
        // It ends with the runtime that it was begun on.
        if waiting.task.as_ref().is_none_or(AbortHandle::is_finished) {
            let task = tokio::spawn(look_again_and_again(Arc::clone(self)));
            waiting.task = Some(task.abort_handle());
        }
        drop(waiting);
        self.now.notify_one();
        Place {
            shared: Arc::clone(self),
            cells: cells.clone(),
            progress,
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
            && let Some(task) = waiting.task.take()
        {
            task.abort();
        }
    }

    fn awaited(&self) -> Vec<Cells> {
        self.waiting().latches.keys().cloned().collect()
    }

    /// Tells those who wait for a latch what was seen of it. Whether it was something new.
    fn tell(&self, cells: &Cells, seen: &Result<(LatchState, u64)>) -> bool {
        let mut waiting = self.waiting();
        let Some(awaited) = waiting.latches.get(cells) else {
            return false;
        };
        let changed = awaited
            .progress
            .send_if_modified(|progress| progress.see(cells, seen));
        if awaited.progress.borrow().ended.is_some() {
            // Who comes now waits for another latch of this name.
            waiting.latches.remove(cells);
        }
        changed
    }

    fn tell_failure(&self, error: &Error) {
        let why: Arc<str> = error.to_string().into();
        let mut waiting = self.waiting();
        for awaited in waiting.latches.values() {
            awaited.progress.send_if_modified(|progress| {
                progress.failed = Some(Arc::clone(&why));
                progress.ended = (!error.is_retryable()).then_some(Ended::Failed);
                progress.ended.is_some()
            });
        }
        if !error.is_retryable() {
            waiting.latches.clear();
        }
    }
}

impl Progress {
    /// Notes what was seen. Whether it is new.
    fn see(&mut self, cells: &Cells, seen: &Result<(LatchState, u64)>) -> bool {
        self.failed = None;
        let before = self.left;
        self.ended = match seen {
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
        self.left != before || self.ended.is_some()
    }
}

async fn look_again_and_again(shared: Arc<Shared>) {
    let mut pause = PAUSES.0;
    loop {
        let awaited = shared.awaited();
        let table = shared.table.clone().with_operation_timeout(LOOK);
        let gets: Vec<_> = awaited
            .iter()
            .map(|cells| sight::get(cells, Participants::None))
            .collect();
        let changed = match table.get_many(gets).await {
            Ok(rows) => {
                let tell = |(cells, row): (&Cells, Option<crate::model::Row>)| {
                    let seen = Sight::of(cells, row.as_ref())
                        .and_then(|sight| Ok((sight.state(cells.level)?, sight.left()?)));
                    shared.tell(cells, &seen)
                };
                awaited
                    .iter()
                    .zip(rows)
                    .map(tell)
                    .filter(|changed| *changed)
                    .count()
                    > 0
            }
            Err(error) => {
                tracing::debug!(%error, "could not look at latches that are awaited");
                shared.tell_failure(&error);
                false
            }
        };
        pause = match changed {
            true => PAUSES.0,
            false => (pause * 5 / 4).min(PAUSES.1),
        };
        let number = u32::try_from(awaited.len()).unwrap_or(u32::MAX);
        let least = EACH.saturating_mul(number);
        if least < PAUSES.1 {
            // Whoever changes a latch here says so.
            let _ = timeout(pause.max(least), shared.now.notified()).await;
        } else {
            sleep(least).await;
        }
    }
}
