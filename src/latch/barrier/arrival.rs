//! Arrivals at a barrier, and the outcomes of its generations.

use crate::error::{Error, ErrorKind};

/// The maximum number of parties of a barrier: each arrival rewrites the names of all that have
/// arrived.
pub const MAX_PARTIES: u32 = 1_000;
/// The arrival of a participant in a generation of a barrier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Distinguishes barriers of one name.
    pub(super) barrier: u64,
    pub(super) generation: u64,
}

impl Arrival {
    /// Returns the number of the generation, from 1.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }
}

/// The outcome of a generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[must_use = "only one of these says that all have arrived"]
pub enum BarrierOutcome {
    /// All parties have arrived.
    Opened,
    /// Its time was over before all parties had arrived.
    Broken,
    /// The timeout has passed, and the generation has neither opened nor broken. The arrival counts
    /// nevertheless.
    TimedOut,
}

pub(super) fn absent() -> Error {
    Error::new(
        ErrorKind::LatchAbsent,
        "there is no such barrier, or it was deleted",
    )
    .with_hint("check its name, or create it with Barrier::create")
}
