//! Waiting for latches.

use std::{
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use bytes::Bytes;
use futures::{StreamExt, stream::BoxStream};
use hbase_client::{
    Table,
    low_level::{GetAnswer, TableCalls},
};
use tokio::{
    runtime::Handle,
    time::{Instant, sleep},
};

use super::{
    PAUSE, Progress, TimeOver, Waiter, Watch,
    polling::{Extent, POLL_TIMEOUT, PollResult, Source},
};
use crate::{
    error::{ClientErrorKind, Error, Result},
    latch::{
        layout::Cells,
        observation::{self, LatchObservation, Participants},
        state::LatchState,
    },
};

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

/// The source of reads of latches.
pub(crate) trait LatchSource: Source<Progress = LatchProgress> {
    /// Reads all of one latch.
    fn read(&self, cells: &Cells, deadline: Instant)
    -> impl Future<Output = Result<LatchObservation>> + Send;
}

/// The last known state of an awaited latch.
#[derive(Clone, Debug, Default)]
pub(crate) struct LatchProgress {
    /// The remaining count; `None` until a poll has seen the latch live.
    left: Option<u64>,
    /// The number of the latch that was seen live. `None` also without a note.
    latch: Option<u64>,
    /// The timestamps of its counts, and the last poll that has seen it live.
    stamps: Vec<(Bytes, u64)>,
    live: u64,
    expires: Option<u64>,
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

impl<S: LatchSource> Watch<S> {
    /// Waits for the latch of this number, or if it is `None` for the one that the first poll finds.
    /// Other latches of the name may follow meanwhile.
    pub(crate) async fn wait(
        &self,
        cells: &Cells,
        mut latch: Option<u64>,
        until: Instant,
    ) -> Result<WaitOutcome> {
        loop {
            let mut waiter = LatchWaiter {
                waiter: self.join(cells),
                latch,
            };
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

/// A waiter for one latch.
struct LatchWaiter<S: LatchSource> {
    waiter: Waiter<S>,
    /// The number of the latch, once it is known.
    latch: Option<u64>,
}

impl<S: LatchSource> LatchWaiter<S> {
    /// Returns `None` if the polling task has no outcome; the waiter reads the latch itself then.
    async fn wait(&mut self, until: Instant) -> Result<Option<WaitOutcome>> {
        let latch = self.latch;
        let is_decided = |progress: &LatchProgress| progress.ended.is_some() || progress.is_of_another(latch);
        match self.waiter.wait_for(is_decided, until).await {
            Ok(progress) => Ok(progress.and_then(|progress| self.outcome(&progress))),
            Err(TimeOver) => self.timed_out(),
        }
    }

    fn outcome(&mut self, progress: &LatchProgress) -> Option<WaitOutcome> {
        if progress.is_of_another(self.latch) {
            return None;
        }
        if progress.live > self.waiter.before {
            self.latch = self.latch.or(progress.latch);
        }
        match progress.ended {
            Some((poll, Ended::Outcome(outcome))) if poll > self.waiter.before => Some(outcome),
            _ => None,
        }
    }

    fn timed_out(&mut self) -> Result<Option<WaitOutcome>> {
        let progress = self.waiter.progress();
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
            // Polled since it joined, and recently.
            (None, Some(_)) if progress.live > self.waiter.before && self.waiter.is_fresh() => {
                Ok(Some(WaitOutcome::TimedOut))
            }
            // However short the wait, it includes one read.
            (None, _) => Ok(None),
        }
    }
}

impl Progress for LatchProgress {
    type Key = Cells;
    type Seen = LatchObservation;

    fn see(
        &mut self,
        poll: u64,
        cells: &Cells,
        extent: Extent,
        seen: Result<LatchObservation>,
    ) -> Option<bool> {
        // Without the note, it is the same latch only if no count was written again.
        if let Ok(observation) = &seen
            && extent == Extent::Counts
            && cells.note.is_some()
            && observation.note.is_none()
            && (observation.deadline(cells.level).is_none() || self.stamps != observation.stamps())
        {
            return None;
        }
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
                    self.expires = observation.deadline(cells.level).and_then(|seen| seen.expires);
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
        Some(self.left != before || self.ended.is_some())
    }

    fn fail(&mut self, poll: u64, error: &Error, why: &Arc<str>) -> bool {
        self.failed = Some(Arc::clone(why));
        self.ended = (!error.is_retryable()).then_some((poll, Ended::Failed));
        self.ended.is_some()
    }

    fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    fn left(&self) -> Option<u64> {
        self.left
    }

    fn expires(&self) -> Option<u64> {
        self.expires
    }
}

impl LatchProgress {
    /// Returns whether a latch was seen live that is not the one of this number.
    fn is_of_another(&self, latch: Option<u64>) -> bool {
        latch.is_some() && (self.latch.is_some() || self.ended.is_some()) && self.latch != latch
    }
}

impl Source for Table {
    type Progress = LatchProgress;

    fn runtime(&self) -> &Handle {
        TableCalls::runtime(self)
    }

    fn deadline(&self) -> Instant {
        TableCalls::deadline(self)
    }

    fn distance(&self, time: u64) -> Duration {
        let now = self.connection().environment().wall_clock();
        let time = UNIX_EPOCH + Duration::from_millis(time);
        time.duration_since(now).unwrap_or_else(|past| past.duration())
    }

    fn read_each(
        &self,
        latches: &[(Arc<Cells>, Extent)],
        deadline: Instant,
    ) -> BoxStream<'_, PollResult<LatchObservation>> {
        let get = |(cells, extent): &(Arc<Cells>, Extent)| match extent {
            Extent::All => observation::get(cells, Participants::None),
            Extent::Counts => observation::get_counts(cells),
        };
        let gets = latches.iter().map(get).collect();
        let cells: Vec<_> = latches.iter().map(|(cells, _)| Arc::clone(cells)).collect();
        let seen = move |answer| match answer {
            GetAnswer::Found(found) => {
                let found = found.into_iter();
                let observations =
                    found.map(|(place, row)| (place, LatchObservation::of(&cells[place], row.as_ref())));
                PollResult::Found(observations.collect())
            }
            GetAnswer::Failed(places, error) => PollResult::Failed(places, error.into()),
        };
        self.get_each(gets, deadline).map(seen).boxed()
    }
}

impl LatchSource for Table {
    async fn read(&self, cells: &Cells, deadline: Instant) -> Result<LatchObservation> {
        let left = deadline.saturating_duration_since(Instant::now());
        let table = self.clone().with_operation_timeout(left);
        let row = table.get(observation::get(cells, Participants::None)).await?;
        LatchObservation::of(cells, row.as_ref())
    }
}
