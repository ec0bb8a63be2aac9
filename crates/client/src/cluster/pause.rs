//! The pauses between attempts, by HBase's own table, and what to report if there is no time for one.

use std::time::Duration;

use tokio::time::Instant;

use crate::{
    config::Config,
    error::{Error, ErrorKind},
    rpc::Recovery,
};

const MULTIPLIERS: [u32; 13] = [1, 2, 3, 5, 10, 20, 40, 100, 100, 100, 100, 200, 200];

/// How much longer callers wait at most than a throttle requests.
const SPREAD: f64 = 0.1;

/// Returns the pause after this attempt (counted from 1), plus up to 1 % at random, as in HBase's
/// own clients.
pub(super) fn after_attempt(base: Duration, attempt: u32) -> Duration {
    let step = (attempt.max(1) as usize - 1).min(MULTIPLIERS.len() - 1);
    let pause = base.saturating_mul(MULTIPLIERS[step]);
    pause.saturating_add(pause.mul_f64(fastrand::f64() * 0.01))
}

/// Returns the pause after this attempt in the time that is left. If that is too short, returns
/// half of it, so that the last attempts come near the deadline; `None` if not even a short pause
/// is left.
///
/// The next attempt has at least a quarter of `base`: one that the deadline cuts short says less than the
/// one before, and of a write it leaves the outcome unknown.
pub(super) fn within(left: Duration, base: Duration, attempt: u32) -> Option<Duration> {
    let pause = after_attempt(base, attempt);
    match left {
        _ if pause.saturating_add(base / 4) <= left => Some(pause),
        _ if left / 2 >= base => Some(left / 2),
        _ => None,
    }
}

/// Returns the pause that a failure requires, in the time that is left.
pub(super) fn for_recovery(
    recovery: Recovery,
    left: Duration,
    config: &Config,
    attempt: u32,
) -> Option<Duration> {
    match recovery {
        // A server that requests a wait of zero must not be called without a pause. It requests the same
        // wait of all callers, which must not return at once.
        Recovery::WaitFor(wait) => {
            let most = left.checked_sub(config.pause() / 4)?;
            let pause = wait.max(config.pause());
            let later = pause.saturating_add(pause.mul_f64(fastrand::f64() * SPREAD));
            Some(later.min(most)).filter(|_| pause <= most)
        }
        // No longer than a connection stays open without calls.
        Recovery::RelocateAtOnce if attempt == 1 => Some(Duration::ZERO),
        Recovery::RelocateAtOnce => within(left, config.pause(), 1),
        Recovery::WaitForLoad => within(left, config.overloaded_pause(), attempt),
        _ => within(left, config.pause(), attempt),
    }
}

/// Returns which of the errors of the last two attempts explains more: not the one of an attempt that the
/// deadline has cut short.
pub(super) fn more_telling(error: Error, before: Option<Error>, deadline: Instant) -> Error {
    let is_cut = error.kind() == ErrorKind::DeadlineExceeded || Instant::now() >= deadline;
    match before {
        Some(before) if is_cut => before,
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn overload_and_quota_get_the_pause_they_request() {
        let second = Duration::from_secs(1);
        let config = Config::from_uri("hbase+rpc://a").unwrap();
        let config = config.with_overloaded_pause(second);
        let pause = |recovery| for_recovery(recovery, 60 * second, &config, 1).unwrap();
        assert!(pause(Recovery::Wait) < second && pause(Recovery::WaitForLoad) >= second);
        let least = |wait| pause(Recovery::WaitFor(wait)).as_millis() / 10 * 10;
        assert!((7_000..=7_700).contains(&least(7 * second)));
        assert!((100..=110).contains(&least(Duration::ZERO)));
        assert!(for_recovery(Recovery::WaitFor(60 * second), 60 * second, &config, 1).is_none());
    }

    #[test]
    fn throttled_callers_return_at_different_times_before_the_deadline() {
        let (wait, config) = (
            Duration::from_secs(10),
            Config::from_uri("hbase+rpc://a").unwrap(),
        );
        let pauses = |left| {
            let pause = || for_recovery(Recovery::WaitFor(wait), left, &config, 1).unwrap();
            (0..100).map(|_| pause()).collect::<HashSet<_>>()
        };
        assert!(pauses(wait * 2).len() > 50);
        let short = pauses(wait + Duration::from_millis(50));
        assert!(
            short
                .iter()
                .all(|pause| *pause <= wait + Duration::from_millis(25))
        );
    }

    #[test]
    fn grows_as_hbases_does_and_then_stays() {
        let base = Duration::from_millis(100);
        for (attempt, multiplier) in [
            (0, 1),
            (1, 1),
            (2, 2),
            (3, 3),
            (4, 5),
            (8, 100),
            (12, 200),
            (13, 200),
            (99, 200),
        ] {
            let pause = after_attempt(base, attempt);
            let least = base * multiplier;
            assert!(
                least <= pause && pause <= least.mul_f64(1.01),
                "attempt {attempt}: {pause:?}"
            );
        }
    }

    #[test]
    fn is_cut_to_the_time_that_is_left() {
        let pause = |left, attempt| {
            within(Duration::from_millis(left), Duration::from_millis(100), attempt)
                .map(|pause| pause.as_millis())
        };
        assert_eq!(pause(30_000, 5).map(|pause| pause / 100), Some(10));
        assert_eq!(pause(12_000, 12), Some(6_000));
        // Not 1 s, which would leave 20 ms.
        assert_eq!(pause(1_020, 5), Some(510));
        assert_eq!(pause(200, 12), Some(100));
        assert_eq!(pause(199, 12), None);
        assert_eq!(pause(0, 1), None);
    }
}
