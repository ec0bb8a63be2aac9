//! Requests for locks.

use std::{fmt, slice, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::future::{join_all, select_all};
use hbase_client::{Effect, Get, Row, Table, TableName, low_level::TableCalls};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::{
    hold::{
        background::BackgroundTask,
        clock::Clock,
        guard::LockGuard,
        lease::{DEFAULT_LEASE, MAX_LEASE, check_margin, margin},
        session::{SessionHold, SessionState},
        term::Term,
    },
    protocol::{
        acquire::{self, AttemptOutcome, LockAttempt},
        claim::LockClaim,
        location::LockLocation,
        owner::{HeldBy, LockToken, Millis},
        row_state::{Occupant, RowState},
    },
    queue::{
        Demand, TicketChange, Waiter,
        local::{LocalClaim, LocalLocks, Turn},
        ticket::TICKET_TTL,
    },
    state::refusal,
};
use crate::{
    error::{ClientErrorKind, Error, ErrorKind, Result},
    observe,
};

/// A request for a lock.
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use hbase_txn::Level;
///
/// # use hbase_txn::lock::LockManagerOptions;
/// # hbase_fake::FakeHBase::run(async |hbase| {
/// # hbase.create_table("dlm_locks", &["D"], &[]);
/// # let options = LockManagerOptions::new("billing").farm("fra");
/// # let locks = options.open(&hbase.connect().await?, "dlm_locks").await?;
/// let guard = locks
///     .lock(Level::Dc, "order-4711")?
///     .ttl(Duration::from_secs(10))
///     .wait(Duration::from_secs(5))
///     .auto_renew()
///     .acquire()
///     .await?;
/// // The lock outlives its lease, because it is renewed in the background.
/// tokio::time::sleep(Duration::from_secs(60)).await;
/// assert!(guard.is_held());
/// assert!(guard.release().await?.is_released());
/// # Ok(()) });
/// ```
#[derive(Clone)]
#[must_use = "a request does nothing until acquire is called"]
pub struct LockRequest {
    pub(super) local: Arc<LocalLocks>,
    pub(super) name: String,
    pub(super) location: LockLocation,
    pub(super) lease: Duration,
    pub(super) margin: Option<Duration>,
    pub(super) wait: Duration,
    pub(super) renewed: bool,
    /// The session that the hold joins.
    pub(super) session: Option<Arc<SessionState>>,
    /// The change that the next attempt makes to this process's ticket.
    pub(super) ticket: TicketChange,
}

impl LockRequest {
    pub(super) fn new(local: Arc<LocalLocks>, name: String, location: LockLocation) -> Self {
        Self {
            local,
            name,
            location,
            lease: DEFAULT_LEASE,
            margin: None,
            wait: Duration::ZERO,
            renewed: false,
            session: None,
            ticket: TicketChange::default(),
        }
    }

    /// Sets the lease: how long the lock is held unless it is renewed or released; 30 s unless
    /// specified. Whole milliseconds, from 100 ms to 30 days, and not longer than the TTL of the
    /// table's family.
    ///
    /// Prefer a short lease that is [renewed](Self::auto_renew): if this process dies, others wait
    /// until the lease expires.
    pub fn ttl(mut self, lease: Duration) -> Self {
        self.lease = Millis::floor(lease).into();
        self
    }

    /// Sets how long to wait for a held lock; no time unless specified. Waiting tasks and processes
    /// acquire it in the order in which they began to wait. When the time is over, one last attempt
    /// is made unless others come first.
    ///
    /// The calls themselves may take the operation timeout in addition.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait.min(MAX_LEASE);
        self
    }

    /// Renews the lease in the background as long as the guard lives, each time a third of the
    /// lease (less the [margin](Self::skew_margin)) has passed.
    pub fn auto_renew(mut self) -> Self {
        self.renewed = true;
        self
    }

    /// Sets how much earlier than the server this client counts a lease as expired; a tenth of the
    /// lease, at most a second, unless specified.
    ///
    /// The lease expires by the region server's clock. If the region moves to a server whose clock
    /// is ahead by more than the margin, another client can acquire the lock while this client
    /// still counts it as held. HBase admits region servers whose clocks differ by up to 30 s. Make
    /// the margin larger than the differences between your servers' clocks; an audit of the cluster
    /// reports those of more than a second.
    pub fn skew_margin(mut self, margin: Duration) -> Self {
        self.margin = Some(margin);
        self
    }

    /// Acquires the lock.
    ///
    /// The tasks of one process that [wait](Self::wait) for a lock queue up in their order, and
    /// only the first of them polls the server.
    ///
    /// # Errors
    ///
    /// - [`LockUnavailable`](ErrorKind::LockUnavailable), naming the holder if one was seen, if the
    ///   lock was held until the wait was over;
    /// - [`InvalidInput`](crate::ClientErrorKind::InvalidInput) for a lease out of range;
    /// - the errors of the calls. If an answer was lost, a lock that the attempt won is released in
    ///   the background.
    ///
    /// # Cancel safety
    ///
    /// A dropped future leaves no lock behind: nothing more is sent, a lock that a call in flight wins
    /// is released in the background, and the process leaves the queue. Before the runtime is shut
    /// down, await [`LockManager::background_done`](super::LockManager::background_done).
    pub async fn acquire(self) -> Result<LockGuard> {
        let table = self.table().name().clone();
        observe::acquisition("lock", &table, self.acquire_unobserved()).await
    }

    async fn acquire_unobserved(self) -> Result<LockGuard> {
        self.check()?;
        let until = Instant::now() + self.wait;
        let deadline = self.table().deadline() + self.wait;
        let acquiring = async {
            let turn = self.turn(until).await?;
            let guard = self.compete(until, deadline).await?;
            self.admit(guard.with_local_claim(self.local_claim(turn)))
        };
        let acquired = while_open(slice::from_ref(&self), acquiring).await;
        acquired.map_err(|error| self.in_context(error))
    }

    /// Acquires the lock if it is free. Returns `None` if it is held. Does not wait, even if
    /// [`wait`](Self::wait) is set, and is not queued, so it can overtake waiting tasks and
    /// processes.
    ///
    /// Makes no call if another task of this process holds the lock.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`acquire`](Self::acquire), except
    /// [`LockUnavailable`](ErrorKind::LockUnavailable).
    pub async fn try_acquire(self) -> Result<Option<LockGuard>> {
        match self.wait(Duration::ZERO).acquire().await {
            Ok(guard) => Ok(Some(guard)),
            Err(error) if error.kind() == ErrorKind::LockUnavailable => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns a guard for the lock that this token holds: one that an earlier run or another
    /// process acquired and [detached](LockGuard::detach).
    ///
    /// This call does not renew the lease, which expires when it expires on the server, less the
    /// [margin](Self::skew_margin). The guard renews it for the [`ttl`](Self::ttl) of this request,
    /// in the background if [`auto_renew`](Self::auto_renew) is set. Its [fencing
    /// number](LockGuard::fencing) is new, and higher than that of the guard that acquired the
    /// lock. Two guards of one token do not exclude each other.
    ///
    /// # Errors
    ///
    /// - [`LockLost`](ErrorKind::LockLost) if the token does not hold the lock, or the lease ends
    ///   within the margin. An expired token and a released one cannot be told apart;
    /// - [`InvalidInput`](crate::ClientErrorKind::InvalidInput) if the lease is out of range;
    /// - the error of a call that fails. The lock is unchanged then.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the lock stays as it was.
    pub async fn resume(self, token: LockToken) -> Result<LockGuard> {
        self.check()?;
        if let Some(session) = self.session.as_ref().filter(|session| !session.is_open()) {
            return Err(self.in_context(session.ended_error()));
        }
        let resumed = self.location.resume(token, self.table().deadline()).await;
        let loss = match resumed.map_err(|error| self.in_context(error))? {
            Ok(claim) => {
                let term = Term::ending(self.clock(), claim.end(), self.lease, self.margin(), self.renewed);
                let term = term.in_session(self.session_hold());
                match term.loss() {
                    None => {
                        let guard = LockGuard::new(self.name.clone(), self.location.clone(), claim, term);
                        let admitted = self.admit(guard.with_local_claim(self.local_claim(None)));
                        return admitted.map_err(|error| self.in_context(error));
                    }
                    Some(loss) => loss,
                }
            }
            Err(loss) => loss,
        };
        let error = Error::new(
            ErrorKind::LockLost,
            format!(
                "token {token} does not hold the lock: {}",
                loss.at(self.location.wall_clock())
            ),
        );
        Err(self.in_context(error.with_hint("acquire the lock again")))
    }

    pub(super) fn table(&self) -> &Table {
        &self.location.table
    }

    pub(super) fn row(&self) -> &Bytes {
        self.location.rows.lock_row()
    }

    /// Returns the key by which all clients order the locks of a set.
    pub(super) fn order(&self) -> (TableName, Bytes) {
        (self.table().name().clone(), self.row().clone())
    }

    /// Waits for the turn among the tasks of this process. `None` if the request competes without a
    /// turn.
    pub(super) async fn turn(&self, until: Instant) -> Result<Option<Turn>> {
        let turn = self.local.turn(self.row(), until).await;
        turn.map_err(|why| self.in_context(self.unavailable(&why)))
    }

    pub(super) fn local_claim(&self, turn: Option<Turn>) -> LocalClaim {
        self.local.local_claim(self.row(), turn)
    }

    /// Tries until the lock is won, or until the wait is over.
    pub(super) async fn compete(&self, until: Instant, deadline: Instant) -> Result<LockGuard> {
        // Every call inside ends by the deadline itself, and its error says which call it was.
        let won = self.try_until(until, deadline).await;
        won.map_err(|error| self.in_context(error))
    }

    async fn try_until(&self, until: Instant, deadline: Instant) -> Result<LockGuard> {
        // A call that does not wait is not queued, neither in this process nor among processes.
        let waits = Instant::now() < until;
        let first_waiter = waits.then(|| self.local.first_waiter(self.row()));
        let mut waiter = Waiter::new(self.location.clone(), Demand::LOCK);
        if waits && waiter.step_back() {
            self.until_worth_trying(Ok(Vec::new()), &mut waiter, until, deadline)
                .await?;
        }
        loop {
            let seen = match self.attempt(&mut waiter, deadline).await {
                Ok(RequestOutcome::Won(guard)) if guard.is_held() => {
                    waiter.acquired();
                    return Ok(guard);
                }
                Ok(RequestOutcome::Won(guard)) => Err(guard.early_loss_error()),
                Ok(RequestOutcome::Lost(states)) => Ok(states),
                // The attempt that may have won is watched, and the next one has its own token.
                Err(error) if error.is_outcome_unknown() => Err(error),
                Err(error) => return Err(error),
            };
            let why = seen
                .as_deref()
                .ok()
                .and_then(|states| refusal(states, self.location.wall_clock()));
            if let Some((first_waiter, why)) = first_waiter.as_ref().zip(why) {
                first_waiter.refused(why);
            }
            if let Ok(states) = &seen {
                waiter.observe(states);
            }
            self.until_worth_trying(seen, &mut waiter, until, deadline)
                .await?;
        }
    }

    /// Waits until another attempt is worth its call. If the wait is over, the error is that of the
    /// last attempt: its failure, or the holder that it found.
    async fn until_worth_trying(
        &self,
        mut last: Result<Vec<RowState>>,
        waiter: &mut Waiter,
        until: Instant,
        deadline: Instant,
    ) -> Result<()> {
        loop {
            let now = Instant::now();
            if now >= until {
                return Err(last.map_or_else(|error| error, |states| self.held_by(&states)));
            }
            sleep_until(until.min(now + waiter.pause())).await;
            let is_held_by_java = |seen: &Result<Vec<RowState>>| seen.as_ref().is_ok_and(|it| is_foreign(it));
            if waiter.is_next() && !is_held_by_java(&last) {
                return Ok(());
            }
            // An attempt ahead of older tickets would be released again, and one under a Java
            // client's lock would take and release the companion row each time.
            let states = waiter.poll(deadline).await?;
            let is_free = states.iter().all(|state| state.occupant().is_none());
            last = Ok(states);
            if is_free && waiter.is_next() {
                return Ok(());
            }
        }
    }

    async fn attempt(&self, waiter: &mut Waiter, deadline: Instant) -> Result<RequestOutcome> {
        let request = Self {
            ticket: waiter.with_attempt(),
            ..self.clone()
        };
        let (outcome, _) = attempt(vec![request], None, deadline).await?;
        // One request has one answer.
        Ok(outcome
            .into_iter()
            .next()
            .unwrap_or(RequestOutcome::Lost(Vec::new())))
    }

    fn new_attempt(&self) -> LockAttempt {
        LockAttempt {
            location: self.location.clone(),
            held: self.held(),
            ticket: self.ticket.clone(),
        }
    }

    /// Returns the request for a hold with the lease, the renewal and the session of another one.
    pub(crate) fn with_terms_of(self, guard: &LockGuard) -> Self {
        let term = &guard.hold.held.term;
        Self {
            lease: term.lease(),
            margin: Some(term.margin()),
            renewed: term.is_renewed(),
            session: term.session(),
            ..self
        }
    }

    /// Counts a hold of this request in its session.
    pub(super) fn session_hold(&self) -> Option<SessionHold> {
        let session = self.session.as_ref()?;
        Some(SessionHold::new(session, self.name.clone()))
    }

    /// Adds a hold that is returned to the caller to the session of this request, if it has one.
    ///
    /// # Errors
    ///
    /// Returns [`LockLost`](ErrorKind::LockLost) if the session has ended. The hold is released in
    /// the background then.
    pub(crate) fn admit(&self, guard: LockGuard) -> Result<LockGuard> {
        let Some(session) = &self.session else {
            return Ok(guard);
        };
        if session.is_open() && !guard.is_held() {
            return Err(guard.early_loss_error());
        }
        guard.hold.held.term.join_session();
        if session.is_open() {
            Ok(guard)
        } else {
            Err(session.ended_error())
        }
    }

    /// Returns the request for a place that is held until the lock itself is available: its lease is
    /// short and renewed, so that the place of a process that dies blocks others only for a moment.
    pub(crate) fn for_place(&self) -> Self {
        let margin = self.margin();
        Self {
            lease: self.lease.min(TICKET_TTL + margin),
            margin: Some(margin),
            renewed: true,
            ..self.clone()
        }
    }

    pub(super) fn guard(&self, claim: LockClaim) -> LockGuard {
        let term = Term::new(self.clock(), claim.since, self.lease, self.margin(), self.renewed);
        let term = term.in_session(self.session_hold());
        LockGuard::new(self.name.clone(), self.location.clone(), claim, term)
    }

    /// Turns the outcome of an attempt into that of the request. A request that can wait releases a
    /// lock that it took ahead of older tickets.
    async fn settle(&self, attempt: AttemptOutcome, deadline: Instant) -> RequestOutcome {
        match attempt {
            AttemptOutcome::Won(claim) if self.is_out_of_order(&claim) => {
                let seen = RowState::awaited_by(claim.awaited_by.clone());
                // If this fails, the dropped guard releases the lock in the background.
                let _ = timeout_at(deadline, self.guard(claim).release()).await;
                RequestOutcome::Lost(vec![seen])
            }
            AttemptOutcome::Won(claim) => RequestOutcome::Won(self.guard(claim)),
            AttemptOutcome::Lost(states) => RequestOutcome::Lost(states),
        }
    }

    /// Whether the request can wait, and others have waited longer.
    fn is_out_of_order(&self, claim: &LockClaim) -> bool {
        !self.wait.is_zero() && !self.ticket.is_next && !claim.awaited_by.is_empty()
    }

    /// Returns the owner to write for one attempt. Each attempt has its own token.
    pub(super) fn held(&self) -> HeldBy {
        HeldBy {
            token: LockToken::unique(self.location.environment()),
            renewal: 0,
            ttl: Millis::floor(self.lease),
            lease: Millis::floor(self.lease),
            holder: self.holder().to_owned(),
            over: None,
        }
    }

    /// Returns the name of the holder.
    fn holder(&self) -> &str {
        self.session
            .as_ref()
            .map_or(&self.local.holder, |session| session.name())
    }

    fn clock(&self) -> Clock {
        Clock::of(self.table().connection())
    }

    pub(super) fn margin(&self) -> Duration {
        margin(self.lease, self.margin)
    }

    /// Refuses a lease, or a margin, out of range.
    pub(super) fn check(&self) -> Result<()> {
        let refuse = |error| Err(self.in_context(error));
        self.local.check_lease(self.lease).or_else(refuse)?;
        check_margin(self.lease, self.margin()).or_else(refuse)
    }

    pub(super) fn in_context(&self, error: Error) -> Error {
        self.location.in_context(&self.name, error)
    }

    /// Returns the error of a lost attempt.
    pub(super) fn refused(&self, states: &[RowState]) -> Error {
        self.in_context(self.held_by(states))
    }

    fn held_by(&self, states: &[RowState]) -> Error {
        match refusal(states, self.location.wall_clock()) {
            Some(why) => self.unavailable(&why),
            None if states.iter().any(RowState::is_awaited) => {
                self.unavailable("others have waited longer for it")
            }
            None => self.unavailable("it was held when it was tried, and is free again"),
        }
    }

    fn unavailable(&self, why: &str) -> Error {
        Error::new(
            ErrorKind::LockUnavailable,
            format!("the lock is not available: {why}"),
        )
        .with_retryable(true)
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

/// The outcome of an attempt.
pub(super) enum RequestOutcome {
    Won(LockGuard),
    Lost(Vec<RowState>),
}

/// Tries once to take locks that are in one region, and performs another read after that. Runs to
/// its end even if this future is dropped, so that no lock that it wins is lost track of.
pub(super) async fn attempt(
    requests: Vec<LockRequest>,
    read_after: Option<Get>,
    deadline: Instant,
) -> Result<(Vec<RequestOutcome>, Option<Row>)> {
    let tasks = requests.first().map(|request| request.local.tasks.clone());
    BackgroundTask::of_caller(tasks.unwrap_or_default(), |caller| async move {
        let attempts: Vec<LockAttempt> = requests.iter().map(LockRequest::new_attempt).collect();
        let sessions = requests.iter().filter_map(|request| request.session.as_ref());
        let _counted: Vec<_> = sessions.map(|session| session.begin()).collect();
        let attempted = tokio::select! {
            biased;
            attempted = acquire::attempt(&attempts, read_after, &caller, deadline) => attempted,
            () = caller.clone().gone_for_long() => Err(unanswered()),
        };
        match attempted {
            Ok((attempts, behind)) => {
                let outcome = requests
                    .iter()
                    .zip(attempts)
                    .map(|(request, attempt)| request.settle(attempt, deadline));
                Ok((join_all(outcome).await, behind))
            }
            Err(error) => {
                if error.is_outcome_unknown() {
                    for (request, attempt) in requests.iter().zip(attempts) {
                        request.local.watchers.watch(attempt);
                    }
                }
                Err(error.with_hint_if_unknown(
                    "if the lock was acquired, it is released in the background; try again",
                ))
            }
        }
    })
    .await
}

/// Returns the error of an attempt whose caller is gone, and that may be applied.
fn unanswered() -> Error {
    let error = Error::new(
        ClientErrorKind::DeadlineExceeded,
        "the request was dropped, and its attempt was not answered",
    );
    error.with_effect(Effect::Unknown)
}

fn is_foreign(states: &[RowState]) -> bool {
    states
        .iter()
        .any(|state| matches!(state.occupant(), Some(Occupant::Foreign { .. })))
}

impl fmt::Debug for LockRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockRequest")
            .field("name", &self.name)
            .field("lease", &self.lease)
            .field("wait", &self.wait)
            .field("renewed", &self.renewed)
            .finish_non_exhaustive()
    }
}
