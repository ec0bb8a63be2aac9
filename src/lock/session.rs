//! Sessions: holds that end together.

use std::{
    fmt,
    future::Future,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::future::select_all;
use tokio::{
    sync::Notify,
    time::{Instant, timeout},
};

use super::{
    hold::{
        background::{BackgroundTasks, TrackedTask},
        guard::LockGuard,
        lease::DEFAULT_LEASE,
    },
    manager::LockManager,
    protocol::owner::MAX_HOLDER,
    request::LockRequest,
    state::LockLoss,
};
use crate::error::{ClientErrorKind, Error, ErrorKind, Result};

/// A session of one process: locks, permits, a leadership, a membership that end together.
///
/// A process that does its work under several holds must stop when any of them is lost. A session
/// reports that in one place: as soon as one of its holds is lost, the session ends, all of its
/// holds count as lost, and those that HBase still keeps are released in the background. It also
/// ends when it is [closed](Self::close), or when its last clone is dropped. If the process ends,
/// nothing is renewed any more, and each hold ends with its lease.
///
/// A hold belongs to a session if its request names it:
/// [`LockRequest::session`](super::LockRequest::session), the same method of requests for permits,
/// read/write locks and leaderships, and [`Group::join`](crate::coordination::Group::join). Such a
/// hold has the session's lease, is renewed in the background, and shows the session's name as its
/// holder. Its guard is released or dropped as any other, which does not end the session.
///
/// The holds may be in several tables, also in partitions. Renewals that are due at the same time
/// share calls, so a session of many holds costs little more than one of them.
///
/// # Guarantees
///
/// - From the moment at which [`lost`](Self::lost) can return, no guard of the session
///   [is held](super::LockGuard::is_held).
/// - A hold that is won after the end is not returned, but released.
/// - Not promised: that the holds end at one moment on the servers. Each has its own row and its
///   own lease; if the process dies, they end within one lease. A session without holds is not
///   known to any server, and no other process can end it; revoking any one of its holds does.
///
/// Cheap to clone; clones share everything except [`ttl`](Self::ttl) and
/// [`skew_margin`](Self::skew_margin).
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use hbase_txn::{Level, coordination::{Group, Semaphore}};
///
/// # use hbase_txn::lock::LockManagerOptions;
/// # hbase_fake::FakeHBase::run(async |hbase| {
/// # hbase.create_table("dlm_locks", &["D"], &[]);
/// # let options = LockManagerOptions::new("billing").farm("fra");
/// # let locks = options.open(&hbase.connect().await?, "dlm_locks").await?;
/// # Semaphore::create(&locks, Level::Dc, "exports", 4).await?;
/// let session = locks.session("worker-7")?.ttl(Duration::from_secs(10));
/// let workers = Group::new(&locks, Level::Dc, "workers")?;
/// let _member = workers.join(&session, "10.0.0.7:9000").await?;
/// let exports = Semaphore::open(&locks, Level::Dc, "exports").await?;
/// let _permit = exports.permit().session(&session).acquire().await?;
/// let _lock = locks.lock(Level::Dc, "invoices")?.session(&session).acquire().await?;
/// tokio::select! {
///     end = session.lost() => eprintln!("stop: {end}"),
///     () = async { /* the work */ } => {}
/// }
/// assert!(session.close().await?.is_closed());
/// # Ok(()) });
/// ```
#[derive(Clone)]
#[must_use = "a session that is not bound to a name ends at once"]
pub struct Session {
    handle: Arc<Handle>,
    pub(super) lease: Duration,
    pub(super) margin: Option<Duration>,
}

/// The clones of a session, which ends with the last one.
struct Handle {
    state: Arc<SessionState>,
    locks: LockManager,
}

/// The reason why a session ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionEnd {
    /// It was closed, or its last clone was dropped, while all its holds were held.
    Closed,
    /// A hold was lost.
    Lost {
        /// The name of the hold; see [`LockGuard::name`](super::LockGuard::name).
        hold: String,
        /// Why it was lost.
        loss: LockLoss,
    },
}

/// The state of a session, which its holds and requests share.
pub(crate) struct SessionState {
    name: String,
    /// `None` while it lasts.
    end: Mutex<Option<SessionEnd>>,
    /// Notified at its end.
    ended: Notify,
    /// The holds that are neither released nor known to be lost.
    holds: BackgroundTasks,
}

/// A hold in its session.
pub(super) struct SessionHold {
    session: Arc<SessionState>,
    /// Its name.
    hold: String,
    /// Whether the hold was returned to the caller, so its loss is one of the session.
    is_joined: AtomicBool,
    /// `None` if it has left.
    counted: Mutex<Option<TrackedTask>>,
}

impl LockManager {
    /// Opens a session with this name, which is the holder's name of all its holds. Sends nothing.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidInput`](crate::ClientErrorKind::InvalidInput) for a name of more than 256
    /// bytes.
    pub fn session(&self, name: impl Into<String>) -> Result<Session> {
        let name = name.into();
        if name.len() > MAX_HOLDER {
            return Err(Error::invalid(format!(
                "a session's name of {} bytes is too long: at most {MAX_HOLDER}",
                name.len()
            )));
        }
        let state = SessionState {
            name,
            end: Mutex::default(),
            ended: Notify::new(),
            holds: BackgroundTasks::default(),
        };
        Ok(Session {
            handle: Arc::new(Handle {
                state: Arc::new(state),
                locks: self.clone(),
            }),
            lease: DEFAULT_LEASE,
            margin: None,
        })
    }
}

impl Session {
    /// Sets the lease of the holds that are requested with this clone from now on; 30 s unless
    /// specified. See [`LockRequest::ttl`](super::LockRequest::ttl).
    pub fn ttl(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Sets the margin for clocks of the holds that are requested with this clone from now on. See
    /// [`LockRequest::skew_margin`](super::LockRequest::skew_margin).
    pub fn skew_margin(mut self, margin: Duration) -> Self {
        self.margin = Some(margin);
        self
    }

    /// Returns the session's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.state().name
    }

    /// Returns whether the session lasts.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.state().is_open()
    }

    /// Waits until the session ends, and returns why. Does not return while all holds are held and
    /// the session is not closed.
    ///
    /// # Cancel safety
    ///
    /// May be dropped and called again at any time.
    pub async fn lost(&self) -> SessionEnd {
        self.state().ended().await
    }

    /// Ends the session, and waits until its holds are released. Returns whether all were held until
    /// now.
    ///
    /// # Errors
    ///
    /// Returns [`DeadlineExceeded`](ClientErrorKind::DeadlineExceeded) if a release takes longer
    /// than the operation timeout. The releases continue in the background until the leases expire.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the session has ended, and the releases continue in the background.
    pub async fn close(self) -> Result<SessionEnd> {
        let state = self.state();
        state.close();
        let table = self.handle.locks.table();
        let left = self
            .handle
            .locks
            .deadline()
            .saturating_duration_since(Instant::now());
        timeout(left, state.holds.done()).await.map_err(|_| {
            let error = Error::new(
                ClientErrorKind::DeadlineExceeded,
                "the session has ended, but not all of its holds were released in time",
            );
            let hint = "their release is retried in the background until the leases expire";
            let operation = format!("closing session {:?}", state.name);
            error.with_hint(hint).at_operation(operation).at_table(table)
        })?;
        Ok(state.end().unwrap_or(SessionEnd::Closed))
    }

    pub(super) fn state(&self) -> &Arc<SessionState> {
        &self.handle.state
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.state.close();
    }
}

impl SessionEnd {
    /// Returns whether no hold was lost.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        matches!(self, Self::Closed)
    }
}

impl SessionState {
    /// Returns its name.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    fn is_open(&self) -> bool {
        self.locked_end().is_none()
    }

    fn end(&self) -> Option<SessionEnd> {
        self.locked_end().clone()
    }

    fn locked_end(&self) -> MutexGuard<'_, Option<SessionEnd>> {
        self.end.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn ended(&self) -> SessionEnd {
        loop {
            // It is notified from here on, although it is not polled yet.
            let ended = self.ended.notified();
            if let Some(end) = self.end() {
                return end;
            }
            ended.await;
        }
    }

    fn close(&self) {
        self.locked_end().get_or_insert(SessionEnd::Closed);
        self.ended.notify_waiters();
    }

    /// Ends the session by the loss of a hold, unless another was lost before.
    fn lose(&self, hold: &str, loss: &LockLoss) {
        let mut end = self.locked_end();
        // A hold may be found lost when it is released at the end.
        if matches!(&*end, None | Some(SessionEnd::Closed)) {
            *end = Some(SessionEnd::Lost {
                hold: hold.to_owned(),
                loss: loss.clone(),
            });
        }
        drop(end);
        self.ended.notify_waiters();
    }

    /// Returns the error of a request that the end of its session stopped.
    fn ended_error(&self) -> Error {
        let why = self.end().map(|end| format!(": {end}")).unwrap_or_default();
        let text = format!("session {:?} has ended{why}", self.name);
        Error::new(ErrorKind::LockLost, text).with_hint("open another session, and acquire its holds again")
    }
}

impl SessionHold {
    pub(super) fn session(&self) -> Arc<SessionState> {
        Arc::clone(&self.session)
    }

    /// Joins the session: it ends with the loss of this hold from now on.
    pub(super) fn join(&self) {
        self.is_joined.store(true, Ordering::Relaxed);
    }

    /// Does not end the session with the loss of this hold any more. It still waits for its release.
    pub(super) fn part(&self) {
        self.is_joined.store(false, Ordering::Relaxed);
    }

    /// Leaves the session, which does not wait for the release of this hold any more.
    pub(super) fn leave(&self) {
        self.part();
        let counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(counted);
    }

    pub(super) fn is_open(&self) -> bool {
        self.session.is_open()
    }

    /// Waits until the session ends.
    pub(super) async fn ended(&self) {
        self.session.ended().await;
    }

    /// Ends the session if the hold has joined it. A release by a transaction is no loss, nor is one
    /// whose answer was lost.
    pub(super) fn lost(&self, loss: &LockLoss) {
        let is_own = matches!(loss, LockLoss::Expired | LockLoss::Removed | LockLoss::Taken(_));
        if is_own && self.is_joined.load(Ordering::Relaxed) {
            self.session.lose(&self.hold, loss);
        }
    }
}

/// Completes an acquisition, unless a session of its requests ends first.
///
/// # Errors
///
/// Returns [`LockLost`](ErrorKind::LockLost) if a session has ended, and the acquisition's errors.
pub(crate) async fn while_open<T>(
    requests: &[LockRequest],
    acquiring: impl Future<Output = Result<T>>,
) -> Result<T> {
    let sessions = requests.iter().filter_map(|request| request.session.as_ref());
    let ends: Vec<_> = sessions
        .map(|session| {
            Box::pin(async move {
                session.ended().await;
                session.ended_error()
            })
        })
        .collect();
    if ends.is_empty() {
        return acquiring.await;
    }
    tokio::select! {
        biased;
        (error, ..) = select_all(ends) => Err(error),
        acquired = acquiring => acquired,
    }
}

impl LockRequest {
    /// Counts a hold of this request in its session.
    pub(super) fn session_hold(&self) -> Option<SessionHold> {
        let session = self.session.as_ref()?;
        Some(SessionHold {
            session: Arc::clone(session),
            hold: self.name.clone(),
            is_joined: AtomicBool::new(false),
            counted: Mutex::new(Some(session.holds.begin())),
        })
    }

    /// Adds a hold that is returned to the caller to the session of this request, if it has one.
    ///
    /// # Errors
    ///
    /// Returns [`LockLost`](ErrorKind::LockLost) if the session has ended. The hold is released in
    /// the background then.
    pub(crate) fn admit(&self, guard: LockGuard) -> Result<LockGuard> {
        match &self.session {
            Some(session) if !guard.hold.held.term.join_session() => {
                Err(self.in_context(session.ended_error()))
            }
            _ => Ok(guard),
        }
    }
}

impl fmt::Display for SessionEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("it was closed"),
            Self::Lost { hold, loss } => write!(f, "{} was lost: {loss}", hold.escape_debug()),
        }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("name", &self.name())
            .field("ttl", &self.lease)
            .field("end", &self.state().end())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use hbase_client::Connection;
    use hbase_fake::{Call, FakeHBase};
    use tokio::time::{sleep, timeout};

    use super::*;
    use crate::{
        Level,
        coordination::{Election, Group, Semaphore},
        lock::{LockManagerOptions, LockSet, ReleaseOutcome, manager::two_processes},
    };

    const LEASE: Duration = Duration::from_secs(6);
    /// A renewal, and the calls of a release.
    const NOTICED: Duration = Duration::from_secs(3);

    async fn acquire(locks: &LockManager, session: &Session, id: &str) -> Result<LockGuard> {
        locks.lock(Level::Dc, id)?.session(session).acquire().await
    }

    #[test]
    fn loss_of_one_hold_ends_all_of_them() {
        FakeHBase::run(async |hbase| {
            let [locks, others] = two_processes(hbase).await?;
            let session = locks.session("worker")?.ttl(LEASE);
            let lock = acquire(&locks, &session, "a").await?;
            let semaphore = Semaphore::create(&locks, Level::Dc, "s", 1).await?;
            let permit = semaphore.permit().session(&session).acquire().await?;
            let election = Election::new(&locks, Level::Dc, "e")?;
            let leadership = election.campaign().session(&session).lead().await?;
            let group = Group::new(&locks, Level::Dc, "g")?;
            let member = group.join(&session, "here").await?;
            sleep(LEASE * 3).await;
            assert!(session.is_open());
            let guards = [&lock, &permit, leadership.guard(), &member];
            assert!(guards.iter().all(|guard| guard.is_held()));

            let seen = Group::new(&others, Level::Dc, "g")?.members().await?;
            assert_eq!(seen[0].holder.name.as_deref(), Some("worker"));
            group.force_release(member.token()).await?;
            let end = timeout(NOTICED, session.lost()).await?;
            let SessionEnd::Lost { hold, loss } = &end else {
                panic!("{end}");
            };
            assert_eq!((hold.as_str(), loss), (member.name(), &LockLoss::Removed));
            assert!(!session.is_open());
            for guard in [&lock, &permit, leadership.guard()] {
                assert!(!guard.is_held(), "{}", guard.name());
                assert_eq!(guard.lost().await, LockLoss::SessionEnded);
            }
            // They are released, although the guards are still here.
            let request = others.lock(Level::Dc, "a")?.wait(NOTICED);
            let next = timeout(NOTICED, request.acquire()).await??;
            assert!(!lock.release().await?.is_released());
            assert!(next.is_held());
            let leader = Election::new(&others, Level::Dc, "e")?.campaign().wait(NOTICED);
            assert!(timeout(NOTICED, leader.lead()).await??.is_leader());
            assert_eq!(session.close().await?, end);
            Ok(())
        });
    }

    #[test]
    fn closed_session_has_released_its_holds() {
        FakeHBase::run(async |hbase| {
            let [locks, others] = two_processes(hbase).await?;
            let session = locks.session("worker")?;
            let _kept = acquire(&locks, &session, "a").await?;
            let detached = acquire(&locks, &session, "b").await?.detach();
            let requests = ["c", "d"].map(|id| Ok(locks.lock(Level::Dc, id)?.session(&session)));
            let set = LockSet::acquire(requests.into_iter().collect::<Result<_>>()?).await?;
            let released = acquire(&locks, &session, "e").await?;
            assert!(released.release().await?.is_released());
            assert!(session.is_open(), "a release is no loss");
            assert!(session.clone().close().await?.is_closed());
            for id in ["a", "c", "d"] {
                assert_eq!(others.show(Level::Dc, id).await?.holder, None, "{id}");
            }
            assert!(!set.is_held());
            let holder = others.show(Level::Dc, "b").await?.holder.ok_or("not held")?;
            assert_eq!(
                (holder.token, holder.name.as_deref()),
                (Some(detached), Some("worker"))
            );
            let error = acquire(&locks, &session, "a").await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::LockLost);
            assert_eq!(others.show(Level::Dc, "a").await?.holder, None);
            Ok(())
        });
    }

    #[test]
    fn dropped_session_releases_its_holds() {
        FakeHBase::run(async |hbase| {
            let [locks, others] = two_processes(hbase).await?;
            let session = locks.session("worker")?;
            let guard = acquire(&locks, &session, "a").await?;
            let clone = session.clone();
            drop(session);
            assert!(guard.is_held());
            drop(clone);
            assert_eq!(guard.lost().await, LockLoss::SessionEnded);
            let next = others.lock(Level::Dc, "a")?.wait(NOTICED).acquire().await?;
            assert!(next.is_held());
            Ok(())
        });
    }

    #[test]
    fn end_of_a_session_ends_its_requests() {
        FakeHBase::run(async |hbase| {
            let [locks, others] = two_processes(hbase).await?;
            let _holder = others.lock(Level::Dc, "a")?.auto_renew().acquire().await?;
            let session = locks.session("worker")?;
            let request = || Ok::<_, Error>(locks.lock(Level::Dc, "a")?.session(&session).wait(LEASE * 10));
            let (first, second) = (request()?.acquire(), request()?.acquire());
            let set = LockSet::acquire(vec![request()?, locks.lock(Level::Dc, "b")?.wait(LEASE * 10)]);
            let ending = async {
                sleep(LEASE).await;
                session.clone().close().await
            };
            let (first, second, set, _) = timeout(LEASE + NOTICED, async {
                tokio::join!(first, second, set, ending)
            })
            .await?;
            for error in [first.unwrap_err(), second.unwrap_err(), set.unwrap_err()] {
                assert_eq!(error.kind(), ErrorKind::LockLost, "{error}");
            }
            locks.background_done().await;
            assert_eq!(others.show(Level::Dc, "b").await?.holder, None);
            Ok(())
        });
    }

    #[test]
    fn close_reports_a_hold_that_was_lost_unnoticed() {
        FakeHBase::run(async |hbase| {
            let [locks, others] = two_processes(hbase).await?;
            let session = locks.session("worker")?;
            let guard = acquire(&locks, &session, "a").await?;
            let _other = acquire(&locks, &session, "b").await?;
            others.force_release(Level::Dc, "a").await?;
            assert!(guard.is_held(), "not noticed yet");
            let end = session.close().await?;
            assert!(
                matches!(&end, SessionEnd::Lost { hold, .. } if hold == guard.name()),
                "{end}"
            );
            Ok(())
        });
    }

    #[test]
    fn dropped_guard_of_a_lost_lock_does_not_end_the_session() {
        FakeHBase::run(async |hbase| {
            let [locks, others] = two_processes(hbase).await?;
            let session = locks.session("worker")?;
            let dropped = acquire(&locks, &session, "a").await?;
            let kept = acquire(&locks, &session, "b").await?;
            others.force_release(Level::Dc, "a").await?;
            drop(dropped);
            locks.background_done().await;
            assert!(session.is_open() && kept.is_held());
            assert!(session.close().await?.is_closed());
            Ok(())
        });
    }

    #[test]
    fn release_whose_answer_is_lost_is_no_loss() {
        FakeHBase::run(async |hbase| {
            let [_, others] = two_processes(hbase).await?;
            let config = hbase.config().with_write_timeout(Duration::from_secs(1));
            let connection = Connection::builder(config)
                .connector(hbase.connector())
                .environment(hbase.environment());
            let options = LockManagerOptions::new("client").farm("farm");
            let locks = options.open(&connection.connect().await?, "locks").await?;
            let session = locks.session("worker")?;
            let guard = acquire(&locks, &session, "a").await?;
            let lost = hbase.fault(Call::Multi.lose_answer().times(1));
            assert!(session.clone().close().await?.is_closed());
            assert_eq!(lost.happened(), 1);
            // Nor is what the guard finds afterwards.
            let _next = others.lock(Level::Dc, "a")?.acquire().await?;
            assert!(!guard.release().await?.is_released());
            assert!(session.lost().await.is_closed());
            Ok(())
        });
    }

    #[test]
    fn hold_that_is_released_too_late_ends_the_session() {
        FakeHBase::run(async |hbase| {
            let [locks, others] = two_processes(hbase).await?;
            let session = locks.session("worker")?;
            let guard = acquire(&locks, &session, "a").await?;
            let other = acquire(&locks, &session, "b").await?;
            others.force_release(Level::Dc, "a").await?;
            assert_eq!(guard.release().await?, ReleaseOutcome::Lost(LockLoss::Removed));
            assert!(!session.is_open() && !other.is_held());
            Ok(())
        });
    }
}
