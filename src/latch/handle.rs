//! One latch, and what can be done with it.

use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use hbase_client::low_level::TableCalls;
use hbase_keyed_lock::KeyedGuard;
use tokio::time::Instant;

use super::{
    layout::{Cells, MAX_LATCH_TTL, MIN_LATCH_TTL},
    location::LatchLocation,
    manager::Shared,
    observation::Participants,
    plan::LatchOperation,
    state::{LatchCount, LatchInfo, LatchState},
    table::LatchTableOptions,
    watch::WaitOutcome,
};
use crate::{
    error::{ClientErrorKind, Error, Result},
    java_layout::Level,
};

/// The longest name of a participant, in bytes.
const MAX_PARTICIPANT: usize = 256;

/// A countdown latch. Returned by [`LatchManager::latch`](super::LatchManager::latch); cheap to
/// clone.
///
/// A latch lives from [`init`](Self::init) until its time is over, by the clock of its region
/// server, or until it is deleted. Counting does not prolong it. For a week it is recorded that it
/// has expired; no other cell remains.
///
/// Every future ends within the operation timeout of its table ([`wait`](Self::wait): within its
/// limit and that timeout), and may be dropped at any point; a change in flight may still be
/// applied.
#[derive(Clone)]
pub struct Latch {
    pub(super) shared: Arc<Shared>,
    key: String,
    pub(super) location: LatchLocation,
}

impl Latch {
    pub(super) fn new(shared: Arc<Shared>, key: &str, cells: Cells) -> Self {
        let table = shared.table.clone();
        Self {
            shared,
            key: key.to_owned(),
            location: LatchLocation { table, cells },
        }
    }

    /// Returns its key: client and id, with a `_` between them.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns whether it counts one farm or all.
    #[must_use]
    pub fn level(&self) -> Level {
        self.location.cells.level
    }

    /// Creates the latch with this count and time to live. With a count of zero it is reached at
    /// once, until it is counted up.
    ///
    /// What a Java client left that counted down too late is cleared away, not added to.
    ///
    /// # Errors
    ///
    /// [`LatchExists`](crate::ErrorKind::LatchExists) when it is there, open or reached;
    /// [`InvalidInput`](crate::ClientErrorKind::InvalidInput) for a count over `i64::MAX`, and a
    /// life under [`MIN_LATCH_TTL`], over [`MAX_LATCH_TTL`] or over the TTL of one of the table's
    /// families. When an answer was lost and it can't be found out any more whether the latch is
    /// this one, its [outcome is unknown](Error::is_outcome_unknown).
    pub async fn init(&self, count: u64, ttl: Duration) -> Result<()> {
        let count = self.whole(count)?;
        self.check_ttl(ttl)?;
        let deadline = self.location.table.deadline();
        let _turn = self.turn(deadline).await?;
        let made = self
            .location
            .init(&LatchOperation::Init { count, ttl }, deadline)
            .await;
        made.map_err(|error| self.in_context(error))
    }

    /// Counts down by this much, in the column of this farm.
    ///
    /// # Errors
    ///
    /// [`LatchAbsent`](crate::ErrorKind::LatchAbsent),
    /// [`LatchExpired`](crate::ErrorKind::LatchExpired);
    /// [`LimitExceeded`](crate::ClientErrorKind::LimitExceeded) when less is left. When an answer
    /// was lost it is found out whether this counted, as far as that is possible: not if so many
    /// others have counted since that it is forgotten, and not in a table without the state family;
    /// then its [outcome is unknown](Error::is_outcome_unknown). [`arrive`](Self::arrive) may be
    /// called again.
    pub async fn count_down(&self, by: u64) -> Result<LatchCount> {
        let by = self.whole(by)?;
        self.change(&LatchOperation::CountDown(by)).await
    }

    /// Adds to the count, in the column of this farm. A latch that was reached is open again;
    /// waiters that were notified before are not notified of that.
    ///
    /// # Errors
    ///
    /// As [`count_down`](Self::count_down); [`InvalidInput`](crate::ClientErrorKind::InvalidInput)
    /// for more than a count can be.
    pub async fn count_up(&self, by: u64) -> Result<LatchCount> {
        let by = self.whole(by)?;
        self.change(&LatchOperation::CountUp(by)).await
    }

    /// Counts down by one for a participant, once for each: a participant that has arrived may
    /// arrive again, and nothing is counted. So it may be tried again after any error.
    ///
    /// A participant's name is remembered until the latch ends.
    ///
    /// # Errors
    ///
    /// As [`count_down`](Self::count_down); [`InvalidInput`](crate::ClientErrorKind::InvalidInput)
    /// for a name that is empty or has more than 256 bytes;
    /// [`LimitExceeded`](crate::ClientErrorKind::LimitExceeded) when 1,000 others have arrived;
    /// [`FamilyNotFound`](crate::ClientErrorKind::FamilyNotFound) in a table without the state
    /// family, which has no place for names.
    pub async fn arrive(&self, participant: &str) -> Result<LatchCount> {
        let column = self.column_of(participant)?;
        self.change(&LatchOperation::Arrive(column)).await
    }

    /// Reads the state and the counts of the latch.
    ///
    /// # Errors
    ///
    /// [`LatchCorrupt`](crate::ErrorKind::LatchCorrupt) for a row that no client of a latch writes;
    /// those of the call.
    pub async fn show(&self) -> Result<LatchInfo> {
        let observation = self
            .location
            .read(Participants::None, self.location.table.deadline())
            .await;
        observation
            .and_then(|observation| observation.info(&self.key, self.level()))
            .map_err(|error| self.in_context(error))
    }

    /// Waits until the latch is reached, has ended otherwise, or the time is over.
    ///
    /// All that wait through the clones of one manager are served by one task, which ends with the
    /// last of them. It asks for a few latches every 25 to 60 ms, and for at most 20,000 latches a
    /// second.
    ///
    /// # Errors
    ///
    /// Those of the calls that can't be fixed by trying again;
    /// [`DeadlineExceeded`](crate::ClientErrorKind::DeadlineExceeded) when the time is over and the
    /// latch could not be read.
    pub async fn wait(&self, timeout: Duration) -> Result<WaitOutcome> {
        let until = Instant::now() + timeout.min(MAX_LATCH_TTL);
        let waited = self.shared.watch.wait(&self.location.cells, until).await;
        waited.map_err(|error| self.in_context(error))
    }

    /// Deletes the latch, and what was known of it. Whether there was anything.
    ///
    /// # Errors
    ///
    /// Those of the calls. When it is not known whether the latch was deleted, call it again.
    pub async fn delete(&self) -> Result<bool> {
        self.change(&LatchOperation::Delete)
            .await
            .map(|changed| changed.counted)
    }

    async fn change(&self, operation: &LatchOperation) -> Result<LatchCount> {
        let deadline = self.location.table.deadline();
        let _turn = self.turn(deadline).await?;
        let changed = self.location.change(operation, deadline).await;
        self.shared.watch.poll_now();
        changed.map_err(|error| self.in_context(error))
    }

    /// The column that says that a participant has arrived.
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

    /// The turn among the tasks of this process.
    async fn turn(&self, deadline: Instant) -> Result<KeyedGuard<'_, Bytes>> {
        let row = self.location.cells.row.clone();
        let turn = self.shared.turns.lock(row).until(deadline.into_std()).await;
        turn.map_err(|_| {
            let error = Error::new(
                ClientErrorKind::DeadlineExceeded,
                "other tasks of this process were changing the latch all the time",
            )
            .with_retryable(true)
            .with_hint("count by more at a time, from fewer tasks, or allow more time");
            self.in_context(error)
        })
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

/// A count that eight bytes can say.
pub(crate) fn whole(count: u64) -> Result<i64> {
    i64::try_from(count)
        .map_err(|_| Error::invalid(format!("a count of {count}; it is {} at most", i64::MAX)))
}

/// Refuses a life that no latch may have, where cells live for so long.
pub(crate) fn check_life(ttl: Duration, cells_live: Option<Duration>) -> Result<()> {
    let longest = cells_live.unwrap_or(MAX_LATCH_TTL).min(MAX_LATCH_TTL);
    if (MIN_LATCH_TTL..=longest).contains(&ttl) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "a latch that lives for {ttl:?}; it is from {MIN_LATCH_TTL:?} to {longest:?} here"
    )))
}

/// A name in the counts' family would be added up by Java clients, and without it a participant who
/// tries again counts twice.
pub(super) fn no_place_for_participants() -> Error {
    let family = LatchTableOptions::STATE_FAMILY;
    Error::new(
        ClientErrorKind::FamilyNotFound,
        format!("the table has no family {family}, in which it is known who has arrived"),
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
