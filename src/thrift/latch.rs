//! One latch, through a gateway.

use std::{fmt, future::Future, sync::Arc, time::Duration};

use hbase_keyed_lock::KeyedGuard;
use tokio::time::Instant;

use super::{latch_location::ThriftLatchLocation, latch_manager::Shared};
use crate::{
    error::{ClientErrorKind, Error, Result},
    java_layout::Level,
    latch::{
        LatchCount, LatchInfo, LatchOperation, LatchTableOptions, MAX_LATCH_TTL, Participants, WaitOutcome,
        check_leftover, check_life, whole,
    },
    lock::BackgroundTask,
};

/// A latch accessed through a gateway. Returned by
/// [`ThriftLatchManager::latch`](super::ThriftLatchManager::latch); cheap to clone.
///
/// It lives and ends as a [`Latch`](crate::latch::Latch) does: nothing that is counted makes it
/// live longer.
///
/// Every future ends within the gateway's operation timeout ([`wait`](Self::wait): of the time that
/// it is given and that timeout), and may be dropped at any point; a change that was begun then
/// comes to its end in the background.
///
/// No participant arrives through a gateway, and no transaction counts its latches. What compiles
/// with a [`Latch`](crate::latch::Latch),
///
/// ```no_run
/// # async fn example(latch: hbase_txn::latch::Latch) {
/// latch.arrive("worker-1").await;
/// # }
/// ```
///
/// ```no_run
/// # fn example(transaction: hbase_txn::Transaction, latch: hbase_txn::latch::Latch) {
/// let counting = transaction.count_down(&latch, 1);
/// # }
/// ```
///
/// does not with this:
///
/// ```compile_fail,E0599
/// # async fn example(latch: hbase_txn::thrift::ThriftLatch) {
/// latch.arrive("worker-1").await;
/// # }
/// ```
///
/// ```compile_fail,E0308
/// # fn example(transaction: hbase_txn::Transaction, latch: hbase_txn::thrift::ThriftLatch) {
/// let counting = transaction.count_down(&latch, 1);
/// # }
/// ```
#[derive(Clone)]
pub struct ThriftLatch {
    shared: Arc<Shared>,
    key: String,
    location: ThriftLatchLocation,
}

impl ThriftLatch {
    pub(super) fn new(shared: Arc<Shared>, key: &str, location: ThriftLatchLocation) -> Self {
        Self {
            shared,
            key: key.to_owned(),
            location,
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

    /// Creates the latch with this count and time to live, by the region server's clock. With a
    /// count of zero it is reached at once, until it is counted up. Counts that a late Java client
    /// left are deleted.
    ///
    /// # Errors
    ///
    /// [`LatchExists`](crate::ErrorKind::LatchExists) when it is there, open or reached;
    /// [`InvalidInput`](ClientErrorKind::InvalidInput) for a count over `i64::MAX`, and a life
    /// under [`MIN_LATCH_TTL`](crate::latch::MIN_LATCH_TTL), over [`MAX_LATCH_TTL`] or over the TTL
    /// of one of the table's families; [`FamilyNotFound`](ClientErrorKind::FamilyNotFound) in a
    /// table without the state family; [`LatchCorrupt`](crate::ErrorKind::LatchCorrupt) when there
    /// is a count below nothing that may belong to a latch or not. When an answer was lost and it
    /// can't be found out any more whether the latch is this one, its [outcome is
    /// unknown](Error::is_outcome_unknown).
    pub async fn init(&self, count: u64, ttl: Duration) -> Result<()> {
        let check = || check_life(ttl, self.shared.cells_live).and_then(|()| whole(count));
        let count = check().map_err(|error| self.in_context(error))?;
        self.change(LatchOperation::Init { count, ttl }).await.map(drop)
    }

    /// Counts down by this much, in the column of this farm.
    ///
    /// # Errors
    ///
    /// [`LatchAbsent`](crate::ErrorKind::LatchAbsent),
    /// [`LatchExpired`](crate::ErrorKind::LatchExpired);
    /// [`LimitExceeded`](ClientErrorKind::LimitExceeded) when less is left;
    /// [`FamilyNotFound`](ClientErrorKind::FamilyNotFound) in a table without the state family;
    /// [`LatchCorrupt`](crate::ErrorKind::LatchCorrupt) when it is not noted when the latch ends,
    /// because a Java client made it. The [outcome is unknown](Error::is_outcome_unknown) when an
    /// answer was lost and so many others have counted since that it is forgotten whether this did,
    /// and when a Java client counted at the same moment.
    pub async fn count_down(&self, by: u64) -> Result<LatchCount> {
        let by = whole(by).map_err(|error| self.in_context(error))?;
        self.change(LatchOperation::CountDown(by)).await
    }

    /// Adds to the count, in the column of this farm. A latch that was reached is open again;
    /// waiters that were notified before are not notified of that.
    ///
    /// # Errors
    ///
    /// As [`count_down`](Self::count_down); [`InvalidInput`](ClientErrorKind::InvalidInput) for
    /// more than a count can be.
    pub async fn count_up(&self, by: u64) -> Result<LatchCount> {
        let by = whole(by).map_err(|error| self.in_context(error))?;
        self.change(LatchOperation::CountUp(by)).await
    }

    /// Reads the state and the counts of the latch, and its end if that is recorded.
    ///
    /// # Errors
    ///
    /// [`LatchCorrupt`](crate::ErrorKind::LatchCorrupt) for a row that no client of a latch writes,
    /// and for a count below nothing that may belong to a latch or not; those of the call.
    pub async fn show(&self) -> Result<LatchInfo> {
        let deadline = self.shared.rows.counts.connection.deadline();
        let observation = self.location.read(Participants::None, deadline).await;
        let info = observation.and_then(|observation| {
            check_leftover(&self.location.cells, &observation)?;
            observation.info(&self.key, self.level())
        });
        info.map_err(|error| self.in_context(error))
    }

    /// Waits until the latch is reached, has ended otherwise, or the time is over.
    ///
    /// All that wait through the clones of one manager are served by one task, which ends with the
    /// last of them. It asks for a few latches every 25 to 60 ms, 500 of them a call.
    ///
    /// # Errors
    ///
    /// As [`show`](Self::show), but for what can be fixed by trying again;
    /// [`DeadlineExceeded`](ClientErrorKind::DeadlineExceeded) when the time is over and the latch
    /// could not be read.
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
        let location = self.location.clone();
        self.in_turn(move |deadline| async move { location.delete(deadline).await })
            .await
    }

    async fn change(&self, operation: LatchOperation) -> Result<LatchCount> {
        if self.location.cells.note.is_none() {
            let family = LatchTableOptions::STATE_FAMILY;
            let error = self
                .shared
                .rows
                .notes
                .no_family(family.as_bytes(), ", without which a gateway changes no latch")
                .with_hint("add the family and open the table again in all processes that count in it")
                .with_missing_family(family);
            return Err(self.in_context(error));
        }
        let location = self.location.clone();
        self.in_turn(move |deadline| async move { location.change(&operation, deadline).await })
            .await
    }

    /// Runs an operation to its end, also if it is not awaited any more, when it is its turn among
    /// the tasks of this process.
    async fn in_turn<T, F>(&self, change: impl FnOnce(Instant) -> F + Send + 'static) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let deadline = self.shared.rows.counts.connection.deadline();
        let row = self.location.cells.row.clone();
        let turn = self.shared.turns.lock(row).until(deadline.into_std()).await;
        let turn = turn.map(KeyedGuard::into_owned).map_err(|_| {
            let error = Error::new(
                ClientErrorKind::DeadlineExceeded,
                "other tasks of this process were changing the latch all the time",
            )
            .with_retryable(true)
            .with_hint("count by more at a time, from fewer tasks, or allow more time");
            self.in_context(error)
        })?;
        let changed = BackgroundTask::new(async move {
            let changed = change(deadline).await;
            drop(turn);
            changed
        });
        let changed = changed.await;
        self.shared.watch.poll_now();
        changed.map_err(|error| self.in_context(error))
    }

    fn in_context(&self, error: Error) -> Error {
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
