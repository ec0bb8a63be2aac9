//! Read/write locks: many readers, or one writer.

use std::fmt;

use hbase_client::{BytesBinary, low_level::TableCalls};

use tokio::time::Instant;

use super::contest::{
    Contender, Contest, ContestOutcome, Waiting, compete, free_slot, lease_options, wait_option,
};
use crate::{
    error::{Error, ErrorKind, Result},
    java_layout::Level,
    lock::{Demand, LockGuard, LockHolder, LockManager, LockRequest, LockToken, SlotRow, SlotsSeen},
};

pub(super) const KIND: &str = "RW";
const WRITER: &str = "w";
/// The prefix of a reader's slot.
const READER: &str = "r";
/// What a writer needs of the lock; a reader needs one. So a writer excludes all readers, and the readers do
/// not exclude each other.
const ALL: u32 = 1_024;

/// A cluster-wide lock that is held by many readers or by one writer.
///
/// Each hold is like that of a lock: it has a lease by the server's clock, a token and a [fencing
/// number](LockGuard::fencing). A writer's number is higher than those of all earlier readers and
/// writers, a reader's number is higher than those of all earlier writers. The hold of a process
/// that dies ends with its lease.
///
/// Processes that wait acquire the lock in the order in which they began to wait, readers together: a
/// writer waits for the readers before it and excludes those after it. A writer can [become a
/// reader](Self::downgrade) without a release. A reader cannot become a writer: two readers that both
/// wanted to write would wait for each other.
///
/// Cheap to clone; clones share everything.
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use hbase_txn::{Level, coordination::ReadWriteLock};
///
/// # use hbase_txn::lock::LockManagerOptions;
/// # hbase_fake::FakeHBase::run(async |hbase| {
/// # hbase.create_table("dlm_locks", &["D"], &[]);
/// # let options = LockManagerOptions::new("billing").farm("fra");
/// # let locks = options.open(&hbase.connect().await?, "dlm_locks").await?;
/// let schema = ReadWriteLock::new(&locks, Level::Dc, "schema")?;
/// let reading = schema.read().wait(Duration::from_secs(5)).auto_renew().acquire().await?;
/// assert!(schema.write().try_acquire().await?.is_none());
/// assert!(reading.release().await?.is_released());
/// let writing = schema.write().wait(Duration::from_secs(60)).auto_renew().acquire().await?;
/// assert!(schema.read().try_acquire().await?.is_none());
/// assert!(writing.release().await?.is_released());
/// # Ok(()) });
/// ```
#[derive(Clone)]
pub struct ReadWriteLock {
    row: SlotRow,
}

/// The state of a read/write lock at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadWriteInfo {
    /// Its key: `RW#` and the name that a lock of this level, farm, client and id has.
    pub key: String,
    /// The writer, or a process that has the writer's slot and waits until there are no readers.
    pub writer: Option<LockHolder>,
    /// The readers, the longest-held first.
    pub readers: Vec<LockHolder>,
    /// The number of processes that wait in line, up to 64. A writer that waits in its slot is not one of them.
    pub waiting: usize,
    /// The highest fencing number so far. Failed attempts raise it too.
    pub fencing: Option<i64>,
}

/// A request for a [`ReadWriteLock`].
#[derive(Clone)]
#[must_use = "a request does nothing until acquire is called"]
pub struct ReadWriteRequest {
    row: SlotRow,
    request: LockRequest,
    writes: bool,
}

impl ReadWriteLock {
    /// The maximum number of concurrent readers: 1,024.
    pub const MAX_READERS: usize = ALL as usize;

    /// Names a lock. Sends nothing; a lock needs no creation.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidInput`](crate::ClientErrorKind::InvalidInput) if the id is empty or too
    /// long, or if the level needs a farm and the manager has none.
    pub fn new(locks: &LockManager, level: Level, id: &str) -> Result<Self> {
        Ok(Self {
            row: locks.slot_row(KIND, level, id)?,
        })
    }

    /// Returns its key: `RW#` and the name that a lock of this level, farm, client and id has.
    #[must_use]
    pub fn key(&self) -> &str {
        self.row.key()
    }

    /// Creates a request to read. Sends nothing.
    pub fn read(&self) -> ReadWriteRequest {
        self.request(false)
    }

    /// Creates a request to write. Sends nothing.
    pub fn write(&self) -> ReadWriteRequest {
        self.request(true)
    }

    fn request(&self, writes: bool) -> ReadWriteRequest {
        ReadWriteRequest {
            row: self.row.clone(),
            request: self.row.request(&[]),
            writes,
        }
    }

    /// Turns the hold of the writer into that of a reader, and returns the reader's guard: no other
    /// process writes in between. The reader has the lease, the renewal and the session of the writer,
    /// and a higher [fencing number](LockGuard::fencing). If the writer's place can't be released at
    /// once, it keeps new readers out until that succeeds in the background.
    ///
    /// # Errors
    ///
    /// - [`LockUnavailable`](ErrorKind::LockUnavailable) if all places of readers are taken, by other
    ///   programs;
    /// - [`LockLost`](ErrorKind::LockLost) if the guard does not hold the lock any more;
    /// - [`InvalidInput`](crate::ClientErrorKind::InvalidInput) if it is not the writer of this lock;
    /// - the errors of the calls.
    ///
    /// After an error neither is held: the writer's hold is released in the background, and so is a
    /// reader's that may have been acquired.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, neither is held.
    ///
    /// # Example
    ///
    /// ```
    /// # use hbase_txn::{Level, coordination::ReadWriteLock, lock::LockManagerOptions};
    /// # hbase_fake::FakeHBase::run(async |hbase| {
    /// # hbase.create_table("dlm_locks", &["D"], &[]);
    /// # let options = LockManagerOptions::new("billing").farm("fra");
    /// # let locks = options.open(&hbase.connect().await?, "dlm_locks").await?;
    /// let schema = ReadWriteLock::new(&locks, Level::Dc, "schema")?;
    /// let writing = schema.write().acquire().await?;
    /// // … change the schema …
    /// let reading = schema.downgrade(writing).await?;
    /// // … use it, as other readers do …
    /// assert!(schema.read().try_acquire().await?.is_some());
    /// assert!(reading.release().await?.is_released());
    /// # Ok(()) });
    /// ```
    pub async fn downgrade(&self, writer: LockGuard) -> Result<LockGuard> {
        let downgraded = self.become_reader(writer).await;
        downgraded.map_err(|error| in_context(&self.row, error))
    }

    async fn become_reader(&self, writer: LockGuard) -> Result<LockGuard> {
        if !self.row.is_held_by(&writer, &[WRITER.to_owned()]) {
            let text = format!("the hold of {} is not that of this lock's writer", writer.name());
            return Err(Error::invalid(text));
        }
        let lost = || {
            let error = Error::new(ErrorKind::LockLost, "the writer does not hold the lock any more");
            Err(error.with_hint("acquire it again"))
        };
        if !writer.is_held() {
            return lost();
        }
        let request = self.row.request(&[]).with_terms_of(&writer);
        let deadline = self.row.table().deadline();
        let mut seen = SlotsSeen::default();
        let reader = loop {
            let Some(slot) = free_slot(&seen, READER, Self::MAX_READERS) else {
                let why = format!("there are {} readers", seen.held.len());
                return Err(Error::new(ErrorKind::LockUnavailable, why));
            };
            let (reader, behind) = self.row.attempt(&request, &[slot], deadline).await?;
            seen = behind;
            let holder = seen.held.get(WRITER).and_then(|writer| writer.token);
            if holder != Some(writer.token()) {
                // A reader that was acquired is dropped, and released in the background.
                return lost();
            }
            // An expired reader may have had the slot, or the answer took longer than the lease.
            match reader {
                Some(reader) if reader.is_held() => break request.admit(reader)?,
                Some(reader) => drop(reader.release().await?),
                None => {}
            }
        };
        // The reader was acquired while the writer held the lock, so the writer may go now.
        if let Err(error) = writer.release().await {
            tracing::warn!(lock = %self.key(), %error, "cannot release the writer's hold; trying again in the background");
        }
        Ok(reader)
    }

    /// Reads the readers and the writer.
    ///
    /// # Errors
    ///
    /// Returns an error if the call fails.
    pub async fn show(&self) -> Result<ReadWriteInfo> {
        let seen = self.row.read(self.row.table().deadline()).await;
        Ok(info(
            self.key(),
            seen.map_err(|error| in_context(&self.row, error))?,
        ))
    }

    /// Revokes the hold of the reader or writer with this token, as read in [`ReadWriteInfo`], and
    /// returns the holder. Returns `None`, and changes nothing, if the token does not hold the lock
    /// any more.
    ///
    /// A writer that still waits for readers loses its place, and tries to take it again until its
    /// wait is over.
    ///
    /// The holder notices at its next renewal or release; its work continues until then. The forced
    /// release is logged as a warning with the holder's name and token.
    ///
    /// # Errors
    ///
    /// Returns an error if a call fails, within the operation timeout.
    pub async fn force_release(&self, token: LockToken) -> Result<Option<LockHolder>> {
        let evicted = self.row.evict(token).await;
        evicted.map_err(|error| in_context(&self.row, error))
    }
}

impl ReadWriteRequest {
    lease_options!();
    wait_option!();

    /// Renews the lease in the background as long as the guard lives, each time a third of it has
    /// passed.
    pub fn auto_renew(mut self) -> Self {
        self.request = self.request.auto_renew();
        self
    }

    /// Acquires the lock, for reading or writing.
    ///
    /// Requests that wait are served in about the order in which they began to wait; of the tasks of one
    /// process, one is in line at a time. An attempt that does not wait may pass by those that do.
    ///
    /// A writer whose turn it is takes its place first, which excludes new readers, and then waits until
    /// the current readers have released the lock. The lease begins when they have. Until then the place
    /// has a lease of about three seconds, which is renewed. If its wait is over or its future is dropped
    /// before that, it gives up the place. So even an attempt that does not wait may exclude readers for a
    /// moment.
    ///
    /// # Errors
    ///
    /// - [`LockUnavailable`](ErrorKind::LockUnavailable), naming a holder, if the lock was not
    ///   available until the wait was over, or has 1,024 readers;
    /// - [`InvalidInput`](crate::ClientErrorKind::InvalidInput) for a lease out of range;
    /// - the errors of the calls. If an answer was lost, a hold that the attempt won is released in
    ///   the background.
    pub async fn acquire(self) -> Result<LockGuard> {
        let won = compete(&self, &self.row, &self.request, self.writes).await;
        won.map_err(|error| in_context(&self.row, error))
    }

    /// Acquires the lock if it is available. Returns `None` if it is not. Does not wait, even if
    /// [`wait`](Self::wait) is set.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`acquire`](Self::acquire), except
    /// [`LockUnavailable`](ErrorKind::LockUnavailable).
    pub async fn try_acquire(self) -> Result<Option<LockGuard>> {
        match self.wait(std::time::Duration::ZERO).acquire().await {
            Ok(guard) => Ok(Some(guard)),
            Err(error) if error.kind() == ErrorKind::LockUnavailable => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn try_to_read(&self, contest: &mut Contest<'_>) -> Result<ContestOutcome> {
        let none = SlotsSeen::default();
        let before = contest.seen.as_ref().unwrap_or(&none);
        if has_writer(before) || !self.comes_next(contest) {
            return Ok(ContestOutcome::Full);
        }
        let Some(slot) = free_slot(before, READER, ReadWriteLock::MAX_READERS) else {
            return Ok(ContestOutcome::Full);
        };
        let slots = [slot];
        let guard = contest.attempt(&self.request, &slots).await?;
        let may_read = !contest.seen.as_ref().is_some_and(has_writer) && self.comes_next(contest);
        match guard {
            // A later writer sees this reader; a writer that is there already may not have seen it.
            Some(guard) if may_read && guard.is_held() => return Ok(ContestOutcome::Won(guard)),
            Some(guard) => contest.give_back(guard, &slots).await,
            None => {}
        }
        Ok(if may_read {
            ContestOutcome::Again
        } else {
            ContestOutcome::Full
        })
    }

    async fn try_to_write(&self, contest: &mut Contest<'_>) -> Result<ContestOutcome> {
        if contest.seen.as_ref().is_some_and(has_writer) || !self.comes_next(contest) {
            return Ok(ContestOutcome::Full);
        }
        if !contest.seen.as_ref().is_some_and(has_readers) {
            match self.take_writers_slot(&self.request, contest).await? {
                None => return Ok(ContestOutcome::Full),
                Some(guard) if contest.seen.as_ref().is_some_and(has_readers) => {
                    contest.give_back(guard, &[WRITER.to_owned()]).await;
                    if Instant::now() >= contest.until {
                        return Ok(ContestOutcome::Full);
                    }
                }
                // The lease begins about now.
                Some(guard) if keep(&guard).await? => return Ok(ContestOutcome::Won(guard)),
                Some(_) => return Ok(ContestOutcome::Again),
            }
        }
        let place = self.request.for_place();
        let Some(guard) = self.take_writers_slot(&place, contest).await? else {
            return Ok(ContestOutcome::Full);
        };
        let mut waiting = Waiting::new(contest.until, place.longest_pause());
        while contest.seen.as_ref().is_some_and(has_readers) {
            if !waiting.goes_on().await {
                contest.give_back(guard, &[WRITER.to_owned()]).await;
                return Ok(ContestOutcome::Full);
            }
            if !keep(&guard).await? {
                return Ok(ContestOutcome::Again);
            }
            let seen = contest.read().await?;
            if seen.held.get(WRITER).and_then(|writer| writer.token) != Some(guard.token()) {
                // Its place was revoked, and another writer may have it.
                return Ok(ContestOutcome::Again);
            }
        }
        Ok(match guard.for_lease_of(&self.request).await? {
            Some(guard) => ContestOutcome::Won(guard),
            None => ContestOutcome::Again,
        })
    }

    /// Takes the writer's slot. `None` if another writer has it, or others have waited longer.
    async fn take_writers_slot(
        &self,
        request: &LockRequest,
        contest: &mut Contest<'_>,
    ) -> Result<Option<LockGuard>> {
        let slots = [WRITER.to_owned()];
        match contest.attempt(request, &slots).await? {
            Some(guard) if !self.comes_next(contest) => {
                contest.give_back(guard, &slots).await;
                Ok(None)
            }
            taken => Ok(taken),
        }
    }

    /// Returns whether no process that it excludes has waited longer.
    fn comes_next(&self, contest: &Contest<'_>) -> bool {
        contest.ahead().saturating_add(self.demand().need) <= ALL
    }
}

/// Renews a hold that is not returned to the caller yet, if that is due. Returns whether it is
/// still held.
async fn keep(guard: &LockGuard) -> Result<bool> {
    match guard.renew_if_aged().await {
        Ok(()) => Ok(guard.is_held()),
        Err(error) if error.kind() == ErrorKind::LockLost => Ok(false),
        Err(error) => Err(error),
    }
}

impl Contender for ReadWriteRequest {
    fn demand(&self) -> Demand {
        Demand {
            need: if self.writes { ALL } else { 1 },
            released: ALL,
            of: ALL,
        }
    }

    async fn try_once(&self, contest: &mut Contest<'_>) -> Result<ContestOutcome> {
        if self.writes {
            self.try_to_write(contest).await
        } else {
            self.try_to_read(contest).await
        }
    }

    fn unavailable(&self, contest: &Contest<'_>) -> String {
        let deed = if self.writes { "writing" } else { "reading" };
        let holder = contest.seen.as_ref().and_then(|seen| {
            let writer = seen.held.get(WRITER).map(|holder| ("a writer", holder));
            let reader = || Some(("a reader", seen.held.values().next()?));
            writer.or_else(|| reader().filter(|_| self.writes))
        });
        match holder {
            Some((kind, holder)) => {
                let holder = holder.at(self.row.wall_clock());
                format!("the lock is not available for {deed}: there is {kind}, {holder}")
            }
            None if !self.comes_next(contest) => {
                format!("the lock is not available for {deed}: others have waited longer")
            }
            None => format!("the lock was not available for {deed} when it was tried, and is free again"),
        }
    }
}

/// Returns the state of the lock with this key.
pub(super) fn info(key: &str, mut seen: SlotsSeen) -> ReadWriteInfo {
    let (writer, waiting) = (seen.held.remove(WRITER), seen.waiting());
    let mut readers: Vec<LockHolder> = seen.held.into_values().collect();
    readers.sort_by_key(|holder| holder.since);
    ReadWriteInfo {
        key: key.to_owned(),
        writer,
        readers,
        waiting,
        fencing: seen.number,
    }
}

fn has_writer(seen: &SlotsSeen) -> bool {
    seen.held.contains_key(WRITER)
}

/// Returns whether there is a reader: any held slot except the writer's, even one that another
/// program wrote.
fn has_readers(seen: &SlotsSeen) -> bool {
    seen.held.keys().any(|slot| slot != WRITER)
}

fn in_context(row: &SlotRow, error: Error) -> Error {
    error
        .at_operation(format!("read/write lock {}", BytesBinary(row.key().as_bytes())))
        .at_table(row.table().name())
}

impl fmt::Debug for ReadWriteLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ReadWriteLock").field(&self.row).finish()
    }
}

impl fmt::Debug for ReadWriteRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadWriteRequest")
            .field("writes", &self.writes)
            .field("request", &self.request)
            .finish_non_exhaustive()
    }
}
