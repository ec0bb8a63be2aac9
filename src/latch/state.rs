//! The state of a latch, for callers.

use std::{
    collections::BTreeMap,
    fmt,
    time::{Duration, SystemTime},
};

use crate::java_layout::Level;

/// The state of a latch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LatchState {
    /// The latch does not exist: it was never created, or it was deleted. In a table without the
    /// state family, as the Java library creates it, also a latch that has expired.
    Absent,
    /// The remaining count is above zero.
    Open,
    /// The remaining count is zero.
    Reached,
    /// Its time to live has passed, reached or not. This is recorded for a week.
    Expired,
}

impl fmt::Display for LatchState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Absent => "absent",
            Self::Open => "open",
            Self::Reached => "reached",
            Self::Expired => "expired",
        })
    }
}

/// The state of a latch at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LatchInfo {
    /// Its key: that of its [`LatchName`](super::LatchName), or prefix and id with a `#` between
    /// them for a latch in a partition.
    pub key: String,
    /// Whether the counts are those of one farm or of all.
    pub level: Level,
    /// The state of the latch.
    pub state: LatchState,
    /// The remaining count. `None` unless the latch is open or reached.
    pub count: Option<u64>,
    /// The counts of the farms that were read. One of them may be negative: a farm counts down in
    /// its own column, including what another farm has counted up.
    pub farms: BTreeMap<String, i64>,
    /// When it expires, by the region server's clock. `None` if it has no end, or has ended.
    pub ends: Option<SystemTime>,
    /// The number of participants that have [arrived](super::Latch::arrive), or `None` if that is
    /// unknown.
    pub arrived: Option<u32>,
}

impl LatchInfo {
    pub(super) fn time(millis: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH
            .checked_add(Duration::from_millis(millis))
            .unwrap_or(SystemTime::UNIX_EPOCH)
    }
}

/// The outcome of a change of a latch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LatchCount {
    /// The remaining count, as read after the change: others may have counted in between. If the latch
    /// has ended by then, the count right after the change.
    pub left: u64,
    /// Whether this call counted. False for a participant that has arrived before.
    pub counted: bool,
}
