//! On the way to a key, and having it.

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

/// The right to a key, alone or shared. Dropping it releases the key, in whatever task or thread that is, also when a
/// panic does it.
///
/// A guard that is leaked ([`std::mem::forget`]) holds its key for ever.
#[must_use = "the key is released as soon as the guard is dropped"]
pub struct KeyedGuard<'a, K: Eq> {
    /// None once another guard has it.
    place: Option<Place<'a, K>>,
}

/// On the way to a key: `.await` it, or call one of the methods. Until then nothing is locked and nobody waits.
///
/// Dropped on the way, it leaves the queue; a key that was handed to it meanwhile goes to the next.
#[must_use = "nothing is locked until this is awaited, or one of its methods is called"]
pub struct Acquire<'a, K: Eq> {
    /// None once the guard has it.
    place: Option<Place<'a, K>>,
    mode: Mode,
    waiter: Option<Arc<Waiter>>,
}

/// A key, and the map that it is in.
struct Place<'a, K> {
    map: Map<'a, K>,
    name: Name<K>,
}

enum Map<'a, K> {
    Borrowed(&'a Arc<Shards<K>>),
    Owned(Arc<Shards<K>>),
}

impl<K> Place<'_, K> {
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
            place: Some(Place {
                map: Map::Borrowed(shards),
                name,
            }),
            mode,
            waiter: None,
        }
    }

    /// Holds up this thread until the key is there.
    ///
    /// Not inside a task: it holds up all others of its thread, the holder of the key perhaps among them.
    #[inline]
    pub fn blocking(mut self) -> KeyedGuard<'a, K> {
        if !self.is_taken() {
            self.sleep(None);
        }
        self.finish()
    }

    /// Holds up this thread until the key is there, or the deadline.
    #[inline]
    pub(super) fn block(mut self, deadline: Instant) -> Option<KeyedGuard<'a, K>> {
        (self.is_taken() || self.sleep(Some(deadline))).then(|| self.finish())
    }

    /// Takes the key if that needs no waiting.
    #[inline]
    pub(super) fn now(mut self) -> Option<KeyedGuard<'a, K>> {
        self.is_taken().then(|| self.finish())
    }

    /// Whether the key was handed over, or could be taken now.
    #[inline]
    fn is_taken(&self) -> bool {
        match (&self.waiter, self.place()) {
            (Some(waiter), _) => waiter.is_admitted(),
            (None, place) => place.shard().try_take(&place.name, self.mode),
        }
    }

    #[inline]
    fn is_taken_alone(&self) -> bool {
        let place = self.place();
        place.shard().take_lone(&place.name, self.mode)
    }

    /// Looks a few times more whether the key is there, which costs a task less than to be queued and woken. Nobody is
    /// overtaken: where one waits, no id stands alone.
    #[cold]
    fn look(&self) -> bool {
        self.place().shard().has_lone_id()
            && (0..LOOKS).any(|_| {
                spin_loop();
                self.is_taken_alone()
            })
    }

    /// Takes a place in the queue, or has somebody else woken there; whether the key is there instead.
    #[cold]
    fn queue(&mut self, sleeper: Sleeper) -> bool {
        if let Some(waiter) = &self.waiter {
            waiter.wake_instead(sleeper);
            return waiter.is_admitted();
        }
        let place = self.place();
        self.waiter = place.shard().take_or_wait(&place.name, self.mode, sleeper);
        self.waiter.is_none()
    }

    /// Whether the key is there before the deadline.
    #[cold]
    fn sleep(&mut self, deadline: Option<Instant>) -> bool {
        let left = || deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let is_late = |left: Option<Duration>| left.is_some_and(|left| left.is_zero());
        // A place in the queue would have the holder hand over, and everybody behind sleep, whatever it is that keeps the
        // holder for a moment: more often than not that it has no processor.
        for _ in 0..YIELDS {
            let place = self.place();
            if self.waiter.is_some() || !place.shard().has_lone_id() || is_late(left()) {
                break;
            }
            yield_now();
            if place.shard().take_lone(&place.name, self.mode) {
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
                match looks <= LOOKS {
                    true => spin_loop(),
                    false => yield_now(),
                }
            } else {
                left.map_or_else(park, park_timeout);
            }
            there = self.is_taken();
        }
        true
    }

    fn place(&self) -> &Place<'a, K> {
        match &self.place {
            Some(place) => place,
            None => panic!("`Acquire` was polled after it was ready"),
        }
    }

    #[inline]
    fn finish(&mut self) -> KeyedGuard<'a, K> {
        self.waiter = None;
        match self.place.take() {
            Some(place) => KeyedGuard::new(place),
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
                // Before the entry is made for whoever stands alone.
                self.is_taken_alone()
                    || self.look()
                    || self.is_taken()
                    || self.queue(Sleeper::Task(context.waker().clone()))
            }
        };
        match ready {
            true => Poll::Ready(self.finish()),
            false => Poll::Pending,
        }
    }
}

/// Nothing in it is pinned.
impl<K: Eq> Unpin for Acquire<'_, K> {}

impl<K: Eq> Drop for Acquire<'_, K> {
    #[inline]
    fn drop(&mut self) {
        if let (Some(place), Some(waiter)) = (&self.place, &self.waiter) {
            place.shard().give_up(&place.name, waiter);
        }
    }
}

impl<'a, K: Eq> KeyedGuard<'a, K> {
    #[inline]
    fn new(place: Place<'a, K>) -> Self {
        Self { place: Some(place) }
    }

    /// The same right in a guard that keeps the map alive and borrows nothing: for a struct, or for another task.
    ///
    /// ```
    /// use hbase_txn::keyed_lock::{IdLock, KeyedGuard};
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
            place: self.place.take().map(|Place { map, name }| Place {
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
        if let Some(place) = &self.place {
            place.shard().release(&place.name);
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
