//! One latch, through a gateway.

use std::{fmt, future::Future, sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{latch_manager::Shared, latch_place::Place};
use crate::{
    error::{Error, ErrorKind, Result},
    keyed_lock::KeyedGuard,
    latch::{
        Counted, LONGEST_LATCH, LatchInfo, LatchTableOptions, Participants, WaitOutcome, Wish,
        check_leftover, check_life, whole,
    },
    lock::Lasting,
    model::Level,
};

/// A latch that is reached through a gateway. Got from [`ThriftLatchManager::latch`](super::ThriftLatchManager::latch); cheap to
/// clone.
///
/// It lives and ends as a [`Latch`](crate::Latch) does: nothing that is counted makes it live longer.
///
/// Every future ends within the gateway's operation timeout ([`wait`](Self::wait): of the time that it is given and that timeout), and may be
/// dropped at any point; a change that was begun then comes to its end in the background.
///
/// No participant arrives through a gateway, and no transaction counts its latches. What compiles with a [`Latch`](crate::Latch),
///
/// ```no_run
/// # async fn example(latch: hbase_txn::Latch) {
/// latch.arrive("worker-1").await;
/// # }
/// ```
///
/// ```no_run
/// # fn example(mut transaction: hbase_txn::Transaction, latch: hbase_txn::Latch) {
/// transaction.count_down(&latch, 1);
/// # }
/// ```
///
/// does not with this:
///
/// ```compile_fail,E0599
/// # async fn example(latch: hbase_txn::ThriftLatch) {
/// latch.arrive("worker-1").await;
/// # }
/// ```
///
/// ```compile_fail,E0308
/// # fn example(mut transaction: hbase_txn::Transaction, latch: hbase_txn::ThriftLatch) {
/// transaction.count_down(&latch, 1);
/// # }
/// ```
#[derive(Clone)]
pub struct ThriftLatch {
    shared: Arc<Shared>,
    key: String,
    place: Place,
}

impl ThriftLatch {
    pub(super) fn new(shared: Arc<Shared>, key: &str, place: Place) -> Self {
        Self {
            shared,
            key: key.to_owned(),
            place,
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

    /// Makes the latch, with so much to count down and so long to live, by the region server's clock. With nothing to count down it
    /// is reached at once, until somebody counts up. What a Java client left that counted down too late is cleared away.
    ///
    /// # Errors
    ///
    /// [`LatchExists`](ErrorKind::LatchExists) when it is there, open or reached;
    /// [`InvalidInput`](ErrorKind::InvalidInput) for a count over `i64::MAX`, and a life under
    /// [`SHORTEST_LATCH`](crate::SHORTEST_LATCH), over [`LONGEST_LATCH`] or over the TTL of one of the table's families;
    /// [`FamilyNotFound`](ErrorKind::FamilyNotFound) in a table without the state family;
    /// [`LatchCorrupt`](ErrorKind::LatchCorrupt) when there is a count below nothing that may belong to a latch or not. When an answer was
    /// lost and it can't be found out any more whether the latch is this one, its [outcome is unknown](Error::is_outcome_unknown).
    pub async fn init(&self, count: u64, ttl: Duration) -> Result<()> {
        let check = || check_life(ttl, self.shared.cells_live).and_then(|()| whole(count));
        let count = check().map_err(|error| self.blame(error))?;
        self.change(Wish::Init { count, ttl }).await.map(drop)
    }

    /// Counts down by this much, in the column of this farm.
    ///
    /// # Errors
    ///
    /// [`LatchAbsent`](ErrorKind::LatchAbsent), [`LatchExpired`](ErrorKind::LatchExpired);
    /// [`LimitExceeded`](ErrorKind::LimitExceeded) when less is left; [`FamilyNotFound`](ErrorKind::FamilyNotFound) in a table
    /// without the state family; [`LatchCorrupt`](ErrorKind::LatchCorrupt) when it is not noted when the latch ends, because a
    /// Java client made it. The [outcome is unknown](Error::is_outcome_unknown) when an answer was lost and so many others have counted since
    /// that it is forgotten whether this did, and when a Java client counted at the same moment.
    pub async fn count_down(&self, by: u64) -> Result<Counted> {
        let by = whole(by).map_err(|error| self.blame(error))?;
        self.change(Wish::CountDown(by)).await
    }

    /// Adds this much to be counted down, in the column of this farm. A latch that was reached is open again; who has been
    /// told that it was reached is not told.
    ///
    /// # Errors
    ///
    /// As [`count_down`](Self::count_down); [`InvalidInput`](ErrorKind::InvalidInput) for more than a count can be.
    pub async fn count_up(&self, by: u64) -> Result<Counted> {
        let by = whole(by).map_err(|error| self.blame(error))?;
        self.change(Wish::CountUp(by)).await
    }

    /// What became of the latch, and its counts. When it ends is told as far as that is noted.
    ///
    /// # Errors
    ///
    /// [`LatchCorrupt`](ErrorKind::LatchCorrupt) for a row that no client of a latch writes, and for a count below nothing that may
    /// belong to a latch or not; those of the call.
    pub async fn show(&self) -> Result<LatchInfo> {
        let deadline = self.shared.rows.counts.connection.deadline();
        let sight = self.place.look(Participants::None, deadline).await;
        let info = sight.and_then(|sight| {
            check_leftover(&self.place.cells, &sight)?;
            sight.info(&self.key, self.level())
        });
        info.map_err(|error| self.blame(error))
    }

    /// Waits until the latch is reached, has ended otherwise, or the time is over.
    ///
    /// All that wait through the clones of one manager are served by one task, which ends with the last of them. It asks
    /// for a few latches every 25 to 60 ms, 500 of them a call.
    ///
    /// # Errors
    ///
    /// As [`show`](Self::show), but for what can be mended by trying again;
    /// [`DeadlineExceeded`](ErrorKind::DeadlineExceeded) when the time is over and the latch could not be read.
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
        let place = self.place.clone();
        self.in_turn(move |deadline| async move { place.delete(deadline).await })
            .await
    }

    async fn change(&self, wish: Wish) -> Result<Counted> {
        if self.place.cells.note.is_none() {
            let family = LatchTableOptions::STATE_FAMILY;
            let error = self
                .shared
                .rows
                .notes
                .no_family(family.as_bytes(), ", without which a gateway changes no latch")
                .with_hint(format!(
                    "add it: hbase-txn table alter {} --family {family}; and open the table again in all processes that count in it",
                    self.shared.rows.notes.table
                ));
            return Err(self.blame(error));
        }
        let place = self.place.clone();
        self.in_turn(move |deadline| async move { place.change(&wish, deadline).await })
            .await
    }

    /// Does what comes to its end also if nobody waits for it any more, when it is its turn among the tasks of this process.
    async fn in_turn<T, F>(&self, change: impl FnOnce(Instant) -> F + Send + 'static) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let deadline = self.shared.rows.counts.connection.deadline();
        let row = self.place.cells.row.clone();
        let turn = self.shared.turns.lock(row).until(deadline.into_std()).await;
        let turn = turn.map(KeyedGuard::into_owned).map_err(|_| {
            let error = Error::new(
                ErrorKind::DeadlineExceeded,
                "other tasks of this process were changing the latch all the time",
            )
            .with_retryable(true)
            .with_hint("count by more at a time, from fewer tasks, or allow more time");
            self.blame(error)
        })?;
        let changed = Lasting::new(async move {
            let changed = change(deadline).await;
            drop(turn);
            changed
        });
        let changed = changed.await;
        self.shared.watch.look_now();
        changed.map_err(|error| self.blame(error))
    }

    fn blame(&self, error: Error) -> Error {
        error
            .at_operation(format!("latch {}", self.key))
            .at_table(&self.shared.rows.counts.table)
    }
}

impl fmt::Debug for ThriftLatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThriftLatch")
            .field("key", &self.key)
            .field("level", &self.level())
            .field("table", &self.shared.rows.counts.table)
            .finish_non_exhaustive()
    }
}
