//! Locks by key: created on demand, gone when no task or thread holds or awaits them.
//!
//! Work on *one object* must not overlap: on a block, a procedure, a table's regions. If such
//! objects come and go, a mutex for each would have to be created, found and removed. Here a lock
//! needs only a key:
//!
//! ```
//! use std::time::{Duration, Instant};
//! use hbase_keyed_lock::{IdLock, KeyedLock};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), hbase_keyed_lock::DeadlineExceeded> {
//! let procedures = IdLock::new();
//! let guard = procedures.lock(4711).await;
//! assert!(procedures.try_lock(4711).is_none());
//! let other = procedures.lock(4712).await;
//! drop((guard, other));
//! assert!(procedures.is_empty());
//!
//! let tables: KeyedLock<String> = KeyedLock::new();
//! let deadline = Instant::now() + Duration::from_secs(5);
//! let guard = tables.lock("orders".to_owned()).until(deadline).await?;
//! # drop(guard);
//! # Ok(()) }
//! ```
//!
//! | | tasks | threads |
//! |---|---|---|
//! | wait without a limit | `lock(key).await` | [`lock(key).blocking()`](Acquire::blocking) |
//! | wait until a deadline | [`lock(key).until(deadline).await?`](Acquire::until) | [`lock(key).blocking_until(deadline)?`](Acquire::blocking_until) |
//! | don't wait | [`try_lock(key)`](KeyedLock::try_lock) | the same |
//! | several keys, all or none | [`lock_all(keys)`](KeyedLock::lock_all), and as above | the same |
//! | shared or exclusive | [`KeyedRwLock::read`], [`KeyedRwLock::write`], and as above | the same |
//!
//! # Guarantees
//!
//! - **One holder.** A key has one holder at a time, or with [`KeyedRwLock`] one writer or any
//!   number of readers. The next holder sees all memory effects of the previous one. Tasks and
//!   threads exclude each other on one map.
//! - **In order.** A released key is handed to the longest waiter. No later caller overtakes it,
//!   including the previous holder. A waiting writer stops the readers behind it.
//! - **Released once**, when the guard is dropped, in any task or thread, also during a panic. No
//!   lock is poisoned.
//! - **No lost wake-up.** A future that is dropped, or a thread whose deadline passes, leaves the
//!   queue. If the key was handed to it at that moment, the key goes to the next waiter.
//! - **No leftovers.** A key without a holder has no entry. The table of a shard keeps the room of its
//!   largest number of keys until none of its keys is held.
//! - **Monotonic deadlines.** Setting the clock has no effect on waits. A deadline that has passed
//!   means "don't wait".
//!
//! # Not guaranteed
//!
//! - A lock is *not re-entrant*: a task that locks a key that it already holds waits for itself.
//!   Use a deadline, or [`KeyedLock::lock_all`], which acquires a key that is named twice once.
//! - Callers that wait for a key while they hold another can deadlock. Calls of `lock_all` can't
//!   deadlock among each other.
//! - `lock(key).await` and `blocking()` have no deadline: they wait until all earlier holders have
//!   released the key.
//! - Waiters are ordered by the time when they join the queue. A future joins when it is first
//!   polled. A thread joins at once, except on a key without waiters, where it first yields for a
//!   moment.
//! - A map is for one process. Locks between processes need a table.
//!
//! # Costs
//!
//! A map takes 8 kB, so create one for each kind of object, not one for each object. An id without
//! contention is acquired and released by one atomic operation each. Other keys take a short lock
//! of one of 64 shards, and are cloned twice, so they should be cheap to clone. A waiter needs an
//! allocation. `docs/costs.md` has measurements.

mod acquire;
mod deadline;
mod name;
mod read_write;
mod several;
mod shard;
mod shards;
mod sync;
mod waiter;

use std::{fmt, hash::Hash};

pub use self::{
    acquire::{Acquire, KeyedGuard},
    deadline::DeadlineExceeded,
    read_write::{IdReadWriteLock, KeyedRwLock},
    several::{AcquireAll, KeyedGuards},
};
use self::{shards::Shards, sync::Arc, waiter::Mode};

/// A map of locks by id, like HBase's `IdLock`.
pub type IdLock = KeyedLock<u64>;

/// A map of exclusive locks by key. Clones are handles to the same locks.
///
/// The [crate](self) documentation lists the guarantees. `K` should be cheap to clone: an id,
/// `Bytes`, `Arc<str>`.
pub struct KeyedLock<K> {
    shards: Arc<Shards<K>>,
}

impl<K> KeyedLock<K> {
    /// Creates a map in which no key is locked.
    #[must_use]
    pub fn new() -> Self {
        Self {
            shards: Arc::default(),
        }
    }

    /// Returns the current number of locked keys, for tests and metrics.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shards.len()
    }

    /// Returns whether no key is locked.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<K: Eq + Hash + Clone + 'static> KeyedLock<K> {
    /// Acquires the key after all earlier waiters. Await the result, or call a method of
    /// [`Acquire`].
    #[inline]
    pub fn lock(&self, key: K) -> Acquire<'_, K> {
        Acquire::new(&self.shards, self.shards.name(key), Mode::Exclusive)
    }

    /// Acquires the key if it is free. Never waits.
    #[inline]
    pub fn try_lock(&self, key: K) -> Option<KeyedGuard<'_, K>> {
        self.lock(key).now()
    }

    /// Acquires all of these keys, one after the other in their order. A caller that gives up holds
    /// none of them. A key that is named twice is acquired once.
    ///
    /// All callers acquire keys in the same order, so they can't deadlock among each other.
    ///
    /// ```
    /// # use hbase_keyed_lock::IdLock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let accounts = IdLock::new();
    /// let both = accounts.lock_all([9, 4, 9]).await;
    /// assert_eq!((both.len(), accounts.len()), (2, 2));
    /// drop(both);
    /// assert!(accounts.is_empty());
    /// # }
    /// ```
    pub fn lock_all(&self, keys: impl IntoIterator<Item = K>) -> AcquireAll<'_, K>
    where
        K: Ord,
    {
        AcquireAll::new(&self.shards, keys)
    }

    /// Acquires all of these keys if all are free, or none. Never waits.
    pub fn try_lock_all(&self, keys: impl IntoIterator<Item = K>) -> Option<KeyedGuards<'_, K>>
    where
        K: Ord,
    {
        self.lock_all(keys).now()
    }

    /// Returns whether the key is currently held, for tests and metrics.
    #[must_use]
    pub fn is_locked(&self, key: K) -> bool {
        self.shards.is_held(key)
    }

    /// Returns the current number of waiters of the key, without the holder, for tests and metrics.
    #[must_use]
    pub fn waiters(&self, key: K) -> usize {
        self.shards.waiters(key)
    }
}

impl<K> Default for KeyedLock<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K> Clone for KeyedLock<K> {
    fn clone(&self) -> Self {
        Self {
            shards: Arc::clone(&self.shards),
        }
    }
}

impl<K> fmt::Debug for KeyedLock<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedLock")
            .field("locked", &self.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
