//! Held locks.

use std::{fmt, time::Duration};

use bytes::Bytes;
use hbase_client::{Environment, low_level::TableCalls};
use tokio::{runtime::Handle, time::Instant};

use super::{CallSharing, HeldLocation, Hold, background::TrackedTask, clock::Moment, term::Term};
use crate::{
    error::{ClientErrorKind, Error, ErrorKind, Result},
    lock::{
        protocol::{claim::LockClaim, location::LockLocation, owner::LockToken},
        queue::local::LocalClaim,
        request::LockRequest,
        state::{LockLoss, ReleaseOutcome},
    },
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
/// Renewals and the release of a dropped guard run in the runtime in which the
/// [`Connection`](hbase_client::Connection) was made, whichever thread drops the guard. After that
/// runtime has shut down, and while nothing drives it, the lock is neither renewed nor released, and its
/// lease expires. [`lost`](Self::lost) reports that in any runtime.
#[must_use = "a lock that is not bound to a name is released at once"]
pub struct LockGuard {
    pub(in crate::lock) hold: Hold<LockLocation>,
    /// The first bytes of its owner cells.
    pub(in crate::lock) beginning: Bytes,
}

impl LockGuard {
    /// Creates a guard for a claim, and spawns its keeper.
    pub(in crate::lock) fn new(
        name: String,
        location: LockLocation,
        claim: LockClaim,
        term: Term<LocalClaim>,
    ) -> Self {
        let beginning = claim
            .row_leases
            .last()
            .map(|row_lease| row_lease.held.beginning());
        let fencing = (claim.token, claim.fencing);
        Self {
            hold: Hold::new(name, location, claim, fencing, term),
            beginning: beginning.unwrap_or_default(),
        }
    }

    /// Renews a lease that is older than a third of its length, before the guard is returned.
    pub(crate) async fn renew_if_aged(&self) -> Result<()> {
        if self.remaining() < self.hold.held.term.lasts() / 3 * 2 {
            self.renew().await
        } else {
            Ok(())
        }
    }

    /// Renews the hold for the lease of this request, and returns a guard for that. `None` if it is
    /// lost, or its lease would be over already.
    ///
    /// # Errors
    ///
    /// Returns the errors of the call. The hold is released in the background then.
    pub(crate) async fn for_lease_of(self, request: &LockRequest) -> Result<Option<Self>> {
        self.hold.stop();
        let held = &self.hold.held;
        let deadline = Instant::now() + self.remaining();
        let mut claim = held.lock_claim(deadline).await?;
        if held.term.loss().is_some() {
            return Ok(None);
        }
        let renewed = held
            .location
            .renew(&mut claim, request.lease, deadline, CallSharing::Alone)
            .await?;
        let Ok(until) = renewed else {
            return Ok(None);
        };
        let clock = held.term.clock().clone();
        let term = Term::ending(clock, until, request.lease, request.margin(), request.renewed);
        let term = term.in_session(request.session_hold());
        let guard = Self::new(held.name.clone(), held.location.clone(), claim.clone(), term);
        drop(claim);
        // The other guard releases the hold from now on.
        held.term.detach();
        Ok(guard.is_held().then_some(guard))
    }

    /// Stops the renewals in the background.
    pub(in crate::lock) fn stop_auto_renewal(&self) {
        self.hold.held.term.stop_auto_renewal();
    }

    /// Returns the error of a lock that was lost before it could be returned to the caller.
    pub(in crate::lock) fn early_loss_error(&self) -> Error {
        let error = match self.hold.held.term.loss() {
            None | Some(LockLoss::Expired) => Error::new(
                ClientErrorKind::DeadlineExceeded,
                "the lock was acquired, but its lease expired before the guard could be returned",
            )
            .with_hint("use a longer lease"),
            Some(loss) => Error::new(
                ErrorKind::LockLost,
                format!(
                    "the lock was acquired, and lost before the guard could be returned: {}",
                    loss.at(self.hold.held.location.wall_clock())
                ),
            )
            .with_hint("try again"),
        };
        self.hold.held.in_context(error.with_retryable(true))
    }

    /// Keeps the local claim as long as the lock is held.
    pub(crate) fn with_local_claim(self, local_claim: LocalClaim) -> Self {
        self.hold.keep(local_claim);
        self
    }

    /// Returns the lock's name:
    ///
    /// - the key of its [`LockName`](crate::lock::LockName);
    /// - for a lock [in a partition](crate::lock::PartitionLocks), prefix and id with a `#` between them;
    /// - otherwise the key of the [semaphore](crate::coordination::Semaphore), [read/write
    ///   lock](crate::coordination::ReadWriteLock) or [election](crate::coordination::Election).
    #[must_use]
    pub fn name(&self) -> &str {
        &self.hold.held.name
    }

    /// Returns the token of this hold. Any process that has the token can
    /// [release](crate::lock::LockManager::release) and [renew](crate::lock::LockManager::renew) the lock, or
    /// [resume](crate::lock::LockRequest::resume) it with its own guard.
    #[must_use]
    pub fn token(&self) -> LockToken {
        self.hold.held.token
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
        self.hold.held.fencing
    }

    /// Returns whether the lock is held: its lease has not expired, and no renewal was refused.
    #[must_use]
    pub fn is_held(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// Returns the remaining lease, less the margin for clocks. Zero if it has expired or is lost.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.hold.held.term.left()
    }

    /// Waits until the lock is lost: its lease expires, even if the network is silent; a renewal is
    /// refused; or a transaction releases it. Does not return while renewals succeed.
    ///
    /// # Cancel safety
    ///
    /// May be dropped and called again at any time.
    pub async fn lost(&self) -> LockLoss {
        self.hold.held.term.lost().await
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
        self.hold.renew().await
    }

    /// Detaches the guard from the lock, which stays held until its lease expires or it is released
    /// by its [token](Self::token). This process no longer renews it.
    ///
    /// Use it in a process that ends before its lock does. [`LockRequest::resume`] returns a guard
    /// for the token, in any process.
    ///
    /// [`LockRequest::resume`]: crate::lock::LockRequest::resume
    #[must_use = "without its token the lock is held until its lease is over"]
    pub fn detach(self) -> LockToken {
        self.hold.detach()
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
        self.hold.release().await
    }
}

impl HeldLocation for LockLocation {
    type Claim = LockClaim;

    fn renewal_phase(&self) -> Option<Duration> {
        Some(self.renewals.phase())
    }

    fn environment(&self) -> &dyn Environment {
        &**self.environment()
    }

    fn runtime(&self) -> &Handle {
        self.table.runtime()
    }

    fn deadline(&self) -> Instant {
        self.table.deadline()
    }

    async fn renew(
        &self,
        claim: &mut LockClaim,
        lease: Duration,
        deadline: Instant,
        sharing: CallSharing,
    ) -> Result<Result<Moment, LockLoss>> {
        self.renew(claim, lease, deadline, sharing).await
    }

    async fn vacate(&self, claim: &LockClaim, deadline: Instant) -> Result<ReleaseOutcome> {
        self.vacate(claim, deadline).await
    }

    fn latest_end(&self, claim: &LockClaim) -> Moment {
        claim.latest_end()
    }

    fn is_renewed(claim: &LockClaim) -> bool {
        claim.renewals > 0
    }

    fn begin_task(&self) -> Option<TrackedTask> {
        Some(self.tasks.begin())
    }

    fn in_context(&self, name: &str, error: Error) -> Error {
        self.in_context(name, error)
    }
}

impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockGuard")
            .field("name", &self.hold.held.name)
            .field("token", &self.hold.held.token)
            .field("fencing", &self.hold.held.fencing)
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}
