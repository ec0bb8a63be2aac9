//! How long is waited after a conflict.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(4);
const LONGEST: Duration = Duration::from_millis(400);

/// Pauses that grow, each of a length by chance, so that those who met once do not meet again.
#[derive(Debug)]
pub(super) struct Pauses {
    next: Duration,
}

impl Pauses {
    pub(super) fn new() -> Self {
        Self { next: FIRST }
    }

    pub(super) fn next(&mut self) -> Duration {
        let most = self.next;
        self.next = (most * 2).min(LONGEST);
        most.mul_f64(fastrand::f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_a_bound_and_differ() {
        let mut pauses = Pauses::new();
        let mut most = FIRST;
        let mut different = std::collections::HashSet::new();
        for _ in 0..100 {
            let pause = pauses.next();
            assert!(pause <= most, "{pause:?} of {most:?}");
            different.insert(pause);
            most = (most * 2).min(LONGEST);
        }
        assert!(different.len() > 50);
    }
}
