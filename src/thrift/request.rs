//! Requests for locks through a gateway.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime},
};

use hbase_client::{SystemEnvironment, low_level::Pauses};
use tokio::time::{Instant, sleep_until};

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

/// The pauses between two reads of a held lock.
const MIN_PAUSE: Duration = Duration::from_millis(5);
const MAX_PAUSE: Duration = Duration::from_millis(500);

/// A request for a lock through a gateway, from
/// [`ThriftLockManager::lock`](super::ThriftLockManager::lock). The [module](super) has an example.
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
    /// The lease counts from the first call of an attempt, which has five or more calls (see
    /// [`ThriftLockManager`](super::ThriftLockManager)): make it many times as long as these take.
    pub fn ttl(mut self, lease: Duration) -> Self {
        self.lease = Millis::floor(lease).into();
        self
    }

    /// Sets how long to wait for a held lock; no time unless specified. At least one attempt is
    /// made, unless other tasks of this process come first.
    ///
    /// The calls themselves may take the operation timeout in addition. An unreachable gateway, and
    /// a region that does not answer, are waited for like a holder; only a permanent error ends the
    /// wait.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait.min(lock::MAX_LEASE);
        self
    }

    /// Renews the lease in the background as long as the guard lives, each time a third of it has
    /// passed.
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
    /// The tasks of one process queue up for a lock in their order, and only the first of them
    /// polls the gateway.
    ///
    /// # Errors
    ///
    /// - [`LockUnavailable`](ErrorKind::LockUnavailable), naming the holder, if the lock was held
    ///   until the wait was over;
    /// - [`InvalidInput`](ClientErrorKind::InvalidInput) for a lease out of range;
    /// - the errors of the calls. A transient error is retried until the wait is over. If an answer
    ///   was lost, a lock that the attempt won is released in the background.
    ///
    /// # Cancel safety
    ///
    /// A dropped future leaves no lock behind: a lock that an attempt in flight wins is released in
    /// the background.
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

    /// Acquires the lock if it is free. Returns `None` if it is held. Does not wait, even if
    /// [`wait`](Self::wait) is set.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`acquire`](Self::acquire), except
    /// [`LockUnavailable`](ErrorKind::LockUnavailable).
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
                // The attempt that may have won is watched, and the next one has its own token.
                Err(error) if error.is_outcome_unknown() || is_transient(&error) => Err(error),
                Err(error) => return Err(error),
            };
            loop {
                let why = last
                    .as_deref()
                    .ok()
                    .and_then(|states| refusal(states, SystemTime::now()));
                if let Some((first_waiter, why)) = first_waiter.zip(why) {
                    first_waiter.refused(why);
                }
                let now = Instant::now();
                if now >= until {
                    return Err(last.map_or_else(|error| error, |states| held_by(&states)));
                }
                sleep_until(until.min(now + pauses.next_pause())).await;
                // An attempt may take a row and release it again; a read is cheaper.
                last = match self.location.read(deadline).await {
                    Ok(states) if states.iter().all(|state| state.occupant().is_none()) => break,
                    Err(error) if !is_transient(&error) => return Err(error),
                    looked => looked,
                };
            }
        }
    }

    /// Makes one attempt. It runs to its end even if this future is dropped, so that no lock that
    /// it wins is lost track of.
    async fn attempt(&self, deadline: Instant) -> Result<ThriftRequestOutcome> {
        let request = self.clone();
        BackgroundTask::new(async move {
            // Each attempt has its own token.
            let held = HeldBy {
                token: LockToken::unique(&SystemEnvironment),
                renewal: 0,
                ttl: Millis::floor(request.lease),
                lease: Millis::floor(request.lease),
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
                        request.local.watchers.watch(attempt);
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

/// The outcome of an attempt.
enum ThriftRequestOutcome {
    Won(ThriftLockGuard),
    Lost(Vec<RowState>),
}

fn held_by(states: &[RowState]) -> Error {
    match refusal(states, SystemTime::now()) {
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
        "the lock was acquired, but its lease expired before the guard could be returned",
    )
    .with_retryable(true)
    .with_hint("use a longer lease: through a gateway an attempt is several calls")
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
