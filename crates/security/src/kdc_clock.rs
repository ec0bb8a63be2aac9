//! The clock of a key distribution centre.

use std::{fmt, time::Duration};

/// The clock of this machine, compared with that of a key distribution centre (KDC) of Kerberos.
///
/// The comparison is exact to a second, and to the time that the answer of the KDC took. Its text is, for
/// example, `at least 3.2 s ahead of the KDC's`, or `within 0.9 s of the KDC's` if the difference may be
/// zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KdcClock {
    /// The bounds of this clock's lead in milliseconds; negative if it is behind.
    pub(crate) least: i64,
    pub(crate) most: i64,
}

impl KdcClock {
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
