//! Keys that are held by one writer or by many readers.

use std::{fmt, hash::Hash};

use super::{
    acquire::{Acquire, KeyedGuard},
    shards::Shards,
    sync::Arc,
    waiter::Mode,
};

/// Locks by id that can be shared, as HBase's class of this name.
pub type IdReadWriteLock = KeyedRwLock<u64>;

/// Locks by key, each held by one writer or by any number of readers. Cloned, it is a handle to the same locks.
///
/// Fair: readers and writers are let in by the order of their arrival, neighbouring readers together. So a reader who comes
/// while a writer waits stands behind it, also if other readers hold the key; who reads and reads again in the same task
/// can wait for itself. A guard can't be turned from one sort into the other.
///
/// ```
/// use hbase_txn::keyed_lock::IdReadWriteLock;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let blocks = IdReadWriteLock::new();
/// let readers = (blocks.read(65_536).await, blocks.read(65_536).await);
/// assert!(blocks.try_write(65_536).is_none());
/// drop(readers);
/// assert!(blocks.try_write(65_536).is_some());
/// # }
/// ```
pub struct KeyedRwLock<K> {
    shards: Arc<Shards<K>>,
}

impl<K> KeyedRwLock<K> {
    /// No key is locked.
    #[must_use]
    pub fn new() -> Self {
        Self {
            shards: Arc::default(),
        }
    }

    /// How many keys are locked, in either way: a moment's figure, for tests and measures.
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

impl<K: Eq + Hash + Clone + 'static> KeyedRwLock<K> {
    /// Shares the key with other readers. To be awaited, or see [`Acquire`].
    pub fn read(&self, key: K) -> Acquire<'_, K> {
        Acquire::new(&self.shards, self.shards.name(key), Mode::Shared)
    }

    /// Takes the key alone. To be awaited, or see [`Acquire`].
    pub fn write(&self, key: K) -> Acquire<'_, K> {
        Acquire::new(&self.shards, self.shards.name(key), Mode::Exclusive)
    }

    /// Shares the key unless a writer holds it, or anybody waits for it. Never waits.
    pub fn try_read(&self, key: K) -> Option<KeyedGuard<'_, K>> {
        self.read(key).now()
    }

    /// Takes the key alone unless somebody holds it. Never waits.
    pub fn try_write(&self, key: K) -> Option<KeyedGuard<'_, K>> {
        self.write(key).now()
    }

    /// Whether somebody holds the key, in either way: a moment's truth, for tests and measures.
    #[must_use]
    pub fn is_locked(&self, key: K) -> bool {
        self.shards.is_held(key)
    }

    /// How many wait for the key, in either way: a moment's figure, for tests and measures.
    #[must_use]
    pub fn waiters(&self, key: K) -> usize {
        self.shards.waiters(key)
    }
}

impl<K> Default for KeyedRwLock<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K> Clone for KeyedRwLock<K> {
    fn clone(&self) -> Self {
        Self {
            shards: Arc::clone(&self.shards),
        }
    }
}

impl<K> fmt::Debug for KeyedRwLock<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedRwLock")
            .field("locked", &self.len())
            .finish_non_exhaustive()
    }
}
