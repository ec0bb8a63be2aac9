//! One latch, and what can be done with it.

use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::time::Instant;

use super::{
    layout::Cells,
    manager::Shared,
    place::Place,
    plan::Wish,
    sight::Participants,
    state::{Counted, LatchInfo, LatchState},
    table::LatchTableOptions,
    watch::WaitOutcome,
};
use crate::{
    error::{Error, ErrorKind, Result},
    keyed_lock::KeyedGuard,
    model::{Level, TableName},
};

/// The shortest life of a latch.
pub const SHORTEST_LATCH: Duration = Duration::from_millis(100);
/// The longest life of a latch.
pub const LONGEST_LATCH: Duration = Duration::from_secs(366 * 24 * 3_600);
/// The longest name of a participant, in bytes.
const LONGEST_PARTICIPANT: usize = 256;

/// A latch: a count in HBase that others wait for to be counted down. Got from
/// [`LatchManager::latch`](super::LatchManager::latch); cheap to clone.
///
/// A latch lives from [`init`](Self::init) until its time is over, by the clock of its region server, or until it is deleted.
/// Nothing that is counted makes it live longer, and nothing of it stays behind but, for a week, that it has expired.
///
/// Every future ends within the operation timeout of its table ([`wait`](Self::wait): of the time that it is given and that timeout), and may be
/// dropped at any point; a change that was on its way then may still be made.
#[derive(Clone)]
pub struct Latch {
    pub(super) shared: Arc<Shared>,
    key: String,
    pub(super) place: Place,
}

impl Latch {
    pub(super) fn new(shared: Arc<Shared>, key: &str, cells: Cells) -> Self {
        let table = shared.table.clone();
        Self {
            shared,
            key: key.to_owned(),
            place: Place { table, cells },
        }
    }

    /// Its key: client and id, with a `_` between them.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Whose counts make it.
    #[must_use]
    pub fn level(&self) -> Level {
        self.place.cells.level
    }

    /// Makes the latch, with so much to count down and so long to live. With nothing to count down it is reached at once, until
    /// somebody counts up.
    ///
    /// What a Java client left that counted down too late is cleared away, not added to.
    ///
    /// # Errors
    ///
    /// [`LatchExists`](crate::ErrorKind::LatchExists) when it is there, open or reached;
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for a count over `i64::MAX`, and a life under [`SHORTEST_LATCH`], over
    /// [`LONGEST_LATCH`] or over the TTL of one of the table's families. When an answer was lost and it can't be found out any more
    /// whether the latch is this one, its [outcome is unknown](Error::is_outcome_unknown).
    pub async fn init(&self, count: u64, ttl: Duration) -> Result<()> {
        let count = self.whole(count)?;
        self.check_ttl(ttl)?;
        let deadline = self.place.table.deadline();
        let _turn = self.turn(deadline).await?;
        let made = self.place.init(&Wish::Init { count, ttl }, deadline).await;
        made.map_err(|error| self.blame(error))
    }

    /// Counts down by this much, in the column of this farm.
    ///
    /// # Errors
    ///
    /// [`LatchAbsent`](crate::ErrorKind::LatchAbsent), [`LatchExpired`](crate::ErrorKind::LatchExpired);
    /// [`LimitExceeded`](crate::ErrorKind::LimitExceeded) when less is left. When an answer was lost it is found out whether this
    /// counted, as far as that is possible: not if so many others have counted since that it is forgotten, and not in a table without
    /// the state family; then its [outcome is unknown](Error::is_outcome_unknown). [`arrive`](Self::arrive) may be
    /// called again.
    pub async fn count_down(&self, by: u64) -> Result<Counted> {
        let by = self.whole(by)?;
        self.change(&Wish::CountDown(by)).await
    }

    /// Adds this much to be counted down, in the column of this farm. A latch that was reached is open again; who has been
    /// told that it was reached is not told.
    ///
    /// # Errors
    ///
    /// As [`count_down`](Self::count_down); [`InvalidInput`](crate::ErrorKind::InvalidInput) for more than a count can be.
    pub async fn count_up(&self, by: u64) -> Result<Counted> {
        let by = self.whole(by)?;
        self.change(&Wish::CountUp(by)).await
    }

    /// Counts down by one for a participant, once for each: a participant that has arrived may arrive again, and nothing is
    /// counted. So it may be tried again after any error.
    ///
    /// A participant's name is remembered until the latch ends.
    ///
    /// # Errors
    ///
    /// As [`count_down`](Self::count_down); [`InvalidInput`](crate::ErrorKind::InvalidInput) for a name that is empty or has more
    /// than 256 bytes; [`LimitExceeded`](crate::ErrorKind::LimitExceeded) when 1,000 others have arrived;
    /// [`FamilyNotFound`](crate::ErrorKind::FamilyNotFound) in a table without the state family, which has no place for names.
    pub async fn arrive(&self, participant: &str) -> Result<Counted> {
        let column = self.column_of(participant)?;
        self.change(&Wish::Arrive(column)).await
    }

    /// What became of the latch, and its counts.
    ///
    /// # Errors
    ///
    /// [`LatchCorrupt`](crate::ErrorKind::LatchCorrupt) for a row that no client of a latch writes; those of the call.
    pub async fn show(&self) -> Result<LatchInfo> {
        let sight = self
            .place
            .look(Participants::None, self.place.table.deadline())
            .await;
        sight
            .and_then(|sight| sight.info(&self.key, self.level()))
            .map_err(|error| self.blame(error))
    }

    /// Waits until the latch is reached, has ended otherwise, or the time is over.
    ///
    /// All that wait through the clones of one manager are served by one task, which ends with the last of them. It asks
    /// for a few latches every 25 to 60 ms, and for at most 20,000 latches a second.
    ///
    /// # Errors
    ///
    /// Those of the calls that can't be mended by trying again; [`DeadlineExceeded`](crate::ErrorKind::DeadlineExceeded) when the
    /// time is over and the latch could not be read.
    pub async fn wait(&self, timeout: Duration) -> Result<WaitOutcome> {
        let until = Instant::now() + timeout.min(LONGEST_LATCH);
        let waited = self.shared.watch.wait(&self.place.cells, until).await;
        waited.map_err(|error| self.blame(error))
    }

    /// Deletes the latch, and what was known of it. Whether there was anything.
    ///
    /// # Errors
    ///
    /// Those of the calls. When it is not known whether the latch was deleted, call it again.
    pub async fn delete(&self) -> Result<bool> {
        self.change(&Wish::Delete).await.map(|changed| changed.counted)
    }

    async fn change(&self, wish: &Wish) -> Result<Counted> {
        let deadline = self.place.table.deadline();
        let _turn = self.turn(deadline).await?;
        let changed = self.place.change(wish, deadline).await;
        self.shared.watch.look_now();
        changed.map_err(|error| self.blame(error))
    }

    /// The column that says that a participant has arrived.
    pub(super) fn column_of(&self, participant: &str) -> Result<Bytes> {
        if participant.is_empty() || participant.len() > LONGEST_PARTICIPANT {
            return Err(self.blame(Error::invalid(format!(
                "a participant's name of {} bytes; it has from 1 to {LONGEST_PARTICIPANT}",
                participant.len()
            ))));
        }
        if self.place.cells.note.is_none() {
            return Err(self.blame(no_place_for_participants(self.place.table.name())));
        }
        Ok(self.place.cells.arrived(participant))
    }

    /// The turn among the tasks of this process.
    async fn turn(&self, deadline: Instant) -> Result<KeyedGuard<'_, Bytes>> {
        let row = self.place.cells.row.clone();
        let turn = self.shared.turns.lock(row).until(deadline.into_std()).await;
        turn.map_err(|_| {
            let error = Error::new(
                ErrorKind::DeadlineExceeded,
                "other tasks of this process were changing the latch all the time",
            )
            .with_retryable(true)
            .with_hint("count by more at a time, from fewer tasks, or allow more time");
            self.blame(error)
        })
    }

    pub(super) fn whole(&self, count: u64) -> Result<i64> {
        whole(count).map_err(|error| self.blame(error))
    }

    fn check_ttl(&self, ttl: Duration) -> Result<()> {
        check_life(ttl, self.shared.families.cells_live).map_err(|error| self.blame(error))
    }

    pub(super) fn blame(&self, error: Error) -> Error {
        error
            .at_operation(format!("latch {}", self.key))
            .at_table(self.place.table.name())
    }
}

/// A count that eight bytes can say.
pub(crate) fn whole(count: u64) -> Result<i64> {
    i64::try_from(count)
        .map_err(|_| Error::invalid(format!("a count of {count}; it is {} at most", i64::MAX)))
}

/// Refuses a life that no latch may have, where cells live for so long.
pub(crate) fn check_life(ttl: Duration, cells_live: Option<Duration>) -> Result<()> {
    let longest = cells_live.unwrap_or(LONGEST_LATCH).min(LONGEST_LATCH);
    if (SHORTEST_LATCH..=longest).contains(&ttl) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "a latch that lives for {ttl:?}; it is from {SHORTEST_LATCH:?} to {longest:?} here"
    )))
}

/// A name in the counts' family would be added up by Java clients, and without it a participant who tries again counts twice.
pub(super) fn no_place_for_participants(table: &TableName) -> Error {
    let family = LatchTableOptions::STATE_FAMILY;
    Error::new(
        ErrorKind::FamilyNotFound,
        format!("the table has no family {family}, in which it is known who has arrived"),
    )
    .with_hint(format!(
        "count down instead; or add the family: hbase-txn table alter {table} --family {family}; and open the table again in \
         all processes that count in it"
    ))
}

impl fmt::Debug for Latch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Latch")
            .field("key", &self.key)
            .field("level", &self.level())
            .field("table", self.place.table.name())
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
