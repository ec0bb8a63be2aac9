//! Pauses between attempts and polls.

use std::time::Duration;

use tokio::time::{Instant, sleep};

/// Pauses between attempts, with exponential backoff and jitter.
///
/// Each pause is a random part, at least half, of a limit that doubles from pause to pause until it
/// reaches the maximum. Without the jitter, two clients that collided once would collide again.
#[derive(Debug)]
pub struct Pauses {
    next: Duration,
    longest: Duration,
}

impl Pauses {
    /// Creates pauses between polls for a server's work.
    #[must_use]
    pub const fn polling() -> Self {
        Self::growing(Duration::from_millis(50), Duration::from_secs(1))
    }

    /// Creates pauses for an attempt that conflicted with another writer: 4 ms up to 400 ms.
    #[must_use]
    pub const fn after_conflicts() -> Self {
        Self::growing(Duration::from_millis(4), Duration::from_millis(400))
    }

    /// Creates pauses for a request that is repeated because its answer was lost: 20 ms up to 2 s.
    #[must_use]
    pub const fn after_lost_answers() -> Self {
        Self::growing(Duration::from_millis(20), Duration::from_secs(2))
    }

    /// Creates pauses whose limit starts at `first` and doubles up to `longest`.
    #[must_use]
    pub const fn growing(first: Duration, longest: Duration) -> Self {
        Self { next: first, longest }
    }

    /// Returns the length of the next pause.
    pub fn next_pause(&mut self) -> Duration {
        let most = self.next;
        self.next = (most * 2).min(self.longest);
        most.mul_f64(0.5 + fastrand::f64() / 2.0)
    }

    /// Sleeps for the next pause. Returns `false` without sleeping if the pause would reach the
    /// deadline.
    ///
    /// # Cancel safety
    ///
    /// The future may be dropped at any time. The pause then counts as taken, so the next one is
    /// longer.
    pub async fn wait_before(&mut self, deadline: Instant) -> bool {
        let pause = self.next_pause();
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
            let pause = pauses.next_pause();
            assert!(pause <= most && pause >= most / 2, "{pause:?} of {most:?}");
            different.insert(pause);
            most = (most * 2).min(longest);
        }
        assert!(different.len() > 50);
    }

    #[tokio::test(start_paused = true)]
    async fn pause_before_a_deadline_is_not_late() {
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
