//! A guard of a lock held through a gateway.

use std::{fmt, sync::Arc, time::Duration};

use hbase_client::{Environment, SystemEnvironment};
use tokio::{runtime::Handle, time::Instant};

use super::{
    lock_location::{ThriftClaim, ThriftLockLocation},
    permits::Lane,
};
use crate::{
    error::{Error, Result},
    lock::{
        CallSharing, Clock, HeldLocation, Hold, LocalClaim, LockLoss, LockToken, Moment, ReleaseOutcome,
        Term, TrackedTask,
    },
};

/// A lock held through a gateway, until it is released, its lease expires, or it is lost.
///
/// Its use and its limits are those of a [`LockGuard`](crate::lock::LockGuard): a write that must be
/// safe against a holder that goes on after its lease carries the [fencing number](Self::fencing) to
/// a store that refuses lower ones. It cannot fence a transaction. Renewals, and the release of a
/// dropped guard, run in the runtime in which the [`ThriftConnection`](super::ThriftConnection) was made.
///
/// Bind it to a name, such as `_guard`: `let _ = …` drops it and releases the lock at once.
#[must_use = "a lock that is not bound to a name is released at once"]
pub struct ThriftLockGuard {
    hold: Hold<ThriftLockLocation>,
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
        let clock = Clock::new(Arc::new(SystemEnvironment));
        let term = Term::new(clock, claim.since, lease, margin, renewed);
        let fencing = (claim.held.token, claim.fencing);
        Self {
            hold: Hold::new(name, location, claim, fencing, term),
        }
    }

    /// Keeps the claim among the tasks of this process while the lock is held.
    pub(super) fn with_local_claim(self, local_claim: LocalClaim) -> Self {
        self.hold.keep(local_claim);
        self
    }

    /// Returns the lock's name: the key of its [`LockName`](crate::lock::LockName).
    #[must_use]
    pub fn name(&self) -> &str {
        &self.hold.held.name
    }

    /// Returns the token of this hold. Any process with the token can release the lock, [through a
    /// gateway](super::ThriftLockManager::release) or
    /// [natively](crate::lock::LockManager::release).
    ///
    /// A native client must not renew it: this guard then reports the lock as lost.
    #[must_use]
    pub fn token(&self) -> LockToken {
        self.hold.held.token
    }

    /// Returns a number that is higher than that of every earlier holder of this lock; see
    /// [`LockGuard::fencing`](crate::lock::LockGuard::fencing).
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

    /// Waits until the lock is lost: at the end of its lease, even if the gateway is silent, or as
    /// soon as a renewal is refused. It does not return while renewals succeed.
    ///
    /// # Cancel safety
    ///
    /// May be dropped and called again at any time.
    pub async fn lost(&self) -> LockLoss {
        self.hold.held.term.lost().await
    }

    /// Renews the lease: it lasts its whole time from now on. Four calls, seven with a companion
    /// row; one more after a renewal whose outcome is unknown.
    ///
    /// Calls that are not answered within a third of the remaining lease are sent again, by a new
    /// connection. A call that arrives after the next one changes nothing.
    ///
    /// # Errors
    ///
    /// Returns [`LockLost`](crate::ErrorKind::LockLost) if the lock is no longer held. After any other error
    /// the lease lasts at least as long as before.
    pub async fn renew(&self) -> Result<()> {
        self.hold.renew().await
    }

    /// Detaches the guard from the lock, which stays held until its lease expires or it is released
    /// by its [token](Self::token).
    #[must_use = "without its token the lock is held until its lease is over"]
    pub fn detach(self) -> LockToken {
        self.hold.detach()
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
        self.hold.release().await
    }
}

impl HeldLocation for ThriftLockLocation {
    type Claim = ThriftClaim;

    fn environment(&self) -> &dyn Environment {
        &SystemEnvironment
    }

    fn runtime(&self) -> &Handle {
        self.rows.connection.runtime()
    }

    fn deadline(&self) -> Instant {
        self.rows.connection.deadline()
    }

    async fn renew(
        &self,
        claim: &mut ThriftClaim,
        lease: Duration,
        deadline: Instant,
        _: CallSharing,
    ) -> Result<Result<Moment, LockLoss>> {
        let location = self.in_lane(Lane::Renewals);
        location.renew(claim, lease, deadline).await
    }

    async fn vacate(&self, claim: &ThriftClaim, deadline: Instant) -> Result<ReleaseOutcome> {
        self.in_lane(Lane::Releases).vacate(claim, deadline).await
    }

    /// A gateway may have kept the calls that acquired or renewed the lock for as long as it liked, so
    /// the lease may have begun just now.
    fn latest_end(&self, claim: &ThriftClaim) -> Moment {
        Moment::now(&SystemEnvironment).after(claim.longest.into())
    }

    fn is_renewed(claim: &ThriftClaim) -> bool {
        claim.sent > 0
    }

    fn begin_task(&self) -> Option<TrackedTask> {
        None
    }

    fn in_context(&self, name: &str, error: Error) -> Error {
        error
            .at_operation(format!("lock {name}"))
            .at_table(&self.rows.table)
    }
}

impl fmt::Debug for ThriftLockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThriftLockGuard")
            .field("name", &self.hold.held.name)
            .field("token", &self.hold.held.token)
            .field("fencing", &self.hold.held.fencing)
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}
