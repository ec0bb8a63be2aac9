//! Sessions: holds that end together.

use std::{fmt, sync::Arc, time::Duration};

use tokio::time::{Instant, timeout};

use super::{
    hold::{
        lease::DEFAULT_LEASE,
        session::{SessionEnd, SessionState},
    },
    manager::LockManager,
    protocol::owner::MAX_HOLDER,
    request::LockRequest,
};
use crate::error::{ClientErrorKind, Error, Result};

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
/// - A lease that expires ends the session by a task in the runtime of the connection; see
///   [`LockGuard`](super::LockGuard#runtimes). While that runtime is blocked or has shut down, the guards
///   report the loss and the session does not.
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
    lease: Duration,
    margin: Option<Duration>,
}

/// The clones of a session, which ends with the last one.
struct Handle {
    state: Arc<SessionState>,
    locks: LockManager,
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
        Ok(Session {
            handle: Arc::new(Handle {
                state: Arc::new(SessionState::new(name)),
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
        self.state().name()
    }

    /// Returns whether the session lasts. A guard whose lease has just expired may report its loss a moment
    /// before.
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
        timeout(left, state.released()).await.map_err(|_| {
            let error = Error::new(
                ClientErrorKind::DeadlineExceeded,
                "the session has ended, but not all of its holds were released in time",
            );
            let hint = "their release is retried in the background until the leases expire";
            let operation = format!("closing session {:?}", state.name());
            error.with_hint(hint).at_operation(operation).at_table(table)
        })?;
        Ok(state.end().unwrap_or(SessionEnd::Closed))
    }

    fn state(&self) -> &Arc<SessionState> {
        &self.handle.state
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.state.close();
    }
}

impl LockRequest {
    /// Makes the lock a hold of a [session](Session), which ends it and is ended by its loss. It has
    /// the session's lease and margin, unless they are set after this, and is renewed in the
    /// background. The session's name is that of the holder.
    ///
    /// If the session ends first, [`acquire`](Self::acquire) stops waiting and returns
    /// [`LockLost`](crate::ErrorKind::LockLost).
    pub fn session(mut self, session: &Session) -> Self {
        self = self.ttl(session.lease).auto_renew();
        self.margin = session.margin;
        self.session = Some(Arc::clone(session.state()));
        self
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
        ErrorKind, Level,
        lock::{LockGuard, LockLoss, LockManagerOptions, LockSet, ReleaseOutcome, manager::two_processes},
    };

    const LEASE: Duration = Duration::from_secs(6);
    /// A renewal, and the calls of a release.
    const NOTICED: Duration = Duration::from_secs(3);

    async fn acquire(locks: &LockManager, session: &Session, id: &str) -> Result<LockGuard> {
        locks.lock(Level::Dc, id)?.session(session).acquire().await
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
    fn close_waits_for_attempts_in_flight() {
        FakeHBase::run(async |hbase| {
            let [locks, others] = two_processes(hbase).await?;
            let session = locks.session("worker")?;
            hbase.fault(Call::Multi.delay_answer(NOTICED).times(1));
            let closing = async {
                sleep(NOTICED / 2).await;
                session.clone().close().await
            };
            let (acquired, closed) = tokio::join!(acquire(&locks, &session, "a"), closing);
            assert_eq!(acquired.unwrap_err().kind(), ErrorKind::LockLost);
            assert!(closed?.is_closed());
            assert_eq!(others.show(Level::Dc, "a").await?.holder, None);
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
