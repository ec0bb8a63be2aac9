//! The clock of the key distribution centre.

use std::{
    ops::RangeInclusive,
    time::{Duration, SystemTime},
};

use hbase_gssapi::{Credentials, KdcTime};
use tokio::time::timeout;

use super::thread::on_thread;
use crate::{authentication_error::AuthenticationError, kdc_clock::KdcClock};

/// Compares the wall clock with that of a key distribution centre of the client's realm. The library
/// may have adopted the latter for its own purposes, but does not set this one.
pub(super) async fn compare(
    credentials: Credentials,
    wall_clock: impl Fn() -> SystemTime + Send + 'static,
    patience: Duration,
) -> Result<KdcClock, AuthenticationError> {
    // The times are read on the thread, whose start may be delayed.
    let compared = on_thread(move || {
        let asked = wall_clock();
        let time = KdcTime::ask(&credentials).map_err(AuthenticationError::NoKdcTime)?;
        let answered = wall_clock();
        Ok(KdcClock::new(asked, time.earliest..=time.latest, answered))
    });
    match timeout(patience, compared).await {
        Ok(compared) => compared,
        Err(_) => Err(AuthenticationError::KdcTimeout(patience)),
    }
}

impl KdcClock {
    /// Compares a time of the KDC with the times of this machine before and after.
    fn new(asked: SystemTime, kdc: RangeInclusive<SystemTime>, answered: SystemTime) -> Self {
        Self {
            least: lead(asked, *kdc.end()),
            most: lead(answered, *kdc.start()),
        }
    }
}

/// Returns the lead of a time over another one, in milliseconds.
fn lead(time: SystemTime, other: SystemTime) -> i64 {
    let millis = |duration: Duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
    match time.duration_since(other) {
        Ok(ahead) => millis(ahead),
        Err(behind) => -millis(behind.duration()),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(0, 0..=0, 0, (0, 0), "within 0.1 s of the KDC's")]
    #[case(0, 30..=30, 40, (0, 0), "within 0.1 s of the KDC's")]
    #[case(60, 0..=0, 70, (60, 0), "within 0.1 s of the KDC's")]
    #[case(0, 99..=99, 0, (0, 99), "within 0.1 s of the KDC's")]
    #[case(900, 0..=1_000, 910, (0, 0), "within 1.0 s of the KDC's")]
    #[case(0, 50..=50, 2_301, (0, 0), "within 2.3 s of the KDC's")]
    #[case(3_250, 0..=0, 3_300, (3_250, 0), "at least 3.2 s ahead of the KDC's")]
    #[case(400_900, 0..=1_000, 400_910, (399_900, 0), "at least 399.9 s ahead of the KDC's")]
    #[case(0, 90_000..=91_000, 1_000, (0, 89_000), "at least 89.0 s behind the KDC's")]
    fn only_what_is_certain_is_reported(
        #[case] asked: u64,
        #[case] kdc: RangeInclusive<u64>,
        #[case] answered: u64,
        #[case] (ahead, behind): (u64, u64),
        #[case] text: &str,
    ) {
        let at = |millis| SystemTime::UNIX_EPOCH + Duration::from_millis(millis);
        let clock = KdcClock::new(at(asked), at(*kdc.start())..=at(*kdc.end()), at(answered));
        assert_eq!(clock.ahead(), Duration::from_millis(ahead));
        assert_eq!(clock.behind(), Duration::from_millis(behind));
        assert_eq!(clock.to_string(), text);
    }
}
