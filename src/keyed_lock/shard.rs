//! A share of the keys: who holds them, and who waits.
//!
//! A key has an entry for as long as it is held; who waits stands in the entry of who holds. A release hands the key on
//! under the shard's lock: from then on it belongs to the one who was first, even if that one has not noticed yet, and
//! no newcomer can come between.
//!
//! An id that is the only one of its shard, held exclusively and awaited by nobody, needs no entry: its hash stands in one
//! word. Who finds somebody else's hash there makes the entry for it.

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

/// The lone id's word: no key of the shard is held.
const NOBODY: u64 = 0;
/// The lone id's word: look into the entries.
const ENTRIES: u64 = 1;

/// Room for so many entries is kept when the last one goes.
const ROOM: usize = 64;

/// Aligned such that no two shards share a cache line, nor a pair of lines that is fetched together.
#[repr(align(128))]
pub(super) struct Shard<K> {
    /// The hash of the lone id, or [`NOBODY`], or [`ENTRIES`]; to and from the last one only under the lock.
    lone: AtomicU64,
    keys: Mutex<Keys<K>>,
}

struct Keys<K> {
    entries: HashMap<Name<K>, Entry, AsNamed>,
    next_ticket: u64,
}

/// A key that is held, in this mode, by so many.
struct Entry {
    mode: Mode,
    holders: usize,
    waiting: VecDeque<Arc<Waiter>>,
}

/// Whether the name's hash may stand in the lone id's word, where it is not mistaken for anything else.
#[inline]
fn may_be_lone<K>(name: &Name<K>) -> bool {
    name.key.is_none() && name.hash > ENTRIES
}

impl<K> Default for Shard<K> {
    fn default() -> Self {
        Self {
            lone: AtomicU64::new(NOBODY),
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

    /// Lets one more in who wants the key in this mode, if it can be held so.
    fn join(&mut self, mode: Mode) -> bool {
        let joins = self.holders == 0 || (self.mode == Mode::Shared && mode == Mode::Shared);
        if joins {
            self.mode = mode;
            self.holders += 1;
        }
        joins
    }

    /// Hands the key to the first who waits, if it can be held so.
    fn admit_first(&mut self) -> Option<Arc<Waiter>> {
        let mode = self.waiting.front()?.mode;
        match self.join(mode) {
            true => self.waiting.pop_front(),
            false => None,
        }
    }

    /// Takes a waiter out of the queue; whether it was still there.
    fn forget(&mut self, waiter: &Waiter) -> bool {
        let place = self
            .waiting
            .binary_search_by_key(&waiter.ticket, |waiting| waiting.ticket);
        place.is_ok_and(|place| self.waiting.remove(place).is_some())
    }
}

impl<K: Eq + Clone> Shard<K> {
    /// Takes the key, unless it is held such that it can't be, or somebody waits for it.
    #[inline]
    pub(super) fn try_take(&self, name: &Name<K>, mode: Mode) -> bool {
        self.take_lone(name, mode) || self.entries().take(name, mode).is_none()
    }

    /// Takes the key; if that can't be, takes a place in its queue.
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

    /// Takes an id that would be the only one of the shard.
    #[inline]
    pub(super) fn take_lone(&self, name: &Name<K>, mode: Mode) -> bool {
        may_be_lone(name)
            && mode == Mode::Exclusive
            && self
                .lone
                .compare_exchange(NOBODY, name.hash, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
    }

    /// The entries, with that of the lone id.
    fn entries(&self) -> MutexGuard<'_, Keys<K>> {
        let mut keys = self.keys();
        if self.lone.load(Ordering::Relaxed) != ENTRIES {
            let hash = self.lone.swap(ENTRIES, Ordering::Acquire);
            if hash != NOBODY {
                keys.entries
                    .insert(Name { hash, key: None }, Entry::held(Mode::Exclusive));
            }
        }
        keys
    }
}

impl<K: Eq> Shard<K> {
    /// Gives the key back: to those who are first in its queue.
    #[inline]
    pub(super) fn release(&self, name: &Name<K>) {
        let was_lone = may_be_lone(name)
            && self
                .lone
                .compare_exchange(name.hash, NOBODY, Ordering::Release, Ordering::Relaxed)
                .is_ok();
        if !was_lone {
            self.release_entry(name);
        }
    }

    fn release_entry(&self, name: &Name<K>) {
        let mut keys = self.keys();
        // Who releases holds, and what is held has an entry.
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
                self.lone.store(NOBODY, Ordering::Release);
            }
        }
        drop(keys);
        // The key's own `drop` is foreign code.
        drop((gone, room));
    }

    /// Leaves the queue; if the key was handed over already, gives it back.
    pub(super) fn give_up(&self, name: &Name<K>, waiter: &Waiter) {
        let mut keys = self.keys();
        let was_waiting = keys
            .entries
            .get_mut(name)
            .is_some_and(|entry| entry.forget(waiter));
        if was_waiting {
            // A writer may have been all that kept readers from joining others.
            self.admit(keys, name);
        } else {
            drop(keys);
            self.release(name);
        }
    }

    /// Hands the key to as many as can hold it now, and wakes each without the lock.
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

    /// Whether anybody holds the key.
    pub(super) fn is_held(&self, name: &Name<K>) -> bool {
        let keys = self.keys();
        let is_lone = || name.key.is_none() && self.lone_id() == Some(name.hash);
        keys.entries.contains_key(name) || is_lone()
    }

    /// How many wait for the key.
    pub(super) fn waiters(&self, name: &Name<K>) -> usize {
        self.keys()
            .entries
            .get(name)
            .map_or(0, |entry| entry.waiting.len())
    }
}

impl<K> Shard<K> {
    /// How many keys are held.
    pub(super) fn len(&self) -> usize {
        let keys = self.keys();
        keys.entries.len() + usize::from(self.has_lone_id())
    }

    /// Whether an id is held alone: then nobody waits for any.
    pub(super) fn has_lone_id(&self) -> bool {
        self.lone_id().is_some()
    }

    fn lone_id(&self) -> Option<u64> {
        Some(self.lone.load(Ordering::Acquire)).filter(|hash| ![NOBODY, ENTRIES].contains(hash))
    }

    fn keys(&self) -> MutexGuard<'_, Keys<K>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Eq + Clone> Keys<K> {
    /// Takes the key unless it can't be; then its entry.
    fn take(&mut self, name: &Name<K>, mode: Mode) -> Option<&mut Entry> {
        match self.entries.entry(name.clone()) {
            hash_map::Entry::Vacant(place) => {
                place.insert(Entry::held(mode));
                None
            }
            hash_map::Entry::Occupied(place) => {
                let entry = place.into_mut();
                match entry.waiting.is_empty() && entry.join(mode) {
                    true => None,
                    false => Some(entry),
                }
            }
        }
    }
}
