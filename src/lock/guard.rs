//! A lock that is held.

use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::{
    sync::MutexGuard,
    task::JoinHandle,
    time::{Instant, timeout_at},
};

use super::{
    abandoned, clock::Moment, hold::Hold, keeper::Kept, owner::LockToken, party::Tenure, place::Place,
    renew::Renewal, state::LockLoss, term::Term,
};
use crate::error::{Error, ErrorKind, Result};

/// A lock that is held until it is released, its lease is over, or it is lost.
///
/// [`release`](Self::release) gives it back and says whether it was still held. Dropping the guard gives it back too, in the
/// background and as well as can be; where that fails, the lease ends it.
///
/// **The guard is no proof for others.** Between a look at [`is_held`](Self::is_held) and what is done next, the lease may
/// end: the process may be stopped for a minute anywhere. What must be safe against that carries the
/// [fencing number](Self::fencing) to whoever can refuse older ones; or is a transaction that HBase itself refuses when the
/// lock is gone ([`Transaction::fenced_by`](crate::Transaction::fenced_by)).
///
/// All times are this machine's monotonic clock, suspended time included; setting the wall clock changes nothing.
#[must_use = "a lock that is not bound to a name is released at once"]
pub struct LockGuard {
    pub(super) held: Arc<Held>,
    keeper: JoinHandle<()>,
}

/// What is known of a hold, shared by the guard and whoever keeps it.
pub(super) struct Held {
    pub(super) name: String,
    pub(super) place: Place,
    token: LockToken,
    fencing: u64,
    /// What its owner cells begin with.
    pub(super) beginning: Bytes,
    /// Whoever changes the hold has it meanwhile.
    pub(super) hold: Arc<tokio::sync::Mutex<Hold>>,
    pub(super) term: Term<Tenure>,
}

/// How a release ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use = "a lock that was lost before it was released did not protect what was done under it"]
pub enum ReleaseOutcome {
    /// The lock was held until now, and is free.
    Released,
    /// It was not held any more.
    Lost(LockLoss),
}

impl ReleaseOutcome {
    /// Whether the lock was held until it was released.
    #[must_use]
    pub fn is_released(&self) -> bool {
        matches!(self, Self::Released)
    }
}

impl fmt::Display for ReleaseOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Released => f.write_str("released"),
            Self::Lost(loss) => write!(f, "not held any more: {loss}"),
        }
    }
}

impl LockGuard {
    /// Of a hold that was won.
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
            token: hold.token,
            fencing: hold.fencing,
            beginning: hold
                .grips
                .last()
                .map(|grip| grip.held.beginning())
                .unwrap_or_default(),
            hold: Arc::new(tokio::sync::Mutex::new(hold)),
        });
        let keeper = tokio::spawn(super::keeper::keep(Arc::clone(&held)));
        Self { held, keeper }
    }

    /// Renews the lease when a third of it is over: for a hold that is not handed out yet.
    pub(crate) async fn freshen(&self) -> Result<()> {
        match self.remaining() < self.held.term.lasts() / 3 * 2 {
            true => self.renew().await,
            false => Ok(()),
        }
    }

    /// Ends the renewals in the background.
    pub(super) fn renew_no_more(&self) {
        self.held.term.renew_no_more();
    }

    /// The error of a lock that was lost before all that was asked for was there.
    pub(super) fn lost_early(&self) -> Error {
        let error = match self.held.term.loss() {
            None | Some(LockLoss::Expired) => Error::new(
                ErrorKind::DeadlineExceeded,
                "the lock was won, but its lease was over before it could be handed out",
            )
            .with_hint("take a longer lease"),
            Some(loss) => Error::new(
                ErrorKind::LockLost,
                format!("the lock was won, and lost before it could be handed out: {loss}"),
            )
            .with_hint("try again"),
        };
        self.held.blame(error.with_retryable(true))
    }

    /// Keeps this as long as the lock is held.
    pub(crate) fn with_tenure(self, tenure: Tenure) -> Self {
        self.held.term.keep(tenure);
        self
    }

    /// The lock's name: the key of its [`LockName`](super::LockName), or prefix and id of one [in a
    /// partition](super::PartitionLocks), with a `#` between them. Of a [semaphore](crate::Semaphore), a [read/write
    /// lock](crate::ReadWriteLock) and an [election](crate::Election) their key.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.held.name
    }

    /// What tells this hold from all others. Whoever has it can [release](super::LockManager::release) the lock, and
    /// [renew](super::LockManager::renew) one of a lock table.
    #[must_use]
    pub fn token(&self) -> LockToken {
        self.held.token
    }

    /// A number that is higher than that of every earlier holder of this lock, whoever they were and however their
    /// holds ended. Of permits and readers, of which there may be many at a time, see
    /// [`PermitRequest::acquire`](crate::PermitRequest::acquire) and [`ReadWriteLock`](crate::ReadWriteLock).
    ///
    /// It is a timestamp that HBase raises with each acquisition, not a count. It rises as long as no server's clock falls
    /// behind another's by more than the seven days for which it is kept; where Java clients share the table
    /// and no companion row is used, by more than clocks of servers differ.
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

    /// Waits until the lock is lost: at the end of its lease also when the network is silent, or as soon as a renewal is
    /// refused, or a transaction gives it back. While renewals succeed it does not end. May be dropped and called again at any
    /// time.
    pub async fn lost(&self) -> LockLoss {
        self.held.term.lost().await
    }

    /// Renews the lease: it lasts its whole time from now on.
    ///
    /// # Errors
    ///
    /// [`LockLost`](ErrorKind::LockLost) when it is not held any more; [`LimitExceeded`](ErrorKind::LimitExceeded) when it
    /// would be held longer in all than the table's family keeps anything, its TTL. Any other error leaves the lock as it is, and the
    /// lease as it was at least.
    pub async fn renew(&self) -> Result<()> {
        self.held.renew(self.held.place.table.deadline()).await
    }

    /// Keeps the lock held without this guard, until its lease is over or somebody releases it by its
    /// [token](Self::token).
    ///
    /// For a process that ends before its lock does. Nothing here renews the lock or tells its loss any more.
    #[must_use = "without its token the lock is held until its lease is over"]
    pub fn leave(self) -> LockToken {
        self.held.term.leave();
        self.held.token
    }

    /// Gives the lock back, and tells whether it was held until now, or until a [transaction gave it
    /// back](crate::Transaction::release_lock).
    ///
    /// A future that is dropped leaves the rest to the background, as a dropped guard does.
    ///
    /// # Errors
    ///
    /// Those of the call, within the operation timeout. The background goes on trying until the lease is over. One whose
    /// [outcome is unknown](Error::is_outcome_unknown) says also that an answer was lost and the lock then found with
    /// somebody else, who may have got it by this release or before.
    pub async fn release(self) -> Result<ReleaseOutcome> {
        self.keeper.abort();
        let deadline = self.held.place.table.deadline();
        let hold = self.held.hold(deadline).await?;
        if self.held.term.is_released() {
            return Ok(ReleaseOutcome::Released);
        }
        let lost_before = self.held.term.loss();
        let loss = self.held.place.vacate(&hold, deadline).await.map_err(|error| {
            let error = error.with_hint_if_unknown("the background goes on until the lease is over");
            self.held.blame(error)
        })?;
        drop(hold);
        self.held.term.released();
        Ok(match (lost_before, loss) {
            // A transaction was to give it back, and its answer was lost: now it is known that it did, or that we did.
            (None | Some(LockLoss::Unknown), None) => ReleaseOutcome::Released,
            // It was given back before it was taken, or it was not.
            (Some(LockLoss::Unknown), Some(LockLoss::Taken(_))) => ReleaseOutcome::Lost(LockLoss::Unknown),
            (_, Some(loss)) | (Some(loss), None) => ReleaseOutcome::Lost(loss),
        })
    }
}

impl Drop for LockGuard {
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
                abandoned::vacate(&held.place, &hold).await;
            });
        }
    }
}

impl Held {
    /// Whether this side counts the lease as over.
    pub(super) fn is_over(&self) -> bool {
        self.term.until().is_some_and(|until| until.left().is_zero())
    }

    /// What changes it has it meanwhile: a renewal, or a transaction that gives it back, until that is through.
    async fn hold(&self, deadline: Instant) -> Result<MutexGuard<'_, Hold>> {
        timeout_at(deadline, self.hold.lock()).await.map_err(|_| {
            let error = Error::new(
                ErrorKind::DeadlineExceeded,
                "a renewal, or the commit of a transaction that gives the lock back, did not end in time",
            );
            let hint = "see to it that the transaction's commit is awaited or dropped";
            self.blame(error.with_retryable(true).with_hint(hint))
        })
    }

    fn lost_error(&self, loss: &LockLoss) -> Error {
        let error = Error::new(
            ErrorKind::LockLost,
            format!("the lock is not held any more: {loss}"),
        );
        self.blame(error.with_hint("stop what is done under it, and acquire it anew"))
    }

    fn blame(&self, error: Error) -> Error {
        self.place.blame(&self.name, error)
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
            Ok(Renewal::Held(until)) => {
                self.term.renewed(until);
                Ok(())
            }
            Ok(Renewal::Lost(loss)) => {
                let error = self.lost_error(&loss);
                self.term.lose(loss);
                Err(error)
            }
            Err(error) => {
                let hint = "it is held as it was, or longer; renew it again";
                Err(self.blame(error.with_hint_if_unknown(hint)))
            }
        }
    }

    fn expire(&self) {
        self.term.expire();
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
