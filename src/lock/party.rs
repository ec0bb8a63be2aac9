//! What all locks have in common that one client asks for in one table.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use tokio::time::Instant;

use super::{
    owner::LONGEST_HOLDER,
    request::{LONGEST_LEASE, SHORTEST_LEASE},
};
use crate::{
    error::{Error, Result},
    keyed_lock::{KeyedGuard, KeyedLock},
};

/// One task's turn among those of its process that want a lock.
pub(crate) type Turn = KeyedGuard<'static, Bytes>;

/// What a task has of a lock among those of its process as long as it holds it: its turn, if it came by one, and that the
/// others know that the lock is held.
pub(crate) struct Tenure {
    // Before the turn: whoever gets that next marks it again.
    _held: Option<KeyedGuard<'static, Bytes>>,
    _turn: Option<Turn>,
}

pub(crate) struct Party {
    /// What the client calls itself.
    pub(crate) holder: String,
    /// The TTL of the locks' family; none when that is for ever.
    pub(super) cells_live: Option<Duration>,
    /// One task of this process asks for a lock at a time; the others wait for their turn.
    turns: KeyedLock<Bytes>,
    /// The locks that tasks of this process hold.
    held: KeyedLock<Bytes>,
    /// Why there is none to be had of the locks that tasks of this process ask for, as those were told last.
    refusals: Mutex<HashMap<Bytes, String>>,
}

/// The one task of its process that asks for a lock, for those who wait behind it.
pub(crate) struct Front<'p> {
    party: &'p Party,
    row: &'p Bytes,
}

impl Front<'_> {
    /// Why it did not get it.
    pub(crate) fn refused(&self, why: String) {
        self.party.refusals().insert(self.row.clone(), why);
    }
}

impl Drop for Front<'_> {
    fn drop(&mut self) {
        self.party.refusals().remove(self.row);
    }
}

impl Party {
    /// Of a client that calls itself so, with locks in a family of this TTL.
    pub(crate) fn new(holder: String, cells_live: Option<Duration>) -> Result<Self> {
        if holder.len() > LONGEST_HOLDER {
            return Err(Error::invalid(format!(
                "a holder's name of {} bytes; it may have {LONGEST_HOLDER}",
                holder.len()
            )));
        }
        Ok(Self {
            holder,
            cells_live,
            turns: KeyedLock::new(),
            held: KeyedLock::new(),
            refusals: Mutex::default(),
        })
    }

    pub(crate) fn check_lease(&self, lease: Duration) -> Result<()> {
        let longest = self.cells_live.unwrap_or(LONGEST_LEASE).min(LONGEST_LEASE);
        if lease < SHORTEST_LEASE || lease > longest {
            return Err(Error::invalid(format!(
                "a lease of {lease:?}; it is from {SHORTEST_LEASE:?} to {longest:?} here"
            )));
        }
        Ok(())
    }

    /// Whether a task of this process has the turn for a lock.
    pub(super) fn is_awaited(&self, row: &Bytes) -> bool {
        self.turns.is_locked(row.clone())
    }

    /// The turn of one task of this process for a lock, or why it came to none until then. Who does not wait and finds the
    /// turn taken by one that does not hold the lock goes without: whether anybody holds it, the server knows.
    pub(crate) async fn turn(&self, row: &Bytes, until: Instant) -> Result<Option<Turn>, String> {
        let waits = Instant::now() < until;
        let turn = self.turns.lock(row.clone()).until(until.into_std()).await;
        if let Ok(turn) = turn {
            return Ok(Some(turn.into_owned()));
        }
        let refusal = self.refusals().get(row).cloned();
        match refusal {
            _ if self.holds(row) => Err("another task of this process holds it".to_owned()),
            _ if !waits => Ok(None),
            Some(why) => Err(format!("{why}, and other tasks of this process came first")),
            None => Err("other tasks of this process wait for it, and came first".to_owned()),
        }
    }

    /// For a task that has its turn, and begins to ask.
    pub(crate) fn front<'p>(&'p self, row: &'p Bytes) -> Front<'p> {
        Front { party: self, row }
    }

    fn refusals(&self) -> MutexGuard<'_, HashMap<Bytes, String>> {
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tenure of a task that won a lock.
    pub(crate) fn tenure(&self, row: &Bytes, turn: Option<Turn>) -> Tenure {
        Tenure {
            _turn: turn,
            _held: self.held.try_lock(row.clone()).map(KeyedGuard::into_owned),
        }
    }

    /// Whether a task of this process holds the lock.
    fn holds(&self, row: &Bytes) -> bool {
        self.held.is_locked(row.clone())
    }
}

/// What a process calls itself unless it is told.
pub(crate) fn default_holder(user: &str) -> String {
    let system = rustix::system::uname();
    let host = system.nodename().to_string_lossy();
    let mut name = format!("{user}@{host}:{}", std::process::id());
    let mut end = name.len().min(LONGEST_HOLDER);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    name.truncate(end);
    name
}
