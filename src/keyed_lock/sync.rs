//! What waiting is made of. `tests/keyed_lock_models` compiles the core of this layer a second time, with loom's
//! counterparts in the place of this file.

pub(super) use std::{
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{Thread, current, park, park_timeout, yield_now},
    time::Instant,
};

/// How many parts a map has that don't get in each other's way.
pub(super) const SHARDS: usize = 64;

/// How often a thread looks again at once, and how often after letting others run, before it sleeps. To fall asleep and be
/// woken takes longer than most of what is done under a lock in memory.
pub(super) const LOOKS: u32 = 10;
pub(super) const YIELDS: u32 = 20;
