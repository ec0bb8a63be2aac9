//! All shards of a map.

use std::{array, hash::Hash};

use super::{
    name::{Name, Namer},
    shard::Shard,
    sync::SHARDS,
};

pub(super) struct Shards<K> {
    namer: Namer,
    shards: [Shard<K>; SHARDS],
}

impl<K> Default for Shards<K> {
    fn default() -> Self {
        Self {
            namer: Namer::default(),
            shards: array::from_fn(|_| Shard::default()),
        }
    }
}

impl<K: Eq + Hash + 'static> Shards<K> {
    #[inline]
    pub(super) fn name(&self, key: K) -> Name<K> {
        self.namer.name(key)
    }

    /// Whether the key is held.
    pub(super) fn is_held(&self, key: K) -> bool {
        let name = self.name(key);
        self.shard(&name).is_held(&name)
    }

    /// Returns the number of waiters of the key.
    pub(super) fn waiters(&self, key: K) -> usize {
        let name = self.name(key);
        self.shard(&name).waiters(&name)
    }
}

impl<K> Shards<K> {
    #[inline]
    pub(super) fn shard(&self, name: &Name<K>) -> &Shard<K> {
        // Bits that the shard's hash table does not use.
        &self.shards[(name.hash >> 40) as usize % SHARDS]
    }

    /// Returns the number of held keys.
    pub(super) fn len(&self) -> usize {
        self.shards.iter().map(Shard::len).sum()
    }
}
