//! Asking for a lock through a gateway.

use std::{fmt, sync::Arc, time::Duration};

use tokio::time::{Instant, sleep_until};

use super::{
    guard::ThriftLockGuard,
    hold::{Attempt, Hold, Place},
};
use crate::{
    client::Pauses,
    error::{Error, ErrorKind, Result},
    lock::{self, DEFAULT_LEASE, Front, HeldBy, Lasting, LockToken, Millis, Party, Sight, refusal},
};

/// The pauses between two looks at a lock that is held.
const SHORTEST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// A lock that is asked for through a gateway.
///
/// # Example
///
/// ```no_run
/// # async fn example(locks: hbase_txn::ThriftLockManager) -> hbase_txn::Result<()> {
/// use std::time::Duration;
/// use hbase_txn::Level;
///
/// let guard = locks
///     .lock(Level::Dc, "order-4711")?
///     .ttl(Duration::from_secs(10))
///     .wait(Duration::from_secs(5))
///     .renewed()
///     .acquire()
///     .await?;
/// // … what only one may do, with guard.fencing() …
/// guard.release().await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
#[must_use = "a request does nothing until acquire is called"]
pub struct ThriftLockRequest {
    party: Arc<Party>,
    name: String,
    place: Place,
    lease: Duration,
    margin: Option<Duration>,
    wait: Duration,
    renewed: bool,
}

impl ThriftLockRequest {
    pub(super) fn new(party: Arc<Party>, name: String, place: Place) -> Self {
        Self {
            party,
            name,
            place,
            lease: DEFAULT_LEASE,
            margin: None,
            wait: Duration::ZERO,
            renewed: false,
        }
    }

    /// The lease: how long the lock is held unless it is renewed or released; 30 s unless said. Whole milliseconds, from
    /// 100 ms to 30 days, and not longer than the TTL of the table's family.
    ///
    /// It counts from the first call of an attempt on, and there are five or more (see
    /// [`ThriftLockManager`](super::ThriftLockManager)): make it many times what they take.
    pub fn ttl(mut self, lease: Duration) -> Self {
        self.lease = Millis::floor(lease).into();
        self
    }

    /// How long a lock that is held is waited for; not at all unless said. One attempt is made at least, unless other tasks
    /// of this process come first.
    ///
    /// The time for the calls themselves comes on top: the operation timeout at most.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait.min(lock::LONGEST_LEASE);
        self
    }

    /// Renews the lease in the background, each time a third of it is over, as long as the guard lives.
    pub fn renewed(mut self) -> Self {
        self.renewed = true;
        self
    }

    /// How much earlier than the server this side counts a lease as over; a tenth of the lease, a second at most,
    /// unless said. See [`LockRequest::skew_margin`](crate::LockRequest::skew_margin).
    pub fn skew_margin(mut self, margin: Duration) -> Self {
        self.margin = Some(margin);
        self
    }

    /// Acquires the lock.
    ///
    /// The tasks of one process queue up for a lock, in their order, and the first of them alone asks the gateway. A future
    /// that is dropped leaves no lock behind: what an attempt on its way wins is given back in the background.
    ///
    /// # Errors
    ///
    /// - [`LockUnavailable`](ErrorKind::LockUnavailable), naming the holder, when it was held until the time was over;
    /// - [`InvalidInput`](ErrorKind::InvalidInput) for a lease out of range;
    /// - those of the calls. When an answer was lost, an attempt that won all the same is given back in the background.
    pub async fn acquire(self) -> Result<ThriftLockGuard> {
        let blame = |error| self.blame(error);
        self.check().map_err(blame)?;
        let until = Instant::now() + self.wait;
        let deadline = self.place.rows.connection.deadline() + self.wait;
        let row = self.place.lock.lock_row();
        let turn = self.party.turn(row, until).await;
        let turn = turn.map_err(|why| blame(unavailable(&why)))?;
        let front = turn.is_some().then(|| self.party.front(row));
        let won = self.try_until(until, deadline, front.as_ref()).await;
        let guard = won.map_err(blame)?;
        Ok(guard.with_tenure(self.party.tenure(row, turn)))
    }

    /// Acquires the lock if it is free; none if it is held. It does not wait for it, whatever [`wait`](Self::wait) says.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire), without [`LockUnavailable`](ErrorKind::LockUnavailable).
    pub async fn try_acquire(self) -> Result<Option<ThriftLockGuard>> {
        match self.wait(Duration::ZERO).acquire().await {
            Ok(guard) => Ok(Some(guard)),
            Err(error) if error.kind() == ErrorKind::LockUnavailable => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn try_until(
        &self,
        until: Instant,
        deadline: Instant,
        front: Option<&Front<'_>>,
    ) -> Result<ThriftLockGuard> {
        let mut pauses = Pauses::growing(SHORTEST_PAUSE, LONGEST_PAUSE);
        loop {
            let mut last = match self.attempt(deadline).await {
                Ok(Tried::Won(guard)) if guard.is_held() => return Ok(guard),
                Ok(Tried::Won(_)) => Err(over()),
                Ok(Tried::Lost(sights)) => Ok(sights),
                // The attempt that may have won is watched, and the next has a token of its own.
                Err(error) if error.is_outcome_unknown() => Err(error),
                Err(error) => return Err(error),
            };
            loop {
                let why = last.as_deref().ok().and_then(refusal);
                if let Some((front, why)) = front.zip(why) {
                    front.refused(why);
                }
                let now = Instant::now();
                if now >= until {
                    return Err(last.map_or_else(|error| error, |sights| held_by(&sights)));
                }
                sleep_until(until.min(now + pauses.next())).await;
                // An attempt may take a row and give it back again; a look is cheaper.
                let sights = self.place.look(deadline).await?;
                if sights.iter().all(|sight| sight.occupant().is_none()) {
                    break;
                }
                last = Ok(sights);
            }
        }
    }

    /// One attempt. It goes on to its end even if this future is dropped, so that what it wins is never forgotten.
    async fn attempt(&self, deadline: Instant) -> Result<Tried> {
        let request = self.clone();
        Lasting::new(async move {
            // Each attempt has a token of its own.
            let held = HeldBy {
                token: LockToken::unique(),
                renewal: 0,
                ttl: Millis::floor(request.lease),
                holder: request.party.holder.clone(),
                over: None,
            };
            match request.place.attempt(&held, deadline).await {
                Ok(Attempt::Won(hold)) => Ok(Tried::Won(request.guard(hold))),
                Ok(Attempt::Lost(sights)) => Ok(Tried::Lost(sights)),
                Err(error) => {
                    if error.is_outcome_unknown() {
                        tokio::spawn(async move { request.place.watch(&held).await });
                    }
                    Err(error)
                }
            }
        })
        .await
    }

    fn guard(&self, hold: Hold) -> ThriftLockGuard {
        let margin = self.margin();
        ThriftLockGuard::new(
            self.name.clone(),
            self.place.clone(),
            hold,
            self.lease,
            margin,
            self.renewed,
        )
    }

    fn margin(&self) -> Duration {
        lock::margin(self.lease, self.margin)
    }

    /// Refuses a lease, or a margin, out of range.
    fn check(&self) -> Result<()> {
        self.party.check_lease(self.lease)?;
        lock::check_margin(self.lease, self.margin())
    }

    fn blame(&self, error: Error) -> Error {
        error
            .at_operation(format!("lock {}", self.name))
            .at_table(&self.place.rows.table)
    }
}

/// How an attempt ended.
enum Tried {
    Won(ThriftLockGuard),
    Lost(Vec<Sight>),
}

fn held_by(sights: &[Sight]) -> Error {
    match refusal(sights) {
        Some(why) => unavailable(&why),
        None => unavailable("it was held when it was tried, and is free again"),
    }
}

fn unavailable(why: &str) -> Error {
    Error::new(
        ErrorKind::LockUnavailable,
        format!("the lock is not available: {why}"),
    )
    .with_retryable(true)
}

fn over() -> Error {
    Error::new(
        ErrorKind::DeadlineExceeded,
        "the lock was won, but its lease was over before it could be handed out",
    )
    .with_retryable(true)
    .with_hint("take a longer lease: through a gateway an attempt is several calls")
}

impl fmt::Debug for ThriftLockRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThriftLockRequest")
            .field("name", &self.name)
            .field("lease", &self.lease)
            .field("wait", &self.wait)
            .field("renewed", &self.renewed)
            .finish_non_exhaustive()
    }
}
