//! The lease of a lock as this process counts it, shared by the guard and its keeper.

use std::{
    future::pending,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{runtime::Handle, sync::watch, time::timeout_at};

use super::{
    clock::{Clock, Moment},
    session::{SessionHold, SessionState},
};
use crate::lock::state::{LockLoss, ReleaseOutcome};

/// The time from acquisition to release or loss of a lock.
pub(crate) struct Term<T> {
    clock: Clock,
    lease: Duration,
    margin: Duration,
    renewed: AtomicBool,
    status: watch::Sender<Status>,
    /// The claim among the tasks of this process, dropped when the lock is lost or released.
    local_claim: Mutex<Option<T>>,
    /// The session that ends the term.
    session: Option<SessionHold>,
}

#[derive(Clone, Debug)]
enum Status {
    /// Held until then, by this machine's clock.
    Held(Moment),
    Lost(LockLoss),
    /// The guard does not manage the lock any more: it was released or detached.
    Released,
}

impl<T> Term<T> {
    /// Creates a term for a lease that was sent at `since`. It ends earlier than on the server by
    /// the margin.
    pub(crate) fn new(clock: Clock, since: Moment, lease: Duration, margin: Duration, renewed: bool) -> Self {
        Self::ending(clock, since.after(lease), lease, margin, renewed)
    }

    /// A term that the server ends at `end` unless it is renewed, for `lease` each time.
    pub(crate) fn ending(
        clock: Clock,
        end: Moment,
        lease: Duration,
        margin: Duration,
        renewed: bool,
    ) -> Self {
        let until = end.before(margin);
        Self {
            clock,
            lease,
            margin,
            renewed: AtomicBool::new(renewed),
            status: watch::Sender::new(Status::Held(until)),
            local_claim: Mutex::new(None),
            session: None,
        }
    }

    /// Ends the term with a session.
    pub(in crate::lock) fn in_session(self, session: Option<SessionHold>) -> Self {
        Self { session, ..self }
    }

    /// Ends the session with the loss of this hold from now on.
    pub(in crate::lock) fn join_session(&self) {
        if let Some(session) = &self.session {
            session.join();
            // It may have been lost meanwhile.
            if let Some(loss) = self.loss() {
                session.report_loss(&loss);
            }
        }
    }

    /// Does not end the session with the loss of this hold any more. It still waits for its release.
    pub(super) fn ignore_loss(&self) {
        if let Some(session) = &self.session {
            session.ignore_loss();
        }
    }

    /// Leaves the session, which does not wait for the release of this hold any more.
    pub(crate) fn leave_session(&self) {
        if let Some(session) = &self.session {
            session.leave();
        }
    }

    /// Keeps the local claim as long as the lock is held.
    pub(crate) fn keep(&self, local_claim: T) {
        *self.local_claim() = Some(local_claim);
        if self.until().is_none() {
            self.end_local_claim();
        }
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    pub(crate) fn lease(&self) -> Duration {
        self.lease
    }

    pub(crate) fn margin(&self) -> Duration {
        self.margin
    }

    /// Returns the session that ends the term.
    pub(in crate::lock) fn session(&self) -> Option<Arc<SessionState>> {
        self.session.as_ref().map(SessionHold::session)
    }

    /// Returns how long the lock is held by this process's count unless it is renewed.
    pub(crate) fn lasts(&self) -> Duration {
        self.lease.saturating_sub(self.margin)
    }

    /// Returns whether the lock is renewed in the background.
    pub(crate) fn is_renewed(&self) -> bool {
        self.renewed.load(Ordering::Relaxed)
    }

    pub(crate) fn stop_auto_renewal(&self) {
        self.renewed.store(false, Ordering::Relaxed);
    }

    /// Returns when the lock is lost unless it is renewed. `None` if it is lost already, or
    /// released.
    pub(crate) fn until(&self) -> Option<Moment> {
        match &*self.status.borrow() {
            Status::Held(until) if self.is_in_open_session() => Some(*until),
            _ => None,
        }
    }

    /// Returns how long the lock is still held.
    pub(crate) fn left(&self) -> Duration {
        self.until()
            .map_or(Duration::ZERO, |until| self.clock.left(until))
    }

    /// Returns why the lock is not held any more. `None` while it is held.
    pub(crate) fn loss(&self) -> Option<LockLoss> {
        match &*self.status.borrow() {
            Status::Lost(loss) => Some(loss.clone()),
            Status::Released => Some(LockLoss::Released),
            Status::Held(until) => self.end_of_held(*until),
        }
    }

    /// Returns whether the guard has released or detached the lock.
    pub(crate) fn is_released(&self) -> bool {
        matches!(&*self.status.borrow(), Status::Released)
    }

    /// Waits until the lock is lost. Uses the caller's own timer, because the runtime of the connection
    /// may have ended, or may not be driven.
    pub(crate) async fn lost(&self) -> LockLoss {
        let mut status = self.status.subscribe();
        loop {
            let until = match &*status.borrow_and_update() {
                Status::Lost(loss) => return loss.clone(),
                Status::Released => return LockLoss::Released,
                Status::Held(until) => *until,
            };
            if self.end_of_held(until).is_some() {
                self.end_if_over();
                continue;
            }
            // The channel cannot be closed, as its sender is here. Outside a runtime there are no
            // timers.
            let changed = async {
                tokio::select! {
                    biased;
                    _ = status.changed() => {}
                    () = self.session_ended() => {}
                }
            };
            match Handle::try_current() {
                Ok(_) => drop(timeout_at(self.clock.slice(until), changed).await),
                Err(_) => changed.await,
            }
        }
    }

    /// Marks the lock as lost if its lease has expired or its session has ended.
    pub(crate) fn end_if_over(&self) {
        self.end_if(|status| match status {
            Status::Held(until) => self.end_of_held(*until).map(Status::Lost),
            Status::Lost(_) | Status::Released => None,
        });
        if self.until().is_none() {
            self.end_local_claim();
        }
    }

    /// Records a renewal by which the server keeps the lock until then. That may be sooner than
    /// before: a renewal may show that the server's clock is ahead.
    ///
    /// # Errors
    ///
    /// Returns the loss if the lease expired before the answer arrived, or has expired according to
    /// the answer. A lost lock never counts as held again.
    pub(crate) fn extend(&self, until: Moment) -> Result<(), LockLoss> {
        let renewed = until.before(self.margin);
        self.status.send_if_modified(|status| match status {
            Status::Held(end) if !self.has_reached(*end) => {
                *end = renewed;
                true
            }
            _ => false,
        });
        // The new end may have passed.
        self.end_if_over();
        self.loss().map_or(Ok(()), Err)
    }

    /// Ends the term of a lock that the rows show to be lost. Returns why it is lost.
    pub(crate) fn lose(&self, loss: LockLoss) -> LockLoss {
        let loss = loss.after(self.loss());
        self.end(Status::Lost(loss.clone()));
        self.end_local_claim();
        loss
    }

    /// Ends the term of a lock that stays held. The local claim is kept, so other tasks of this
    /// process do not count it as free.
    pub(crate) fn detach(&self) {
        // One whose session has ended is released.
        self.end_if_over();
        self.end(Status::Released);
        self.leave_session();
    }

    /// Ends the term of a lock whose rows were released. Returns whether it was held until then.
    /// `known` is the loss from before the release was sent.
    pub(crate) fn vacated(&self, known: Option<LockLoss>, rows: ReleaseOutcome) -> ReleaseOutcome {
        let was_held = known.is_none();
        let outcome = match (known, rows) {
            // A transaction was to release it, and the answer was lost: either the transaction or
            // this call released it.
            (None | Some(LockLoss::Unknown), ReleaseOutcome::Released) => ReleaseOutcome::Released,
            (Some(known), ReleaseOutcome::Released) => ReleaseOutcome::Lost(known),
            // The lease may have expired since the release was sent.
            (_, ReleaseOutcome::Lost(loss)) => ReleaseOutcome::Lost(loss.after(self.loss())),
        };
        if let ReleaseOutcome::Lost(loss) = &outcome
            && was_held
        {
            self.report_to_session(loss);
        }
        self.released();
        outcome
    }

    /// Ends the term of a lock that was released.
    pub(crate) fn released(&self) {
        self.status.send_replace(Status::Released);
        self.end_local_claim();
        self.leave_session();
    }

    pub(crate) fn end_local_claim(&self) {
        let local_claim = self.local_claim().take();
        drop(local_claim);
    }

    fn has_reached(&self, moment: Moment) -> bool {
        self.clock.has_reached(moment)
    }

    /// Returns why a lock that is held until then is not held any more. `None` if it is held.
    fn end_of_held(&self, until: Moment) -> Option<LockLoss> {
        // A lease that expired before the session ended is a loss of its own, also if it is noticed later.
        if self.has_reached(until) {
            return Some(LockLoss::Expired);
        }
        (!self.is_in_open_session()).then_some(LockLoss::SessionEnded)
    }

    fn is_in_open_session(&self) -> bool {
        self.session.as_ref().is_none_or(SessionHold::is_open)
    }

    /// Waits until the session of this hold has ended.
    pub(super) async fn session_ended(&self) {
        match &self.session {
            Some(session) => session.ended().await,
            None => pending().await,
        }
    }

    /// Ends the session if this loss is one of the hold itself.
    pub(super) fn report_to_session(&self, loss: &LockLoss) {
        if let Some(session) = &self.session {
            session.report_loss(loss);
        }
    }

    fn end(&self, end: Status) {
        self.end_if(|status| matches!(status, Status::Held(_)).then_some(end));
    }

    fn end_if(&self, end: impl FnOnce(&Status) -> Option<Status>) {
        self.status.send_if_modified(|status| {
            let end = end(status);
            if let Some(Status::Lost(loss)) = &end {
                loss.report();
                self.report_to_session(loss);
            }
            end.map(|end| *status = end).is_some()
        });
    }

    fn local_claim(&self) -> MutexGuard<'_, Option<T>> {
        self.local_claim.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::hold::clock::simulated::{Virtual, system_clock};

    fn term_of(since: Moment, lease: Duration) -> Term<()> {
        Term::new(system_clock(), since, lease, Duration::ZERO, true)
    }

    #[test]
    fn renewal_moves_the_end_both_ways_but_revives_no_lost_lease() {
        let now = system_clock().now();
        let [sooner, later] = [3, 30].map(|seconds| now.after(Duration::from_secs(seconds)));
        let term = term_of(now, Duration::from_secs(10));
        for until in [later, sooner] {
            assert_eq!(term.extend(until), Ok(()));
            assert_eq!(term.until(), Some(until));
        }
        for end in [
            |term: &Term<()>| drop(term.lose(LockLoss::Expired)),
            Term::released,
        ] {
            let term = term_of(now, Duration::from_secs(10));
            end(&term);
            term.extend(later).unwrap_err();
            assert_eq!((term.until(), term.left()), (None, Duration::ZERO));
            assert!(term.loss().is_some());
        }
    }

    #[test]
    fn renewal_answered_after_the_end_does_not_bring_the_lock_back() {
        let long = Duration::from_secs(60);
        let over = system_clock().now().before(Duration::from_secs(1));
        // Its end has passed, and no task has noticed yet.
        let term = term_of(over.before(long), long);
        assert_eq!(term.left(), Duration::ZERO);
        assert_eq!(
            term.extend(system_clock().now().after(long)),
            Err(LockLoss::Expired)
        );
        assert_eq!(term.left(), Duration::ZERO);
        // The lease that the answer gives is over itself.
        let term = term_of(system_clock().now(), long);
        assert_eq!(term.extend(over), Err(LockLoss::Expired));
        assert_eq!(term.until(), None);
    }

    #[test]
    fn lease_that_expired_before_its_session_was_closed_is_a_loss_of_the_session() {
        for (lease, is_lost) in [(1, true), (100, false)] {
            let session = Arc::new(SessionState::new("session".to_owned()));
            // No task has noticed the end yet.
            let since = system_clock().now().before(Duration::from_secs(10));
            let term = term_of(since, Duration::from_secs(lease));
            let term = term.in_session(Some(SessionHold::new(&session, "lock".to_owned())));
            term.join_session();
            session.close();
            assert_eq!(term.left(), Duration::ZERO);
            term.end_if_over();
            assert_eq!(session.end().map(|end| !end.is_closed()), Some(is_lost));
        }
    }

    #[test]
    fn local_claim_ends_with_the_hold() {
        let term = Term::new(
            system_clock(),
            system_clock().now(),
            Duration::from_secs(10),
            Duration::ZERO,
            false,
        );
        let turn = Arc::new(());
        term.keep(Arc::clone(&turn));
        assert_eq!(Arc::strong_count(&turn), 2);
        term.lose(LockLoss::Expired);
        assert_eq!(Arc::strong_count(&turn), 1);
        term.keep(Arc::clone(&turn));
        assert_eq!(Arc::strong_count(&turn), 1, "it is lost already");
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_for_a_loss_needs_no_keeper() {
        let environment = Virtual::start();
        let clock = Clock::new(Arc::clone(&environment) as Arc<_>);
        let (began, real) = (clock.now(), std::time::Instant::now());
        let [lease, margin] = [3_000, 100].map(Duration::from_millis);
        let term = Term::<()>::new(clock.clone(), began, lease, margin, true);
        assert_eq!(term.lost().await, LockLoss::Expired);
        assert_eq!(term.loss(), Some(LockLoss::Expired));
        assert_eq!(clock.now().since(began), lease - margin);
        // A timer that does not follow the clock would fire, and read the clock, without end.
        assert!(environment.readings() < 50, "{}", environment.readings());
        assert!(real.elapsed() < Duration::from_secs(1), "{:?}", real.elapsed());
    }

    #[test]
    fn loss_is_reported_without_a_runtime() {
        let term = term_of(system_clock().now(), Duration::from_secs(60));
        let loss = std::thread::scope(|scope| {
            let waiting = scope.spawn(|| futures::executor::block_on(term.lost()));
            term.lose(LockLoss::Removed);
            waiting.join().unwrap()
        });
        assert_eq!(loss, LockLoss::Removed);
    }
}
