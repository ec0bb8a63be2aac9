//! The pauses of what waits for a server by asking it again and again.

use std::time::Duration;

use tokio::time::Instant;

const FIRST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(1);

/// Pauses that grow to a second, before a deadline.
#[derive(Debug)]
pub(super) struct Polling {
    next: Duration,
    deadline: Instant,
}

impl Polling {
    pub(super) fn until(deadline: Instant) -> Self {
        Self {
            next: FIRST,
            deadline,
        }
    }

    /// Waits until it is time to ask again; says false, without waiting, when the deadline comes first.
    pub(super) async fn pause(&mut self) -> bool {
        if Instant::now() + self.next >= self.deadline {
            return false;
        }
        tokio::time::sleep(self.next).await;
        self.next = LONGEST.min(self.next * 2);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_to_a_second_and_end_before_the_deadline() {
        let began = Instant::now();
        let mut polling = Polling::until(began + Duration::from_secs(5));
        let mut ends = Vec::new();
        while polling.pause().await {
            ends.push(began.elapsed().as_millis());
        }
        assert_eq!(ends, [50, 150, 350, 750, 1_550, 2_550, 3_550, 4_550]);
    }
}
