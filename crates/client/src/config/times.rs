//! The bounds of times.

use std::time::Duration;

/// The longest time: a year, which can always be added to the clock.
pub(super) const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// Limits a time to the range from a millisecond to a year.
pub fn bounded(time: Duration) -> Duration {
    time.clamp(Duration::from_millis(1), LONGEST)
}
