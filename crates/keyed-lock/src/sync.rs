//! The primitives of waiting. `tests/models` compiles the core of this layer a second
//! time, with loom's counterparts in the place of this file.

pub(super) use std::{
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{Thread, current, park, park_timeout, yield_now},
    time::Instant,
};

/// The number of independent parts of a map.
pub(super) const SHARDS: usize = 64;

/// How often a thread polls at once, and how often after yielding, before it sleeps. Sleeping and
/// waking take longer than most work under a lock in memory.
pub(super) const LOOKS: u32 = 10;
pub(super) const YIELDS: u32 = 20;
