//! The clock of a key distribution centre.

use std::{
    fmt,
    ops::RangeInclusive,
    time::{Duration, SystemTime},
};

/// The clock of this machine, compared with that of a key distribution centre (KDC) of Kerberos.
///
/// The comparison is exact to a second, and to the time that the answer of the KDC took. Its text is, for
/// example, `at least 3.2 s ahead of the KDC's`, or `within 0.9 s of the KDC's` if the difference may be
/// zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KdcClock {
    /// The bounds of this clock's lead in milliseconds; negative if it is behind.
    least: i64,
    most: i64,
}

impl KdcClock {
    /// Compares a time of the KDC with the times of this machine before and after.
    pub(crate) fn new(asked: SystemTime, kdc: RangeInclusive<SystemTime>, answered: SystemTime) -> Self {
        Self {
            least: lead(asked, *kdc.end()),
            most: lead(answered, *kdc.start()),
        }
    }

    /// Returns the time by which this machine's clock is at least ahead; zero if it may not be ahead.
    #[must_use]
    pub fn ahead(&self) -> Duration {
        Duration::from_millis(self.least.try_into().unwrap_or(0))
    }

    /// Returns the time by which this machine's clock is at least behind; zero if it may not be behind.
    #[must_use]
    pub fn behind(&self) -> Duration {
        Duration::from_millis(self.most.saturating_neg().try_into().unwrap_or(0))
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

impl fmt::Display for KdcClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // In tenths of a second.
        let (ahead, behind) = (self.least / 100, self.most / 100);
        let (tenths, how, than) = if ahead > 0 {
            (ahead.unsigned_abs(), "at least", "ahead of")
        } else if behind < 0 {
            (behind.unsigned_abs(), "at least", "behind")
        } else {
            let most = self.least.unsigned_abs().max(self.most.unsigned_abs());
            (most.div_ceil(100).max(1), "within", "of")
        };
        write!(f, "{how} {}.{} s {than} the KDC's", tenths / 10, tenths % 10)
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
