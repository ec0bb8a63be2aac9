//! How long a lock is held, as this side knows it: what a guard shares with whoever keeps the lock.

use std::{
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{runtime::Handle, sync::watch, time::timeout_at};

use super::{
    clock::{Moment, slice},
    state::LockLoss,
};

/// From when the lock was won until it is released or lost.
pub(crate) struct Term<T> {
    lease: Duration,
    margin: Duration,
    renewed: AtomicBool,
    status: watch::Sender<Status>,
    /// What it has among the tasks of this process; given up with the lock.
    tenure: Mutex<Option<T>>,
}

#[derive(Clone, Debug)]
enum Status {
    /// Until then, by this machine's clock.
    Held(Moment),
    Lost(LockLoss),
    /// The guard has no more to do with it: released, or left to its token.
    Released,
}

impl<T> Term<T> {
    /// Of a lease that was sent then; counted as over so much earlier than by the server.
    pub(crate) fn new(since: Moment, lease: Duration, margin: Duration, renewed: bool) -> Self {
        let until = since.after(lease.saturating_sub(margin));
        Self {
            lease,
            margin,
            renewed: AtomicBool::new(renewed),
            status: watch::Sender::new(Status::Held(until)),
            tenure: Mutex::new(None),
        }
    }

    /// Keeps this as long as the lock is held.
    pub(crate) fn keep(&self, tenure: T) {
        *self.tenure() = Some(tenure);
        if self.until().is_none() {
            self.end_tenure();
        }
    }

    pub(crate) fn lease(&self) -> Duration {
        self.lease
    }

    /// How long it is held by this side's count when nobody renews it.
    pub(crate) fn lasts(&self) -> Duration {
        self.lease.saturating_sub(self.margin)
    }

    /// Whether it is renewed in the background.
    pub(crate) fn is_renewed(&self) -> bool {
        self.renewed.load(Ordering::Relaxed)
    }

    pub(crate) fn renew_no_more(&self) {
        self.renewed.store(false, Ordering::Relaxed);
    }

    /// When the lock is lost unless it is renewed; none when it is lost already, or released.
    pub(crate) fn until(&self) -> Option<Moment> {
        match &*self.status.borrow() {
            Status::Held(until) => Some(*until),
            Status::Lost(_) | Status::Released => None,
        }
    }

    /// How long it is still held.
    pub(crate) fn left(&self) -> Duration {
        self.until().map_or(Duration::ZERO, Moment::left)
    }

    /// Why it is not held any more; none as long as it is.
    pub(crate) fn loss(&self) -> Option<LockLoss> {
        match &*self.status.borrow() {
            Status::Lost(loss) => Some(loss.clone()),
            Status::Released => Some(LockLoss::Released),
            Status::Held(until) => until.left().is_zero().then_some(LockLoss::Expired),
        }
    }

    /// Whether the guard has given it back, or left it to its token.
    pub(crate) fn is_released(&self) -> bool {
        matches!(&*self.status.borrow(), Status::Released)
    }

    /// Waits until it is not held any more. By a timer of whoever waits: the runtime that has the keeper may be gone, or stand
    /// still.
    pub(crate) async fn lost(&self) -> LockLoss {
        let mut status = self.status.subscribe();
        loop {
            let until = match &*status.borrow_and_update() {
                Status::Lost(loss) => return loss.clone(),
                Status::Released => return LockLoss::Released,
                Status::Held(until) => *until,
            };
            if until.left().is_zero() {
                self.expire();
                continue;
            }
            // It can't be closed: its sender is here. Outside of a runtime there are no timers.
            let changed = status.changed();
            match Handle::try_current() {
                Ok(_) => drop(timeout_at(slice(until), changed).await),
                Err(_) => drop(changed.await),
            }
        }
    }

    /// Its lease is over, unless it was renewed in this moment.
    pub(crate) fn expire(&self) {
        let is_over = |status: &Status| matches!(status, Status::Held(until) if until.left().is_zero());
        self.end_if(is_over, Status::Lost(LockLoss::Expired));
        if self.until().is_none() {
            self.end_tenure();
        }
    }

    /// By the server it is held until then: also sooner than before, when a renewal shows its clock ahead of what was thought. One
    /// that comes back after the end has been told does not take that back.
    pub(crate) fn renewed(&self, until: Moment) {
        self.status.send_if_modified(|status| match status {
            Status::Held(end) => {
                *end = until.before(self.margin);
                true
            }
            Status::Lost(_) | Status::Released => false,
        });
    }

    pub(crate) fn lose(&self, loss: LockLoss) {
        self.end(Status::Lost(loss));
        self.end_tenure();
    }

    /// Nobody here has to do with it any more, if it is held; others of this process don't get it for that.
    pub(crate) fn leave(&self) {
        self.end(Status::Released);
    }

    /// It was given back.
    pub(crate) fn released(&self) {
        self.status.send_replace(Status::Released);
        self.end_tenure();
    }

    pub(crate) fn end_tenure(&self) {
        let tenure = self.tenure().take();
        drop(tenure);
    }

    fn end(&self, end: Status) {
        self.end_if(|status| matches!(status, Status::Held(_)), end);
    }

    fn end_if(&self, ends: impl FnOnce(&Status) -> bool, end: Status) {
        self.status.send_if_modified(|status| {
            let ends = ends(status);
            if ends {
                *status = end;
            }
            ends
        });
    }

    fn tenure(&self) -> MutexGuard<'_, Option<T>> {
        self.tenure.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_renewal_moves_the_end_of_a_lease_in_both_directions_and_does_not_bring_back_a_lost_one() {
        let now = Moment::now();
        let [sooner, later] = [3, 30].map(|seconds| now.after(Duration::from_secs(seconds)));
        let term = Term::<()>::new(now, Duration::from_secs(10), Duration::ZERO, false);
        for until in [later, sooner] {
            term.renewed(until);
            assert_eq!(term.until(), Some(until));
        }
        for end in [|term: &Term<()>| term.lose(LockLoss::Expired), Term::released] {
            let term = Term::<()>::new(now, Duration::from_secs(10), Duration::ZERO, false);
            end(&term);
            term.renewed(later);
            assert_eq!((term.until(), term.left()), (None, Duration::ZERO));
            assert!(term.loss().is_some());
        }
    }

    #[test]
    fn what_a_hold_has_among_the_tasks_ends_with_it() {
        let term = Term::new(Moment::now(), Duration::from_secs(10), Duration::ZERO, false);
        let turn = std::sync::Arc::new(());
        term.keep(std::sync::Arc::clone(&turn));
        assert_eq!(std::sync::Arc::strong_count(&turn), 2);
        term.lose(LockLoss::Expired);
        assert_eq!(std::sync::Arc::strong_count(&turn), 1);
        term.keep(std::sync::Arc::clone(&turn));
        assert_eq!(std::sync::Arc::strong_count(&turn), 1, "it is lost already");
    }

    #[tokio::test]
    async fn whoever_waits_for_the_loss_needs_no_keeper() {
        let term = Term::<()>::new(
            Moment::now(),
            Duration::from_millis(300),
            Duration::from_millis(100),
            true,
        );
        let lost = tokio::time::timeout(Duration::from_secs(20), term.lost());
        assert_eq!(lost.await.unwrap(), LockLoss::Expired);
        assert_eq!(term.loss(), Some(LockLoss::Expired));
    }

    #[test]
    fn a_loss_that_is_told_needs_no_runtime() {
        let term = Term::<()>::new(Moment::now(), Duration::from_secs(60), Duration::ZERO, false);
        let told = std::thread::scope(|scope| {
            let waiting = scope.spawn(|| futures::executor::block_on(term.lost()));
            term.lose(LockLoss::Removed);
            waiting.join().unwrap()
        });
        assert_eq!(told, LockLoss::Removed);
    }
}
