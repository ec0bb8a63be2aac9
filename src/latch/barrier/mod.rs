//! A barrier: parties wait for each other, again and again.
//!
//! Two cells beside the latch of the same name: the state, which never expires, and who has arrived in the present generation,
//! which expires when its time is over. All changes are made under the condition that both are as they were seen.
//!
//! | file | what |
//! |---|---|
//! | `cells` | what the two cells say |
//! | `sight` | a barrier at one moment |
//! | `plan` | what to write, given what was seen |
//! | `change` | plan, write if nothing has changed, judge by what is seen then |

mod cells;
mod change;
mod plan;
mod sight;

use std::{fmt, time::Duration};

use bytes::Bytes;
use tokio::time::{Instant, sleep_until};

use self::cells::{ARRIVALS, BARRIER};
use super::{
    handle::{LONGEST_LATCH, SHORTEST_LATCH},
    layout::STATE,
};
use crate::{
    client::{CallKind, Pauses, RegionAction, Table},
    error::{Error, ErrorKind, Result},
    model::{Delete, Row},
};

/// The most parties of a barrier: the names of those who have arrived are written anew with each of them.
pub const MOST_PARTIES: u32 = 1_000;
/// The pauses between two looks of one who waits.
const PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(80));

/// A barrier: a number of parties wait until all of them have arrived, and then again. Got from
/// [`LatchManager::barrier`](super::LatchManager::barrier); cheap to clone.
///
/// A generation begins with the first who arrives and opens, once, with the last. If it is not full when its time is over, by the
/// clock of the region server, it is broken: those who wait are told, and who arrives then begins the next one. Generation
/// numbers rise.
///
/// Every future ends within the operation timeout of its table (waits: of the time that they are given and that timeout), and may be
/// dropped at any point; an arrival that was on its way then may still count.
#[derive(Clone)]
pub struct Barrier {
    table: Table,
    key: String,
    row: Bytes,
    /// How long the cells of the family live; none when that is for ever.
    cells_live: Option<Duration>,
}

/// That a participant has arrived, in which generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Which barrier of that name.
    barrier: u64,
    generation: u64,
}

impl Arrival {
    /// The number of the generation; from 1 on.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }
}

/// What became of a generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[must_use = "only one of these says that all have arrived"]
pub enum BarrierOutcome {
    /// All parties have arrived.
    Opened,
    /// Its time was over before.
    Broken,
    /// The time to wait was over, and the generation is neither. The participant has arrived all the same.
    TimedOut,
}

/// A barrier as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BarrierInfo {
    /// Its key: client and id, with a `_` between them.
    pub key: String,
    /// How many must arrive.
    pub parties: u32,
    /// The generation in which the next arrives; the one behind it, if the present one's time is over.
    pub generation: u64,
    /// How many have arrived in it.
    pub arrived: u32,
}

impl Barrier {
    pub(super) fn new(table: Table, key: &str, row: Bytes, cells_live: Option<Duration>) -> Self {
        Self {
            table,
            key: key.to_owned(),
            row,
            cells_live,
        }
    }

    /// Its key: client and id, with a `_` between them.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Makes the barrier, for so many parties, each generation of which may take so long. It lives until it is deleted.
    ///
    /// # Errors
    ///
    /// [`LatchExists`](ErrorKind::LatchExists) when it is there; [`InvalidInput`](ErrorKind::InvalidInput) for no parties or more than
    /// [`MOST_PARTIES`], a time under [`SHORTEST_LATCH`] or over [`LONGEST_LATCH`], and a table whose family forgets.
    pub async fn create(&self, parties: u32, time: Duration) -> Result<()> {
        self.check(parties, time).map_err(|error| self.blame(error))?;
        let barrier = fastrand::u64(..);
        self.change(|change, sight| {
            plan::create(&self.row, (barrier, parties, time), change, sight).map(|plan| ((), plan))
        })
        .await
    }

    /// Arrives, and says in which generation. A participant counts once in a generation, however often it arrives; called again after an
    /// unknown outcome, it may count in the next one, when this one has opened meanwhile.
    ///
    /// # Errors
    ///
    /// [`LatchAbsent`](ErrorKind::LatchAbsent); [`InvalidInput`](ErrorKind::InvalidInput) for an empty name. When an answer was lost it is
    /// found out whether it counted, as long as fewer than 16 others have changed the barrier since; then its
    /// [outcome is unknown](Error::is_outcome_unknown).
    pub async fn arrive(&self, participant: &str) -> Result<Arrival> {
        if participant.is_empty() {
            return Err(self.blame(Error::invalid("an empty participant")));
        }
        let name = cells::name(participant);
        self.change(|change, sight| plan::arrive(&self.row, name, change, sight))
            .await
    }

    /// Waits until a generation has ended, or the time is over. Looks every 10 to 80 ms.
    ///
    /// # Errors
    ///
    /// [`LatchAbsent`](ErrorKind::LatchAbsent) when the barrier was deleted; [`LatchExpired`](ErrorKind::LatchExpired) when 64 others
    /// have ended since; those of the calls.
    pub async fn wait(&self, arrival: &Arrival, timeout: Duration) -> Result<BarrierOutcome> {
        let until = Instant::now() + timeout.min(LONGEST_LATCH);
        let mut pauses = Pauses::growing(PAUSES.0, PAUSES.1);
        loop {
            let seen = self.look(self.table.deadline()).await;
            let ended = seen.and_then(|sight| sight.ended(arrival));
            if let Some(outcome) = ended.map_err(|error| self.blame(error))? {
                return Ok(outcome);
            }
            let now = Instant::now();
            if now >= until {
                return Ok(BarrierOutcome::TimedOut);
            }
            sleep_until(until.min(now + pauses.next())).await;
        }
    }

    /// Arrives, and waits until the generation has ended or the time is over.
    ///
    /// # Errors
    ///
    /// Those of [`arrive`](Self::arrive) and [`wait`](Self::wait).
    pub async fn arrive_and_wait(
        &self,
        participant: &str,
        timeout: Duration,
    ) -> Result<(Arrival, BarrierOutcome)> {
        let until = Instant::now() + timeout.min(LONGEST_LATCH);
        let arrival = self.arrive(participant).await?;
        let outcome = self
            .wait(&arrival, until.saturating_duration_since(Instant::now()))
            .await?;
        Ok((arrival, outcome))
    }

    /// The barrier as it is; none when there is none.
    ///
    /// # Errors
    ///
    /// [`LatchCorrupt`](ErrorKind::LatchCorrupt) for what no version of this library writes; those of the call.
    pub async fn show(&self) -> Result<Option<BarrierInfo>> {
        let sight = self
            .look(self.table.deadline())
            .await
            .map_err(|error| self.blame(error))?;
        Ok(sight.state.as_ref().map(|(state, _)| BarrierInfo {
            key: self.key.clone(),
            parties: state.parties,
            generation: state.generation + u64::from(sight.is_over()),
            arrived: sight.present().map_or(0, |(present, _)| {
                u32::try_from(present.names.len()).unwrap_or(u32::MAX)
            }),
        }))
    }

    /// Deletes the barrier; who waits is told that it is absent. Whether it was there.
    ///
    /// # Errors
    ///
    /// Those of the calls.
    pub async fn delete(&self) -> Result<bool> {
        let deadline = self.table.deadline();
        let mut found = false;
        loop {
            let row = self.read(deadline).await.map_err(|error| self.blame(error))?;
            let Some(last) = row.iter().flat_map(Row::cells).map(|cell| cell.timestamp).max() else {
                return Ok(found);
            };
            found = true;
            let delete = Delete::new(self.row.clone())
                .column(STATE, BARRIER)
                .column(STATE, ARRIVALS);
            let delete = RegionAction::Atomic(vec![delete.timestamp(last).into()]);
            let deleted = self.send(vec![delete], CallKind::IdempotentWrite, deadline).await;
            deleted.map_err(|error| self.blame(error))?;
        }
    }

    fn check(&self, parties: u32, time: Duration) -> Result<()> {
        if parties == 0 || parties > MOST_PARTIES {
            return Err(Error::invalid(format!(
                "a barrier of {parties} parties; it has from 1 to {MOST_PARTIES}"
            )));
        }
        if !(SHORTEST_LATCH..=LONGEST_LATCH).contains(&time) {
            return Err(Error::invalid(format!(
                "a generation of {time:?}; it may take from {SHORTEST_LATCH:?} to {LONGEST_LATCH:?}"
            )));
        }
        match self.cells_live {
            Some(life) => Err(Error::invalid(format!(
                "the table forgets what it has after {life:?}, and a barrier lives until it is deleted"
            ))
            .with_hint("set the TTL of its families to FOREVER")),
            None => Ok(()),
        }
    }

    fn blame(&self, error: Error) -> Error {
        error
            .at_operation(format!("barrier {}", self.key))
            .at_table(self.table.name())
    }
}

fn absent() -> Error {
    Error::new(
        ErrorKind::LatchAbsent,
        "there is no such barrier, or it was deleted",
    )
    .with_hint("create makes it")
}

impl fmt::Debug for Barrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Barrier")
            .field("key", &self.key)
            .field("table", self.table.name())
            .finish_non_exhaustive()
    }
}
