//! The task that looks at all latches that are awaited, again and again.
//!
//! One that no server tells of holds up nobody: the others are looked at again meanwhile.

use std::{sync::Arc, time::Duration};

use futures::{
    FutureExt, StreamExt,
    stream::{BoxStream, SelectAll},
};
use tokio::time::{Instant, interval, sleep_until};

use super::{BEATS, Shared};
use crate::{
    client::{GetAnswer, Table},
    error::{Error, Result},
    latch::{
        layout::Cells,
        sight::{self, Participants, Sight},
    },
};

/// The time from one look to the next: at first, and the longest when nothing changes.
const PAUSES: (Duration, Duration) = (Duration::from_millis(25), Duration::from_millis(60));
/// How much of a second goes by for each latch that is looked at.
const EACH: Duration = Duration::from_micros(50);
/// How long is tried to look at a latch, until those who wait can be told why that is in vain.
pub(super) const LOOK: Duration = Duration::from_secs(10);

/// Latches that are looked at together.
pub(super) struct Look {
    pub(super) number: u64,
    pub(super) cells: Vec<(Arc<Cells>, Extent)>,
}

/// What is read of a latch.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Enough of one that has been seen live, and still is. It is half of the server's work.
    Counts,
    All,
}

/// Where latches are looked at: a table, or the same through a gateway.
pub(crate) trait Source: Clone + Send + Sync + 'static {
    /// When a call that begins now must be over.
    fn deadline(&self) -> Instant;

    /// Looks at all of one.
    fn look(&self, cells: &Cells, deadline: Instant) -> impl Future<Output = Result<Sight>> + Send;

    /// Looks at many. Each is told once, by its place, as soon as it is known; more than the extent may be read.
    fn look_each(&self, latches: &[(Arc<Cells>, Extent)], deadline: Instant) -> BoxStream<'_, Sights>;
}

/// What was seen of some latches, by their places.
pub(crate) enum Sights {
    Found(Vec<(usize, Result<Sight>)>),
    Failed(Vec<usize>, Error),
}

impl Source for Table {
    fn deadline(&self) -> Instant {
        Self::deadline(self)
    }

    async fn look(&self, cells: &Cells, deadline: Instant) -> Result<Sight> {
        let left = deadline.saturating_duration_since(Instant::now());
        let table = self.clone().with_operation_timeout(left);
        let row = table.get(sight::get(cells, Participants::None)).await?;
        Sight::of(cells, row.as_ref())
    }

    fn look_each(&self, latches: &[(Arc<Cells>, Extent)], deadline: Instant) -> BoxStream<'_, Sights> {
        let get = |(cells, extent): &(Arc<Cells>, Extent)| match extent {
            Extent::All => sight::get(cells, Participants::None),
            Extent::Counts => sight::get_counts(cells),
        };
        let gets = latches.iter().map(get).collect();
        let cells: Vec<_> = latches.iter().map(|(cells, _)| Arc::clone(cells)).collect();
        let seen = move |answer| match answer {
            GetAnswer::Found(found) => {
                let found = found.into_iter();
                let sights = found.map(|(place, row)| (place, Sight::of(&cells[place], row.as_ref())));
                Sights::Found(sights.collect())
            }
            GetAnswer::Failed(places, error) => Sights::Failed(places, error),
        };
        self.get_each(gets, deadline).map(seen).boxed()
    }
}

type Looks<'a> = SelectAll<BoxStream<'a, (Arc<Look>, Sights)>>;

/// Looks as the task of this number, until another one takes its place or nobody waits.
pub(super) async fn look_again_and_again<S: Source>(shared: Arc<Shared<S>>, task: u64) {
    let source = shared.source.clone();
    let mut looks = Looks::new();
    let (mut pause, mut changed) = (PAUSES.0, true);
    // Whether a look that has begun may be too early to see what has changed here.
    let mut outdated = false;
    let mut beats = interval(BEATS.0);
    while let Some(look) = shared.begin_look(task) {
        let least = EACH.saturating_mul(u32::try_from(look.cells.len()).unwrap_or(u32::MAX));
        pause = match std::mem::take(&mut changed) {
            true => PAUSES.0,
            false => (pause * 5 / 4).min(PAUSES.1),
        };
        let mut pausing = sleep_until(Instant::now() + pause.max(least)).boxed();
        begin(&source, &mut looks, look);
        // Whoever changes a latch here says so. Many are not looked at again for that.
        let mut may_hurry = least < PAUSES.1;
        let mut has_paused = false;
        loop {
            tokio::select! {
                Some((look, answer)) = looks.next() => {
                    let (news, unclear) = shared.take_in(&look, answer);
                    changed |= news;
                    begin(&source, &mut looks, unclear);
                    if has_paused || outdated && may_hurry {
                        outdated = false;
                        break;
                    }
                }
                () = &mut pausing, if !has_paused => {
                    if shared.is_any_due() {
                        break;
                    }
                    // All are being looked at.
                    (has_paused, may_hurry) = (true, true);
                }
                () = shared.now.notified(), if may_hurry => {
                    outdated = !looks.is_empty();
                    break;
                }
                _ = beats.tick() => {
                    if !shared.beat(task) {
                        return;
                    }
                }
            }
        }
    }
}

fn begin<'a, S: Source>(source: &'a S, looks: &mut Looks<'a>, look: Look) {
    if look.cells.is_empty() {
        return;
    }
    let deadline = source.deadline().min(Instant::now() + LOOK);
    let sights = source.look_each(&look.cells, deadline);
    let look = Arc::new(look);
    looks.push(sights.map(move |seen| (Arc::clone(&look), seen)).boxed());
}

impl<S: Source> Shared<S> {
    /// Tells what was answered. Whether any of it was new, and what must be looked at once more to be told.
    fn take_in(&self, look: &Look, seen: Sights) -> (bool, Look) {
        let mut changed = false;
        let mut unclear = Look {
            number: look.number,
            cells: Vec::new(),
        };
        match seen {
            Sights::Found(found) => {
                for (place, sight) in found {
                    match self.take_in_sight(look, place, sight) {
                        Some(news) => changed |= news,
                        None => unclear
                            .cells
                            .push((Arc::clone(&look.cells[place].0), Extent::All)),
                    }
                }
            }
            Sights::Failed(places, error) => {
                tracing::debug!(%error, "could not look at latches that are awaited");
                let why: Arc<str> = error.to_string().into();
                for place in places {
                    self.tell_failure(look.number, &look.cells[place].0, &error, &why);
                }
            }
        }
        (changed, unclear)
    }

    /// Whether it was something new; none when only the note can tell what has become of the latch.
    fn take_in_sight(&self, look: &Look, place: usize, sight: Result<Sight>) -> Option<bool> {
        let (cells, extent) = &look.cells[place];
        if let Ok(sight) = &sight
            && *extent == Extent::Counts
            && cells.note.is_some()
            && sight.deadline(cells.level).is_none()
        {
            return None;
        }
        let seen = sight.and_then(|sight| Ok((sight.state(cells.level)?, sight.left()?)));
        Some(self.tell(look.number, cells, &seen))
    }
}
