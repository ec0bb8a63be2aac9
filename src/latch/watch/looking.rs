//! The task that looks at all latches that are awaited, again and again.
//!
//! One that no server tells of holds up nobody: the others are looked at again meanwhile.

use std::{sync::Arc, time::Duration};

use futures::{
    FutureExt, StreamExt,
    stream::{BoxStream, SelectAll},
};
use tokio::time::{Instant, sleep_until};

use super::Shared;
use crate::{
    client::{GetAnswer, Table},
    latch::{
        layout::Cells,
        sight::{self, Participants, Sight},
    },
    model::Row,
};

/// The time from one look to the next: at first, and the longest when nothing changes.
const PAUSES: (Duration, Duration) = (Duration::from_millis(25), Duration::from_millis(60));
/// How much of a second goes by for each latch that is looked at.
const EACH: Duration = Duration::from_micros(30);
/// How long is tried to look at a latch, until those who wait can be told why that is in vain.
const LOOK: Duration = Duration::from_secs(10);

/// Latches that are looked at together.
pub(super) struct Look {
    pub(super) number: u64,
    pub(super) cells: Vec<(Arc<Cells>, Extent)>,
}

/// What is read of a latch.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// Enough of one that has been seen live, and still is. It is half of the server's work.
    Counts,
    All,
}

type Looks<'a> = SelectAll<BoxStream<'a, (Arc<Look>, GetAnswer)>>;

pub(super) async fn look_again_and_again(shared: Arc<Shared>) {
    let table = shared.table.clone().with_operation_timeout(LOOK);
    let mut looks = Looks::new();
    let (mut pause, mut changed) = (PAUSES.0, true);
    // Whether a look that has begun may be too early to see what has changed here.
    let mut outdated = false;
    loop {
        let look = shared.begin_look();
        let least = EACH.saturating_mul(u32::try_from(look.cells.len()).unwrap_or(u32::MAX));
        pause = match std::mem::take(&mut changed) {
            true => PAUSES.0,
            false => (pause * 5 / 4).min(PAUSES.1),
        };
        let mut pausing = sleep_until(Instant::now() + pause.max(least)).boxed();
        begin(&table, &mut looks, look);
        // Whoever changes a latch here says so. Many are not looked at again for that.
        let mut may_hurry = least < PAUSES.1;
        let mut has_paused = false;
        loop {
            tokio::select! {
                Some((look, answer)) = looks.next() => {
                    let (news, unclear) = shared.take_in(&look, answer);
                    changed |= news;
                    begin(&table, &mut looks, unclear);
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
            }
        }
    }
}

fn begin<'a>(table: &'a Table, looks: &mut Looks<'a>, look: Look) {
    if look.cells.is_empty() {
        return;
    }
    let get = |(cells, extent): &(Arc<Cells>, Extent)| match extent {
        Extent::All => sight::get(cells, Participants::None),
        Extent::Counts => sight::get_counts(cells),
    };
    let gets = look.cells.iter().map(get).collect();
    let look = Arc::new(look);
    let answers = table.get_each(gets);
    looks.push(answers.map(move |answer| (Arc::clone(&look), answer)).boxed());
}

impl Shared {
    /// Tells what was answered. Whether any of it was new, and what must be looked at once more to be told.
    fn take_in(&self, look: &Look, answer: GetAnswer) -> (bool, Look) {
        let mut changed = false;
        let mut unclear = Look {
            number: look.number,
            cells: Vec::new(),
        };
        match answer {
            GetAnswer::Found(found) => {
                for (place, row) in found {
                    match self.take_in_row(look, place, row.as_ref()) {
                        Some(news) => changed |= news,
                        None => unclear
                            .cells
                            .push((Arc::clone(&look.cells[place].0), Extent::All)),
                    }
                }
            }
            GetAnswer::Failed(places, error) => {
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
    fn take_in_row(&self, look: &Look, place: usize, row: Option<&Row>) -> Option<bool> {
        let (cells, extent) = &look.cells[place];
        let sight = Sight::of(cells, row);
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
