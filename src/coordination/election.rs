//! Elections: one leader at a time.

use std::{fmt, time::Duration};

use super::contest::{LONGEST_PAUSE, Waiting, lease_options};
use crate::{
    error::{Error, ErrorKind, Result},
    lock::{LockGuard, LockHolder, LockLoss, LockManager, LockRequest, ReleaseOutcome, SlotRow, SlotsSeen},
    model::{BytesBinary, Level},
};

const KIND: &str = "LEAD";
const SLOT: &str = "leader";

/// An election: of all who campaign, one leads at a time, and each who does has a higher term than all before.
///
/// A leadership is a lock with a lease that is renewed, and so what is said of [`LockGuard`] is true of it: who was stopped for
/// longer than its lease may believe for a moment that it leads. What only the leader may do carries the
/// [term](Leadership::term), and whoever is told refuses lower ones.
///
/// Cheap to clone; clones share everything.
///
/// # Example
///
/// ```no_run
/// # async fn example(locks: hbase_txn::LockManager) -> hbase_txn::Result<()> {
/// use std::time::Duration;
/// use hbase_txn::{Election, Level};
///
/// let election = Election::new(&locks, Level::Dc, "scheduler")?;
/// let leadership = election
///     .campaign()
///     .ttl(Duration::from_secs(10))
///     .wait(Duration::from_secs(3_600))
///     .lead()
///     .await?;
/// tokio::select! {
///     loss = leadership.lost() => eprintln!("stop: {loss}"),
///     () = async { /* what only the leader may do, with leadership.term() */ } => {}
/// }
/// leadership.resign().await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Election {
    row: SlotRow,
}

/// Who wants to lead, and for how long it waits.
#[derive(Clone)]
#[must_use = "a campaign does nothing until lead is called"]
pub struct Campaign {
    election: Election,
    request: LockRequest,
}

/// The leadership that was won, until it is resigned or lost.
///
/// Dropping it resigns in the background, as well as can be.
#[must_use = "a leadership that is not bound to a name is resigned at once"]
pub struct Leadership {
    guard: LockGuard,
}

/// Who leads.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leader {
    /// Who, since when, and until when unless it renews.
    pub holder: LockHolder,
    /// Its term. None when it has led for more than 400 days.
    pub term: Option<u64>,
}

impl Election {
    /// An election; nothing is sent, and nothing need exist before.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](ErrorKind::InvalidInput) for an id that is empty or too long, and for one of one farm where no farm was
    /// named.
    pub fn new(locks: &LockManager, level: Level, id: &str) -> Result<Self> {
        Ok(Self {
            row: locks.slot_row(KIND, level, id)?,
        })
    }

    /// Its key: `LEAD#` and the name that a lock of this level, farm, client and id has.
    #[must_use]
    pub fn key(&self) -> &str {
        self.row.key()
    }

    /// Asks to lead; nothing is sent yet.
    pub fn campaign(&self) -> Campaign {
        Campaign {
            election: self.clone(),
            request: self.row.request(&[SLOT.to_owned()]).renewed(),
        }
    }

    /// Who leads; none when nobody does.
    ///
    /// # Errors
    ///
    /// Those of the call.
    pub async fn leader(&self) -> Result<Option<Leader>> {
        let seen = self.row.look(self.row.table().deadline()).await;
        Ok(leader(seen.map_err(|error| self.blame(error))?))
    }

    /// Waits until somebody else leads than was known, or another time, or nobody; but no longer than this. Tells who leads
    /// then: the same when nothing has changed.
    ///
    /// The server is asked again and again, with pauses that grow to half a second: of a leadership that comes and goes in between
    /// nothing is told.
    ///
    /// # Errors
    ///
    /// Those of the calls.
    pub async fn changed(&self, known: Option<&Leader>, wait: Duration) -> Result<Option<Leader>> {
        let until = tokio::time::Instant::now() + wait.min(crate::lock::LONGEST_LEASE);
        let mut waiting = Waiting::new(until, LONGEST_PAUSE);
        let token = |leader: Option<&Leader>| leader.map(|leader| leader.holder.token);
        loop {
            let now = self.leader().await?;
            if token(now.as_ref()) != token(known) || !waiting.goes_on().await {
                return Ok(now);
            }
        }
    }

    fn blame(&self, error: Error) -> Error {
        error
            .at_operation(format!("election {}", BytesBinary(self.key().as_bytes())))
            .at_table(self.row.table().name())
    }
}

fn leader(seen: SlotsSeen) -> Option<Leader> {
    let (mut held, term) = (seen.held, seen.number);
    held.remove(SLOT).map(|holder| Leader { holder, term })
}

impl Campaign {
    lease_options!();

    /// Leads as soon as nobody else does. The lease is renewed in the background as long as the leadership lives.
    ///
    /// Of several tasks of one process, one asks the server at a time. A future that is dropped leaves no leadership behind.
    ///
    /// # Errors
    ///
    /// [`LockUnavailable`](ErrorKind::LockUnavailable), naming the leader, when there was one until the time was over;
    /// [`InvalidInput`](ErrorKind::InvalidInput) for a lease out of range; those of the calls.
    pub async fn lead(self) -> Result<Leadership> {
        let Self { election, request } = self;
        match request.acquire().await {
            Ok(guard) => Ok(Leadership { guard }),
            Err(error) if error.kind() == ErrorKind::LockUnavailable => Err(error.with_hint(format!(
                "hbase-txn elect show {} shows who leads",
                election.row.table().name()
            ))),
            Err(error) => Err(error),
        }
    }
}

impl Leadership {
    /// The term: a number that is higher than that of every leadership before.
    #[must_use]
    pub fn term(&self) -> u64 {
        self.guard.fencing()
    }

    /// Whether this leads still: by this machine's clock the lease is not over, and no renewal was refused.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.guard.is_held()
    }

    /// Waits until this leads no more; see [`LockGuard::lost`].
    pub async fn lost(&self) -> LockLoss {
        self.guard.lost().await
    }

    /// Gives the leadership back, and tells whether this led until now.
    ///
    /// # Errors
    ///
    /// As [`LockGuard::release`].
    pub async fn resign(self) -> Result<ReleaseOutcome> {
        self.guard.release().await
    }

    /// The lock that the leadership is.
    pub fn guard(&self) -> &LockGuard {
        &self.guard
    }

    /// The lock that the leadership is, to be held as one.
    pub fn into_guard(self) -> LockGuard {
        self.guard
    }
}

impl fmt::Debug for Election {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Election").field(&self.row).finish()
    }
}

impl fmt::Debug for Campaign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Campaign").field(&self.request).finish()
    }
}

impl fmt::Debug for Leadership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Leadership").field(&self.guard).finish()
    }
}
