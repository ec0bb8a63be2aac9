//! What happens to a call, and when.

use std::time::Duration;

use super::faults::Applied;

/// What happens to a call, and when.
#[derive(Debug)]
pub(super) struct Plan {
    /// The number of the call.
    pub(super) call: u64,
    pub(super) request: Duration,
    pub(super) queue: Duration,
    pub(super) answer: Duration,
    pub(super) applied: Option<Applied>,
}

impl Plan {
    /// Returns whether nothing delays the call, and no fault happens to it.
    pub(super) fn is_immediate(&self) -> bool {
        self.applied.is_none() && (self.request + self.queue + self.answer).is_zero()
    }
}
