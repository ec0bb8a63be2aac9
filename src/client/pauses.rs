//! The pauses of what asks again and again.

use std::time::Duration;

use tokio::time::{Instant, sleep};

/// Pauses that double up to a longest one. Each is cut by chance, to its half at most, so that those who met once do not meet
/// again.
#[derive(Debug)]
pub(crate) struct Pauses {
    next: Duration,
    longest: Duration,
}

impl Pauses {
    /// Of what waits for a server's work.
    pub(super) const fn polling() -> Self {
        Self::growing(Duration::from_millis(50), Duration::from_secs(1))
    }

    /// Of what was in the way of another writer, or found one in its way.
    pub(crate) const fn after_conflicts() -> Self {
        Self::growing(Duration::from_millis(4), Duration::from_millis(400))
    }

    /// Of what is sent again because its answer was lost.
    pub(crate) const fn after_lost_answers() -> Self {
        Self::growing(Duration::from_millis(20), Duration::from_secs(2))
    }

    pub(crate) const fn growing(first: Duration, longest: Duration) -> Self {
        Self { next: first, longest }
    }

    /// How long to wait now.
    pub(crate) fn next(&mut self) -> Duration {
        let most = self.next;
        self.next = (most * 2).min(self.longest);
        most.mul_f64(0.5 + fastrand::f64() / 2.0)
    }

    /// Waits until it is time to ask again; says false, without waiting, when the deadline comes first.
    pub(crate) async fn wait_before(&mut self, deadline: Instant) -> bool {
        let pause = self.next();
        if Instant::now() + pause >= deadline {
            return false;
        }
        sleep(pause).await;
        true
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn pauses_grow_up_to_a_bound_and_differ() {
        let longest = Duration::from_millis(400);
        let mut pauses = Pauses::after_conflicts();
        let mut most = Duration::from_millis(4);
        let mut different = HashSet::new();
        for _ in 0..100 {
            let pause = pauses.next();
            assert!(pause <= most && pause >= most / 2, "{pause:?} of {most:?}");
            different.insert(pause);
            most = (most * 2).min(longest);
        }
        assert!(different.len() > 50);
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_before_a_deadline_is_not_late() {
        let deadline = Instant::now() + Duration::from_secs(5);
        let mut pauses = Pauses::polling();
        let mut times = 0;
        while pauses.wait_before(deadline).await {
            times += 1;
            assert!(Instant::now() < deadline);
        }
        assert!(deadline - Instant::now() <= Duration::from_secs(1));
        assert!((8..20).contains(&times), "{times}");
    }
}
