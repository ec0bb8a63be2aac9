//! A lock that is held through a gateway.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{sync::watch, task::JoinHandle, time::Instant};

use super::hold::{Hold, Place};
use crate::{
    error::{Error, ErrorKind, Result},
    lock::{self, Kept, LockLoss, LockToken, Moment, ReleaseOutcome, Turn},
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
    lease: Duration,
    margin: Duration,
    token: LockToken,
    fencing: u64,
    /// Whoever changes the hold has it meanwhile.
    hold: tokio::sync::Mutex<Hold>,
    status: watch::Sender<Status>,
    /// The turn among the tasks of this process; given up with the lock.
    turn: Mutex<Option<Turn>>,
}

#[derive(Clone, Debug)]
enum Status {
    /// Until then, by this machine's clock.
    Held(Moment),
    Lost(LockLoss),
    /// The guard has no more to do with it: released, or left to its token.
    Released,
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
        let until = hold.since.after(lease.saturating_sub(margin));
        let held = Arc::new(Held {
            name,
            place,
            lease,
            margin,
            token: hold.held.token,
            fencing: hold.fencing,
            hold: tokio::sync::Mutex::new(hold),
            status: watch::Sender::new(Status::Held(until)),
            turn: Mutex::default(),
        });
        let keeper = tokio::spawn(lock::keep(Arc::clone(&held), renewed));
        Self { held, keeper }
    }

    /// Keeps the turn among the tasks of this process, as long as the lock is held.
    pub(super) fn with_turn(self, turn: Turn) -> Self {
        *self.held.turn.lock().unwrap_or_else(PoisonError::into_inner) = Some(turn);
        if self.held.until().is_none() {
            self.held.give_up_turn();
        }
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
        self.held.until().map_or(Duration::ZERO, Moment::left)
    }

    /// Waits until the lock is lost: at the end of its lease also when the gateway is silent, or as soon as a renewal is
    /// refused. While renewals succeed it does not end. May be dropped and called again at any time.
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
        self.held.end(Status::Released);
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
        let hold = self.held.hold.lock().await;
        let lost_before = match &*self.held.status.borrow() {
            Status::Released => return Ok(ReleaseOutcome::Released),
            Status::Lost(loss) => Some(loss.clone()),
            Status::Held(until) => until.left().is_zero().then_some(LockLoss::Expired),
        };
        let vacated = self.held.place.vacate(&hold, deadline).await;
        let loss = vacated.map_err(|error| self.held.blame(error))?;
        drop(hold);
        self.held.status.send_replace(Status::Released);
        self.held.give_up_turn();
        Ok(match loss.or(lost_before) {
            Some(loss) => ReleaseOutcome::Lost(loss),
            None => ReleaseOutcome::Released,
        })
    }
}

impl Drop for ThriftLockGuard {
    fn drop(&mut self) {
        self.keeper.abort();
        self.held.give_up_turn();
        let released = matches!(&*self.held.status.borrow(), Status::Released);
        // Outside of a runtime nothing can be sent, and the lease ends it.
        if let (false, Ok(runtime)) = (released, tokio::runtime::Handle::try_current()) {
            let held = Arc::clone(&self.held);
            runtime.spawn(async move {
                let hold = held.hold.lock().await;
                held.place.abandon(&hold).await;
            });
        }
    }
}

impl Held {
    /// It is not held any more, if it was.
    fn end(&self, status: Status) {
        self.status.send_if_modified(|now| {
            let held = matches!(now, Status::Held(_));
            if held {
                *now = status;
            }
            held
        });
    }

    fn give_up_turn(&self) {
        let turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(turn);
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

    fn lease(&self) -> Duration {
        self.lease
    }

    fn until(&self) -> Option<Moment> {
        match &*self.status.borrow() {
            Status::Held(until) => Some(*until),
            Status::Lost(_) | Status::Released => None,
        }
    }

    async fn renew(&self, deadline: Instant) -> Result<()> {
        let mut hold = self.hold.lock().await;
        let over = match &*self.status.borrow() {
            Status::Held(until) => until.left().is_zero().then_some(LockLoss::Expired),
            Status::Lost(loss) => Some(loss.clone()),
            Status::Released => Some(LockLoss::Released),
        };
        if let Some(loss) = over {
            return Err(self.lost_error(&loss));
        }
        match self.place.renew(&mut hold, self.lease, deadline).await {
            Ok(Ok(until)) => {
                // A renewal that comes back after the end has been told does not take it back.
                self.status.send_if_modified(|status| match status {
                    Status::Held(end) => {
                        *end = until.before(self.margin);
                        true
                    }
                    Status::Lost(_) | Status::Released => false,
                });
                Ok(())
            }
            Ok(Err(loss)) => {
                let error = self.lost_error(&loss);
                self.lose(loss);
                Err(error)
            }
            Err(error) => Err(self.blame(error)),
        }
    }

    fn lose(&self, loss: LockLoss) {
        self.end(Status::Lost(loss));
        self.give_up_turn();
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
