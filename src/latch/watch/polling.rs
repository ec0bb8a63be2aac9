//! The task that polls all awaited latches.
//!
//! A latch whose server does not answer does not delay the others, which are polled meanwhile.

use std::{sync::Arc, time::Duration};

use futures::{
    FutureExt, StreamExt,
    stream::{BoxStream, SelectAll},
};
use hbase_client::{
    Table,
    low_level::{GetAnswer, TableCalls},
};
use tokio::{
    runtime::Handle,
    time::{Instant, sleep_until},
};

use super::{PollEnd, Shared};
use crate::{
    error::{Error, Result},
    latch::{
        layout::Cells,
        observation::{self, LatchObservation, Participants},
    },
};

/// The first pause between two polls, and the longest one while nothing changes.
const PAUSES: (Duration, Duration) = (Duration::from_millis(25), Duration::from_millis(60));
/// The minimum pause per polled latch.
const EACH: Duration = Duration::from_micros(50);
/// The deadline of a poll, after which its waiters are notified of the failure.
pub(super) const POLL_TIMEOUT: Duration = Duration::from_secs(10);

/// Latches that are polled together.
pub(super) struct PollBatch {
    pub(super) number: u64,
    pub(super) cells: Vec<(Arc<Cells>, Extent)>,
}

/// The cells that are read of a latch.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Sufficient for a latch that was read live, and is still live. Half the work for the server.
    Counts,
    All,
}

/// The source of reads of latches: a table, or a gateway.
pub(crate) trait Source: Clone + Send + Sync + 'static {
    /// Returns the runtime of the connection.
    fn runtime(&self) -> &Handle;

    /// Returns the deadline of a call that begins now.
    fn deadline(&self) -> Instant;

    /// Reads all of one latch.
    fn read(&self, cells: &Cells, deadline: Instant)
    -> impl Future<Output = Result<LatchObservation>> + Send;

    /// Reads many latches. Each is yielded once, by its index, as soon as it was read; more than
    /// the extent may be read.
    fn read_each(&self, latches: &[(Arc<Cells>, Extent)], deadline: Instant) -> BoxStream<'_, PollResult>;
}

/// The states of some latches, by index.
pub(crate) enum PollResult {
    Found(Vec<(usize, Result<LatchObservation>)>),
    Failed(Vec<usize>, Error),
}

impl Source for Table {
    fn runtime(&self) -> &Handle {
        TableCalls::runtime(self)
    }

    fn deadline(&self) -> Instant {
        TableCalls::deadline(self)
    }

    async fn read(&self, cells: &Cells, deadline: Instant) -> Result<LatchObservation> {
        let left = deadline.saturating_duration_since(Instant::now());
        let table = self.clone().with_operation_timeout(left);
        let row = table.get(observation::get(cells, Participants::None)).await?;
        LatchObservation::of(cells, row.as_ref())
    }

    fn read_each(&self, latches: &[(Arc<Cells>, Extent)], deadline: Instant) -> BoxStream<'_, PollResult> {
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

type PollStream<'a> = SelectAll<BoxStream<'a, (Arc<PollBatch>, PollResult)>>;

/// Polls until another task replaces this one or no task waits.
pub(super) async fn poll_until_replaced<S: Source>(end: PollEnd<S>) {
    let PollEnd { shared, task } = &end;
    let source = shared.source.clone();
    let mut polls = PollStream::new();
    let (mut pause, mut changed) = (PAUSES.0, true);
    // Whether a poll in flight may have read before a change of this process.
    let mut outdated = false;
    while let Some(poll) = shared.begin_poll(*task) {
        let least = EACH.saturating_mul(u32::try_from(poll.cells.len()).unwrap_or(u32::MAX));
        pause = if std::mem::take(&mut changed) {
            PAUSES.0
        } else {
            (pause * 5 / 4).min(PAUSES.1)
        };
        let mut pausing = sleep_until(Instant::now() + pause.max(least)).boxed();
        begin(&source, &mut polls, poll);
        // A change in this process wakes this task, but a large number of latches is not polled
        // early.
        let mut may_hurry = least < PAUSES.1;
        let mut has_paused = false;
        loop {
            tokio::select! {
                biased;
                Some((poll, answer)) = polls.next() => {
                    let (news, unclear) = shared.record(&poll, answer);
                    changed |= news;
                    begin(&source, &mut polls, unclear);
                    if has_paused || outdated && may_hurry {
                        outdated = false;
                        break;
                    }
                }
                () = shared.now.notified(), if may_hurry => {
                    outdated = !polls.is_empty();
                    break;
                }
                () = &mut pausing, if !has_paused => {
                    if shared.is_any_due() {
                        break;
                    }
                    // All latches are in polls in flight.
                    (has_paused, may_hurry) = (true, true);
                }
            }
        }
    }
}

fn begin<'a, S: Source>(source: &'a S, polls: &mut PollStream<'a>, poll: PollBatch) {
    if poll.cells.is_empty() {
        return;
    }
    let deadline = source.deadline().min(Instant::now() + POLL_TIMEOUT);
    let observations = source.read_each(&poll.cells, deadline);
    let poll = Arc::new(poll);
    polls.push(observations.map(move |seen| (Arc::clone(&poll), seen)).boxed());
}

impl<S: Source> Shared<S> {
    /// Notifies the waiters of an answer. Returns whether any of it was new, and the latches that
    /// must be read once more with their notes.
    fn record(&self, poll: &PollBatch, seen: PollResult) -> (bool, PollBatch) {
        let mut changed = false;
        let mut unclear = PollBatch {
            number: poll.number,
            cells: Vec::new(),
        };
        match seen {
            PollResult::Found(found) => {
                for (place, observation) in found {
                    match self.record_observation(poll, place, observation) {
                        Some(news) => changed |= news,
                        None => unclear
                            .cells
                            .push((Arc::clone(&poll.cells[place].0), Extent::All)),
                    }
                }
            }
            PollResult::Failed(places, error) => {
                tracing::debug!(%error, "could not read awaited latches");
                let why: Arc<str> = error.to_string().into();
                for place in places {
                    self.notify_failure(poll.number, &poll.cells[place].0, &error, &why);
                }
            }
        }
        (changed, unclear)
    }

    /// Returns whether no count was written again since the latch was last read, so that it is still
    /// the same latch.
    fn is_same_latch(&self, cells: &Cells, observation: &LatchObservation) -> bool {
        let waiting = self.waiting();
        let awaited = waiting.latches.get(cells);
        awaited.is_some_and(|awaited| awaited.progress.borrow().stamps == observation.stamps())
    }

    /// Returns whether the observation was new. `None` if only the note has the state of the latch.
    fn record_observation(
        &self,
        poll: &PollBatch,
        place: usize,
        observation: Result<LatchObservation>,
    ) -> Option<bool> {
        let (cells, extent) = &poll.cells[place];
        if let Ok(observation) = &observation
            && *extent == Extent::Counts
            && cells.note.is_some()
            && observation.note.is_none()
            && (observation.deadline(cells.level).is_none() || !self.is_same_latch(cells, observation))
        {
            return None;
        }
        Some(self.notify(poll.number, cells, &observation))
    }
}
