//! The operations on one latch.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use hbase_client::low_level::TableCalls;
use hbase_keyed_lock::KeyedGuard;
use tokio::time::Instant;

use super::{
    layout::{Cells, MAX_LATCH_TTL, MIN_LATCH_TTL},
    location::LatchLocation,
    observation::Participants,
    plan::LatchOperation,
    shared::{self, Shared},
    state::{LatchCount, LatchInfo, LatchState},
    table::LatchTableOptions,
    watch::WaitOutcome,
};
use crate::{
    error::{ClientErrorKind, Error, Result},
    java_layout::Level,
};

/// The maximum length of a participant's name, in bytes.
const MAX_PARTICIPANT: usize = 256;

/// A countdown latch. Returned by [`LatchManager::latch`](super::LatchManager::latch); cheap to
/// clone.
///
/// A latch lives from [`init`](Self::init) until its time to live has passed, by the clock of its
/// region server, or until it is deleted. Counting does not prolong it. For a week after that, a
/// record remains that it has expired; no other cell does.
///
/// Every future ends within the operation timeout of its table ([`wait`](Self::wait): within its
/// own timeout and that one), and may be dropped at any point; a change in flight may still be
/// applied.
#[derive(Clone)]
pub struct Latch {
    pub(super) shared: Arc<Shared>,
    key: String,
    pub(super) location: LatchLocation,
    last_changed: LastChanged,
}

/// The number of the latch that a handle changed last. `None` once a wait has returned its end.
#[derive(Debug, Default)]
pub(crate) struct LastChanged(Mutex<Option<u64>>);

impl LastChanged {
    pub(crate) fn get(&self) -> Option<u64> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set(&self, latch: Option<u64>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = latch;
    }

    /// Records that a wait has returned.
    pub(crate) fn waited(&self, outcome: WaitOutcome) {
        if outcome != WaitOutcome::TimedOut {
            self.set(None);
        }
    }
}

impl Clone for LastChanged {
    fn clone(&self) -> Self {
        Self(Mutex::new(self.get()))
    }
}

impl Latch {
    pub(super) fn new(shared: Arc<Shared>, key: &str, cells: Cells) -> Self {
        let table = shared.table.clone();
        Self {
            shared,
            key: key.to_owned(),
            location: LatchLocation { table, cells },
            last_changed: LastChanged::default(),
        }
    }

    /// Returns its key: client and id, with a `_` between them.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns whether the latch counts one farm or all.
    #[must_use]
    pub fn level(&self) -> Level {
        self.location.cells.level
    }

    /// Creates the latch with this count and time to live. A latch with a count of zero is reached
    /// immediately, until it is counted up.
    ///
    /// Counts of Java clients that counted down too late are deleted, not added.
    ///
    /// # Errors
    ///
    /// - [`LatchExists`](crate::ErrorKind::LatchExists) if the latch exists, open or reached;
    /// - [`InvalidInput`](crate::ClientErrorKind::InvalidInput) for a count over `i64::MAX`, and
    ///   for a time to live under [`MIN_LATCH_TTL`], over [`MAX_LATCH_TTL`] or over the TTL of one
    ///   of the table's families;
    /// - the errors of the calls. If an answer was lost and it is not possible any more to find out
    ///   whether this call created the latch, the [outcome is unknown](Error::is_outcome_unknown).
    pub async fn init(&self, count: u64, ttl: Duration) -> Result<()> {
        let count = self.whole(count)?;
        self.check_ttl(ttl)?;
        let deadline = self.location.table.deadline();
        let _turn = self.turn(deadline).await?;
        let made = self
            .location
            .init(&LatchOperation::Init { count, ttl }, deadline)
            .await;
        self.last_changed
            .set(made.map_err(|error| self.in_context(error))?);
        Ok(())
    }

    /// Counts down by this number, in the column of this farm.
    ///
    /// # Errors
    ///
    /// - [`LatchAbsent`](crate::ErrorKind::LatchAbsent) or
    ///   [`LatchExpired`](crate::ErrorKind::LatchExpired) if there is no live latch;
    /// - [`LimitExceeded`](crate::ClientErrorKind::LimitExceeded) if less is left;
    /// - the errors of the calls. If an answer was lost, the client finds out whether the call
    ///   counted. That is not possible after too many other changes, or in a table without the
    ///   state family; the [outcome is then unknown](Error::is_outcome_unknown).
    ///   [`arrive`](Self::arrive) may be called again in that case.
    pub async fn count_down(&self, by: u64) -> Result<LatchCount> {
        let by = self.whole(by)?;
        self.change(&LatchOperation::CountDown(by)).await
    }

    /// Adds to the count, in the column of this farm. A latch that was reached is open again;
    /// waiters that were notified before are not notified of that.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`count_down`](Self::count_down), and
    /// [`InvalidInput`](crate::ClientErrorKind::InvalidInput) if the sum exceeds the maximum of a
    /// count.
    pub async fn count_up(&self, by: u64) -> Result<LatchCount> {
        let by = self.whole(by)?;
        self.change(&LatchOperation::CountUp(by)).await
    }

    /// Counts down by one for a participant, once for each participant: if a participant that has
    /// arrived arrives again, nothing is counted. So the call may be repeated after any error.
    ///
    /// A participant's name is remembered until the latch ends.
    ///
    /// # Errors
    ///
    /// - The errors of [`count_down`](Self::count_down);
    /// - [`InvalidInput`](crate::ClientErrorKind::InvalidInput) for a name that is empty or has
    ///   more than 256 bytes;
    /// - [`LimitExceeded`](crate::ClientErrorKind::LimitExceeded) if 1,000 others have arrived;
    /// - [`FamilyNotFound`](crate::ClientErrorKind::FamilyNotFound) in a table without the state
    ///   family, which stores the names.
    pub async fn arrive(&self, participant: &str) -> Result<LatchCount> {
        let column = self.column_of(participant)?;
        self.change(&LatchOperation::Arrive(column)).await
    }

    /// Reads the state and the counts of the latch.
    ///
    /// # Errors
    ///
    /// Returns [`LatchCorrupt`](crate::ErrorKind::LatchCorrupt) for a row that another program
    /// wrote, and the errors of the call.
    pub async fn show(&self) -> Result<LatchInfo> {
        let observation = self
            .location
            .read(Participants::None, self.location.table.deadline())
            .await;
        observation
            .and_then(|observation| observation.info(&self.key, self.level()))
            .map_err(|error| self.in_context(error))
    }

    /// Waits until the latch is reached or has ended otherwise, or until the timeout.
    ///
    /// Waits for the latch that this handle created or counted last, or, if it has not or a wait has
    /// already returned its end, for the latch that exists now. The outcome is that of this latch
    /// even if it is deleted and another one of its name is created meanwhile, up to 32 times: a
    /// latch that was deleted after it was reached is `Reached`. In a table without the state family
    /// such a latch cannot be told from the next one.
    ///
    /// One task polls for all waiters of the clones of one manager, and stops with the last waiter.
    /// A latch is polled 25 ms after news, and then less and less often: after pauses as long as there
    /// was no news, up to 500 ms. While others count, it is polled half-way to the time at which the count
    /// will be zero at their rate. At most 20,000 latches are polled per second.
    ///
    /// # Errors
    ///
    /// - The errors of calls that cannot succeed on a retry;
    /// - [`DeadlineExceeded`](crate::ClientErrorKind::DeadlineExceeded) on timeout if the latch
    ///   could not be read.
    pub async fn wait(&self, timeout: Duration) -> Result<WaitOutcome> {
        let until = Instant::now() + timeout.min(MAX_LATCH_TTL);
        let latch = self.last_changed.get();
        let waited = self.shared.watch.wait(&self.location.cells, latch, until).await;
        let outcome = waited.map_err(|error| self.in_context(error))?;
        self.last_changed.waited(outcome);
        Ok(outcome)
    }

    /// Deletes the latch and its recorded state. Returns whether there was anything to delete.
    ///
    /// # Errors
    ///
    /// Returns the errors of the calls. If the outcome is unknown, call it again.
    pub async fn delete(&self) -> Result<bool> {
        self.change(&LatchOperation::Delete)
            .await
            .map(|changed| changed.counted)
    }

    async fn change(&self, operation: &LatchOperation) -> Result<LatchCount> {
        let deadline = self.location.table.deadline();
        let _turn = self.turn(deadline).await?;
        let changed = self.location.change(operation, deadline).await;
        self.shared.watch.poll_now(&self.location.cells);
        let (count, latch) = changed.map_err(|error| self.in_context(error))?;
        self.last_changed.set(latch);
        Ok(count)
    }

    /// Returns the column that records the arrival of a participant.
    pub(super) fn column_of(&self, participant: &str) -> Result<Bytes> {
        if participant.is_empty() || participant.len() > MAX_PARTICIPANT {
            return Err(self.in_context(Error::invalid(format!(
                "a participant's name of {} bytes; it has from 1 to {MAX_PARTICIPANT}",
                participant.len()
            ))));
        }
        if self.location.cells.note.is_none() {
            return Err(self.in_context(no_place_for_participants()));
        }
        Ok(self.location.cells.arrived(participant))
    }

    /// Waits for the turn among the tasks of this process.
    async fn turn(&self, deadline: Instant) -> Result<KeyedGuard<'_, Bytes>> {
        let turn = shared::turn(&self.shared.turns, &self.location.cells.row, deadline).await;
        turn.map_err(|error| self.in_context(error))
    }

    pub(super) fn whole(&self, count: u64) -> Result<i64> {
        whole(count).map_err(|error| self.in_context(error))
    }

    fn check_ttl(&self, ttl: Duration) -> Result<()> {
        check_life(ttl, self.shared.families.cells_live).map_err(|error| self.in_context(error))
    }

    pub(super) fn in_context(&self, error: Error) -> Error {
        error
            .at_operation(format!("latch {}", self.key))
            .at_table(self.location.table.name())
    }
}

/// Converts a count to the eight-byte number of its cell.
pub(crate) fn whole(count: u64) -> Result<i64> {
    i64::try_from(count).map_err(|_| {
        Error::invalid(format!(
            "a count of {count} is out of range: at most {}",
            i64::MAX
        ))
    })
}

/// Refuses an invalid time to live; `cells_live` is the TTL of the table's cells.
pub(crate) fn check_life(ttl: Duration, cells_live: Option<Duration>) -> Result<()> {
    let longest = cells_live.unwrap_or(MAX_LATCH_TTL).min(MAX_LATCH_TTL);
    if (MIN_LATCH_TTL..=longest).contains(&ttl) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "a lifetime of {ttl:?} is out of range: from {MIN_LATCH_TTL:?} to {longest:?} in this table"
    )))
}

/// Returns the error of a table without the state family. Java clients would add up a name in the
/// counts' family, and without names a participant that arrives again would count twice.
pub(super) fn no_place_for_participants() -> Error {
    let family = LatchTableOptions::STATE_FAMILY;
    Error::new(
        ClientErrorKind::FamilyNotFound,
        format!("the table has no family {family}, which records the participants that arrived"),
    )
    .with_hint(
        "count down instead, or add the family and open the table again in all processes that count in it",
    )
    .with_missing_family(family)
}

impl fmt::Debug for Latch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Latch")
            .field("key", &self.key)
            .field("level", &self.level())
            .field("table", self.location.table.name())
            .finish_non_exhaustive()
    }
}

impl From<LatchState> for Option<WaitOutcome> {
    fn from(state: LatchState) -> Self {
        match state {
            LatchState::Open => None,
            LatchState::Reached => Some(WaitOutcome::Reached),
            LatchState::Expired => Some(WaitOutcome::Expired),
            LatchState::Absent => Some(WaitOutcome::Absent),
        }
    }
}
