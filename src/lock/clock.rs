//! Monotonic clock for leases; keeps counting while the machine is suspended.

use std::time::Duration;

use tokio::time::Instant;

/// A moment on this machine, comparable with others of the same boot.
///
/// A wall clock can be set, and [`Instant`] does not advance on Linux while the machine is
/// suspended, but a lease does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment {
    /// Nanoseconds since boot; negative before that.
    nanoseconds: i64,
}

impl Moment {
    pub(crate) fn now() -> Self {
        Self {
            nanoseconds: nanoseconds(now()),
        }
    }

    pub(crate) fn after(self, duration: Duration) -> Self {
        Self {
            nanoseconds: self.nanoseconds.saturating_add(nanoseconds(duration)),
        }
    }

    pub(crate) fn before(self, duration: Duration) -> Self {
        Self {
            nanoseconds: self.nanoseconds.saturating_sub(nanoseconds(duration)),
        }
    }

    /// Returns how long ago this was; zero if it is in the future.
    pub(crate) fn elapsed(self) -> Duration {
        Self::now().since(self)
    }

    /// Returns how long it is until then; zero if it has passed.
    pub(crate) fn left(self) -> Duration {
        self.since(Self::now())
    }

    fn since(self, earlier: Self) -> Duration {
        let nanoseconds = self.nanoseconds.saturating_sub(earlier.nanoseconds);
        Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or_default())
    }

    /// Returns when a timer for this moment has to fire, unless the machine is suspended until
    /// then.
    pub(crate) fn timer(self) -> Instant {
        Instant::now() + self.left()
    }
}

/// The maximum duration of a timer. Timers stop while the machine is suspended, so the clock is
/// checked this often.
const MAX_SLEEP: Duration = Duration::from_secs(1);

/// Returns the end of a timer for this moment, or for a part of the time until then.
pub(super) fn slice(moment: Moment) -> Instant {
    moment.timer().min(Instant::now() + MAX_SLEEP)
}

fn nanoseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

/// The clock that keeps counting while the machine is suspended.
#[cfg(any(target_os = "linux", target_os = "android"))]
const CLOCK: rustix::time::ClockId = rustix::time::ClockId::Boottime;
#[cfg(target_vendor = "apple")]
const CLOCK: rustix::time::ClockId = rustix::time::ClockId::Monotonic;

#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
fn now() -> Duration {
    let time = rustix::time::clock_gettime(CLOCK);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    let nanoseconds = u32::try_from(time.tv_nsec).unwrap_or_default();
    Duration::new(seconds, nanoseconds)
}

/// Elsewhere, the standard library's clock is used. It includes suspended time on some systems
/// only.
#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
fn now() -> Duration {
    static START: std::sync::LazyLock<std::time::Instant> = std::sync::LazyLock::new(std::time::Instant::now);
    START.elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_in_order_and_never_negative() {
        let now = Moment::now();
        let later = now.after(Duration::from_secs(60));
        assert!(now < later);
        assert_eq!(later.elapsed(), Duration::ZERO);
        assert!(later.left() > Duration::from_secs(59) && now.left() == Duration::ZERO);
        assert!(Moment::now() >= now);
        let before_the_start = now.before(Duration::from_secs(365 * 24 * 3_600));
        assert!(before_the_start.elapsed() >= Duration::from_secs(365 * 24 * 3_600));
    }
}
