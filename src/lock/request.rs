//! Asking for a lock.

use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::future::join_all;
use tokio::{
    sync::oneshot,
    time::{Instant, sleep_until},
};

use super::{
    abandoned,
    acquire::{self, Attempt, Bid},
    guard::LockGuard,
    hold::Hold,
    owner::{HeldBy, LockToken, Millis},
    party::{Party, Turn},
    place::Place,
    sight::{Occupant, Sight},
    state::LockHolder,
};
use crate::{
    client::Table,
    error::{Error, ErrorKind, Result},
    model::TableName,
};

/// The shortest lease: a call to the server and back must fit into it several times.
pub const SHORTEST_LEASE: Duration = Duration::from_millis(100);
/// The longest lease.
pub const LONGEST_LEASE: Duration = Duration::from_secs(30 * 24 * 3_600);
/// The lease of a request that names none.
const DEFAULT_LEASE: Duration = Duration::from_secs(30);
/// What is taken off a lease for clocks that do not go alike: this part of it, or this at most.
const MARGIN: (u32, Duration) = (10, Duration::from_secs(1));
/// The pauses between two looks at a lock that is held.
const PAUSES: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(500));

/// A lock that is asked for.
///
/// # Example
///
/// ```no_run
/// # async fn example(locks: hbase_txn::LockManager) -> hbase_txn::Result<()> {
/// use std::time::Duration;
/// use hbase_txn::LockLevel;
///
/// let guard = locks
///     .lock(LockLevel::Dc, "order-4711")?
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
    party: Arc<Party>,
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

    /// How long a lock that is held is waited for; not at all unless said. One attempt is made at least.
    ///
    /// The time for the calls themselves comes on top: the operation timeout at most.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait.min(LONGEST_LEASE);
        self
    }

    /// Renews the lease in the background, each time a third of it is over, as long as the guard lives.
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
    /// The tasks of one process queue up for a lock, in their order, and the first of them alone asks the server. A future
    /// that is dropped leaves no lock behind: what an attempt on its way wins is given back in the background.
    ///
    /// # Errors
    ///
    /// - [`LockUnavailable`](ErrorKind::LockUnavailable), naming the holder, when it was held until the time was over;
    /// - [`InvalidInput`](ErrorKind::InvalidInput) for a lease out of range;
    /// - those of the calls. When an answer was lost, an attempt that won all the same is given back in the background.
    pub async fn acquire(self) -> Result<LockGuard> {
        self.check()?;
        let until = Instant::now() + self.wait;
        let deadline = self.table().deadline() + self.wait;
        let turn = self.turn(until).await?;
        Ok(self.compete(until, deadline).await?.with_turn(turn))
    }

    /// Acquires the lock if it is free; none if it is held. It does not wait for it, whatever [`wait`](Self::wait) says.
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

    /// The turn among the tasks of this process.
    pub(super) async fn turn(&self, until: Instant) -> Result<Turn> {
        let turn = self.party.turn(self.row(), until).await;
        turn.ok_or_else(|| {
            self.blame(self.unavailable("another task of this process holds it or waits for it"))
        })
    }

    /// Tries until the lock is won, or until it is time to stop.
    pub(super) async fn compete(&self, until: Instant, deadline: Instant) -> Result<LockGuard> {
        // Every call in it ends by the deadline itself, and knows better what it was doing then.
        let won = self.try_until(until, deadline).await;
        won.map_err(|error| self.blame(error))
    }

    async fn try_until(&self, until: Instant, deadline: Instant) -> Result<LockGuard> {
        let mut pause = PAUSES.0;
        loop {
            let mut seen = match self.attempt(deadline).await {
                Ok(Tried::Won(guard)) if guard.is_held() => return Ok(guard),
                Ok(Tried::Won(guard)) => Err(guard.over()),
                Ok(Tried::Lost(sights)) => Ok(sights),
                // The attempt that may have won is watched, and the next has a token of its own.
                Err(error) if error.is_outcome_unknown() => Err(error),
                Err(error) => return Err(error),
            };
            loop {
                let now = Instant::now();
                if now >= until {
                    return Err(seen.map_or_else(|error| error, |sights| self.held_by(&sights)));
                }
                sleep_until(until.min(now + pause.mul_f64(0.5 + fastrand::f64() / 2.0))).await;
                pause = (pause * 3 / 2).min(PAUSES.1);
                match seen {
                    // An attempt would take the companion row and give it back each time, for nothing; a look is cheaper.
                    Ok(sights) if is_foreign(&sights) => seen = Ok(self.place.look(deadline).await?),
                    _ => break,
                }
                if seen.as_ref().is_ok_and(|sights| !is_foreign(sights)) {
                    break;
                }
            }
        }
    }

    async fn attempt(&self, deadline: Instant) -> Result<Tried> {
        let mut tried = attempt(std::slice::from_ref(self), deadline).await?;
        tried.pop().ok_or_else(ended)
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
        self.margin
            .unwrap_or_else(|| (self.lease / MARGIN.0).min(MARGIN.1))
    }

    /// Refuses a lease, or a margin, out of range.
    pub(super) fn check(&self) -> Result<()> {
        let refuse = |error| Err(self.blame(error));
        self.party.check_lease(self.lease).or_else(refuse)?;
        if self.margin() >= self.lease {
            return refuse(Error::invalid(format!(
                "a margin of {:?} leaves nothing of a lease of {:?}",
                self.margin(),
                self.lease
            )));
        }
        Ok(())
    }

    pub(super) fn blame(&self, error: Error) -> Error {
        error
            .at_operation(format!("lock {}", self.name))
            .at_table(self.table().name())
    }

    /// The error of an attempt that was lost.
    pub(super) fn refused(&self, sights: &[Sight]) -> Error {
        self.blame(self.held_by(sights))
    }

    fn held_by(&self, sights: &[Sight]) -> Error {
        match sights.iter().find_map(Sight::occupant) {
            Some(occupant) => self.unavailable(&format!("it is held by {}", LockHolder::of(occupant))),
            None => self.unavailable("it was held when it was tried, and is free again"),
        }
    }

    fn unavailable(&self, why: &str) -> Error {
        let error = Error::new(
            ErrorKind::LockUnavailable,
            format!("the lock is not available: {why}"),
        )
        .with_retryable(true);
        match self.place.rows.appended {
            true => error,
            false => error.with_hint(format!(
                "hbase-txn lock show {} shows who holds it",
                self.place.table.name()
            )),
        }
    }
}

/// How an attempt ended.
pub(super) enum Tried {
    Won(LockGuard),
    Lost(Vec<Sight>),
}

/// One attempt to take locks that are in one region. It goes on to its end even if this future is dropped, so that what it
/// wins is never forgotten.
pub(super) async fn attempt(requests: &[LockRequest], deadline: Instant) -> Result<Vec<Tried>> {
    let requests = requests.to_vec();
    let (reply, answer) = oneshot::channel();
    tokio::spawn(async move {
        let bids: Vec<Bid> = requests.iter().map(LockRequest::bid).collect();
        let answer = match acquire::attempt(&bids, deadline).await {
            Ok(attempts) => Ok(requests
                .iter()
                .zip(attempts)
                .map(|(request, attempt)| match attempt {
                    Attempt::Won(hold) => Tried::Won(request.guard(hold)),
                    Attempt::Lost(sights) => Tried::Lost(sights),
                })
                .collect()),
            Err(error) => Err(error),
        };
        let unknown = matches!(&answer, Err(error) if error.is_outcome_unknown());
        // An answer that nobody takes gives back what it won when it is dropped.
        let _ = reply.send(answer);
        if unknown {
            join_all(bids.iter().map(abandoned::watch)).await;
        }
    });
    answer.await.unwrap_or_else(|_| Err(ended()))
}

fn ended() -> Error {
    Error::new(
        ErrorKind::Closed,
        "the attempt was ended with the runtime that it ran on",
    )
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
