//! Read/write locks by key.

use std::{fmt, hash::Hash};

use super::{
    acquire::{Acquire, KeyedGuard},
    shards::Shards,
    sync::Arc,
    waiter::Mode,
};

/// A map of read/write locks by id, like HBase's `IdReadWriteLock`.
pub type IdReadWriteLock = KeyedRwLock<u64>;

/// A map of read/write locks by key: each is held by one writer or by any number of readers. Clones
/// are handles to the same locks.
///
/// Fair: readers and writers are admitted in the order of their arrival, adjacent readers together.
/// So a reader that arrives while a writer waits queues behind the writer, even if other readers
/// hold the key, and a task that acquires a key twice as a reader can deadlock. A guard can't be
/// upgraded or downgraded.
///
/// ```
/// use hbase_keyed_lock::IdReadWriteLock;
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
    /// Creates a map in which no key is locked.
    #[must_use]
    pub fn new() -> Self {
        Self {
            shards: Arc::default(),
        }
    }

    /// Returns the current number of locked keys, shared or exclusive, for tests and metrics.
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

impl<K: Eq + Hash + Clone + 'static> KeyedRwLock<K> {
    /// Acquires the key as a reader. Await the result, or call a method of [`Acquire`].
    pub fn read(&self, key: K) -> Acquire<'_, K> {
        Acquire::new(&self.shards, self.shards.name(key), Mode::Shared)
    }

    /// Acquires the key as the writer. Await the result, or call a method of [`Acquire`].
    pub fn write(&self, key: K) -> Acquire<'_, K> {
        Acquire::new(&self.shards, self.shards.name(key), Mode::Exclusive)
    }

    /// Acquires the key as a reader if no writer holds it and it has no waiters. Never waits.
    pub fn try_read(&self, key: K) -> Option<KeyedGuard<'_, K>> {
        self.read(key).now()
    }

    /// Acquires the key as the writer if it is free. Never waits.
    pub fn try_write(&self, key: K) -> Option<KeyedGuard<'_, K>> {
        self.write(key).now()
    }

    /// Returns whether the key is currently held, shared or exclusive, for tests and metrics.
    #[must_use]
    pub fn is_locked(&self, key: K) -> bool {
        self.shards.is_held(key)
    }

    /// Returns the current number of waiting readers and writers of the key, for tests and metrics.
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
