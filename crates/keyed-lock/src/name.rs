//! Identities of keys. A key is hashed once for each acquisition, outside of all locks.

use std::{
    any::Any,
    collections::hash_map::RandomState,
    hash::{BuildHasher, BuildHasherDefault, Hash, Hasher},
};

/// A key's identity in one map.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Name<K> {
    pub(super) hash: u64,
    /// `None` if no other key can have this hash.
    pub(super) key: Option<K>,
}

/// Creates names with a secret, so that an attacker that chooses keys can't cause collisions.
pub(super) struct Namer {
    keys: RandomState,
    mask: u64,
    factor: u64,
}

impl Default for Namer {
    fn default() -> Self {
        let keys = RandomState::new();
        let secret = |number: u64| keys.hash_one(number);
        Self {
            mask: secret(0),
            // Multiplication modulo 2^64 is invertible only for odd factors.
            factor: secret(1) | 1,
            keys,
        }
    }
}

impl Namer {
    #[inline]
    pub(super) fn name<K: Hash + 'static>(&self, key: K) -> Name<K> {
        match (&key as &dyn Any).downcast_ref::<u64>() {
            Some(id) => Name {
                hash: self.hash_of_id(*id),
                key: None,
            },
            None => Name {
                hash: self.keys.hash_one(&key),
                key: Some(key),
            },
        }
    }

    /// Each step is invertible, so two ids never have the same hash. The secret factor alone may
    /// map similar ids to similar hashes; the steps after it spread every differing bit.
    #[inline]
    fn hash_of_id(&self, id: u64) -> u64 {
        let mut hash = (id ^ self.mask).wrapping_mul(self.factor);
        // The finalizer of MurmurHash3.
        for factor in [0xff51_afd7_ed55_8ccd, 0xc4ce_b9fe_1a85_ec53] {
            hash = (hash ^ (hash >> 33)).wrapping_mul(factor);
        }
        hash ^ (hash >> 33)
    }
}

impl<K> Hash for Name<K> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

/// The hasher of maps by [`Name`]: uses the hash of the name unchanged.
pub(super) type AsNamed = BuildHasherDefault<HashOfName>;

#[derive(Default)]
pub(super) struct HashOfName(u64);

impl Hasher for HashOfName {
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
