//! A lock that is held through a gateway.

use std::{fmt, sync::Arc, time::Duration};

use tokio::{
    sync::MutexGuard,
    task::JoinHandle,
    time::{Instant, timeout_at},
};

use super::hold::{Hold, Place};
use crate::{
    error::{Error, ErrorKind, Result},
    lock::{self, Kept, LockLoss, LockToken, Moment, ReleaseOutcome, Tenure, Term},
};

/// A lock that is held through a gateway until it is released, its lease is over, or it is lost.
///
/// It is to be used as a [`LockGuard`](crate::LockGuard) is, and is no proof for others either: what must be safe against a holder
/// that goes on after its lease carries the [fencing number](Self::fencing) to whoever can refuse older ones. No transaction can be
/// fenced by it.
#[must_use = "a lock that is not bound to a name is released at once"]
pub struct ThriftLockGuard {
    held: Arc<Held>,
    keeper: JoinHandle<()>,
}

/// What is known of a hold, shared by the guard and whoever keeps it.
struct Held {
    name: String,
    place: Place,
    token: LockToken,
    fencing: u64,
    /// Whoever changes the hold has it meanwhile.
    hold: tokio::sync::Mutex<Hold>,
    term: Term<Tenure>,
}

impl ThriftLockGuard {
    pub(super) fn new(
        name: String,
        place: Place,
        hold: Hold,
        lease: Duration,
        margin: Duration,
        renewed: bool,
    ) -> Self {
        let held = Arc::new(Held {
            name,
            place,
            term: Term::new(hold.since, lease, margin, renewed),
            token: hold.held.token,
            fencing: hold.fencing,
            hold: tokio::sync::Mutex::new(hold),
        });
        let keeper = tokio::spawn(lock::keep(Arc::clone(&held)));
        Self { held, keeper }
    }

    /// Keeps this among the tasks of this process as long as the lock is held.
    pub(super) fn with_tenure(self, tenure: Tenure) -> Self {
        self.held.term.keep(tenure);
        self
    }

    /// The lock's name: the key of its [`LockName`](crate::LockName).
    #[must_use]
    pub fn name(&self) -> &str {
        &self.held.name
    }

    /// What tells this hold from all others. Whoever has it can release the lock, [through a
    /// gateway](super::ThriftLockManager::release) or [natively](crate::LockManager::release).
    ///
    /// It must not be renewed natively: for this guard the lock counts as lost then.
    #[must_use]
    pub fn token(&self) -> LockToken {
        self.held.token
    }

    /// A number that is higher than that of every earlier holder of this lock, whoever they were and however their
    /// holds ended; see [`LockGuard::fencing`](crate::LockGuard::fencing).
    #[must_use]
    pub fn fencing(&self) -> u64 {
        self.held.fencing
    }

    /// Whether the lock is held: its lease is not over, and no renewal was refused.
    #[must_use]
    pub fn is_held(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// How long the lease lasts from now on, less the margin for clocks; nothing when it is over or lost.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.held.term.left()
    }

    /// Waits until the lock is lost: at the end of its lease also when the gateway is silent, or as soon as a renewal is
    /// refused. While renewals succeed it does not end. May be dropped and called again at any time.
    pub async fn lost(&self) -> LockLoss {
        self.held.term.lost().await
    }

    /// Renews the lease: it lasts its whole time from now on. Four calls, seven with a companion row.
    ///
    /// # Errors
    ///
    /// [`LockLost`](ErrorKind::LockLost) when it is not held any more. Any other error leaves the lock as it is, and the
    /// lease as it was at least.
    pub async fn renew(&self) -> Result<()> {
        let deadline = self.held.place.rows.connection.deadline();
        self.held.renew(deadline).await
    }

    /// Keeps the lock held without this guard, until its lease is over or somebody releases it by its
    /// [token](Self::token).
    #[must_use = "without its token the lock is held until its lease is over"]
    pub fn leave(self) -> LockToken {
        self.held.term.leave();
        self.held.token
    }

    /// Gives the lock back, and tells whether it was held until now. Three calls, four with a companion row.
    ///
    /// A future that is dropped leaves the rest to the background, as a dropped guard does.
    ///
    /// # Errors
    ///
    /// Those of the calls, within the operation timeout. The background goes on trying until the lease is over.
    pub async fn release(self) -> Result<ReleaseOutcome> {
        self.keeper.abort();
        let deadline = self.held.place.rows.connection.deadline();
        let hold = self.held.hold(deadline).await?;
        if self.held.term.is_released() {
            return Ok(ReleaseOutcome::Released);
        }
        let lost_before = self.held.term.loss();
        let vacated = self.held.place.vacate(&hold, deadline).await;
        let loss = vacated.map_err(|error| self.held.blame(error))?;
        drop(hold);
        self.held.term.released();
        Ok(match loss.or(lost_before) {
            Some(loss) => ReleaseOutcome::Lost(loss),
            None => ReleaseOutcome::Released,
        })
    }
}

impl Drop for ThriftLockGuard {
    fn drop(&mut self) {
        self.keeper.abort();
        self.held.term.end_tenure();
        // Outside of a runtime nothing can be sent, and the lease ends it.
        if let (false, Ok(runtime)) = (
            self.held.term.is_released(),
            tokio::runtime::Handle::try_current(),
        ) {
            let held = Arc::clone(&self.held);
            runtime.spawn(async move {
                let hold = held.hold.lock().await;
                held.place.abandon(&hold).await;
            });
        }
    }
}

impl Held {
    /// What changes it has it meanwhile: a renewal, until that is through.
    async fn hold(&self, deadline: Instant) -> Result<MutexGuard<'_, Hold>> {
        timeout_at(deadline, self.hold.lock()).await.map_err(|_| {
            let error = Error::new(
                ErrorKind::DeadlineExceeded,
                "a renewal that was on its way did not end in time",
            );
            self.blame(error.with_retryable(true))
        })
    }

    fn lost_error(&self, loss: &LockLoss) -> Error {
        self.blame(Error::new(
            ErrorKind::LockLost,
            format!("the lock is not held any more: {loss}"),
        ))
    }

    fn blame(&self, error: Error) -> Error {
        error
            .at_operation(format!("lock {}", self.name))
            .at_table(&self.place.rows.table)
    }
}

impl Kept for Held {
    fn name(&self) -> &str {
        &self.name
    }

    fn until(&self) -> Option<Moment> {
        self.term.until()
    }

    fn is_renewed(&self) -> bool {
        self.term.is_renewed()
    }

    async fn renew(&self, deadline: Instant) -> Result<()> {
        let mut hold = self.hold(deadline).await?;
        if let Some(loss) = self.term.loss() {
            return Err(self.lost_error(&loss));
        }
        match self.place.renew(&mut hold, self.term.lease(), deadline).await {
            Ok(Ok(until)) => {
                self.term.renewed(until);
                Ok(())
            }
            Ok(Err(loss)) => {
                let error = self.lost_error(&loss);
                self.term.lose(loss);
                Err(error)
            }
            Err(error) => Err(self.blame(error)),
        }
    }

    fn expire(&self) {
        self.term.expire();
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
