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

/// What the parties of a generation of a double barrier are doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BarrierPhase {
    /// They enter; none goes on before all have entered.
    Entering,
    /// All have entered. They leave; none goes on before all have left.
    Leaving,
}

impl Arrival {
    /// Returns the phase of an arrival at a double barrier.
    pub(super) fn phase(&self) -> BarrierPhase {
        if self.generation.is_multiple_of(2) {
            BarrierPhase::Leaving
        } else {
            BarrierPhase::Entering
        }
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
    /// The timeout has passed, and parties have still not left the generation before. The
    /// participant has not entered. Only [`DoubleBarrier`](crate::latch::DoubleBarrier) returns it.
    NotEntered,
}

pub(super) fn absent() -> Error {
    Error::new(
        ErrorKind::LatchAbsent,
        "there is no such barrier, or it was deleted",
    )
    .with_hint("check its name, or create it with Barrier::create")
}
