//! Barriers: parties that wait for each other, in repeated generations.

// Two cells in the row of the latch of the same name: the state, which never expires, and the
// arrivals in the current generation, which expire with its time. Every change has the condition
// that both are as they were read.
//
// | file | contents |
// |---|---|
// | `arrival` | arrivals, and outcomes of generations |
// | `cells` | the two cells |
// | `observation` | a barrier at one moment |
// | `plan` | what to write, given what was read |
// | `location` | the calls that read and change it |
// | `change` | plans a change, writes it if the row is unchanged, reads the result |
// | `watch` | waiters |
// | `double` | `DoubleBarrier`: generations that are entered and left |

mod arrival;
mod cells;
mod change;
mod double;
mod location;
mod observation;
mod plan;
#[cfg(test)]
mod tests;
pub(super) mod watch;

pub(super) use self::observation::{BarrierObservation, scan};

use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use hbase_client::{
    Delete, Row,
    low_level::{CallKind, RegionAction, TableCalls},
};
use tokio::time::{Instant, sleep};

pub use self::{
    arrival::{Arrival, BarrierOutcome, BarrierPhase, MAX_PARTIES},
    double::{DoubleBarrier, Entry},
};
use self::{
    cells::{ARRIVALS, BARRIER},
    location::BarrierLocation,
    plan::Step,
};
use super::{
    layout::{MAX_LATCH_TTL, MIN_LATCH_TTL, STATE},
    shared::Shared,
    watch::PAUSE,
};
use crate::{
    error::{Error, Result, unknown_if},
    random,
};

/// A barrier: a fixed number of parties wait until all of them have arrived, in repeated
/// generations. Returned by [`LatchManager::barrier`](super::LatchManager::barrier); cheap to
/// clone.
///
/// A generation begins with its first arrival, and opens once, with the last. If it is not full
/// when its time is over, by the region server's clock, it breaks: its waiters are notified, and
/// the next arrival begins the next generation. All waiters of a generation get the same outcome.
/// Generation numbers rise.
///
/// Every future ends within the operation timeout of its table (waits: within their own timeout and
/// that one), and may be dropped at any point; an arrival in flight may still count.
#[derive(Clone)]
pub struct Barrier {
    shared: Arc<Shared>,
    key: String,
    location: BarrierLocation,
}

/// The state of a barrier at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BarrierInfo {
    /// Its key: client and id, with a `_` between them.
    pub key: String,
    /// The number of parties.
    pub parties: u32,
    /// The generation of the next arrival: the one after the current generation if the time of that
    /// is over.
    pub generation: u64,
    /// The phase of that generation. `None` unless it is a [`DoubleBarrier`].
    pub phase: Option<BarrierPhase>,
    /// The number of arrivals in that generation, in that phase if there is one.
    pub arrived: u32,
}

impl BarrierInfo {
    /// Returns the state of the barrier with this key. `None` if it does not exist.
    pub(super) fn of(key: &str, observation: &BarrierObservation) -> Option<Self> {
        let (mut state, _) = observation.state.clone()?;
        if observation.is_over() {
            state = state.after(false);
        }
        Some(Self {
            key: key.to_owned(),
            parties: state.parties,
            generation: state.number(state.generation),
            phase: state.phase(),
            arrived: observation.present().map_or(0, |(present, _)| {
                u32::try_from(present.names.len()).unwrap_or(u32::MAX)
            }),
        })
    }
}

impl Barrier {
    pub(super) fn new(shared: Arc<Shared>, key: &str, row: Bytes) -> Self {
        let table = shared.table.clone();
        Self {
            shared,
            key: key.to_owned(),
            location: BarrierLocation { table, row },
        }
    }

    /// Returns its key: client and id, with a `_` between them.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Creates the barrier for a number of parties, with a time limit for each generation. It
    /// exists until it is deleted.
    ///
    /// # Errors
    ///
    /// - [`LatchExists`](crate::ErrorKind::LatchExists) if the barrier exists;
    /// - [`InvalidInput`](crate::ClientErrorKind::InvalidInput) for zero parties or more than
    ///   [`MAX_PARTIES`], a time under [`MIN_LATCH_TTL`] or over [`MAX_LATCH_TTL`], and a table
    ///   whose families have a TTL;
    /// - the errors of the calls.
    pub async fn create(&self, parties: u32, time: Duration) -> Result<()> {
        self.create_as(parties, time, false).await
    }

    async fn create_as(&self, parties: u32, time: Duration, is_double: bool) -> Result<()> {
        self.check(parties, time)
            .map_err(|error| self.in_context(error))?;
        let barrier = random::bits_64(self.location.table.connection().environment());
        self.change(|change, observation| {
            let (row, id) = (&self.location.row, (barrier, is_double));
            plan::create(row, id, (parties, time), change, observation).map(|plan| ((), plan))
        })
        .await
    }

    /// Arrives, and returns the generation. A participant counts once in a generation, however
    /// often it arrives. If it arrives again after an unknown outcome or a timeout, it may count in the
    /// next generation, because this one may have opened meanwhile: use [`arrive_in`](Self::arrive_in)
    /// to repeat an arrival.
    ///
    /// # Errors
    ///
    /// - [`LatchAbsent`](crate::ErrorKind::LatchAbsent) if the barrier does not exist;
    /// - [`DefinitionMismatch`](crate::ErrorKind::DefinitionMismatch) if it is a [`DoubleBarrier`];
    /// - [`InvalidInput`](crate::ClientErrorKind::InvalidInput) for an empty name;
    /// - the errors of the calls. If an answer was lost, the client finds out whether the arrival
    ///   counted, as long as fewer than 16 other changes of the barrier followed; after more, the
    ///   [outcome is unknown](Error::is_outcome_unknown).
    pub async fn arrive(&self, participant: &str) -> Result<Arrival> {
        self.arrive_at(participant, Step::Arrive(None)).await
    }

    /// Arrives in the generation of this number, and in no other one. Generations are numbered from
    /// 1, so a participant of each round can count them itself. The call may be repeated after any
    /// error or timeout.
    ///
    /// If the generation has ended, nothing is changed, and [`wait`](Self::wait) returns how it ended,
    /// whether or not this participant had arrived in it.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`arrive`](Self::arrive), and
    /// [`InvalidInput`](crate::ClientErrorKind::InvalidInput) if the generation cannot have begun,
    /// because one before it has not ended.
    pub async fn arrive_in(&self, participant: &str, generation: u64) -> Result<Arrival> {
        self.check_generation(generation)?;
        self.arrive_at(participant, Step::Arrive(Some(generation))).await
    }

    async fn arrive_at(&self, participant: &str, step: Step) -> Result<Arrival> {
        if participant.is_empty() {
            return Err(self.in_context(Error::invalid("an empty participant")));
        }
        let name = cells::name(participant);
        self.change(|change, observation| plan::arrive(&self.location.row, name, step, change, observation))
            .await
    }

    fn check_generation(&self, generation: u64) -> Result<()> {
        match generation {
            0 => Err(self.in_context(Error::invalid("generations are numbered from 1"))),
            _ => Ok(()),
        }
    }

    /// Waits until a generation has ended, or until the timeout.
    ///
    /// One task polls for all waiters of the clones of one manager, every 25 to 500 ms, as for
    /// [latches](super::Latch::wait). The first process that finds the time of the generation over records
    /// its end with a write, so that an arrival whose write the server has begun cannot open it for
    /// others. So waiting needs the right to write.
    ///
    /// # Errors
    ///
    /// - [`LatchAbsent`](crate::ErrorKind::LatchAbsent) if the barrier was deleted;
    /// - [`LatchExpired`](crate::ErrorKind::LatchExpired) if 64 other generations have ended since;
    /// - the errors of the calls, except those that a retry before the timeout can resolve.
    pub async fn wait(&self, arrival: &Arrival, timeout: Duration) -> Result<BarrierOutcome> {
        let until = Instant::now() + timeout.min(MAX_LATCH_TTL);
        let waited = self.wait_until(arrival, until).await;
        waited.map_err(|error| self.in_context(error))
    }

    /// Waits until the generation of this number has ended, or until the timeout, without arriving.
    /// The number is that of the barrier that exists now.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`wait`](Self::wait),
    /// [`DefinitionMismatch`](crate::ErrorKind::DefinitionMismatch) for a [`DoubleBarrier`], and
    /// [`InvalidInput`](crate::ClientErrorKind::InvalidInput) for generation 0.
    pub async fn wait_for(&self, generation: u64, timeout: Duration) -> Result<BarrierOutcome> {
        self.check_generation(generation)?;
        let until = Instant::now() + timeout.min(MAX_LATCH_TTL);
        let seen = self.location.read(self.location.table.deadline()).await;
        let barrier = seen.and_then(|seen| Ok(seen.of_kind(false)?.0.barrier));
        let barrier = barrier.map_err(|error| self.in_context(error))?;
        let arrival = Arrival { barrier, generation };
        self.wait(&arrival, rest(until)).await
    }

    async fn wait_until(&self, arrival: &Arrival, until: Instant) -> Result<BarrierOutcome> {
        loop {
            let mut waiter = self.shared.barriers.join(&self.location.row);
            let waited = waiter.wait_for(|seen| seen.is_decided(arrival), until).await;
            if let Ok(Some(seen)) = waited
                && let Some(ended) = seen.ended(arrival)
            {
                return ended;
            }
            // However short the wait, it includes one read.
            let ended = self.see_end(arrival, self.location.table.deadline()).await;
            let is_over = Instant::now() >= until;
            match ended {
                Ok(Some(outcome)) => return Ok(outcome),
                Ok(None) if is_over => return Ok(BarrierOutcome::TimedOut),
                Err(error) if is_over || !error.is_retryable() => return Err(error),
                Ok(None) | Err(_) => {}
            }
            sleep(PAUSE).await;
        }
    }

    /// Returns how the generation of an arrival ended, `None` if it has not. Ends it if its time is
    /// over.
    async fn see_end(&self, arrival: &Arrival, deadline: Instant) -> Result<Option<BarrierOutcome>> {
        let seen = self.location.read(deadline).await?;
        match seen.ended(arrival)? {
            Some(outcome) => Ok(Some(outcome)),
            None => self.location.end_if_over(seen, deadline).await?.ended(arrival),
        }
    }

    /// Arrives, and waits until the generation has ended, or until the timeout.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`arrive`](Self::arrive) and [`wait`](Self::wait).
    pub async fn arrive_and_wait(
        &self,
        participant: &str,
        timeout: Duration,
    ) -> Result<(Arrival, BarrierOutcome)> {
        let until = Instant::now() + timeout.min(MAX_LATCH_TTL);
        let arrival = self.arrive(participant).await?;
        let outcome = self.wait(&arrival, rest(until)).await?;
        Ok((arrival, outcome))
    }

    /// Reads the barrier, double or not. Returns `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// Returns [`LatchCorrupt`](crate::ErrorKind::LatchCorrupt) for cells that no version of this
    /// library writes, and the errors of the call.
    pub async fn show(&self) -> Result<Option<BarrierInfo>> {
        let observation = self
            .location
            .read(self.location.table.deadline())
            .await
            .map_err(|error| self.in_context(error))?;
        Ok(BarrierInfo::of(&self.key, &observation))
    }

    /// Deletes the barrier, double or not, and returns whether it existed. Its waiters are notified that it is
    /// absent.
    ///
    /// # Errors
    ///
    /// Returns an error if a call fails. If the outcome is unknown, call it again.
    pub async fn delete(&self) -> Result<bool> {
        let deadline = self.location.table.deadline();
        let mut found = false;
        loop {
            let deleted = self.delete_observed(deadline).await.map_err(unknown_if(found));
            if deleted.map_err(|error| self.in_context(error))? {
                found = true;
            } else {
                self.shared.barriers.poll_now(&self.location.row);
                return Ok(found);
            }
        }
    }

    /// Deletes the cells that there are. Returns whether there were any.
    async fn delete_observed(&self, deadline: Instant) -> Result<bool> {
        let row = self.location.read_row(deadline).await?;
        let Some(last) = row.iter().flat_map(Row::cells).map(|cell| cell.timestamp).max() else {
            return Ok(false);
        };
        let delete = Delete::new(self.location.row.clone())
            .column(STATE, BARRIER)
            .column(STATE, ARRIVALS);
        let delete = RegionAction::Atomic(vec![delete.timestamp(last).into()]);
        self.location
            .send(vec![delete], CallKind::IdempotentWrite, deadline)
            .await?;
        Ok(true)
    }

    fn check(&self, parties: u32, time: Duration) -> Result<()> {
        if parties == 0 || parties > MAX_PARTIES {
            return Err(Error::invalid(format!(
                "{parties} parties are out of range: from 1 to {MAX_PARTIES}"
            )));
        }
        if !(MIN_LATCH_TTL..=MAX_LATCH_TTL).contains(&time) {
            return Err(Error::invalid(format!(
                "a generation of {time:?} is out of range: from {MIN_LATCH_TTL:?} to {MAX_LATCH_TTL:?}"
            )));
        }
        match self.shared.families.cells_live {
            Some(life) => Err(Error::invalid(format!(
                "the table keeps cells for {life:?} only, and a barrier exists until it is deleted"
            ))
            .with_hint("set the TTL of its families to FOREVER")),
            None => Ok(()),
        }
    }

    fn in_context(&self, error: Error) -> Error {
        error
            .at_operation(format!("barrier {}", self.key))
            .at_table(self.location.table.name())
    }
}

impl fmt::Debug for Barrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Barrier")
            .field("key", &self.key)
            .field("table", self.location.table.name())
            .finish_non_exhaustive()
    }
}

/// Returns the time until a moment.
fn rest(until: Instant) -> Duration {
    until.saturating_duration_since(Instant::now())
}
