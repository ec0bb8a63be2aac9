//! A held lock, native or through a gateway: its lease, its renewals and its release.
//!
//! | file | contents |
//! |---|---|
//! | `guard` | `LockGuard`: a held lock |
//! | `keeper` | the task that renews one lock, and ends it when its lease expires |
//! | `term` | the lease as this process counts it |
//! | `session` | the state of a session, which ends its holds together |
//! | `clock` | the monotonic clock of leases |
//! | `lease` | the range of leases, and the margin for clocks |
//! | `abandoned` | releases abandoned attempts: one watcher for each lock |
//! | `background` | futures that continue in the background when they are dropped |

pub(super) mod abandoned;
pub(super) mod background;
pub(super) mod clock;
pub(super) mod guard;
mod keeper;
pub(super) mod lease;
pub(super) mod session;
pub(super) mod term;

use std::{future::Future, sync::Arc, time::Duration};

use hbase_client::{Environment, low_level::Pauses};
use tokio::{
    runtime::Handle,
    sync::MutexGuard,
    task::JoinHandle,
    time::{Instant, sleep, sleep_until, timeout_at},
};

use self::{
    background::TrackedTask,
    clock::{Clock, Moment},
    keeper::keep,
    term::Term,
};
use super::{
    protocol::owner::LockToken,
    queue::local::LocalClaim,
    state::{LockLoss, ReleaseOutcome},
};
use crate::{
    error::{ClientErrorKind, Error, ErrorKind, Result},
    observe,
};

/// One try of a renewal may take this fraction of the remaining lease: one silent connection must
/// not cost the lock.
const PART_OF_A_TRY: u32 = 3;
/// A try that would have less time than this gets the whole remaining lease.
const MIN_TRY: Duration = Duration::from_millis(50);
/// A try that has less time than this shares no call.
const MIN_SHARED_TRY: Duration = Duration::from_secs(1);
/// The longest pause between two tries of a renewal.
const PAUSE: Duration = Duration::from_millis(200);

/// Whether a renewal waits a moment for those of other locks, to share their calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallSharing {
    Alone,
    Shared,
}

/// The location of a held lock.
pub(crate) trait HeldLocation: Send + Sync + 'static {
    /// The hold of one token.
    type Claim: Send + Sync + 'static;

    /// Returns the part of a second at which renewals are due that share calls. `None` if they share
    /// none.
    fn renewal_phase(&self) -> Option<Duration> {
        None
    }

    fn environment(&self) -> &dyn Environment;

    /// Returns the runtime of the connection.
    fn runtime(&self) -> &Handle;

    /// Returns the deadline of an operation that begins now.
    fn deadline(&self) -> Instant;

    /// Renews the lease for this long from now on. Returns until when it lasts, by the environment's
    /// clock, or why the lock is lost.
    fn renew(
        &self,
        claim: &mut Self::Claim,
        lease: Duration,
        deadline: Instant,
        sharing: CallSharing,
    ) -> impl Future<Output = Result<Result<Moment, LockLoss>>> + Send;

    /// Releases the lock.
    fn vacate(
        &self,
        claim: &Self::Claim,
        deadline: Instant,
    ) -> impl Future<Output = Result<ReleaseOutcome>> + Send;

    /// Returns until when the server may keep the longest lease that was sent.
    fn latest_end(&self, claim: &Self::Claim) -> Moment;

    /// Returns whether a renewal was sent.
    fn is_renewed(claim: &Self::Claim) -> bool;

    /// Begins a task that continues in the background.
    fn begin_task(&self) -> Option<TrackedTask>;

    fn in_context(&self, name: &str, error: Error) -> Error;
}

/// A held lock. If it is dropped, a background task releases it.
pub(crate) struct Hold<R: HeldLocation> {
    pub(crate) held: Arc<Held<R>>,
    keeper: JoinHandle<()>,
}

/// A held lock, shared by the guard and its keeper.
pub(crate) struct Held<R: HeldLocation> {
    pub(crate) name: String,
    pub(crate) location: R,
    pub(crate) token: LockToken,
    pub(crate) fencing: i64,
    /// Locked while the hold is changed.
    pub(super) claim: Arc<tokio::sync::Mutex<R::Claim>>,
    pub(crate) term: Arc<Term<LocalClaim>>,
}

impl<R: HeldLocation> Hold<R> {
    /// Creates the hold of a claim with this token and fencing number, and spawns its keeper.
    pub(crate) fn new(
        name: String,
        location: R,
        claim: R::Claim,
        (token, fencing): (LockToken, i64),
        term: Term<LocalClaim>,
    ) -> Self {
        let held = Arc::new(Held {
            name,
            location,
            token,
            fencing,
            claim: Arc::new(tokio::sync::Mutex::new(claim)),
            term: Arc::new(term),
        });
        let keeper = held.location.runtime().spawn(keep(Arc::clone(&held)));
        Self { held, keeper }
    }

    /// Keeps the local claim as long as the lock is held.
    pub(crate) fn keep(&self, local_claim: LocalClaim) {
        local_claim.keep_for(&self.held.term);
    }

    /// Renews the lease for its whole length from now on.
    pub(crate) async fn renew(&self) -> Result<()> {
        self.held
            .renew(self.held.location.deadline(), CallSharing::Alone)
            .await
    }

    /// Stops the keeper.
    pub(super) fn stop(&self) {
        self.keeper.abort();
    }

    /// Ends this process's part in a lock that stays held.
    pub(crate) fn detach(&self) -> LockToken {
        self.held.term.detach();
        self.held.token
    }

    /// Releases the lock. After an error, dropping the hold retries in the background.
    pub(crate) async fn release(&self) -> Result<ReleaseOutcome> {
        self.stop();
        let held = &self.held;
        let deadline = held.location.deadline();
        let claim = held.lock_claim(deadline).await?;
        if held.term.is_released() {
            return Ok(ReleaseOutcome::Released);
        }
        let known = held.term.loss();
        let vacated = held.location.vacate(&claim, deadline).await.map_err(|error| {
            let hint = "the release is retried in the background until the lease expires";
            held.in_context(error.with_hint_if_unknown(hint))
        })?;
        drop(claim);
        Ok(held.term.vacated(known, vacated))
    }
}

impl<R: HeldLocation> Drop for Hold<R> {
    fn drop(&mut self) {
        self.stop();
        self.held.term.end_local_claim();
        // A loss that its release finds does not end the session.
        self.held.term.ignore_loss();
        if !self.held.term.is_released() {
            let held = Arc::clone(&self.held);
            let tracked = held.location.begin_task();
            self.held.location.runtime().spawn(async move {
                let _tracked = tracked;
                let claim = held.claim.lock().await;
                held.vacate_until_it_expires(&claim).await;
                // Transactions may keep the hold.
                held.term.leave_session();
            });
        }
    }
}

impl<R: HeldLocation> Held<R> {
    pub(super) fn clock(&self) -> &Clock {
        self.term.clock()
    }

    /// Locks the claim. A renewal, or a transaction that releases the lock, keeps it locked until
    /// it completes.
    pub(super) async fn lock_claim(&self, deadline: Instant) -> Result<MutexGuard<'_, R::Claim>> {
        timeout_at(deadline, self.claim.lock()).await.map_err(|_| {
            let error = Error::new(
                ClientErrorKind::DeadlineExceeded,
                "timed out waiting for a renewal, or for the commit of a transaction that releases the lock",
            );
            let hint = "await or drop the commit of that transaction";
            self.in_context(error.with_retryable(true).with_hint(hint))
        })
    }

    /// Renews the lease. The call ends by the deadline.
    pub(super) async fn renew(&self, deadline: Instant, sharing: CallSharing) -> Result<()> {
        let renewed = self.renew_until(deadline, sharing).await;
        observe::renewal(&renewed);
        renewed
    }

    async fn renew_until(&self, deadline: Instant, sharing: CallSharing) -> Result<()> {
        loop {
            let mut claim = self.lock_claim(deadline).await?;
            if let Some(loss) = self.term.loss() {
                return Err(self.lost_error(&loss));
            }
            let time = time_of_a_try(self.term.left());
            let try_until = deadline.min(Instant::now() + time);
            let sharing = if time < MIN_SHARED_TRY {
                CallSharing::Alone
            } else {
                sharing
            };
            let renewed = self
                .location
                .renew(&mut claim, self.term.lease(), try_until, sharing)
                .await;
            drop(claim);
            match renewed {
                Ok(Ok(until)) => return self.term.extend(until).map_err(|loss| self.lost_error(&loss)),
                Ok(Err(loss)) => return Err(self.lost_error(&self.term.lose(loss))),
                // A connection that was silent for that long is closed by now, so the next try
                // opens another. A conflict is with an earlier try that was late.
                Err(error)
                    if try_until < deadline
                        && (error.kind() == ClientErrorKind::DeadlineExceeded
                            || error.kind() == ErrorKind::Conflict) =>
                {
                    tracing::debug!(lock = %self.name, %error, "sending a renewal again");
                    sleep_until(try_until.min(Instant::now() + PAUSE)).await;
                }
                Err(error) => {
                    let hint = "it is held as it was, or longer; renew it again";
                    return Err(self.in_context(error.with_hint_if_unknown(hint)));
                }
            }
        }
    }

    /// Releases what the server may keep of a lock that is lost here: the lock itself if its session
    /// has ended, and one that has expired if a renewal that was answered too late, or not at all, may
    /// have prolonged its lease.
    pub(super) async fn release_remains(&self) {
        // A transaction that releases the lock keeps it locked.
        let claim = self.claim.lock().await;
        match self.term.loss() {
            Some(LockLoss::SessionEnded) => self.vacate_until_it_expires(&claim).await,
            Some(LockLoss::Expired) if R::is_renewed(&claim) => self.vacate_until_it_expires(&claim).await,
            _ => {}
        }
    }

    /// Releases the lock, with retries until its lease expires on the server.
    async fn vacate_until_it_expires(&self, claim: &R::Claim) {
        let end = self.location.latest_end(claim);
        let (mut pauses, mut may_be_released) = (Pauses::after_lost_answers(), false);
        while self.clock().now() < end {
            match self.location.vacate(claim, self.location.deadline()).await {
                Ok(ReleaseOutcome::Lost(loss)) if !may_be_released => {
                    return self.term.report_to_session(&loss);
                }
                Ok(_) => return,
                Err(error) => {
                    may_be_released |= error.is_outcome_unknown();
                    tracing::debug!(%error, "could not release a lock");
                }
            }
            sleep(pauses.next_pause()).await;
        }
    }

    fn lost_error(&self, loss: &LockLoss) -> Error {
        let loss = loss.at(self.location.environment().wall_clock());
        let error = Error::new(ErrorKind::LockLost, format!("the lock is no longer held: {loss}"));
        self.in_context(error.with_hint("stop the work that it protects, and acquire it again"))
    }

    pub(super) fn in_context(&self, error: Error) -> Error {
        self.location.in_context(&self.name, error)
    }
}

/// Returns how long one try of a renewal may take if `left` remains of the lease.
fn time_of_a_try(left: Duration) -> Duration {
    Some(left / PART_OF_A_TRY)
        .filter(|part| *part >= MIN_TRY)
        .unwrap_or(left)
}
