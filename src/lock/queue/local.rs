//! The state that all locks of one client and table share within this process.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use bytes::Bytes;
use hbase_client::Table;
use hbase_keyed_lock::{KeyedGuard, KeyedLock};
use tokio::time::Instant;

use super::releases::RecentReleases;
use crate::{
    error::{Error, Result},
    lock::{
        hold::{
            abandoned::Watchers,
            background::BackgroundTasks,
            lease::{MAX_LEASE, MIN_LEASE},
            term::Term,
        },
        protocol::{
            acquire::LockAttempt, layout::LockRows, location::LockLocation, owner::MAX_HOLDER,
            shared_renewals::SharedRenewals,
        },
    },
};

/// The turn of one task among the tasks of its process that want a lock.
pub(crate) type Turn = KeyedGuard<'static, Bytes>;

/// The claim of a task that holds a lock, among the tasks of its process: its turn, if it has one,
/// and its entry among the holders.
pub(crate) struct LocalClaim {
    row: Bytes,
    holders: Arc<Holders>,
    /// The term that keeps this claim.
    term: Weak<Term<Self>>,
    _turn: Option<Turn>,
}

/// The terms of the locks that tasks of this process hold, by their rows.
#[derive(Default)]
struct Holders(Mutex<HashMap<Bytes, Weak<Term<LocalClaim>>>>);

/// The state that all locks of one client and table share within this process. `A` is the type of
/// attempts that may still win.
pub(crate) struct LocalLocks<A = LockAttempt> {
    /// The name of the holder.
    pub(crate) holder: String,
    /// The TTL of the locks' family. `None` if without limit.
    pub(in crate::lock) cells_live: Option<Duration>,
    /// One task of this process requests a lock at a time; the others wait for their turn.
    turns: KeyedLock<Bytes>,
    holders: Arc<Holders>,
    /// The last reason for which each lock was refused to the polling task of this process.
    refusals: Mutex<HashMap<Bytes, String>>,
    /// The locks that were released while other processes waited for them.
    releases: RecentReleases,
    /// The renewals that share calls.
    renewals: SharedRenewals,
    /// The tasks that continue after requests and guards were dropped.
    pub(crate) tasks: BackgroundTasks,
    /// Releases the locks of attempts whose answer was lost.
    pub(crate) watchers: Watchers<A>,
}

/// The only task of its process that polls for a lock. It reports refusals to the tasks behind it.
pub(crate) struct FirstWaiter<'p, A = LockAttempt> {
    local: &'p LocalLocks<A>,
    row: &'p Bytes,
}

impl<A> FirstWaiter<'_, A> {
    /// Records why the lock was refused.
    pub(crate) fn refused(&self, why: String) {
        self.local.refusals().insert(self.row.clone(), why);
    }
}

impl<A> Drop for FirstWaiter<'_, A> {
    fn drop(&mut self) {
        self.local.refusals().remove(self.row);
    }
}

impl<A> LocalLocks<A> {
    /// Creates the state for a holder's name and the TTL of the locks' family.
    pub(crate) fn new(holder: String, cells_live: Option<Duration>) -> Result<Self> {
        if holder.len() > MAX_HOLDER {
            return Err(Error::invalid(format!(
                "a holder's name of {} bytes is too long: at most {MAX_HOLDER}",
                holder.len()
            )));
        }
        Ok(Self {
            holder,
            cells_live,
            turns: KeyedLock::new(),
            holders: Arc::default(),
            refusals: Mutex::default(),
            releases: RecentReleases::default(),
            renewals: SharedRenewals::default(),
            tasks: BackgroundTasks::default(),
            watchers: Watchers::default(),
        })
    }

    /// Returns the location of a lock.
    pub(in crate::lock) fn location(&self, table: Table, rows: LockRows) -> LockLocation {
        LockLocation {
            table,
            rows,
            cells_live: self.cells_live,
            releases: self.releases.clone(),
            renewals: self.renewals.clone(),
            tasks: self.tasks.clone(),
        }
    }

    pub(crate) fn check_lease(&self, lease: Duration) -> Result<()> {
        let longest = self.cells_live.unwrap_or(MAX_LEASE).min(MAX_LEASE);
        if lease < MIN_LEASE || lease > longest {
            return Err(Error::invalid(format!(
                "a lease of {lease:?} is out of range: from {MIN_LEASE:?} to {longest:?} in this table"
            )));
        }
        Ok(())
    }

    /// Returns whether a task of this process has the turn for a lock.
    pub(in crate::lock) fn is_awaited(&self, row: &Bytes) -> bool {
        self.turns.is_locked(row.clone())
    }

    /// Waits for a task's turn for a lock. The error is the reason for not getting it until then. A
    /// call that does not wait competes without a turn if the task with the turn does not hold the
    /// lock: only the server knows whether another process does.
    pub(crate) async fn turn(&self, row: &Bytes, until: Instant) -> Result<Option<Turn>, String> {
        let waits = Instant::now() < until;
        if let Ok(turn) = self.turns.lock(row.clone()).until(until.into_std()).await {
            return Ok(Some(turn.into_owned()));
        }
        let refusal = self.refusals().get(row).cloned();
        match refusal {
            _ if self.holders.of(row).is_some() => Err("another task of this process holds it".to_owned()),
            _ if !waits => Ok(None),
            Some(why) => Err(format!("{why}, and other tasks of this process came first")),
            None => Err("other tasks of this process wait for it, and came first".to_owned()),
        }
    }

    /// Registers the task that has the turn as the one that polls.
    pub(crate) fn first_waiter<'p>(&'p self, row: &'p Bytes) -> FirstWaiter<'p, A> {
        FirstWaiter { local: self, row }
    }

    fn refusals(&self) -> MutexGuard<'_, HashMap<Bytes, String>> {
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates the claim of a task that won a lock.
    pub(crate) fn local_claim(&self, row: &Bytes, turn: Option<Turn>) -> LocalClaim {
        LocalClaim {
            row: row.clone(),
            holders: Arc::clone(&self.holders),
            term: Weak::new(),
            _turn: turn,
        }
    }
}

impl LocalClaim {
    /// Keeps the claim as long as this term lasts.
    pub(crate) fn keep_for(mut self, term: &Arc<Term<Self>>) {
        self.term = Arc::downgrade(term);
        let mut holders = self.holders.locked();
        holders.insert(self.row.clone(), Weak::clone(&self.term));
        drop(holders);
        term.keep(self);
    }
}

impl Drop for LocalClaim {
    fn drop(&mut self) {
        let mut holders = self.holders.locked();
        // Two guards of one token have one row, and so have permits.
        let is_own = |term: &Weak<Term<Self>>| term.ptr_eq(&self.term);
        if holders.get(&self.row).is_some_and(is_own) {
            holders.remove(&self.row);
        }
    }
}

impl Holders {
    fn locked(&self) -> MutexGuard<'_, HashMap<Bytes, Weak<Term<LocalClaim>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the term of the task that holds a lock.
    fn of(&self, row: &Bytes) -> Option<Arc<Term<LocalClaim>>> {
        self.locked().get(row)?.upgrade()
    }
}

/// Returns the default name of a holder: `user@host:pid`.
pub(crate) fn default_holder(user: &str) -> String {
    let system = rustix::system::uname();
    let host = system.nodename().to_string_lossy();
    let mut name = format!("{user}@{host}:{}", std::process::id());
    let mut end = name.len().min(MAX_HOLDER);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    name.truncate(end);
    name
}
