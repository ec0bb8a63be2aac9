//! A lock that is held.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use tokio::{sync::watch, task::JoinHandle, time::Instant};

use super::{
    abandoned, clock::Moment, hold::Hold, owner::LockToken, party::Tenure, place::Place, renew::Renewal,
    state::LockLoss,
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
    lease: Duration,
    margin: Duration,
    token: LockToken,
    fencing: u64,
    /// What its owner cells begin with.
    pub(super) beginning: Bytes,
    /// Whoever changes the hold has it meanwhile.
    pub(super) hold: Arc<tokio::sync::Mutex<Hold>>,
    status: watch::Sender<Status>,
    /// What it has among the tasks of this process; given up with the lock.
    tenure: Mutex<Option<Tenure>>,
}

#[derive(Clone, Debug)]
enum Status {
    /// Until then, by this machine's clock.
    Held(Moment),
    Lost(LockLoss),
    /// The guard has no more to do with it: released, or left to its token.
    Released,
}

impl Status {
    /// A renewal says until when it is held: also sooner than before, when it shows a server's clock ahead of what was thought.
    /// One that comes back after the end has been told does not take that back. Whether it changed anything.
    fn renew(&mut self, until: Moment) -> bool {
        match self {
            Self::Held(end) => {
                *end = until;
                true
            }
            Self::Lost(_) | Self::Released => false,
        }
    }
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
        let until = hold.since.after(lease.saturating_sub(margin));
        let held = Arc::new(Held {
            name,
            place,
            lease,
            margin,
            token: hold.token,
            fencing: hold.fencing,
            beginning: hold
                .grips
                .last()
                .map(|grip| grip.held.beginning())
                .unwrap_or_default(),
            hold: Arc::new(tokio::sync::Mutex::new(hold)),
            status: watch::Sender::new(Status::Held(until)),
            tenure: Mutex::default(),
        });
        let keeper = tokio::spawn(super::keeper::keep(Arc::clone(&held), renewed));
        Self { held, keeper }
    }

    pub(super) fn lease(&self) -> Duration {
        self.held.lease
    }

    /// The error of a lease that was over before all that was asked for was there.
    pub(super) fn over(&self) -> Error {
        self.held.blame(
            Error::new(
                ErrorKind::DeadlineExceeded,
                "the lock was won, but its lease was over before it could be handed out",
            )
            .with_retryable(true)
            .with_hint("take a longer lease, or wait less for locks that are acquired together"),
        )
    }

    /// Keeps this as long as the lock is held.
    pub(crate) fn with_tenure(self, tenure: Tenure) -> Self {
        *self.held.tenure() = Some(tenure);
        if self.held.until().is_none() {
            self.held.end_tenure();
        }
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
        match &*self.held.status.borrow() {
            Status::Held(until) => until.left(),
            Status::Lost(_) | Status::Released => Duration::ZERO,
        }
    }

    /// Waits until the lock is lost: at the end of its lease also when the network is silent, or as soon as a renewal is
    /// refused, or a transaction gives it back. While renewals succeed it does not end. May be dropped and called again at any
    /// time.
    pub async fn lost(&self) -> LockLoss {
        let mut status = self.held.status.subscribe();
        loop {
            match &*status.borrow_and_update() {
                Status::Lost(loss) => return loss.clone(),
                Status::Released => return LockLoss::Released,
                Status::Held(_) => {}
            }
            if status.changed().await.is_err() {
                return LockLoss::Expired;
            }
        }
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
        self.held.status.send_if_modified(|status| {
            let held = matches!(status, Status::Held(_));
            if held {
                *status = Status::Released;
            }
            held
        });
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
        // A transaction that gives it back keeps this until it is through.
        let hold = self.held.hold.lock().await;
        let lost_before = match &*self.held.status.borrow() {
            Status::Released => return Ok(ReleaseOutcome::Released),
            Status::Lost(loss) => Some(loss.clone()),
            Status::Held(until) => until.left().is_zero().then_some(LockLoss::Expired),
        };
        let loss = self
            .held
            .place
            .vacate(&hold, deadline)
            .await
            .map_err(|error| self.held.blame(error))?;
        drop(hold);
        self.held.released();
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
        self.held.end_tenure();
        let released = matches!(&*self.held.status.borrow(), Status::Released);
        // Outside of a runtime nothing can be sent, and the lease ends it.
        if let (false, Ok(runtime)) = (released, tokio::runtime::Handle::try_current()) {
            let held = Arc::clone(&self.held);
            runtime.spawn(async move {
                let hold = held.hold.lock().await;
                abandoned::vacate(&held.place, &hold).await;
            });
        }
    }
}

impl Held {
    /// When the lock is lost unless it is renewed; none when it is lost already, or released.
    pub(super) fn until(&self) -> Option<Moment> {
        match &*self.status.borrow() {
            Status::Held(until) => Some(*until),
            Status::Lost(_) | Status::Released => None,
        }
    }

    /// Whether this side counts the lease as over.
    pub(super) fn is_over(&self) -> bool {
        matches!(&*self.status.borrow(), Status::Held(until) if until.left().is_zero())
    }

    pub(super) fn lease(&self) -> Duration {
        self.lease
    }

    pub(super) async fn renew(&self, deadline: Instant) -> Result<()> {
        let mut hold = self.hold.lock().await;
        if self.until().is_none_or(|until| until.left().is_zero()) {
            return Err(self.lost_error(&self.loss()));
        }
        match self.place.renew(&mut hold, self.lease, deadline).await {
            Ok(Renewal::Held(until)) => {
                self.status
                    .send_if_modified(|status| status.renew(until.before(self.margin)));
                Ok(())
            }
            Ok(Renewal::Lost(loss)) => {
                let error = self.lost_error(&loss);
                self.lose(loss);
                Err(error)
            }
            Err(error) => Err(self.blame(error)),
        }
    }

    /// The lock is lost, for this reason.
    pub(super) fn lose(&self, loss: LockLoss) {
        self.status.send_if_modified(|status| {
            let held = matches!(status, Status::Held(_));
            if held {
                *status = Status::Lost(loss);
            }
            held
        });
        self.end_tenure();
    }

    /// The lock was given back.
    pub(super) fn released(&self) {
        self.status.send_replace(Status::Released);
        self.end_tenure();
    }

    fn loss(&self) -> LockLoss {
        match &*self.status.borrow() {
            Status::Lost(loss) => loss.clone(),
            Status::Released => LockLoss::Released,
            Status::Held(_) => LockLoss::Expired,
        }
    }

    fn tenure(&self) -> MutexGuard<'_, Option<Tenure>> {
        self.tenure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end_tenure(&self) {
        let tenure = self.tenure().take();
        drop(tenure);
    }

    fn lost_error(&self, loss: &LockLoss) -> Error {
        self.blame(Error::new(
            ErrorKind::LockLost,
            format!("the lock is not held any more: {loss}"),
        ))
    }

    fn blame(&self, error: Error) -> Error {
        self.place.blame(&self.name, error)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_renewal_moves_the_end_of_a_lease_in_both_directions_and_does_not_bring_back_a_lost_one() {
        let now = Moment::now();
        let [sooner, later] = [3, 30].map(|seconds| now.after(Duration::from_secs(seconds)));
        let mut status = Status::Held(now.after(Duration::from_secs(10)));
        for until in [later, sooner] {
            assert!(status.renew(until));
            assert!(matches!(status, Status::Held(end) if end == until));
        }
        for over in [Status::Lost(LockLoss::Expired), Status::Released] {
            let mut status = over;
            assert!(!status.renew(later));
            assert!(!matches!(status, Status::Held(_)));
        }
    }
}
