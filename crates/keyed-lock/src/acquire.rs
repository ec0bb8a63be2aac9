//! Acquiring a key, and holding it.

use std::{
    fmt,
    future::Future,
    hint::spin_loop,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use super::{
    name::Name,
    shard::Shard,
    shards::Shards,
    sync::{Arc, Instant, LOOKS, YIELDS, current, park, park_timeout, yield_now},
    waiter::{Mode, Sleeper, Waiter},
};

/// A guard of a held key, exclusive or shared. Dropping it releases the key, in any task or thread,
/// also during a panic.
///
/// Bind it to a name, such as `_guard`: `let _ = …` drops it and releases the key at once, without a
/// warning. A leaked guard ([`std::mem::forget`]) holds its key without limit.
#[must_use = "the key is released as soon as the guard is dropped"]
pub struct KeyedGuard<'a, K: Eq> {
    /// `None` once another guard owns it.
    slot: Option<KeySlot<'a, K>>,
}

/// A future that acquires a key: await it, or call one of its methods. Before that it neither locks
/// nor queues.
///
/// # Cancel safety
///
/// A dropped future leaves the queue. A key that was handed to it meanwhile goes to the next
/// waiter.
#[must_use = "nothing is locked until this is awaited, or one of its methods is called"]
pub struct Acquire<'a, K: Eq> {
    /// `None` once the guard owns it.
    slot: Option<KeySlot<'a, K>>,
    mode: Mode,
    waiter: Option<Arc<Waiter>>,
}

/// A key in its map.
struct KeySlot<'a, K> {
    map: Map<'a, K>,
    name: Name<K>,
}

enum Map<'a, K> {
    Borrowed(&'a Arc<Shards<K>>),
    Owned(Arc<Shards<K>>),
}

impl<K> KeySlot<'_, K> {
    #[inline]
    fn shard(&self) -> &Shard<K> {
        let shards = match &self.map {
            Map::Borrowed(shards) => shards,
            Map::Owned(shards) => shards,
        };
        shards.shard(&self.name)
    }
}

impl<'a, K: Eq + Clone> Acquire<'a, K> {
    #[inline]
    pub(super) fn new(shards: &'a Arc<Shards<K>>, name: Name<K>, mode: Mode) -> Self {
        Self {
            slot: Some(KeySlot {
                map: Map::Borrowed(shards),
                name,
            }),
            mode,
            waiter: None,
        }
    }

    /// Blocks this thread until the key is acquired.
    ///
    /// Do not call it in a task: it blocks the other tasks of the thread, which may include the
    /// holder of the key.
    #[inline]
    pub fn blocking(mut self) -> KeyedGuard<'a, K> {
        if !self.is_taken() {
            self.sleep(None);
        }
        self.finish()
    }

    /// Blocks this thread until the key is acquired. Returns `None` if the deadline passes first.
    #[inline]
    pub(super) fn block(mut self, deadline: Instant) -> Option<KeyedGuard<'a, K>> {
        (self.is_taken() || self.sleep(Some(deadline))).then(|| self.finish())
    }

    /// Acquires the key if it is free. Never waits.
    #[inline]
    pub(super) fn now(mut self) -> Option<KeyedGuard<'a, K>> {
        self.is_taken().then(|| self.finish())
    }

    /// Returns whether the key was handed over, or was free and is now acquired.
    #[inline]
    fn is_taken(&self) -> bool {
        match (&self.waiter, self.slot()) {
            (Some(waiter), _) => waiter.is_admitted(),
            (None, slot) => slot.shard().try_take(&slot.name, self.mode),
        }
    }

    #[inline]
    fn is_taken_alone(&self) -> bool {
        let slot = self.slot();
        slot.shard().take_lone(&slot.name, self.mode)
    }

    /// Polls the key a few more times, which costs less than queueing and waking the task.
    /// Overtakes no waiter: an id with a waiter is never the lone id of its shard.
    #[cold]
    fn look(&self) -> bool {
        self.slot().shard().has_lone_id()
            && (0..LOOKS).any(|_| {
                spin_loop();
                self.is_taken_alone()
            })
    }

    /// Joins the queue, or replaces this waiter's sleeper. Returns `true` if the key was acquired
    /// instead.
    #[cold]
    fn queue(&mut self, sleeper: Sleeper) -> bool {
        if let Some(waiter) = &self.waiter {
            waiter.wake_instead(sleeper);
            return waiter.is_admitted();
        }
        let slot = self.slot();
        self.waiter = slot.shard().take_or_wait(&slot.name, self.mode, sleeper);
        self.waiter.is_none()
    }

    /// Waits for the key. Returns `false` if the deadline passed first.
    #[cold]
    fn sleep(&mut self, deadline: Option<Instant>) -> bool {
        let left = || deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let is_late = |left: Option<Duration>| left.is_some_and(|left| left.is_zero());
        // A queue entry would force a hand-over, and put the waiters behind it to sleep. Usually
        // the holder is only delayed for a moment, because it has no processor.
        for _ in 0..YIELDS {
            let slot = self.slot();
            if self.waiter.is_some() || !slot.shard().has_lone_id() || is_late(left()) {
                break;
            }
            yield_now();
            if slot.shard().take_lone(&slot.name, self.mode) {
                return true;
            }
        }
        let mut looks = 0;
        let mut there = self.queue(Sleeper::Thread(current()));
        while !there {
            let left = left();
            if is_late(left) {
                return false;
            }
            if looks < LOOKS + YIELDS {
                looks += 1;
                if looks <= LOOKS { spin_loop() } else { yield_now() }
            } else {
                left.map_or_else(park, park_timeout);
            }
            there = self.is_taken();
        }
        true
    }

    fn slot(&self) -> &KeySlot<'a, K> {
        match &self.slot {
            Some(slot) => slot,
            None => panic!("`Acquire` was polled after it was ready"),
        }
    }

    #[inline]
    fn finish(&mut self) -> KeyedGuard<'a, K> {
        self.waiter = None;
        match self.slot.take() {
            Some(slot) => KeyedGuard::new(slot),
            None => panic!("`Acquire` was polled after it was ready"),
        }
    }
}

impl<'a, K: Eq + Clone> Future for Acquire<'a, K> {
    type Output = KeyedGuard<'a, K>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let ready = match &self.waiter {
            Some(waiter) if waiter.wakes(context.waker()) => waiter.is_admitted(),
            Some(_) => self.queue(Sleeper::Task(context.waker().clone())),
            None => {
                // Tries the lone id first, because the later steps create an entry for it.
                self.is_taken_alone()
                    || self.look()
                    || self.is_taken()
                    || self.queue(Sleeper::Task(context.waker().clone()))
            }
        };
        if ready {
            Poll::Ready(self.finish())
        } else {
            Poll::Pending
        }
    }
}

/// No field is structurally pinned.
impl<K: Eq> Unpin for Acquire<'_, K> {}

impl<K: Eq> Drop for Acquire<'_, K> {
    #[inline]
    fn drop(&mut self) {
        if let (Some(slot), Some(waiter)) = (&self.slot, &self.waiter) {
            slot.shard().give_up(&slot.name, waiter);
        }
    }
}

impl<'a, K: Eq> KeyedGuard<'a, K> {
    #[inline]
    fn new(slot: KeySlot<'a, K>) -> Self {
        Self { slot: Some(slot) }
    }

    /// Converts the guard into one that keeps the map alive and borrows nothing, for a struct or
    /// another task.
    ///
    /// ```
    /// use hbase_keyed_lock::{IdLock, KeyedGuard};
    ///
    /// struct Flush {
    ///     region: KeyedGuard<'static, u64>,
    /// }
    ///
    /// let regions = IdLock::new();
    /// let flush = Flush { region: regions.lock(7).blocking().into_owned() };
    /// std::thread::spawn(move || drop(flush)).join().unwrap();
    /// assert!(!regions.is_locked(7));
    /// ```
    pub fn into_owned(mut self) -> KeyedGuard<'static, K> {
        KeyedGuard {
            slot: self.slot.take().map(|KeySlot { map, name }| KeySlot {
                map: Map::Owned(match map {
                    Map::Borrowed(shards) => Arc::clone(shards),
                    Map::Owned(shards) => shards,
                }),
                name,
            }),
        }
    }
}

impl<K: Eq> Drop for KeyedGuard<'_, K> {
    #[inline]
    fn drop(&mut self) {
        if let Some(slot) = &self.slot {
            slot.shard().release(&slot.name);
        }
    }
}

impl<K: Eq> fmt::Debug for KeyedGuard<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedGuard").finish_non_exhaustive()
    }
}

impl<K: Eq> fmt::Debug for Acquire<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acquire")
            .field("mode", &self.mode)
            .field("waits", &self.waiter.is_some())
            .finish_non_exhaustive()
    }
}
