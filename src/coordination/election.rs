//! Elections: one leader at a time.

use std::{fmt, sync::Arc, time::Duration};

use futures::stream::BoxStream;
use hbase_client::{BytesBinary, low_level::TableCalls};

use super::{changes::changes, contest::lease_options};
use crate::{
    error::{Error, ErrorKind, Result},
    java_layout::Level,
    lock::{
        LockEvent, LockGuard, LockHolder, LockLoss, LockManager, LockRequest, LockToken, MAX_LEASE,
        ReleaseOutcome, SlotRow, SlotsSeen,
    },
};

pub(super) const KIND: &str = "LEAD";
const SLOT: &str = "leader";

/// A leader election: at most one candidate leads at a time, and each leadership has a higher term
/// than all earlier ones.
///
/// A leadership is a lock whose lease is renewed in the background, with the limits of a
/// [`LockGuard`]: a process that is paused for longer than its lease may believe for a moment that
/// it still leads. Pass the [term](Leadership::term) with every action that only the leader may
/// perform, and let the receiver reject lower terms.
///
/// Cheap to clone; clones share everything.
///
/// # Examples
///
/// Run a task on one process at a time. It is cancelled when the leadership is lost, and started
/// again after the next election that this process wins:
///
/// ```
/// use std::time::Duration;
/// use hbase_txn::{Level, coordination::Election};
///
/// # use hbase_txn::lock::LockManagerOptions;
/// # hbase_fake::FakeHBase::run(async |hbase| {
/// # hbase.create_table("dlm_locks", &["D"], &[]);
/// # let options = LockManagerOptions::new("billing").farm("fra");
/// # let locks = options.open(&hbase.connect().await?, "dlm_locks").await?;
/// # async fn schedule_jobs(term: i64) { assert!(term > 0) }
/// let election = Election::new(&locks, Level::Dc, "scheduler")?;
/// election
///     .campaign()
///     .ttl(Duration::from_secs(10))
///     .lead_while(async |leadership| schedule_jobs(leadership.term()).await)
///     .await?;
/// # Ok(()) });
/// ```
///
/// Lead once, and stop when the leadership is lost:
///
/// ```
/// # use hbase_txn::lock::LockManagerOptions;
/// # hbase_fake::FakeHBase::run(async |hbase| {
/// # hbase.create_table("dlm_locks", &["D"], &[]);
/// # let options = LockManagerOptions::new("billing").farm("fra");
/// # let locks = options.open(&hbase.connect().await?, "dlm_locks").await?;
/// # let election = hbase_txn::coordination::Election::new(&locks, hbase_txn::Level::Dc, "scheduler")?;
/// let leadership = election.campaign().lead().await?;
/// tokio::select! {
///     loss = leadership.lost() => eprintln!("stop: {loss}"),
///     () = async { /* the leader's work, with leadership.term() */ } => {}
/// }
/// assert!(leadership.is_leader());
/// assert!(leadership.resign().await?.is_released());
/// # Ok(()) });
/// ```
///
/// Follow the leader:
///
/// ```
/// use futures::TryStreamExt;
///
/// # use hbase_txn::lock::LockManagerOptions;
/// # hbase_fake::FakeHBase::run(async |hbase| {
/// # hbase.create_table("dlm_locks", &["D"], &[]);
/// # let options = LockManagerOptions::new("billing").farm("fra");
/// # let locks = options.open(&hbase.connect().await?, "dlm_locks").await?;
/// # let election = hbase_txn::coordination::Election::new(&locks, hbase_txn::Level::Dc, "scheduler")?;
/// # let leadership = election.campaign().lead().await?;
/// let mut changes = election.changes();
/// while let Some(leader) = changes.try_next().await? {
///     match leader {
///         Some(leader) => println!("{} leads", leader.holder),
///         None => println!("no leader"),
///     }
///     # break;
/// }
/// # Ok(()) });
/// ```
#[derive(Clone)]
pub struct Election {
    row: SlotRow,
}

/// A request for the leadership of an election.
#[derive(Clone)]
#[must_use = "a campaign does nothing until lead is called"]
pub struct Campaign {
    election: Election,
    request: LockRequest,
    /// Whether its wait was specified.
    is_limited: bool,
}

/// A leadership that this process won.
///
/// Dropping it resigns in the background; if that fails, the leadership ends with its lease. Bind it
/// to a name, such as `_leadership`: `let _ = …` drops it and resigns at once.
#[must_use = "a leadership that is not bound to a name is resigned at once"]
pub struct Leadership {
    guard: LockGuard,
}

/// The leader of an election at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leader {
    /// The leading process, the start of its leadership, and its lease.
    pub holder: LockHolder,
    /// Its term, or `None` if it has led for more than 400 days.
    pub term: Option<i64>,
}

impl Election {
    /// Names an election. Sends nothing; an election needs no creation.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidInput`](crate::ClientErrorKind::InvalidInput) if the id is empty or too
    /// long, or if the level needs a farm and the manager has none.
    pub fn new(locks: &LockManager, level: Level, id: &str) -> Result<Self> {
        Ok(Self {
            row: locks.slot_row(KIND, level, id)?,
        })
    }

    /// Returns the key: `LEAD#` and the name that a lock of this level, farm, client and id has.
    #[must_use]
    pub fn key(&self) -> &str {
        self.row.key()
    }

    /// Starts a campaign; nothing is sent until [`lead`](Campaign::lead),
    /// [`try_lead`](Campaign::try_lead) or [`lead_while`](Campaign::lead_while) is awaited.
    pub fn campaign(&self) -> Campaign {
        Campaign {
            election: self.clone(),
            request: self.row.request(&[SLOT.to_owned()]).wait(MAX_LEASE).auto_renew(),
            is_limited: false,
        }
    }

    /// Reads the current leader. Returns `None` if there is none.
    ///
    /// # Errors
    ///
    /// Returns an error if the call fails.
    pub async fn leader(&self) -> Result<Option<Leader>> {
        let seen = self.row.read(self.row.table().deadline()).await;
        Ok(leader(seen.map_err(|error| self.in_context(error))?))
    }

    /// Returns a stream of leaders: the current one first, then each change, `None` while there is
    /// no leader.
    ///
    /// The stream polls the server, with pauses that grow to half a second while nothing changes.
    /// A leadership that begins and ends between two polls is not seen. The stream never ends; a
    /// failed poll is an `Err` item, after which the stream may be polled again.
    ///
    /// # Cancel safety
    ///
    /// `next` may be dropped and called again: no change is lost.
    #[must_use = "a stream does nothing unless it is polled"]
    pub fn changes(&self) -> BoxStream<'static, Result<Option<Leader>>> {
        let election = self.clone();
        let read = move || {
            let election = election.clone();
            async move { election.leader().await }
        };
        let token = |leader: &Option<Leader>| leader.as_ref().and_then(|leader| leader.holder.token);
        changes(read, token)
    }

    /// Returns a stream of the election's events: first its state, then each change, renewals and
    /// the way in which a leadership ended included.
    ///
    /// It polls, fails and continues as [`LockManager::watch`] does. The fencing number of an event
    /// is the term.
    ///
    /// # Cancel safety
    ///
    /// `next` may be dropped and called again: no change is lost.
    #[must_use = "a stream does nothing unless it is polled"]
    pub fn watch(&self) -> BoxStream<'static, Result<LockEvent>> {
        self.row.watch(SLOT, self.operation())
    }

    /// Revokes the leadership with this token, as read in [`Leader::holder`], and returns the
    /// evicted leader. Returns `None`, and changes nothing, if the token does not lead any more.
    ///
    /// The evicted leader notices at its next renewal or resignation; its work continues until
    /// then. The forced release is logged as a warning with the holder's name and token.
    ///
    /// # Errors
    ///
    /// Returns an error if a call fails, within the operation timeout.
    pub async fn force_release(&self, token: LockToken) -> Result<Option<LockHolder>> {
        let evicted = self.row.evict(token).await;
        evicted.map_err(|error| self.in_context(error))
    }

    fn in_context(&self, error: Error) -> Error {
        error
            .at_operation(self.operation())
            .at_table(self.row.table().name())
    }

    /// The operation that errors name.
    fn operation(&self) -> String {
        format!("election {}", BytesBinary(self.key().as_bytes()))
    }
}

pub(super) fn leader(seen: SlotsSeen) -> Option<Leader> {
    let (mut held, term) = (seen.held, seen.number);
    held.remove(SLOT).map(|holder| Leader { holder, term })
}

impl Campaign {
    lease_options!();

    /// Limits how long the campaign waits for the leadership; 30 days unless specified, and without
    /// limit in [`lead_while`](Self::lead_while).
    ///
    /// The calls themselves may take the operation timeout in addition.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.request = self.request.wait(wait);
        self.is_limited = true;
        self
    }

    /// Waits until no other process leads, and leads. The lease is renewed in the background while
    /// the leadership lives.
    ///
    /// An outage does not end the campaign: its calls are repeated until the [wait](Self::wait) is
    /// over. Of several tasks of one process, one polls the server at a time.
    ///
    /// # Errors
    ///
    /// - [`LockUnavailable`](crate::ErrorKind::LockUnavailable), naming the leader, if another
    ///   process leads until the [wait](Self::wait) is over;
    /// - [`InvalidInput`](crate::ClientErrorKind::InvalidInput) if the lease is out of range;
    /// - the error of a call that fails.
    ///
    /// # Cancel safety
    ///
    /// A dropped future leaves no leadership behind.
    pub async fn lead(self) -> Result<Leadership> {
        let guard = self.request.acquire().await?;
        Ok(Leadership { guard })
    }

    /// Tries once to lead. Returns `None` if another process leads, whatever
    /// [`wait`](Self::wait) specifies.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`lead`](Self::lead), except
    /// [`LockUnavailable`](crate::ErrorKind::LockUnavailable).
    ///
    /// # Cancel safety
    ///
    /// A dropped future leaves no leadership behind.
    pub async fn try_lead(self) -> Result<Option<Leadership>> {
        let guard = self.request.try_acquire().await?;
        Ok(guard.map(|guard| Leadership { guard }))
    }

    /// Runs `work` while this process leads, and returns its output. If the leadership is lost
    /// first, drops the future of `work`, campaigns again, and calls `work` again with the next
    /// leadership.
    ///
    /// The leadership is resigned when `work` completes. If that fails, a warning is logged, and
    /// the leadership ends with its lease. The output does not prove that this process led to the
    /// end: see [`Leadership::term`].
    ///
    /// In a [session](Self::session) the loss of the leadership ends the session, and the next campaign
    /// is refused with [`LockLost`](ErrorKind::LockLost).
    ///
    /// A future is dropped at an `.await`. Work that blocks its thread, and tasks that it spawned,
    /// continue.
    ///
    /// # The closure
    ///
    /// `work` may be called again, so its future can't take what the closure owns. An `async` closure
    /// borrows what it uses, also in a spawned task:
    ///
    /// ```
    /// # use hbase_txn::{Level, coordination::Election, lock::LockManagerOptions};
    /// # #[derive(Clone)]
    /// # struct Scheduler;
    /// # impl Scheduler { async fn run(&self, term: i64) { assert!(term > 0) } }
    /// # hbase_fake::FakeHBase::run(async |hbase| {
    /// # hbase.create_table("dlm_locks", &["D"], &[]);
    /// # let options = LockManagerOptions::new("billing").farm("fra");
    /// # let locks = options.open(&hbase.connect().await?, "dlm_locks").await?;
    /// # let election = Election::new(&locks, Level::Dc, "scheduler")?;
    /// # let scheduler = Scheduler;
    /// let leading = tokio::spawn(async move {
    ///     let campaign = election.campaign();
    ///     campaign.lead_while(async |leadership| scheduler.run(leadership.term()).await).await
    /// });
    /// leading.await??;
    /// # Ok(()) });
    /// ```
    ///
    /// An `async move` closure with variables of its own is refused: "async closure does not implement
    /// `FnMut`". Clone them for each call instead:
    ///
    /// ```
    /// # use hbase_txn::{Level, coordination::Election, lock::LockManagerOptions};
    /// # #[derive(Clone)]
    /// # struct Scheduler;
    /// # impl Scheduler { async fn run(&self, term: i64) { assert!(term > 0) } }
    /// # hbase_fake::FakeHBase::run(async |hbase| {
    /// # hbase.create_table("dlm_locks", &["D"], &[]);
    /// # let options = LockManagerOptions::new("billing").farm("fra");
    /// # let locks = options.open(&hbase.connect().await?, "dlm_locks").await?;
    /// # let election = Election::new(&locks, Level::Dc, "scheduler")?;
    /// # let scheduler = Scheduler;
    /// let leading = election.campaign().lead_while(move |leadership| {
    ///     let scheduler = scheduler.clone();
    ///     async move { scheduler.run(leadership.term()).await }
    /// });
    /// tokio::spawn(leading).await??;
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the error of a campaign, as [`lead`](Self::lead) does. A process may stand by without
    /// limit, unless a [wait](Self::wait) is specified, which starts again with each campaign. Errors
    /// of `work` are part of its output and end the call.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the future of `work` is dropped, and the leadership is resigned in
    /// the background.
    pub async fn lead_while<T, F>(self, mut work: impl FnMut(Arc<Leadership>) -> F) -> Result<T>
    where
        F: Future<Output = T>,
    {
        loop {
            let leadership = match self.clone().lead().await {
                Err(error) if !self.is_limited && error.kind() == ErrorKind::LockUnavailable => continue,
                campaign => Arc::new(campaign?),
            };
            let output = tokio::select! {
                biased;
                loss = leadership.lost() => {
                    tracing::warn!(election = %self.election.key(), %loss, "leadership lost");
                    None
                }
                output = work(Arc::clone(&leadership)) => Some(output),
            };
            let Some(output) = output else {
                continue;
            };
            match leadership.guard.release_shared().await {
                Ok(ReleaseOutcome::Released) => {}
                Ok(ReleaseOutcome::Lost(loss)) => {
                    tracing::warn!(election = %self.election.key(), %loss, "leadership lost before it was resigned");
                }
                Err(error) => tracing::warn!(election = %self.election.key(), %error, "cannot resign"),
            }
            return Ok(output);
        }
    }
}

impl Leadership {
    /// Returns the term: a number that is higher than that of every earlier leadership.
    #[must_use]
    pub fn term(&self) -> i64 {
        self.guard.fencing()
    }

    /// Returns whether this process leads: its lease has not expired by this machine's clock, and
    /// no renewal was refused.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.guard.is_held()
    }

    /// Waits until the leadership is lost; see [`LockGuard::lost`].
    pub async fn lost(&self) -> LockLoss {
        self.guard.lost().await
    }

    /// Resigns, and returns whether the leadership was held until now.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`LockGuard::release`].
    pub async fn resign(self) -> Result<ReleaseOutcome> {
        self.guard.release().await
    }

    /// Returns the lock that the leadership consists of.
    pub fn guard(&self) -> &LockGuard {
        &self.guard
    }

    /// Converts the leadership into its lock.
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

#[cfg(test)]
mod tests {
    use hbase_fake::FakeHBase;
    use tokio::time::timeout;

    use super::*;
    use crate::lock::LockManagerOptions;

    /// Opens the election as a process of its own.
    async fn open(hbase: &FakeHBase, seed: u64) -> Result<Election> {
        let connection = hbase_client::Connection::builder(hbase.config()).connector(hbase.connector());
        let connection = connection
            .environment(hbase.environment().seed(seed))
            .connect()
            .await?;
        let locks = LockManagerOptions::new("billing").farm("fra");
        let locks = locks.open(&connection, "locks").await?;
        Election::new(&locks, Level::Dc, "scheduler")
    }

    #[test]
    fn leadership_that_the_work_keeps_is_resigned() {
        FakeHBase::run(async |hbase| {
            hbase.create_table("locks", &["D"], &[]);
            let election = open(hbase, 1).await?;
            let kept = election
                .campaign()
                .lead_while(async |leadership| leadership)
                .await?;
            assert!(!kept.is_leader());
            assert_eq!(election.leader().await?, None);
            let next = election.campaign().lead().await?;
            drop(kept);
            assert!(next.resign().await?.is_released());
            Ok(())
        });
    }

    #[test]
    fn standby_outlives_the_wait_of_one_campaign() {
        FakeHBase::run(async |hbase| {
            hbase.create_table("locks", &["D"], &[]);
            let (first, second) = (open(hbase, 1).await?, open(hbase, 2).await?);
            let leadership = first.campaign().lead().await?;
            let mut standby = second.campaign();
            // In place of 30 days.
            standby.request = standby.request.wait(Duration::from_secs(1));
            let leading = standby.clone().lead_while(async |leadership| leadership.term());
            assert!(timeout(Duration::from_secs(10), leading).await.is_err());
            let limited = standby.clone().wait(Duration::from_secs(1));
            let error = limited.lead_while(async |_| ()).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::LockUnavailable);
            let term = leadership.term();
            assert!(leadership.resign().await?.is_released());
            assert!(standby.lead_while(async |leadership| leadership.term()).await? > term);
            Ok(())
        });
    }
}
