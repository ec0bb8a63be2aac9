//! The clock of leases: the environment's time since boot, which includes suspended time.

use std::{sync::Arc, time::Duration};

use hbase_client::{Connection, Environment};
use tokio::time::Instant;

/// A moment in the time since boot of one environment.
///
/// A wall clock can be set, and [`Instant`] does not advance on Linux while the machine is
/// suspended, but a lease does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment {
    /// Nanoseconds since boot; negative before that.
    nanoseconds: i64,
}

impl Moment {
    pub(crate) fn now(environment: &dyn Environment) -> Self {
        Self {
            nanoseconds: nanoseconds(environment.since_boot()),
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

    /// Returns the last moment up to this one that is so long after a whole second.
    pub(super) fn aligned(self, phase: Duration) -> Self {
        let since = self.nanoseconds.saturating_sub(nanoseconds(phase));
        Self {
            nanoseconds: self.nanoseconds.saturating_sub(since.rem_euclid(1_000_000_000)),
        }
    }

    /// Returns how long this is after `earlier`; zero if it is not.
    pub(crate) fn since(self, earlier: Self) -> Duration {
        let nanoseconds = self.nanoseconds.saturating_sub(earlier.nanoseconds);
        Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or_default())
    }
}

/// The clock of the leases of one connection.
#[derive(Clone, Debug)]
pub(crate) struct Clock(Arc<dyn Environment>);

/// The maximum duration of a timer. Timers stop while the machine is suspended, so the clock is
/// checked this often.
const MAX_SLEEP: Duration = Duration::from_secs(1);

impl Clock {
    pub(crate) fn new(environment: Arc<dyn Environment>) -> Self {
        Self(environment)
    }

    pub(in crate::lock) fn of(connection: &Connection) -> Self {
        Self::new(Arc::clone(connection.environment()))
    }

    pub(crate) fn now(&self) -> Moment {
        Moment::now(&*self.0)
    }

    /// Returns how long it is until a moment; zero if it has passed.
    pub(crate) fn left(&self, moment: Moment) -> Duration {
        moment.since(self.now())
    }

    /// Returns whether a moment has been reached.
    pub(crate) fn has_reached(&self, moment: Moment) -> bool {
        self.left(moment).is_zero()
    }

    /// Returns when a timer for a moment has to fire, unless the machine is suspended until then.
    pub(in crate::lock) fn timer(&self, moment: Moment) -> Instant {
        Instant::now() + self.left(moment)
    }

    /// Returns the end of a timer for a moment, or for a part of the time until then.
    pub(in crate::lock) fn slice(&self, moment: Moment) -> Instant {
        self.timer(moment).min(Instant::now() + MAX_SLEEP)
    }
}

fn nanoseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

/// Environments for tests of leases.
#[cfg(test)]
pub(super) mod simulated {
    use std::{
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
        time::{Duration, SystemTime},
    };

    use hbase_client::{Environment, SystemEnvironment};
    use tokio::time::Instant;

    use super::Clock;

    /// An environment whose clocks follow tokio's, which a test may pause.
    #[derive(Debug)]
    pub(in crate::lock) struct Virtual {
        start: Instant,
        readings: AtomicUsize,
    }

    impl Virtual {
        pub(in crate::lock) fn start() -> Arc<Self> {
            Arc::new(Self {
                start: Instant::now(),
                readings: AtomicUsize::new(0),
            })
        }

        /// Returns how often the clock of leases was read.
        pub(in crate::lock) fn readings(&self) -> usize {
            self.readings.load(Ordering::Relaxed)
        }
    }

    impl Environment for Virtual {
        fn since_boot(&self) -> Duration {
            self.readings.fetch_add(1, Ordering::Relaxed);
            self.start.elapsed()
        }

        fn wall_clock(&self) -> SystemTime {
            SystemTime::UNIX_EPOCH + self.start.elapsed()
        }

        fn fill_random(&self, bytes: &mut [u8]) {
            bytes.fill(7);
        }
    }

    /// Returns the clock of the system.
    pub(in crate::lock) fn system_clock() -> Clock {
        Clock::new(Arc::new(SystemEnvironment))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_in_order_and_never_negative() {
        let clock = simulated::system_clock();
        let now = clock.now();
        let later = now.after(Duration::from_secs(60));
        assert!(now < later);
        assert_eq!(now.since(later), Duration::ZERO);
        assert!(clock.left(later) > Duration::from_secs(59) && clock.has_reached(now));
        assert!(clock.now() >= now);
        let year = Duration::from_secs(365 * 24 * 3_600);
        assert_eq!(now.since(now.before(year)), year);
    }

    #[tokio::test(start_paused = true)]
    async fn timers_follow_the_clock_in_slices() {
        let clock = Clock::new(simulated::Virtual::start());
        let start = clock.now();
        let end = start.after(Duration::from_millis(2_500));
        let mut wake_ups = 0;
        while !clock.has_reached(end) {
            tokio::time::sleep_until(clock.slice(end)).await;
            wake_ups += 1;
        }
        assert_eq!(wake_ups, 3);
        assert_eq!(clock.now().since(start), Duration::from_millis(2_500));
    }
}
