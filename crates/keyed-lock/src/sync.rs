//! The synchronization primitives. `tests/models` compiles the core of this crate a second time,
//! with loom's types instead of this file.

pub(super) use std::{
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{Thread, current, park, park_timeout, yield_now},
    time::Instant,
};

/// The number of independent shards of a map.
pub(super) const SHARDS: usize = 64;

/// The number of immediate polls, and of polls after a yield, before a thread sleeps. Sleeping and
/// waking take longer than most sections under an in-memory lock.
pub(super) const LOOKS: u32 = 10;
pub(super) const YIELDS: u32 = 20;
