//! One of the parts of a map: its keys, with their holders and waiters.
//!
//! While a key is held, it has an entry with the queue of its waiters. A release hands the key to
//! the first waiter under the shard's lock: from then on the key belongs to that waiter, even if it
//! has not run yet, and no later caller can overtake it.
//!
//! A *lone id* is the only held key of its shard, held exclusively and without waiters. It needs no
//! entry: a single word has its hash. A caller that finds the hash of another id there creates the
//! entry for that id.

use std::{
    collections::{HashMap, VecDeque, hash_map},
    mem,
    sync::PoisonError,
};

use super::{
    name::{AsNamed, Name},
    sync::{Arc, AtomicU64, Mutex, MutexGuard, Ordering},
    waiter::{Mode, Sleeper, Waiter},
};

/// A value of the lone word: no key of the shard is held.
const NONE: u64 = 0;
/// A value of the lone word: read the entries.
const ENTRIES: u64 = 1;

/// The maximum capacity, in entries, that is kept after the last entry was removed.
const ROOM: usize = 64;

/// Aligned so that two shards share neither a cache line nor a pair of lines that is fetched
/// together.
#[repr(align(128))]
pub(super) struct Shard<K> {
    /// The hash of the lone id, or [`NONE`], or [`ENTRIES`]. Changes to and from [`ENTRIES`]
    /// require the lock.
    lone: AtomicU64,
    keys: Mutex<Keys<K>>,
}

struct Keys<K> {
    entries: HashMap<Name<K>, Entry, AsNamed>,
    next_ticket: u64,
}

/// A held key, with its mode and number of holders.
struct Entry {
    mode: Mode,
    holders: usize,
    waiting: VecDeque<Arc<Waiter>>,
}

/// Whether the name is an id whose hash differs from the special values of the lone word.
#[inline]
fn may_be_lone<K>(name: &Name<K>) -> bool {
    name.key.is_none() && name.hash > ENTRIES
}

impl<K> Default for Shard<K> {
    fn default() -> Self {
        Self {
            lone: AtomicU64::new(NONE),
            keys: Mutex::new(Keys {
                entries: HashMap::default(),
                next_ticket: 0,
            }),
        }
    }
}

impl Entry {
    fn held(mode: Mode) -> Self {
        Self {
            mode,
            holders: 1,
            waiting: VecDeque::new(),
        }
    }

    /// Adds a holder if the key can be held in this mode. Returns whether it was added.
    fn join(&mut self, mode: Mode) -> bool {
        let joins = self.holders == 0 || (self.mode == Mode::Shared && mode == Mode::Shared);
        if joins {
            self.mode = mode;
            self.holders += 1;
        }
        joins
    }

    /// Hands the key to the first waiter, if the key can be held in the waiter's mode.
    fn admit_first(&mut self) -> Option<Arc<Waiter>> {
        let mode = self.waiting.front()?.mode;
        if self.join(mode) {
            self.waiting.pop_front()
        } else {
            None
        }
    }

    /// Removes a waiter from the queue. Returns whether it was still there.
    fn forget(&mut self, waiter: &Waiter) -> bool {
        let place = self
            .waiting
            .binary_search_by_key(&waiter.ticket, |waiting| waiting.ticket);
        place.is_ok_and(|place| self.waiting.remove(place).is_some())
    }
}

impl<K: Eq + Clone> Shard<K> {
    /// Acquires the key if it can be held in this mode and has no waiters. Returns whether it was
    /// acquired.
    #[inline]
    pub(super) fn try_take(&self, name: &Name<K>, mode: Mode) -> bool {
        self.take_lone(name, mode) || self.entries().take(name, mode).is_none()
    }

    /// Acquires the key and returns `None`, or joins its queue and returns the waiter.
    #[cold]
    pub(super) fn take_or_wait(&self, name: &Name<K>, mode: Mode, sleeper: Sleeper) -> Option<Arc<Waiter>> {
        let mut keys = self.entries();
        let ticket = keys.next_ticket;
        let entry = keys.take(name, mode)?;
        let waiter = Arc::new(Waiter::new(ticket, mode, sleeper));
        entry.waiting.push_back(Arc::clone(&waiter));
        keys.next_ticket += 1;
        Some(waiter)
    }

    /// Acquires an id without an entry if no key of the shard is held. Returns whether it was
    /// acquired.
    #[inline]
    pub(super) fn take_lone(&self, name: &Name<K>, mode: Mode) -> bool {
        may_be_lone(name)
            && mode == Mode::Exclusive
            && self
                .lone
                .compare_exchange(NONE, name.hash, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
    }

    /// Returns the entries, after creating that of a lone id.
    fn entries(&self) -> MutexGuard<'_, Keys<K>> {
        let mut keys = self.keys();
        if self.lone.load(Ordering::Relaxed) != ENTRIES {
            let hash = self.lone.swap(ENTRIES, Ordering::Acquire);
            if hash != NONE {
                keys.entries
                    .insert(Name { hash, key: None }, Entry::held(Mode::Exclusive));
            }
        }
        keys
    }
}

impl<K: Eq> Shard<K> {
    /// Releases the key, and hands it to the next waiters.
    #[inline]
    pub(super) fn release(&self, name: &Name<K>) {
        let was_lone = may_be_lone(name)
            && self
                .lone
                .compare_exchange(name.hash, NONE, Ordering::Release, Ordering::Relaxed)
                .is_ok();
        if !was_lone {
            self.release_entry(name);
        }
    }

    fn release_entry(&self, name: &Name<K>) {
        let mut keys = self.keys();
        // The releasing caller holds the key, and a held key has an entry.
        let Some(entry) = keys.entries.get_mut(name) else {
            return;
        };
        entry.holders -= 1;
        if entry.holders > 0 || !entry.waiting.is_empty() {
            self.admit(keys, name);
            return;
        }
        let gone = keys.entries.remove_entry(name);
        let mut room = None;
        if keys.entries.is_empty() {
            if keys.entries.capacity() > ROOM {
                room = Some(mem::take(&mut keys.entries));
            }
            if name.key.is_none() {
                self.lone.store(NONE, Ordering::Release);
            }
        }
        drop(keys);
        // Dropped without the lock, because the key's own `drop` is foreign code.
        drop((gone, room));
    }

    /// Leaves the queue, and releases the key if it was already handed over.
    pub(super) fn give_up(&self, name: &Name<K>, waiter: &Waiter) {
        let mut keys = self.keys();
        let was_waiting = keys
            .entries
            .get_mut(name)
            .is_some_and(|entry| entry.forget(waiter));
        if was_waiting {
            // If this was a waiting writer, the readers behind it may now join the holders.
            self.admit(keys, name);
        } else {
            drop(keys);
            self.release(name);
        }
    }

    /// Hands the key to all waiters that can hold it now. Wakes each of them without the lock.
    fn admit<'a>(&'a self, mut keys: MutexGuard<'a, Keys<K>>, name: &Name<K>) {
        while let Some(first) = keys.entries.get_mut(name).and_then(Entry::admit_first) {
            drop(keys);
            first.admit();
            if first.mode == Mode::Exclusive {
                return;
            }
            keys = self.keys();
        }
    }

    /// Whether the key is held.
    pub(super) fn is_held(&self, name: &Name<K>) -> bool {
        let keys = self.keys();
        let is_lone = || name.key.is_none() && self.lone_id() == Some(name.hash);
        keys.entries.contains_key(name) || is_lone()
    }

    /// Returns the number of waiters of the key.
    pub(super) fn waiters(&self, name: &Name<K>) -> usize {
        self.keys()
            .entries
            .get(name)
            .map_or(0, |entry| entry.waiting.len())
    }
}

impl<K> Shard<K> {
    /// Returns the number of held keys.
    pub(super) fn len(&self) -> usize {
        let keys = self.keys();
        keys.entries.len() + usize::from(self.has_lone_id())
    }

    /// Whether the shard has a lone id, and so no waiters.
    pub(super) fn has_lone_id(&self) -> bool {
        self.lone_id().is_some()
    }

    fn lone_id(&self) -> Option<u64> {
        Some(self.lone.load(Ordering::Acquire)).filter(|hash| ![NONE, ENTRIES].contains(hash))
    }

    fn keys(&self) -> MutexGuard<'_, Keys<K>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Eq + Clone> Keys<K> {
    /// Acquires the key and returns `None`, or returns the entry of the held key.
    fn take(&mut self, name: &Name<K>, mode: Mode) -> Option<&mut Entry> {
        match self.entries.entry(name.clone()) {
            hash_map::Entry::Vacant(place) => {
                place.insert(Entry::held(mode));
                None
            }
            hash_map::Entry::Occupied(place) => {
                let entry = place.into_mut();
                if entry.waiting.is_empty() && entry.join(mode) {
                    None
                } else {
                    Some(entry)
                }
            }
        }
    }
}
