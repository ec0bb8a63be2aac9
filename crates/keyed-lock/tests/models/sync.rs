//! The synchronization primitives of a model: loom's types, which try every order of events, and a
//! clock that advances one step whenever it is read.

use std::{cell::Cell, time::Duration};

pub(crate) use loom::{
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{Thread, current, park},
};

/// All keys are in one shard, to maximize interference.
pub(crate) const SHARDS: usize = 1;

/// Further polls add no new orders of events. One yield covers its code.
pub(crate) const LOOKS: u32 = 0;
pub(crate) const YIELDS: u32 = 1;
pub(crate) fn yield_now() {}

/// The deadline may pass whether or not the thread was woken.
pub(crate) fn park_timeout(_: Duration) {
    loom::thread::yield_now();
}

loom::thread_local! {
    static STEPS: Cell<u64> = Cell::new(0);
}

/// A reading of this thread's clock, in steps.
#[derive(Clone, Copy)]
pub(crate) struct Instant(pub(crate) u64);

impl Instant {
    pub(crate) fn now() -> Self {
        STEPS.with(|steps| Self(steps.replace(steps.get() + 1)))
    }

    pub(crate) fn saturating_duration_since(self, earlier: Self) -> Duration {
        Duration::from_secs(self.0.saturating_sub(earlier.0))
    }
}
