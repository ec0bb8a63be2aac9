//! The clock that leases are judged by: it only goes forward, and goes on while the machine is
//! suspended.

use std::time::Duration;

use tokio::time::Instant;

/// A moment of this machine, comparable with others of the same boot.
///
/// A wall clock can be set, and [`Instant`] stands still on Linux while the machine sleeps; a lease
/// does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment {
    /// Nanoseconds since the machine was started; negative before that.
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

    /// How long ago this was; nothing when it is still to come.
    pub(crate) fn elapsed(self) -> Duration {
        Self::now().since(self)
    }

    /// How long it is until then; nothing when it is over.
    pub(crate) fn left(self) -> Duration {
        self.since(Self::now())
    }

    fn since(self, earlier: Self) -> Duration {
        let nanoseconds = self.nanoseconds.saturating_sub(earlier.nanoseconds);
        Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or_default())
    }

    /// When a timer has to go off to be there in time, unless the machine is suspended until then.
    pub(crate) fn timer(self) -> Instant {
        Instant::now() + self.left()
    }
}

/// Timers stand still while the machine is suspended; the clock of leases does not. So it is looked
/// at this often.
const MAX_SLEEP: Duration = Duration::from_secs(1);

/// A timer for this moment, or for a part of the way there.
pub(super) fn slice(moment: Moment) -> Instant {
    moment.timer().min(Instant::now() + MAX_SLEEP)
}

fn nanoseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

/// The clock that counts suspended time.
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

/// Elsewhere it is the standard library's clock, which counts suspended time on some systems and
/// not on others.
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
