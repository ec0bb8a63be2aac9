//! Barriers: parties that wait for each other, again and again.

// Two cells in the row of the latch of the same name: the state, which never expires, and the
// arrivals in the present generation, which expire when its time is over. Every change is made
// under the condition that both are as they were read.
//
// | file | what |
// |---|---|
// | `arrival` | arrivals, and outcomes of generations |
// | `cells` | the two cells |
// | `observation` | a barrier at one moment |
// | `plan` | what to write, given what was read |
// | `change` | plans a change, writes it if the row is unchanged, reads the result |

mod arrival;
mod cells;
mod change;
mod observation;
mod plan;

use std::{fmt, time::Duration};

use bytes::Bytes;
use hbase_client::{
    Delete, Row, Table,
    low_level::{CallKind, Pauses, RegionAction, TableCalls},
};
use tokio::time::{Instant, sleep_until};

pub use self::arrival::{Arrival, BarrierOutcome, MAX_PARTIES};
use self::cells::{ARRIVALS, BARRIER};
use super::layout::{MAX_LATCH_TTL, MIN_LATCH_TTL, STATE};
use crate::{
    error::{Error, Result},
    random,
};

/// The pauses between two looks of one who waits.
const PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(80));

/// A barrier: a number of parties wait until all of them have arrived, again and again. Returned by
/// [`LatchManager::barrier`](super::LatchManager::barrier); cheap to clone.
///
/// A generation begins with the first who arrives and opens, once, with the last. If it is not full
/// when its time is over, by the clock of the region server, it is broken: those who wait are told,
/// and who arrives then begins the next one. Generation numbers rise.
///
/// Every future ends within the operation timeout of its table (waits: of the time that they are
/// given and that timeout), and may be dropped at any point; an arrival that was on its way then
/// may still count.
#[derive(Clone)]
pub struct Barrier {
    table: Table,
    key: String,
    row: Bytes,
    /// How long the cells of the family live; none when that is for ever.
    cells_live: Option<Duration>,
}

/// The state of a barrier at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BarrierInfo {
    /// Returns its key: client and id, with a `_` between them.
    pub key: String,
    /// How many must arrive.
    pub parties: u32,
    /// The generation in which the next arrives; the one behind it, if the present one's time is
    /// over.
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

    /// Returns its key: client and id, with a `_` between them.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Creates the barrier, for a number of parties, with a time limit for each generation. It
    /// exists until it is deleted.
    ///
    /// # Errors
    ///
    /// [`LatchExists`](crate::ErrorKind::LatchExists) when it is there;
    /// [`InvalidInput`](crate::ClientErrorKind::InvalidInput) for no parties or more than
    /// [`MAX_PARTIES`], a time under [`MIN_LATCH_TTL`] or over [`MAX_LATCH_TTL`], and a table whose
    /// family forgets.
    pub async fn create(&self, parties: u32, time: Duration) -> Result<()> {
        self.check(parties, time)
            .map_err(|error| self.in_context(error))?;
        let barrier = random::bits_64();
        self.change(|change, observation| {
            plan::create(&self.row, (barrier, parties, time), change, observation).map(|plan| ((), plan))
        })
        .await
    }

    /// Arrives, and returns the generation. A participant counts once in a generation, however
    /// often it arrives. Called again after an unknown outcome, it may count in the next
    /// generation, if this one has opened meanwhile.
    ///
    /// # Errors
    ///
    /// [`LatchAbsent`](crate::ErrorKind::LatchAbsent);
    /// [`InvalidInput`](crate::ClientErrorKind::InvalidInput) for an empty name. When an answer was
    /// lost it is found out whether it counted, as long as fewer than 16 others have changed the
    /// barrier since; then its [outcome is unknown](Error::is_outcome_unknown).
    pub async fn arrive(&self, participant: &str) -> Result<Arrival> {
        if participant.is_empty() {
            return Err(self.in_context(Error::invalid("an empty participant")));
        }
        let name = cells::name(participant);
        self.change(|change, observation| plan::arrive(&self.row, name, change, observation))
            .await
    }

    /// Waits until a generation has ended, or the time is over. Looks every 10 to 80 ms.
    ///
    /// # Errors
    ///
    /// [`LatchAbsent`](crate::ErrorKind::LatchAbsent) when the barrier was deleted;
    /// [`LatchExpired`](crate::ErrorKind::LatchExpired) when 64 others have ended since; those of
    /// the calls.
    pub async fn wait(&self, arrival: &Arrival, timeout: Duration) -> Result<BarrierOutcome> {
        let until = Instant::now() + timeout.min(MAX_LATCH_TTL);
        let mut pauses = Pauses::growing(PAUSES.0, PAUSES.1);
        loop {
            let seen = self.read(self.table.deadline()).await;
            let ended = seen.and_then(|observation| observation.ended(arrival));
            if let Some(outcome) = ended.map_err(|error| self.in_context(error))? {
                return Ok(outcome);
            }
            let now = Instant::now();
            if now >= until {
                return Ok(BarrierOutcome::TimedOut);
            }
            sleep_until(until.min(now + pauses.next_pause())).await;
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
        let until = Instant::now() + timeout.min(MAX_LATCH_TTL);
        let arrival = self.arrive(participant).await?;
        let outcome = self
            .wait(&arrival, until.saturating_duration_since(Instant::now()))
            .await?;
        Ok((arrival, outcome))
    }

    /// Reads the barrier. Returns `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// [`LatchCorrupt`](crate::ErrorKind::LatchCorrupt) for what no version of this library writes;
    /// those of the call.
    pub async fn show(&self) -> Result<Option<BarrierInfo>> {
        let observation = self
            .read(self.table.deadline())
            .await
            .map_err(|error| self.in_context(error))?;
        Ok(observation.state.as_ref().map(|(state, _)| BarrierInfo {
            key: self.key.clone(),
            parties: state.parties,
            generation: state.generation.saturating_add(u64::from(observation.is_over())),
            arrived: observation.present().map_or(0, |(present, _)| {
                u32::try_from(present.names.len()).unwrap_or(u32::MAX)
            }),
        }))
    }

    /// Deletes the barrier, and returns whether it existed. Its waiters are notified that it is
    /// absent.
    ///
    /// # Errors
    ///
    /// Returns an error if a call fails.
    pub async fn delete(&self) -> Result<bool> {
        let deadline = self.table.deadline();
        let mut found = false;
        loop {
            let row = self
                .read_row(deadline)
                .await
                .map_err(|error| self.in_context(error))?;
            let Some(last) = row.iter().flat_map(Row::cells).map(|cell| cell.timestamp).max() else {
                return Ok(found);
            };
            found = true;
            let delete = Delete::new(self.row.clone())
                .column(STATE, BARRIER)
                .column(STATE, ARRIVALS);
            let delete = RegionAction::Atomic(vec![delete.timestamp(last).into()]);
            let deleted = self.send(vec![delete], CallKind::IdempotentWrite, deadline).await;
            deleted.map_err(|error| self.in_context(error))?;
        }
    }

    fn check(&self, parties: u32, time: Duration) -> Result<()> {
        if parties == 0 || parties > MAX_PARTIES {
            return Err(Error::invalid(format!(
                "a barrier of {parties} parties; it has from 1 to {MAX_PARTIES}"
            )));
        }
        if !(MIN_LATCH_TTL..=MAX_LATCH_TTL).contains(&time) {
            return Err(Error::invalid(format!(
                "a generation of {time:?}; it may take from {MIN_LATCH_TTL:?} to {MAX_LATCH_TTL:?}"
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

    fn in_context(&self, error: Error) -> Error {
        error
            .at_operation(format!("barrier {}", self.key))
            .at_table(self.table.name())
    }
}

impl fmt::Debug for Barrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Barrier")
            .field("key", &self.key)
            .field("table", self.table.name())
            .finish_non_exhaustive()
    }
}
