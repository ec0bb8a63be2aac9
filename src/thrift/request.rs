//! Asking for a lock through a gateway.

use std::{fmt, sync::Arc, time::Duration};

use hbase_client::low_level::Pauses;
use tokio::{
    runtime::Handle,
    time::{Instant, sleep_until},
};

use super::{
    failure::is_transient,
    guard::ThriftLockGuard,
    lock_location::{ThriftAttempt, ThriftAttemptOutcome, ThriftClaim, ThriftLockLocation},
};
use crate::{
    error::{ClientErrorKind, Error, ErrorKind, Result},
    lock::{
        self, BackgroundTask, DEFAULT_LEASE, FirstWaiter, HeldBy, LocalLocks, LockToken, Millis, RowState,
        refusal,
    },
};

/// The pauses between two looks at a lock that is held.
const MIN_PAUSE: Duration = Duration::from_millis(5);
const MAX_PAUSE: Duration = Duration::from_millis(500);

/// A request for a lock through a gateway.
///
/// # Example
///
/// ```no_run
/// # async fn example(locks: hbase_txn::thrift::ThriftLockManager) -> hbase_txn::Result<()> {
/// use std::time::Duration;
/// use hbase_txn::Level;
///
/// let guard = locks
///     .lock(Level::Dc, "order-4711")?
///     .ttl(Duration::from_secs(10))
///     .wait(Duration::from_secs(5))
///     .auto_renew()
///     .acquire()
///     .await?;
/// // … what only one may do, with guard.fencing() …
/// guard.release().await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
#[must_use = "a request does nothing until acquire is called"]
pub struct ThriftLockRequest {
    local: Arc<LocalLocks<ThriftAttempt>>,
    name: String,
    location: ThriftLockLocation,
    lease: Duration,
    margin: Option<Duration>,
    wait: Duration,
    renewed: bool,
}

impl ThriftLockRequest {
    pub(super) fn new(
        local: Arc<LocalLocks<ThriftAttempt>>,
        name: String,
        location: ThriftLockLocation,
    ) -> Self {
        Self {
            local,
            name,
            location,
            lease: DEFAULT_LEASE,
            margin: None,
            wait: Duration::ZERO,
            renewed: false,
        }
    }

    /// Sets the lease: how long the lock is held unless it is renewed or released; 30 s unless
    /// specified. Whole milliseconds, from 100 ms to 30 days, and not longer than the TTL of the
    /// table's family.
    ///
    /// It counts from the first call of an attempt on, and there are five or more (see
    /// [`ThriftLockManager`](super::ThriftLockManager)): make it many times what they take.
    pub fn ttl(mut self, lease: Duration) -> Self {
        self.lease = Millis::floor(lease).into();
        self
    }

    /// Sets how long to wait for a held lock; no time unless specified. At least one attempt is
    /// made, unless other tasks of this process come first.
    ///
    /// The time for the calls themselves comes on top: the operation timeout at most. A gateway
    /// that can't be reached meanwhile, and a region that does not answer, are waited for like a
    /// holder; only an error that will not pass ends the wait.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait.min(lock::MAX_LEASE);
        self
    }

    /// Renews the lease in the background, each time a third of it is over, as long as the guard
    /// lives.
    pub fn auto_renew(mut self) -> Self {
        self.renewed = true;
        self
    }

    /// Sets how much earlier than the server this client counts a lease as expired; a tenth of the
    /// lease, at most a second, unless specified. See
    /// [`LockRequest::skew_margin`](crate::lock::LockRequest::skew_margin).
    pub fn skew_margin(mut self, margin: Duration) -> Self {
        self.margin = Some(margin);
        self
    }

    /// Acquires the lock.
    ///
    /// The tasks of one process queue up for a lock, in their order, and the first of them alone
    /// asks the gateway. A future that is dropped leaves no lock behind: what an attempt on its way
    /// wins is given back in the background.
    ///
    /// # Errors
    ///
    /// - [`LockUnavailable`](ErrorKind::LockUnavailable), naming the holder, when it was held until
    ///   the time was over;
    /// - [`InvalidInput`](ClientErrorKind::InvalidInput) for a lease out of range;
    /// - those of the calls; of one that may pass, the last one when the time is over. When an
    ///   answer was lost, an attempt that won all the same is given back in the background.
    pub async fn acquire(self) -> Result<ThriftLockGuard> {
        let in_context = |error| self.in_context(error);
        self.check().map_err(in_context)?;
        let until = Instant::now() + self.wait;
        let deadline = self.location.rows.connection.deadline() + self.wait;
        let row = self.location.lock.lock_row();
        let turn = self.local.turn(row, until).await;
        let turn = turn.map_err(|why| in_context(unavailable(&why)))?;
        let first_waiter = turn.is_some().then(|| self.local.first_waiter(row));
        let won = self.try_until(until, deadline, first_waiter.as_ref()).await;
        let guard = won.map_err(in_context)?;
        Ok(guard.with_local_claim(self.local.local_claim(row, turn)))
    }

    /// Acquires the lock if it is free; none if it is held. It does not wait for it, whatever
    /// [`wait`](Self::wait) says.
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
        first_waiter: Option<&FirstWaiter<'_, ThriftAttempt>>,
    ) -> Result<ThriftLockGuard> {
        let mut pauses = Pauses::growing(MIN_PAUSE, MAX_PAUSE);
        loop {
            let mut last = match self.attempt(deadline).await {
                Ok(ThriftRequestOutcome::Won(guard)) if guard.is_held() => return Ok(guard),
                Ok(ThriftRequestOutcome::Won(_)) => Err(over()),
                Ok(ThriftRequestOutcome::Lost(states)) => Ok(states),
                // The attempt that may have won is watched, and the next has a token of its own.
                Err(error) if error.is_outcome_unknown() || is_transient(&error) => Err(error),
                Err(error) => return Err(error),
            };
            loop {
                let why = last.as_deref().ok().and_then(refusal);
                if let Some((first_waiter, why)) = first_waiter.zip(why) {
                    first_waiter.refused(why);
                }
                let now = Instant::now();
                if now >= until {
                    return Err(last.map_or_else(|error| error, |states| held_by(&states)));
                }
                sleep_until(until.min(now + pauses.next_pause())).await;
                // An attempt may take a row and give it back again; a look is cheaper.
                last = match self.location.read(deadline).await {
                    Ok(states) if states.iter().all(|state| state.occupant().is_none()) => break,
                    Err(error) if !is_transient(&error) => return Err(error),
                    looked => looked,
                };
            }
        }
    }

    /// One attempt. It goes on to its end even if this future is dropped, so that what it wins is
    /// never forgotten.
    async fn attempt(&self, deadline: Instant) -> Result<ThriftRequestOutcome> {
        let request = self.clone();
        BackgroundTask::new(async move {
            // Each attempt has a token of its own.
            let held = HeldBy {
                token: LockToken::unique(),
                renewal: 0,
                ttl: Millis::floor(request.lease),
                holder: request.local.holder.clone(),
                over: None,
            };
            let attempt = ThriftAttempt {
                location: request.location.clone(),
                held,
            };
            match attempt.location.attempt(&attempt.held, deadline).await {
                Ok(ThriftAttemptOutcome::Won(claim)) => Ok(ThriftRequestOutcome::Won(request.guard(claim))),
                Ok(ThriftAttemptOutcome::Lost(states)) => Ok(ThriftRequestOutcome::Lost(states)),
                Err(error) => {
                    if error.is_outcome_unknown() {
                        request.local.watchers.watch(&Handle::current(), attempt);
                    }
                    Err(error)
                }
            }
        })
        .await
    }

    fn guard(&self, claim: ThriftClaim) -> ThriftLockGuard {
        let margin = self.margin();
        ThriftLockGuard::new(
            self.name.clone(),
            self.location.clone(),
            claim,
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
        self.local.check_lease(self.lease)?;
        lock::check_margin(self.lease, self.margin())
    }

    fn in_context(&self, error: Error) -> Error {
        error
            .at_operation(format!("lock {}", self.name))
            .at_table(&self.location.rows.table)
    }
}

/// How an attempt ended.
enum ThriftRequestOutcome {
    Won(ThriftLockGuard),
    Lost(Vec<RowState>),
}

fn held_by(states: &[RowState]) -> Error {
    match refusal(states) {
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
        ClientErrorKind::DeadlineExceeded,
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
