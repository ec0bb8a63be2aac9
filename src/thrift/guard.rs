//! A guard of a lock held through a gateway.

use std::{fmt, sync::Arc, time::Duration};

use hbase_client::SystemEnvironment;
use tokio::{
    runtime::Handle,
    sync::MutexGuard,
    task::JoinHandle,
    time::{Instant, sleep_until, timeout_at},
};

use super::{
    lock_location::{ThriftClaim, ThriftLockLocation},
    permits::Lane,
};
use crate::{
    error::{ClientErrorKind, Error, ErrorKind, Result},
    lock::{
        self, Clock, LocalClaim, LockLoss, LockToken, Moment, ReleaseOutcome, Renewable, Term,
        attempt_timeout,
    },
};

/// The longest pause between two attempts to renew a lock.
const PAUSE: Duration = Duration::from_millis(200);

/// A lock held through a gateway, until it is released, its lease expires, or it is lost.
///
/// Its use and its limits are those of a [`LockGuard`](crate::lock::LockGuard): a write that must be
/// safe against a holder that goes on after its lease carries the [fencing number](Self::fencing) to
/// a store that refuses lower ones. It cannot fence a transaction. It belongs to the runtime that
/// acquired it, as a [`LockGuard`](crate::lock::LockGuard#runtimes) does.
///
/// Bind it to a name, such as `_guard`: `let _ = …` drops it and releases the lock at once.
#[must_use = "a lock that is not bound to a name is released at once"]
pub struct ThriftLockGuard {
    held: Arc<Held>,
    keeper: JoinHandle<()>,
    /// The keeper's runtime.
    runtime: Handle,
}

/// A hold, shared by the guard and its keeper.
struct Held {
    name: String,
    /// For renewals.
    location: ThriftLockLocation,
    /// For releases.
    release: ThriftLockLocation,
    token: LockToken,
    fencing: i64,
    /// Locked while the hold is changed.
    claim: tokio::sync::Mutex<ThriftClaim>,
    term: Arc<Term<LocalClaim>>,
}

impl ThriftLockGuard {
    pub(super) fn new(
        name: String,
        location: ThriftLockLocation,
        claim: ThriftClaim,
        lease: Duration,
        margin: Duration,
        renewed: bool,
    ) -> Self {
        let held = Arc::new(Held {
            name,
            release: location.in_lane(Lane::Releases),
            location: location.in_lane(Lane::Renewals),
            term: Arc::new(Term::new(
                Clock::new(Arc::new(SystemEnvironment)),
                claim.since,
                lease,
                margin,
                renewed,
            )),
            token: claim.held.token,
            fencing: claim.fencing,
            claim: tokio::sync::Mutex::new(claim),
        });
        let runtime = Handle::current();
        let keeper = runtime.spawn(lock::keep(Arc::clone(&held)));
        Self {
            held,
            keeper,
            runtime,
        }
    }

    /// Keeps the claim among the tasks of this process while the lock is held.
    pub(super) fn with_local_claim(self, local_claim: LocalClaim) -> Self {
        local_claim.keep_for(&self.held.term);
        self
    }

    /// Returns the lock's name: the key of its [`LockName`](crate::lock::LockName).
    #[must_use]
    pub fn name(&self) -> &str {
        &self.held.name
    }

    /// Returns the token of this hold. Any process with the token can release the lock, [through a
    /// gateway](super::ThriftLockManager::release) or
    /// [natively](crate::lock::LockManager::release).
    ///
    /// A native client must not renew it: this guard then reports the lock as lost.
    #[must_use]
    pub fn token(&self) -> LockToken {
        self.held.token
    }

    /// Returns a number that is higher than that of every earlier holder of this lock; see
    /// [`LockGuard::fencing`](crate::lock::LockGuard::fencing).
    #[must_use]
    pub fn fencing(&self) -> i64 {
        self.held.fencing
    }

    /// Returns whether the lock is held: its lease has not expired, and no renewal was refused.
    #[must_use]
    pub fn is_held(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// Returns the remaining lease, less the margin for clocks. Zero if it has expired or is lost.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.held.term.left()
    }

    /// Waits until the lock is lost: at the end of its lease, even if the gateway is silent, or as
    /// soon as a renewal is refused. It does not return while renewals succeed.
    ///
    /// # Cancel safety
    ///
    /// May be dropped and called again at any time.
    pub async fn lost(&self) -> LockLoss {
        self.held.term.lost().await
    }

    /// Renews the lease: it lasts its whole time from now on. Four calls, seven with a companion
    /// row; one more after a renewal whose outcome is unknown.
    ///
    /// Calls that are not answered within a third of the remaining lease are sent again, by a new
    /// connection. A call that arrives after the next one changes nothing.
    ///
    /// # Errors
    ///
    /// Returns [`LockLost`](ErrorKind::LockLost) if the lock is no longer held. After any other error
    /// the lease lasts at least as long as before.
    pub async fn renew(&self) -> Result<()> {
        let deadline = self.held.location.rows.connection.deadline();
        self.held.renew(deadline).await
    }

    /// Detaches the guard from the lock, which stays held until its lease expires or it is released
    /// by its [token](Self::token).
    #[must_use = "without its token the lock is held until its lease is over"]
    pub fn detach(self) -> LockToken {
        self.held.term.detach();
        self.held.token
    }

    /// Releases the lock, and returns whether it was held until now. Three calls, four with a
    /// companion row.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, a background task completes the release, as for a dropped guard.
    ///
    /// # Errors
    ///
    /// Returns the errors of the calls, within the operation timeout. A background task retries until
    /// the lease expires.
    pub async fn release(self) -> Result<ReleaseOutcome> {
        self.keeper.abort();
        let deadline = self.held.location.rows.connection.deadline();
        let claim = self.held.lock_claim(deadline).await?;
        if self.held.term.is_released() {
            return Ok(ReleaseOutcome::Released);
        }
        let known = self.held.term.loss();
        let vacated = self.held.release.vacate(&claim, deadline).await;
        let vacated = vacated.map_err(|error| self.held.in_context(error))?;
        drop(claim);
        Ok(self.held.term.vacated(known, vacated))
    }
}

impl Drop for ThriftLockGuard {
    fn drop(&mut self) {
        self.keeper.abort();
        self.held.term.end_local_claim();
        if !self.held.term.is_released() {
            let held = Arc::clone(&self.held);
            lock::run_in_background(&self.runtime, async move {
                let claim = held.claim.lock().await;
                held.release.abandon(&claim).await;
            });
        }
    }
}

impl Held {
    /// Waits for the claim. A renewal has it until it has ended.
    async fn lock_claim(&self, deadline: Instant) -> Result<MutexGuard<'_, ThriftClaim>> {
        timeout_at(deadline, self.claim.lock()).await.map_err(|_| {
            let error = Error::new(
                ClientErrorKind::DeadlineExceeded,
                "timed out waiting for a renewal",
            );
            self.in_context(error.with_retryable(true))
        })
    }

    fn lost_error(&self, loss: &LockLoss) -> Error {
        self.in_context(Error::new(
            ErrorKind::LockLost,
            format!("the lock is no longer held: {loss}"),
        ))
    }

    fn in_context(&self, error: Error) -> Error {
        error
            .at_operation(format!("lock {}", self.name))
            .at_table(&self.location.rows.table)
    }
}

impl Renewable for Held {
    fn name(&self) -> &str {
        &self.name
    }

    fn clock(&self) -> &Clock {
        self.term.clock()
    }

    fn until(&self) -> Option<Moment> {
        self.term.until()
    }

    fn is_renewed(&self) -> bool {
        self.term.is_renewed()
    }

    async fn renew(&self, deadline: Instant) -> Result<()> {
        loop {
            let mut claim = self.lock_claim(deadline).await?;
            if let Some(loss) = self.term.loss() {
                return Err(self.lost_error(&loss));
            }
            let attempt_deadline = deadline.min(Instant::now() + attempt_timeout(self.term.left()));
            let renewed = self
                .location
                .renew(&mut claim, self.term.lease(), attempt_deadline)
                .await;
            drop(claim);
            match renewed {
                Ok(Ok(until)) => return self.term.extend(until).map_err(|loss| self.lost_error(&loss)),
                Ok(Err(loss)) => return Err(self.lost_error(&self.term.lose(loss))),
                // The silent connection is closed: the next attempt dials. A conflict is with an
                // attempt before it that was late.
                Err(error)
                    if attempt_deadline < deadline
                        && (error.kind() == ClientErrorKind::DeadlineExceeded
                            || error.kind() == ErrorKind::Conflict) =>
                {
                    tracing::debug!(lock = %self.name, %error, "sending a renewal again");
                    sleep_until(attempt_deadline.min(Instant::now() + PAUSE)).await;
                }
                Err(error) => return Err(self.in_context(error)),
            }
        }
    }

    fn expire(&self) {
        self.term.expire();
    }

    async fn release_renewed(&self) {
        if self.term.loss() != Some(LockLoss::Expired) {
            return;
        }
        let claim = self.claim.lock().await;
        if claim.is_renewed() {
            self.release.abandon(&claim).await;
        }
    }
}

impl fmt::Debug for ThriftLockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThriftLockGuard")
            .field("name", &self.held.name)
            .field("token", &self.held.token)
            .field("fencing", &self.held.fencing)
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}
