//! When a name is polled next: rarely if its waiters wait for long, often if what they wait for is near.

use std::time::Duration;

use tokio::time::Instant;

/// The shortest and the longest pause between two polls.
const PAUSES: (Duration, Duration) = (Duration::from_millis(25), Duration::from_millis(500));

/// The pace of one name. A pause is as long as the time since the last news or the last joining waiter. It
/// is half as long as the rest takes at the present rate if that is longer, but never longer than the time
/// since the last waiter joined. It is at most half of the time until the name expires, by this machine's
/// clock, or since then: the clock of the server may be behind.
#[derive(Debug)]
pub(super) struct Pace {
    joined: Instant,
    since: Instant,
    /// What was left then.
    left: Option<u64>,
    /// How long the rest takes, at the rate of the last two counts.
    expected: Duration,
    pause: Duration,
    due: Instant,
    /// Whether it is to be polled immediately, even after a poll in flight.
    is_hurried: bool,
}

impl Default for Pace {
    fn default() -> Self {
        let now = Instant::now();
        Self {
            joined: now,
            since: now,
            left: None,
            expected: Duration::ZERO,
            pause: Duration::ZERO,
            due: now,
            is_hurried: true,
        }
    }
}

impl Pace {
    /// A waiter joins, which knows nothing yet.
    pub(super) fn join(&mut self) {
        (self.joined, self.since) = (Instant::now(), Instant::now());
        self.hurry();
    }

    pub(super) fn hurry(&mut self) {
        self.due = Instant::now();
        self.is_hurried = true;
    }

    pub(super) fn due(&self) -> Instant {
        self.due
    }

    /// Returns whether a poll that begins now should include it: one that is almost due shares its calls.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.due <= now + self.pause / 4
    }

    /// A poll of it begins.
    pub(super) fn begin(&mut self) {
        self.is_hurried = false;
    }

    /// A poll has ended, after which so much is left, and the end is this far away if it is known.
    pub(super) fn see(&mut self, left: Option<u64>, end: Option<Duration>) {
        let now = Instant::now();
        if self.left != left {
            let took = now.saturating_duration_since(self.since);
            self.expected = match (self.left, left) {
                (Some(before), Some(left)) if left < before => rest(took, before - left, left),
                _ => Duration::ZERO,
            };
            (self.since, self.left) = (now, left);
        }
        let quiet = now.saturating_duration_since(self.since);
        let waited = now.saturating_duration_since(self.joined);
        let pause = quiet.max(waited.min(self.expected / 2));
        let pause = pause.min(end.map_or(PAUSES.1, |end| end / 2));
        let pause = pause.clamp(PAUSES.0, PAUSES.1);
        // Spread over the processes that wait for the same.
        self.pause = pause.mul_f64(0.9 + fastrand::f64() / 5.0);
        if !self.is_hurried {
            self.due = now + self.pause;
        }
    }
}

/// Returns how long the rest takes if `counted` took this long.
fn rest(took: Duration, counted: u64, left: u64) -> Duration {
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    let ratio = left as f64 / counted as f64;
    Duration::try_from_secs_f64(took.as_secs_f64() * ratio).unwrap_or(Duration::MAX)
}
