//! All keys of a map.

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

    /// Whether anybody holds the key.
    pub(super) fn is_held(&self, key: K) -> bool {
        let name = self.name(key);
        self.shard(&name).is_held(&name)
    }

    /// How many wait for the key.
    pub(super) fn waiters(&self, key: K) -> usize {
        let name = self.name(key);
        self.shard(&name).waiters(&name)
    }
}

impl<K> Shards<K> {
    #[inline]
    pub(super) fn shard(&self, name: &Name<K>) -> &Shard<K> {
        // Bits that the shard's own table makes no use of.
        &self.shards[(name.hash >> 40) as usize % SHARDS]
    }

    /// How many keys are held.
    pub(super) fn len(&self) -> usize {
        self.shards.iter().map(Shard::len).sum()
    }
}
