//! The timestamps that the clock of a region's server must have passed before anything is stamped
//! in the region.
//!
//! The server stamps cells with its clock. A region that moves to a server whose clock is behind, or
//! is opened there after a crash, has cells ahead of that clock, and they would hide what is put
//! next. So after an opening, the first writer looks for such cells, and writers wait until the clock
//! has passed them. A region that was opened long ago has none: HBase admits no region server whose
//! clock differs from the master's by more than 30 s (`hbase.master.maxclockskew`).
//!
//! Cells that are further ahead were stamped by clients, and are not waited for.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use hbase_client::low_level::RegionLocation;

use super::servers::MAX_SKEW;

/// How long after its opening a region may have cells ahead of its server's clock, by the clock of
/// this machine, which differs from each of the others.
const RECENT: Duration = MAX_SKEW.saturating_mul(3);

/// The floors of the regions of a table.
#[derive(Debug, Default)]
pub(super) struct RegionFloors {
    /// For each region name, the last opening for which the floor is known, and the floor.
    known: Mutex<HashMap<Bytes, (i64, u64)>>,
}

impl RegionFloors {
    fn known(&self) -> MutexGuard<'_, HashMap<Bytes, (i64, u64)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the floor of an opening of a region, or `None` if it must be looked for.
    pub(in crate::txn) fn of(&self, location: &RegionLocation, now: u64) -> Option<u64> {
        if location
            .opened_at()
            .is_some_and(|opened_at| was_long_ago(opened_at, now))
        {
            return Some(0);
        }
        let known = self.known().get(&location.region().name).copied();
        known
            .filter(|(opening, _)| *opening == location.opening())
            .map(|(_, floor)| floor)
    }

    pub(in crate::txn) fn set(&self, region: Bytes, opening: i64, floor: u64) {
        let mut known = self.known();
        let newest = known.entry(region).or_insert((opening, floor));
        if newest.0 < opening {
            *newest = (opening, floor);
        }
    }
}

/// Returns whether the clocks of all servers have passed a time of one of them.
pub(super) fn was_long_ago(time: u64, now: u64) -> bool {
    let recent = u64::try_from(RECENT.as_millis()).unwrap_or(u64::MAX);
    time.saturating_add(recent) < now
}
