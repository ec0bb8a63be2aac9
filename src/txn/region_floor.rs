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
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use hbase_client::{ReadFilter, Scan, TimeRange, low_level::RegionLocation};

use super::{
    partition_call::{NotReady, PartitionCall},
    servers::{Capability, MAX_SKEW},
};

/// How long after its opening a region may have cells ahead of its server's clock, by the clock of
/// this machine, which differs from each of the others.
const RECENT: Duration = MAX_SKEW.saturating_mul(3);

/// The maximum number of bytes of the keys of cells that are ahead. If there are more, their
/// timestamps count as being as far ahead as they can be.
const MAX_BYTES: usize = 64 << 20;

/// The bytes of one answer of the scan, whatever the caller's scans have.
const ANSWER_BYTES: u64 = 1 << 20;

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
    pub(super) fn of(&self, location: &RegionLocation, now: u64) -> Option<u64> {
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

    fn set(&self, region: Bytes, opening: i64, floor: u64) {
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

/// Looks for cells and delete markers ahead of the clock of the region's server, which was compared,
/// and returns and records the floor. Of the calls that wait for it, one looks.
pub(super) async fn find(
    call: &mut PartitionCall<'_>,
    location: &Arc<RegionLocation>,
) -> Result<u64, NotReady> {
    let (table, region, server) = (call.table, location.region(), location.server());
    let (servers, capability) = (table.servers(), Capability::Floor);
    let _turn = servers.turn(server, capability, call.attempts.deadline()).await?;
    if let Some(known) = table.floors().of(location, servers.local_now()) {
        return Ok(known);
    }
    let from = servers.time_at(server).earliest;
    let furthest = from.saturating_add(u64::try_from(MAX_SKEW.as_millis()).unwrap_or(u64::MAX));
    let scan = Scan::new()
        .raw()
        .start_row(region.start_key.clone())
        .stop_row(region.end_key.clone())
        .time_range(TimeRange { from, to: furthest })
        .filter(ReadFilter::key_only())
        .caching(u32::MAX)
        .max_result_size(ANSWER_BYTES)
        .cache_blocks(false);
    let scan = table.terms().user_families().cloned().fold(scan, Scan::family);
    let probe = call.attempts.probe(location, capability.purpose());
    let floor = match probe.scan(&scan, MAX_BYTES).await? {
        Some(rows) => {
            let cells = rows.iter().flat_map(|row| row.cells());
            cells.map(|cell| cell.timestamp).max().unwrap_or(0)
        }
        None => furthest,
    };
    table.floors().set(region.name.clone(), location.opening(), floor);
    Ok(floor)
}
