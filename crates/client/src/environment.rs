//! The clocks and the random numbers of a client.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime},
};

/// The clocks and the random numbers of a [`Connection`](crate::Connection), and of everything
/// created from it.
///
/// A program uses [`SystemEnvironment`], the default. A test replaces it with
/// [`environment`](crate::ConnectionBuilder::environment) to run without real time, to make a run
/// repeatable, or to give one of several clients a clock that is wrong. Timers and deadlines are
/// tokio's: a test that pauses tokio's clock needs an environment that follows it, as in the
/// example. Pauses between attempts are drawn from the crate `fastrand`; a test that must be
/// repeatable also calls `fastrand::seed`.
///
/// # Examples
///
/// Clocks that follow tokio's clock, and random numbers from a seed:
///
/// ```
/// use std::{sync::Mutex, time::{Duration, SystemTime}};
/// use hbase_client::{Config, Connection, ConnectionBuilder, Environment};
/// use tokio::time::Instant;
///
/// #[derive(Debug)]
/// struct Simulated {
///     start: Instant,
///     random: Mutex<fastrand::Rng>,
/// }
///
/// impl Environment for Simulated {
///     fn since_boot(&self) -> Duration {
///         self.start.elapsed()
///     }
///
///     fn wall_clock(&self) -> SystemTime {
///         SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000) + self.start.elapsed()
///     }
///
///     fn fill_random(&self, bytes: &mut [u8]) {
///         self.random.lock().unwrap().fill(bytes);
///     }
/// }
///
/// fn simulated(config: Config, seed: u64) -> ConnectionBuilder {
///     fastrand::seed(seed);
///     Connection::builder(config).environment(Simulated {
///         start: Instant::now(),
///         random: Mutex::new(fastrand::Rng::with_seed(seed)),
///     })
/// }
/// ```
pub trait Environment: Send + Sync + fmt::Debug + 'static {
    /// Returns the time since an arbitrary fixed moment, such as the boot of the machine. It never
    /// decreases, and must keep counting while the machine is suspended. Leases are counted on it.
    fn since_boot(&self) -> Duration;

    /// Returns the time of the wall clock. Records of transactions, guarded timestamps and ages are
    /// computed from it.
    fn wall_clock(&self) -> SystemTime;

    /// Fills the bytes with random numbers, for tokens, ids and nonces. Outside tests no two
    /// processes may receive the same numbers, not even two copies of a virtual machine image.
    fn fill_random(&self, bytes: &mut [u8]);
}

/// An [`Environment`] can be shared by several connections, and by the test that controls it.
impl<E: Environment + ?Sized> Environment for Arc<E> {
    fn since_boot(&self) -> Duration {
        (**self).since_boot()
    }

    fn wall_clock(&self) -> SystemTime {
        (**self).wall_clock()
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        (**self).fill_random(bytes);
    }
}

/// The clocks and the random numbers of the operating system.
///
/// On Linux, Android and Apple's systems, [`since_boot`](Environment::since_boot) includes the time
/// for which the machine was suspended. Elsewhere it is the standard library's `Instant`, which
/// includes that time on some systems only.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemEnvironment;

impl Environment for SystemEnvironment {
    fn since_boot(&self) -> Duration {
        since_boot()
    }

    fn wall_clock(&self) -> SystemTime {
        SystemTime::now()
    }

    /// # Panics
    ///
    /// Panics if the operating system returns no random numbers, as the standard library does:
    /// without them, another process could generate the same ones.
    fn fill_random(&self, bytes: &mut [u8]) {
        if let Err(error) = getrandom::fill(bytes) {
            panic!("the operating system returns no random numbers: {error}");
        }
    }
}

/// The clock that keeps counting while the machine is suspended.
#[cfg(any(target_os = "linux", target_os = "android"))]
const CLOCK: rustix::time::ClockId = rustix::time::ClockId::Boottime;
#[cfg(target_vendor = "apple")]
const CLOCK: rustix::time::ClockId = rustix::time::ClockId::Monotonic;

#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
fn since_boot() -> Duration {
    let time = rustix::time::clock_gettime(CLOCK);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    let nanoseconds = u32::try_from(time.tv_nsec).unwrap_or_default();
    Duration::new(seconds, nanoseconds)
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
fn since_boot() -> Duration {
    static START: std::sync::LazyLock<std::time::Instant> = std::sync::LazyLock::new(std::time::Instant::now);
    START.elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_numbers_of_the_system_differ() {
        let draw = || {
            // The generator of pauses has a seed of 64 bits, which two images of a machine share.
            fastrand::seed(7);
            let mut bytes = [0; 16];
            SystemEnvironment.fill_random(&mut bytes);
            bytes
        };
        assert_ne!(draw(), draw());
    }

    #[test]
    fn time_since_boot_does_not_decrease() {
        let times: Vec<_> = (0..1_000).map(|_| SystemEnvironment.since_boot()).collect();
        assert!(times.is_sorted());
    }
}
