//! Locks by key: made on demand, gone when nobody holds or awaits them.
//!
//! Where work on *one thing* must not overlap (a block, a procedure, a table's regions) and things come and go, a mutex
//! for each would have to be made, found and cleaned up. Here a key is all that a lock needs:
//!
//! ```
//! use std::time::{Duration, Instant};
//! use hbase_txn::keyed_lock::{IdLock, KeyedLock};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> hbase_txn::Result<()> {
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
//! | wait as long as it takes | `lock(key).await` | [`lock(key).blocking()`](Acquire::blocking) |
//! | wait until a deadline | [`lock(key).until(deadline).await?`](Acquire::until) | [`lock(key).blocking_until(deadline)?`](Acquire::blocking_until) |
//! | don't wait | [`try_lock(key)`](KeyedLock::try_lock) | the same |
//! | several keys, all or none | [`lock_all(keys)`](KeyedLock::lock_all), and as above | the same |
//! | shared or alone | [`KeyedRwLock::read`], [`KeyedRwLock::write`], and as above | the same |
//!
//! # Guarantees
//!
//! - **One holder.** A key has one holder at a time, or with [`KeyedRwLock`] one writer or any number of readers. What a
//!   holder did is seen by the next. Tasks and threads exclude each other on one map.
//! - **In order.** A released key is handed to the one who waits longest, and nobody who comes later gets between, not even
//!   the one who released it. A writer who waits stops the readers behind it.
//! - **Released once.** By dropping the guard, in whatever task or thread; a panic does it too. Nothing is poisoned.
//! - **Nobody is forgotten.** A future that is dropped, or a thread whose deadline passes, leaves the queue; if the key was
//!   handed to it in that moment, it goes to the next.
//! - **Nothing is left.** A key that nobody holds takes no memory.
//! - **Deadlines are monotonic.** A clock that is set changes nothing. One that has passed means "don't wait".
//!
//! # Not promised
//!
//! - A lock is *not re-entrant*: who locks a key that it holds already waits for itself. Give it a deadline, or
//!   use [`KeyedLock::lock_all`], which takes a key that is named twice once.
//! - Who holds one key while waiting for another can be waited for in a circle. `lock_all` can't, among its own.
//! - `lock(key).await` and `blocking()` have no deadline of their own: they end with the holder before them.
//! - Order is that of taking a place in the queue: a future takes one when it is polled for the first time, a thread, if nobody
//!   waits yet, after it has let others run for a moment.
//! - A map is for one process. Locks between processes need a table.
//!
//! # Costs
//!
//! A map takes 8 kB, so have one for each sort of thing and not one for each thing. An id that nobody else wants is taken
//! and released by one atomic operation each; other keys take a short lock of one of 64 shards, and are cloned twice, so
//! they should be cheap to clone. Who must wait allocates. `docs/costs.md` has figures.

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
    read_write::{IdReadWriteLock, KeyedRwLock},
    several::{AcquireAll, KeyedGuards},
};
use self::{shards::Shards, sync::Arc, waiter::Mode};

/// Locks by id, as HBase's class of this name.
pub type IdLock = KeyedLock<u64>;

/// Locks by key, each held by one at a time. Cloned, it is a handle to the same locks.
///
/// The [module](self) has the guarantees. `K` should be cheap to clone: an id, `Bytes`, `Arc<str>`.
pub struct KeyedLock<K> {
    shards: Arc<Shards<K>>,
}

impl<K> KeyedLock<K> {
    /// No key is locked.
    #[must_use]
    pub fn new() -> Self {
        Self {
            shards: Arc::default(),
        }
    }

    /// How many keys are locked: a moment's figure, for tests and measures.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shards.len()
    }

    /// Whether no key is locked.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<K: Eq + Hash + Clone + 'static> KeyedLock<K> {
    /// Takes the key, behind those who wait for it already. To be awaited, or see [`Acquire`].
    #[inline]
    pub fn lock(&self, key: K) -> Acquire<'_, K> {
        Acquire::new(&self.shards, self.shards.name(key), Mode::Exclusive)
    }

    /// Takes the key unless somebody holds it. Never waits.
    #[inline]
    pub fn try_lock(&self, key: K) -> Option<KeyedGuard<'_, K>> {
        self.lock(key).now()
    }

    /// Takes all of these keys, one after the other in their order, and releases them together. Whoever gives up on the
    /// way has none of them. A key that is named twice is taken once.
    ///
    /// As all callers take keys in the same order, they can't wait for each other in a circle.
    ///
    /// ```
    /// # use hbase_txn::keyed_lock::IdLock;
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

    /// Takes all of these keys unless somebody holds one of them; then none. Never waits.
    pub fn try_lock_all(&self, keys: impl IntoIterator<Item = K>) -> Option<KeyedGuards<'_, K>>
    where
        K: Ord,
    {
        self.lock_all(keys).now()
    }

    /// Whether somebody holds the key: a moment's truth, for tests and measures.
    #[must_use]
    pub fn is_locked(&self, key: K) -> bool {
        self.shards.is_held(key)
    }

    /// How many wait for the key, the holder not counted: a moment's figure, for tests and measures.
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
