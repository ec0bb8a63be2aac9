//! What is told of a latch.

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
    /// There is none: it was never made, or it was deleted. In a table without the state family, as
    /// the Java library makes it, also one that has expired.
    Absent,
    /// There is something left to count down.
    Open,
    /// All is counted down.
    Reached,
    /// Its time was over, reached or not. This is known for a week.
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
    /// Its key: that of its [`LatchName`](super::LatchName); or prefix and id, with a `#` between
    /// them, of one in a partition.
    pub key: String,
    /// Whose counts were looked at.
    pub level: Level,
    /// What became of it.
    pub state: LatchState,
    /// What is left to count down; none unless it is open or reached.
    pub count: Option<u64>,
    /// The counts of the farms that were looked at. One of them may be negative: a farm counts down
    /// its own column, also what another farm has counted up.
    pub farms: BTreeMap<String, i64>,
    /// When it expires, by the region server's clock; none when it has no end, or is no more.
    pub ends: Option<SystemTime>,
    /// How many participants have [arrived](super::Latch::arrive), or `None` if that is unknown.
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
    /// What is left to count down, as it was seen behind the change: others may have counted in
    /// between.
    pub left: u64,
    /// Whether this call counted. False for a participant that had arrived before.
    pub counted: bool,
}
