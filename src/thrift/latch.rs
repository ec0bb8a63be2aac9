//! One latch, through a gateway.

use std::{fmt, future::Future, sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{latch_location::ThriftLatchLocation, latch_manager::Shared};
use crate::{
    error::{Error, Result},
    java_layout::Level,
    latch::{
        LastChanged, LatchCount, LatchInfo, LatchOperation, LatchTableOptions, MAX_LATCH_TTL, Participants,
        WaitOutcome, check_leftover, check_life, turn, whole,
    },
    lock::BackgroundTask,
};

/// A latch accessed through a gateway. Returned by
/// [`ThriftLatchManager::latch`](super::ThriftLatchManager::latch); cheap to clone.
///
/// It lives and ends like a [`Latch`](crate::latch::Latch): counting does not prolong it.
///
/// Every future ends within the gateway's operation timeout ([`wait`](Self::wait): within its own
/// timeout and that one), and may be dropped at any point; a change that has begun then completes
/// in the background.
///
/// Participants cannot arrive through a gateway, and transactions cannot count its latches. This
/// compiles with a [`Latch`](crate::latch::Latch):
///
/// ```
/// # hbase_fake::FakeHBase::run(async |hbase| {
/// # hbase.create_partitioned_table("orders", &["f", "_lock"], 3);
/// # let orders = hbase_txn::PartitionedTable::open(&hbase.connect().await?, "orders").await?;
/// # let latch = hbase_txn::latch::PartitionLatches::open(&orders).await?.latch("xxx", "parts")?;
/// # latch.init(3, std::time::Duration::from_secs(60)).await?;
/// # let transaction = orders.transaction("xxx");
/// latch.arrive("worker-1").await?;
/// let counting = transaction.count_down(&latch, 1);
/// # assert!(counting.commit().await.is_committed());
/// # Ok(()) });
/// ```
///
/// A [`ThriftLatch`] in its place does not compile:
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
    last_changed: LastChanged,
}

impl ThriftLatch {
    pub(super) fn new(shared: Arc<Shared>, key: &str, location: ThriftLatchLocation) -> Self {
        Self {
            shared,
            key: key.to_owned(),
            location,
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

    /// Creates the latch with this count and time to live, by the region server's clock. A latch
    /// with a count of zero is reached immediately, until it is counted up. Counts of Java clients
    /// that counted down too late are deleted.
    ///
    /// # Errors
    ///
    /// - [`LatchExists`](crate::ErrorKind::LatchExists) if the latch exists, open or reached;
    /// - [`InvalidInput`](crate::ClientErrorKind::InvalidInput) for a count over `i64::MAX`, and for a
    ///   time to live under [`MIN_LATCH_TTL`](crate::latch::MIN_LATCH_TTL), over [`MAX_LATCH_TTL`]
    ///   or over the TTL of one of the table's families;
    /// - [`FamilyNotFound`](crate::ClientErrorKind::FamilyNotFound) in a table without the state family;
    /// - [`LatchCorrupt`](crate::ErrorKind::LatchCorrupt) for a negative count that may or may not
    ///   belong to a latch;
    /// - the errors of the calls. If an answer was lost and it is not possible any more to find out
    ///   whether this call created the latch, the [outcome is unknown](Error::is_outcome_unknown).
    pub async fn init(&self, count: u64, ttl: Duration) -> Result<()> {
        let check = || check_life(ttl, self.shared.cells_live).and_then(|()| whole(count));
        let count = check().map_err(|error| self.in_context(error))?;
        self.change(LatchOperation::Init { count, ttl }).await.map(drop)
    }

    /// Counts down by this number, in the column of this farm.
    ///
    /// # Errors
    ///
    /// - [`LatchAbsent`](crate::ErrorKind::LatchAbsent) or
    ///   [`LatchExpired`](crate::ErrorKind::LatchExpired) if there is no live latch;
    /// - [`LimitExceeded`](crate::ClientErrorKind::LimitExceeded) if less is left;
    /// - [`FamilyNotFound`](crate::ClientErrorKind::FamilyNotFound) in a table without the state family;
    /// - [`LatchCorrupt`](crate::ErrorKind::LatchCorrupt) if no note records the end of the latch,
    ///   because a Java client created it;
    /// - the errors of the calls. The [outcome is unknown](Error::is_outcome_unknown) if an answer
    ///   was lost and too many other changes followed, or if a Java client counted at the same
    ///   moment.
    pub async fn count_down(&self, by: u64) -> Result<LatchCount> {
        let by = whole(by).map_err(|error| self.in_context(error))?;
        self.change(LatchOperation::CountDown(by)).await
    }

    /// Adds to the count, in the column of this farm. A latch that was reached is open again;
    /// waiters that were notified before are not notified of that.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`count_down`](Self::count_down), and
    /// [`InvalidInput`](crate::ClientErrorKind::InvalidInput) if the sum exceeds the maximum of a count.
    pub async fn count_up(&self, by: u64) -> Result<LatchCount> {
        let by = whole(by).map_err(|error| self.in_context(error))?;
        self.change(LatchOperation::CountUp(by)).await
    }

    /// Reads the state and the counts of the latch, and its end if that is recorded.
    ///
    /// # Errors
    ///
    /// Returns [`LatchCorrupt`](crate::ErrorKind::LatchCorrupt) for a row that another program
    /// wrote, and for a negative count that may or may not belong to a latch, and the errors of the
    /// call.
    pub async fn show(&self) -> Result<LatchInfo> {
        let deadline = self.shared.rows.counts.connection.deadline();
        let observation = self.location.read(Participants::None, deadline).await;
        let info = observation.and_then(|observation| {
            check_leftover(&self.location.cells, &observation)?;
            observation.info(&self.key, self.level())
        });
        info.map_err(|error| self.in_context(error))
    }

    /// Waits until the latch is reached or has ended otherwise, or until the timeout.
    ///
    /// The latch is the one that this handle created or counted last; see
    /// [`Latch::wait`](crate::latch::Latch::wait).
    ///
    /// One task polls for all waiters of the clones of one manager, and stops with the last waiter.
    /// It polls a latch every 25 to 500 ms, less and less often while nothing changes, as
    /// [`Latch::wait`](crate::latch::Latch::wait) does, and 500 latches per call.
    ///
    /// # Errors
    ///
    /// - The errors of [`show`](Self::show), except those that a retry can resolve;
    /// - [`DeadlineExceeded`](crate::ClientErrorKind::DeadlineExceeded) on timeout if the latch could not
    ///   be read.
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
        let location = self.location.clone();
        let deleted = self.in_turn(move |deadline| async move { location.delete(deadline).await });
        let deleted = deleted.await?;
        self.last_changed.set(None);
        Ok(deleted)
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
        let changed =
            self.in_turn(move |deadline| async move { location.change(&operation, deadline).await });
        let (count, latch) = changed.await?;
        self.last_changed.set(latch);
        Ok(count)
    }

    /// Runs an operation in its turn among the tasks of this process, and to its end even if it is
    /// not awaited any more. Then the turn is over: the operation continues in the runtime of its caller,
    /// which may not be driven.
    async fn in_turn<T, F>(&self, change: impl FnOnce(Instant) -> F + Send + 'static) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let deadline = self.shared.rows.counts.connection.deadline();
        let turn = turn(&self.shared.turns, &self.location.cells.row, deadline).await;
        let _turn = turn.map_err(|error| self.in_context(error))?;
        let changed = BackgroundTask::new(change(deadline)).await;
        self.shared.watch.poll_now(&self.location.cells);
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
