//! Held locks.

use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use hbase_client::low_level::TableCalls;
use tokio::{
    runtime::Handle,
    sync::MutexGuard,
    task::JoinHandle,
    time::{Instant, sleep_until, timeout_at},
};

use super::{
    abandoned,
    background::run_in_background,
    claim::LockClaim,
    clock::{Clock, Moment},
    keeper::Renewable,
    local::LocalClaim,
    location::LockLocation,
    owner::LockToken,
    renew::{Renewal, attempt_timeout},
    request::LockRequest,
    state::{LockLoss, ReleaseOutcome},
    term::Term,
};
use crate::{
    error::{ClientErrorKind, Error, ErrorKind, Result},
    observe,
};

/// A held lock. It is held until it is released or lost, or its lease expires.
///
/// [`release`](Self::release) releases the lock and reports whether it was still held. Dropping the
/// guard also releases it, in the background; if that fails, the lock is held until its lease
/// expires.
///
/// **Bind a guard to a name.** `let _guard = …` holds the lock until the end of the block, but
/// `let _ = …` drops the guard and releases the lock at once, without a warning.
///
/// **A guard is not a proof.** The process may be paused at any point, even for a minute, so the
/// lease may expire between a check of [`is_held`](Self::is_held) and the next statement. A write
/// that must be safe against this carries the [fencing number](Self::fencing) to a store that
/// refuses lower ones, or is a transaction that HBase rejects if the lock is lost
/// ([`Transaction::fenced_by`](crate::Transaction::fenced_by)).
///
/// All times are measured by this machine's monotonic clock, including suspended time. Changes of
/// its wall clock have no effect.
///
/// # Runtimes
///
/// The guard keeps a handle of the tokio runtime that acquired the lock. Background renewals run
/// there, and so does the release of a dropped guard, whichever thread drops it: a current-thread
/// runtime must be driven for that. After that runtime has shut down, the lock is not renewed any
/// more, and a dropped guard is released in the runtime in which it is dropped; outside any
/// runtime, the lease expires. Other tasks of this process that wait for the lock notice that within
/// a second. [`renew`](Self::renew), [`release`](Self::release) and [`lost`](Self::lost) may be
/// awaited in any runtime.
#[must_use = "a lock that is not bound to a name is released at once"]
pub struct LockGuard {
    pub(super) held: Arc<Held>,
    keeper: JoinHandle<()>,
    /// The runtime of the keeper.
    runtime: Handle,
}

/// A held lock, shared by the guard and its keeper.
pub(super) struct Held {
    pub(super) name: String,
    pub(super) location: LockLocation,
    token: LockToken,
    fencing: i64,
    /// The first bytes of its owner cells.
    pub(super) beginning: Bytes,
    /// Locked while the hold is changed.
    pub(super) claim: Arc<tokio::sync::Mutex<LockClaim>>,
    pub(super) term: Arc<Term<LocalClaim>>,
}

impl LockGuard {
    /// Creates a guard for a claim, and spawns its keeper.
    pub(super) fn new(
        name: String,
        location: LockLocation,
        claim: LockClaim,
        term: Term<LocalClaim>,
    ) -> Self {
        let held = Arc::new(Held {
            name,
            location,
            term: Arc::new(term),
            token: claim.token,
            fencing: claim.fencing,
            beginning: claim
                .row_leases
                .last()
                .map(|row_lease| row_lease.held.beginning())
                .unwrap_or_default(),
            claim: Arc::new(tokio::sync::Mutex::new(claim)),
        });
        let runtime = Handle::current();
        let keeper = runtime.spawn(super::keeper::keep(Arc::clone(&held)));
        Self {
            held,
            keeper,
            runtime,
        }
    }

    /// Renews a lease that is older than a third of its length, before the guard is returned.
    pub(crate) async fn renew_if_aged(&self) -> Result<()> {
        match self.remaining() < self.held.term.lasts() / 3 * 2 {
            true => self.renew().await,
            false => Ok(()),
        }
    }

    /// Renews the hold for the lease of this request, and returns a guard for that. `None` if it is
    /// lost, or its lease would be over already.
    ///
    /// # Errors
    ///
    /// Returns the errors of the call. The hold is released in the background then.
    pub(crate) async fn for_lease_of(self, request: &LockRequest) -> Result<Option<Self>> {
        self.keeper.abort();
        let deadline = Instant::now() + self.remaining();
        let mut claim = self.held.lock_claim(deadline).await?;
        if self.held.term.loss().is_some() {
            return Ok(None);
        }
        let location = &self.held.location;
        let until = match location.renew(&mut claim, request.lease, deadline).await? {
            Renewal::Held(until) => until,
            Renewal::Lost(_) => return Ok(None),
        };
        let clock = self.held.term.clock().clone();
        let term = Term::ending(clock, until, request.lease, request.margin(), request.renewed);
        let guard = Self::new(self.held.name.clone(), location.clone(), claim.clone(), term);
        drop(claim);
        // The other guard releases the hold from now on.
        self.held.term.detach();
        Ok(guard.is_held().then_some(guard))
    }

    /// Stops the renewals in the background.
    pub(super) fn stop_auto_renewal(&self) {
        self.held.term.stop_auto_renewal();
    }

    /// Returns the error of a lock that was lost before it could be returned to the caller.
    pub(super) fn early_loss_error(&self) -> Error {
        let error = match self.held.term.loss() {
            None | Some(LockLoss::Expired) => Error::new(
                ClientErrorKind::DeadlineExceeded,
                "the lock was acquired, but its lease expired before the guard could be returned",
            )
            .with_hint("use a longer lease"),
            Some(loss) => Error::new(
                ErrorKind::LockLost,
                format!(
                    "the lock was acquired, and lost before the guard could be returned: {}",
                    loss.at(self.held.location.wall_clock())
                ),
            )
            .with_hint("try again"),
        };
        self.held.in_context(error.with_retryable(true))
    }

    /// Keeps the local claim as long as the lock is held.
    pub(crate) fn with_local_claim(self, local_claim: LocalClaim) -> Self {
        local_claim.keep_for(&self.held.term);
        self
    }

    /// Returns the lock's name:
    ///
    /// - the key of its [`LockName`](super::LockName);
    /// - for a lock [in a partition](super::PartitionLocks), prefix and id with a `#` between them;
    /// - otherwise the key of the [semaphore](crate::coordination::Semaphore), [read/write
    ///   lock](crate::coordination::ReadWriteLock) or [election](crate::coordination::Election).
    #[must_use]
    pub fn name(&self) -> &str {
        &self.held.name
    }

    /// Returns the token of this hold. Any process that has the token can
    /// [release](super::LockManager::release) and [renew](super::LockManager::renew) the lock, or
    /// [resume](super::LockRequest::resume) it with its own guard.
    #[must_use]
    pub fn token(&self) -> LockToken {
        self.held.token
    }

    /// Returns the fencing number, which is higher than that of every earlier holder of this lock.
    /// For permits and readers, which may be held concurrently, see
    /// [`PermitRequest::acquire`](crate::coordination::PermitRequest::acquire) and
    /// [`ReadWriteLock`](crate::coordination::ReadWriteLock).
    ///
    /// A cell and a condition take it as it is, so a row can refuse lower numbers than the highest that
    /// it has seen.
    ///
    /// It is a timestamp that HBase raises with each acquisition, not a count. It is kept for seven
    /// days, and rises as long as no server's clock falls behind another's by more than that. If
    /// Java clients use a table without companion rows, their releases delete it, and it rises only
    /// as long as no server's clock is behind another's.
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

    /// Waits until the lock is lost: its lease expires, even if the network is silent; a renewal is
    /// refused; or a transaction releases it. Does not return while renewals succeed.
    ///
    /// # Cancel safety
    ///
    /// May be dropped and called again at any time.
    pub async fn lost(&self) -> LockLoss {
        self.held.term.lost().await
    }

    /// Renews the lease for its whole length from now on.
    ///
    /// A request that is not answered within a third of the remaining lease is sent again, on a new
    /// connection if the old one is silent.
    ///
    /// # Errors
    ///
    /// - [`LockLost`](ErrorKind::LockLost) if the lock is not held any more, or if its lease
    ///   expired before the server's answer arrived;
    /// - [`LimitExceeded`](ClientErrorKind::LimitExceeded) if the lock would be held longer in all
    ///   than the TTL of the table's family;
    /// - [`DeadlineExceeded`](ClientErrorKind::DeadlineExceeded) also if another renewal, or the
    ///   commit of a transaction that releases the lock, does not complete in time.
    ///
    /// After any other error the lock is held for at least as long as before.
    pub async fn renew(&self) -> Result<()> {
        self.held.renew(self.held.location.table.deadline()).await
    }

    /// Detaches the guard from the lock, which stays held until its lease expires or it is released
    /// by its [token](Self::token). This process no longer renews it.
    ///
    /// Use it in a process that ends before its lock does. [`LockRequest::resume`] returns a guard
    /// for the token, in any process.
    ///
    /// [`LockRequest::resume`]: super::LockRequest::resume
    #[must_use = "without its token the lock is held until its lease is over"]
    pub fn detach(self) -> LockToken {
        self.held.term.detach();
        self.held.token
    }

    /// Releases the lock. Returns whether it was held until now, or until a [transaction released
    /// it](crate::Transaction::release_lock).
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the release continues in the background, as for a dropped guard.
    ///
    /// # Errors
    ///
    /// Returns the errors of the call, within the operation timeout. The release is then retried in
    /// the background until the lease expires. An error whose [outcome is
    /// unknown](Error::is_outcome_unknown) can also mean that an answer was lost and another holder
    /// has the lock, which it may have acquired before or after this release.
    pub async fn release(self) -> Result<ReleaseOutcome> {
        self.release_shared().await
    }

    /// Releases the lock of a guard that has several owners.
    pub(crate) async fn release_shared(&self) -> Result<ReleaseOutcome> {
        self.keeper.abort();
        let deadline = self.held.location.table.deadline();
        let claim = self.held.lock_claim(deadline).await?;
        if self.held.term.is_released() {
            return Ok(ReleaseOutcome::Released);
        }
        let known = self.held.term.loss();
        // On an error, dropping the guard retries the release in the background.
        let vacated = self
            .held
            .location
            .vacate(&claim, deadline)
            .await
            .map_err(|error| {
                let error = error
                    .with_hint_if_unknown("the release is retried in the background until the lease expires");
                self.held.in_context(error)
            })?;
        drop(claim);
        Ok(self.held.term.vacated(known, vacated))
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        self.keeper.abort();
        self.held.term.end_local_claim();
        if !self.held.term.is_released() {
            let held = Arc::clone(&self.held);
            let tracked = held.location.tasks.begin();
            run_in_background(&self.runtime, async move {
                let _tracked = tracked;
                let claim = held.claim.lock().await;
                abandoned::vacate(&held.location, &claim).await;
            });
        }
    }
}

impl Held {
    /// Locks the claim. A renewal, or a transaction that releases the lock, keeps it locked until
    /// it completes.
    async fn lock_claim(&self, deadline: Instant) -> Result<MutexGuard<'_, LockClaim>> {
        timeout_at(deadline, self.claim.lock()).await.map_err(|_| {
            let error = Error::new(
                ClientErrorKind::DeadlineExceeded,
                "timed out waiting for a renewal, or for the commit of a transaction that releases the lock",
            );
            let hint = "await or drop the commit of that transaction";
            self.in_context(error.with_retryable(true).with_hint(hint))
        })
    }

    fn lost_error(&self, loss: &LockLoss) -> Error {
        let error = Error::new(
            ErrorKind::LockLost,
            format!(
                "the lock is no longer held: {}",
                loss.at(self.location.wall_clock())
            ),
        );
        self.in_context(error.with_hint("stop the work that it protects, and acquire it again"))
    }

    fn in_context(&self, error: Error) -> Error {
        self.location.in_context(&self.name, error)
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
        let renewed = self.renew_until(deadline).await;
        observe::renewal(&renewed);
        renewed
    }

    fn expire(&self) {
        self.term.expire();
    }

    async fn release_renewed(&self) {
        if self.term.loss() != Some(LockLoss::Expired) {
            return;
        }
        let claim = self.claim.lock().await;
        if claim.renewals > 0 {
            abandoned::vacate(&self.location, &claim).await;
        }
    }
}

impl Held {
    async fn renew_until(&self, deadline: Instant) -> Result<()> {
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
                Ok(Renewal::Held(until)) => {
                    return self.term.extend(until).map_err(|loss| self.lost_error(&loss));
                }
                Ok(Renewal::Lost(loss)) => return Err(self.lost_error(&self.term.lose(loss))),
                // A connection that was silent for that long is closed by now, so the next try
                // opens another.
                Err(error)
                    if error.kind() == ClientErrorKind::DeadlineExceeded && attempt_deadline < deadline =>
                {
                    tracing::debug!(lock = %self.name, %error, "a renewal was not answered in time");
                    sleep_until(attempt_deadline).await;
                }
                Err(error) => {
                    let hint = "it is held as it was, or longer; renew it again";
                    return Err(self.in_context(error.with_hint_if_unknown(hint)));
                }
            }
        }
    }
}

impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockGuard")
            .field("name", &self.held.name)
            .field("token", &self.held.token)
            .field("fencing", &self.held.fencing)
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}
