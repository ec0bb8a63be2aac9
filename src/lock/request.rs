//! Asking for a lock.

use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::future::join_all;
use tokio::time::{Instant, sleep_until};

use super::{
    abandoned,
    acquire::{self, Attempt, Bid},
    guard::LockGuard,
    hold::Hold,
    lasting::Lasting,
    name::LockName,
    owner::{HeldBy, LockToken, Millis},
    party::{Party, Tenure, Turn},
    place::Place,
    sight::{Occupant, Sight},
    state::refusal,
};
use crate::{
    client::{Pauses, Table},
    error::{Error, ErrorKind, Result},
    model::{Get, Row, TableName},
};

/// The shortest lease: a call to the server and back must fit into it several times.
pub const SHORTEST_LEASE: Duration = Duration::from_millis(100);
/// The longest lease.
pub const LONGEST_LEASE: Duration = Duration::from_secs(30 * 24 * 3_600);
/// The lease of a request that names none.
pub(crate) const DEFAULT_LEASE: Duration = Duration::from_secs(30);
/// What is taken off a lease for clocks that do not go alike: this part of it, or this at most.
const MARGIN: (u32, Duration) = (10, Duration::from_secs(1));
/// The pauses between two looks at a lock that is held.
const SHORTEST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// A lock that is asked for.
///
/// # Example
///
/// ```no_run
/// # async fn example(locks: hbase_txn::LockManager) -> hbase_txn::Result<()> {
/// use std::time::Duration;
/// use hbase_txn::Level;
///
/// let guard = locks
///     .lock(Level::Dc, "order-4711")?
///     .ttl(Duration::from_secs(10))
///     .wait(Duration::from_secs(5))
///     .renewed()
///     .acquire()
///     .await?;
/// tokio::select! {
///     loss = guard.lost() => eprintln!("stop: {loss}"),
///     () = async { /* what only one may do, with guard.fencing() */ } => {}
/// }
/// guard.release().await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
#[must_use = "a request does nothing until acquire is called"]
pub struct LockRequest {
    pub(super) party: Arc<Party>,
    pub(super) name: String,
    pub(super) place: Place,
    pub(super) lease: Duration,
    margin: Option<Duration>,
    pub(super) wait: Duration,
    pub(super) renewed: bool,
}

impl LockRequest {
    pub(super) fn new(party: Arc<Party>, name: String, place: Place) -> Self {
        Self {
            party,
            name,
            place,
            lease: DEFAULT_LEASE,
            margin: None,
            wait: Duration::ZERO,
            renewed: false,
        }
    }

    /// The lease: how long the lock is held unless it is renewed or released; 30 s unless said. Whole milliseconds, from
    /// 100 ms to 30 days, and not longer than the TTL of the table's family.
    ///
    /// Prefer a short one that is [renewed](Self::renewed): it is what others wait for when this process dies.
    pub fn ttl(mut self, lease: Duration) -> Self {
        self.lease = Millis::floor(lease).into();
        self
    }

    /// How long a lock that is held is waited for; not at all unless said. When that is over a last attempt is made, unless
    /// other tasks of this process come first.
    ///
    /// The time for the calls themselves comes on top: the operation timeout at most.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait.min(LONGEST_LEASE);
        self
    }

    /// Renews the lease in the background, each time a third of it (less the [margin](Self::skew_margin)) is over, as long as the
    /// guard lives.
    pub fn renewed(mut self) -> Self {
        self.renewed = true;
        self
    }

    /// How much earlier than the server this side counts a lease as over; a tenth of the lease, a second at most,
    /// unless said.
    ///
    /// The lease is the server's: it ends there by that server's clock. A clock that goes faster than this machine's,
    /// or that of another server to which the region moves, ends it earlier. Make it larger than your servers' clocks may
    /// differ.
    pub fn skew_margin(mut self, margin: Duration) -> Self {
        self.margin = Some(margin);
        self
    }

    /// Acquires the lock.
    ///
    /// The tasks of one process that [wait](Self::wait) for a lock queue up, in their order, and the first of them alone asks
    /// the server. A future that is dropped leaves no lock behind: what an attempt on its way wins is given back in the background.
    ///
    /// # Errors
    ///
    /// - [`LockUnavailable`](ErrorKind::LockUnavailable), naming the holder if one was seen, when it was held until the time was
    ///   over;
    /// - [`InvalidInput`](ErrorKind::InvalidInput) for a lease out of range;
    /// - those of the calls. When an answer was lost, an attempt that won all the same is given back in the background.
    pub async fn acquire(self) -> Result<LockGuard> {
        self.check()?;
        let until = Instant::now() + self.wait;
        let deadline = self.table().deadline() + self.wait;
        let turn = self.turn(until).await?;
        let guard = self.compete(until, deadline).await?;
        Ok(guard.with_tenure(self.tenure(turn)))
    }

    /// Acquires the lock if it is free; none if somebody holds it. It does not wait for it, whatever [`wait`](Self::wait) says,
    /// and so does not queue up: it may be faster than tasks of this process that wait.
    ///
    /// Where another task of this process holds it no call is made.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire), without [`LockUnavailable`](ErrorKind::LockUnavailable).
    pub async fn try_acquire(self) -> Result<Option<LockGuard>> {
        match self.wait(Duration::ZERO).acquire().await {
            Ok(guard) => Ok(Some(guard)),
            Err(error) if error.kind() == ErrorKind::LockUnavailable => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(super) fn table(&self) -> &Table {
        &self.place.table
    }

    pub(super) fn row(&self) -> &Bytes {
        self.place.rows.lock_row()
    }

    /// By what everybody orders the locks that they want together.
    pub(super) fn order(&self) -> (TableName, Bytes) {
        (self.table().name().clone(), self.row().clone())
    }

    /// The turn among the tasks of this process; none for one that goes without.
    pub(super) async fn turn(&self, until: Instant) -> Result<Option<Turn>> {
        let turn = self.party.turn(self.row(), until).await;
        turn.map_err(|why| self.blame(self.unavailable(&why)))
    }

    pub(super) fn tenure(&self, turn: Option<Turn>) -> Tenure {
        self.party.tenure(self.row(), turn)
    }

    /// Tries until the lock is won, or until it is time to stop.
    pub(super) async fn compete(&self, until: Instant, deadline: Instant) -> Result<LockGuard> {
        // Every call in it ends by the deadline itself, and knows better what it was doing then.
        let won = self.try_until(until, deadline).await;
        won.map_err(|error| self.blame(error))
    }

    async fn try_until(&self, until: Instant, deadline: Instant) -> Result<LockGuard> {
        let mut pauses = Pauses::growing(SHORTEST_PAUSE, LONGEST_PAUSE);
        // Who does not wait has no turn, and nobody behind it.
        let front = (Instant::now() < until).then(|| self.party.front(self.row()));
        loop {
            let seen = match self.attempt(deadline).await {
                Ok(Tried::Won(guard)) if guard.is_held() => return Ok(guard),
                Ok(Tried::Won(guard)) => Err(guard.lost_early()),
                Ok(Tried::Lost(sights)) => Ok(sights),
                // The attempt that may have won is watched, and the next has a token of its own.
                Err(error) if error.is_outcome_unknown() => Err(error),
                Err(error) => return Err(error),
            };
            let why = seen.as_deref().ok().and_then(refusal);
            if let Some((front, why)) = front.as_ref().zip(why) {
                front.refused(why);
            }
            self.until_worth_trying(seen, &mut pauses, until, deadline)
                .await?;
        }
    }

    /// Waits until another attempt is worth its call. When it is time to stop, the error says why the last one was refused: by
    /// what was seen then, or as it failed.
    async fn until_worth_trying(
        &self,
        mut last: Result<Vec<Sight>>,
        pauses: &mut Pauses,
        until: Instant,
        deadline: Instant,
    ) -> Result<()> {
        loop {
            let now = Instant::now();
            if now >= until {
                return Err(last.map_or_else(|error| error, |sights| self.held_by(&sights)));
            }
            sleep_until(until.min(now + pauses.next())).await;
            let is_held_by_java = |seen: &Result<Vec<Sight>>| seen.as_ref().is_ok_and(|it| is_foreign(it));
            if is_held_by_java(&last) {
                // An attempt would take the companion row and give it back each time, for nothing; a look is cheaper.
                last = Ok(self.place.look(deadline).await?);
            }
            if !is_held_by_java(&last) {
                return Ok(());
            }
        }
    }

    async fn attempt(&self, deadline: Instant) -> Result<Tried> {
        let (tried, _) = attempt(std::slice::from_ref(self), None, deadline).await?;
        // One request has one answer.
        Ok(tried.into_iter().next().unwrap_or(Tried::Lost(Vec::new())))
    }

    fn bid(&self) -> Bid {
        Bid {
            place: self.place.clone(),
            held: self.held(),
        }
    }

    pub(super) fn guard(&self, hold: Hold) -> LockGuard {
        LockGuard::new(
            self.name.clone(),
            self.place.clone(),
            hold,
            self.lease,
            self.margin(),
            self.renewed,
        )
    }

    /// What is written for one attempt: each has a token of its own.
    pub(super) fn held(&self) -> HeldBy {
        HeldBy {
            token: LockToken::unique(),
            renewal: 0,
            ttl: Millis::floor(self.lease),
            holder: self.party.holder.clone(),
            over: None,
        }
    }

    pub(super) fn margin(&self) -> Duration {
        margin(self.lease, self.margin)
    }

    /// Refuses a lease, or a margin, out of range.
    pub(super) fn check(&self) -> Result<()> {
        let refuse = |error| Err(self.blame(error));
        self.party.check_lease(self.lease).or_else(refuse)?;
        check_margin(self.lease, self.margin()).or_else(refuse)
    }

    pub(super) fn blame(&self, error: Error) -> Error {
        self.place.blame(&self.name, error)
    }

    /// The error of an attempt that was lost.
    pub(super) fn refused(&self, sights: &[Sight]) -> Error {
        self.blame(self.held_by(sights))
    }

    fn held_by(&self, sights: &[Sight]) -> Error {
        match refusal(sights) {
            Some(why) => self.unavailable(&why),
            None => self.unavailable("it was held when it was tried, and is free again"),
        }
    }

    fn unavailable(&self, why: &str) -> Error {
        let error = Error::new(
            ErrorKind::LockUnavailable,
            format!("the lock is not available: {why}"),
        )
        .with_retryable(true);
        // One in a partition has no such name, and the command does not know it.
        match LockName::of_row(self.row()) {
            None => error,
            Some(name) => error.with_hint(format!(
                "who holds it: hbase-txn lock show {} {}",
                self.table().name(),
                name.arguments()
            )),
        }
    }
}

/// How much earlier than the server this side counts a lease as over, unless this was said.
pub(crate) fn margin(lease: Duration, said: Option<Duration>) -> Duration {
    said.unwrap_or_else(|| (lease / MARGIN.0).min(MARGIN.1))
}

/// Refuses a margin that leaves nothing of the lease.
pub(crate) fn check_margin(lease: Duration, margin: Duration) -> Result<()> {
    if margin < lease {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "a margin of {margin:?} leaves nothing of a lease of {lease:?}"
    )))
}

/// How an attempt ended.
pub(super) enum Tried {
    Won(LockGuard),
    Lost(Vec<Sight>),
}

/// One attempt to take locks that are in one region, and what else was to be read behind that. It goes on to its end even if
/// this future is dropped, so that what it wins is never forgotten.
pub(super) async fn attempt(
    requests: &[LockRequest],
    look_behind: Option<Get>,
    deadline: Instant,
) -> Result<(Vec<Tried>, Option<Row>)> {
    let requests = requests.to_vec();
    Lasting::new(async move {
        let bids: Vec<Bid> = requests.iter().map(LockRequest::bid).collect();
        match acquire::attempt(&bids, look_behind, deadline).await {
            Ok((attempts, behind)) => {
                let tried = requests
                    .iter()
                    .zip(attempts)
                    .map(|(request, attempt)| match attempt {
                        Attempt::Won(hold) => Tried::Won(request.guard(hold)),
                        Attempt::Lost(sights) => Tried::Lost(sights),
                    });
                Ok((tried.collect(), behind))
            }
            Err(error) => {
                if error.is_outcome_unknown() {
                    tokio::spawn(async move { join_all(bids.iter().map(abandoned::watch)).await });
                }
                Err(error.with_hint_if_unknown("what was won is given back in the background; try again"))
            }
        }
    })
    .await
}

fn is_foreign(sights: &[Sight]) -> bool {
    sights
        .iter()
        .any(|sight| matches!(sight.occupant(), Some(Occupant::Foreign { .. })))
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
