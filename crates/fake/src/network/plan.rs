//! What happens to a call, and when.

use std::time::Duration;

use super::faults::{Action, Applied};

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
    /// Returns whether the connection is silent from the call on.
    pub(super) fn mutes(&self) -> bool {
        self.applied
            .as_ref()
            .is_some_and(|applied| applied.action == Action::Mute)
    }

    /// Returns whether nothing delays the call, and no fault happens to it.
    pub(super) fn is_immediate(&self) -> bool {
        self.applied.is_none() && (self.request + self.queue + self.answer).is_zero()
    }
}
