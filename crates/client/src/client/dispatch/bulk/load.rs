//! The load of regions that servers report, and the pauses of their bulk writes.
//!
//! A server reports it in the answer to each call if `hbase.client.backpressure.enabled` is set in
//! its own configuration (`HRegion.getLoadStatistics`). Up to a watermark the load of a region has no
//! effect. Beyond it, the region's next mutations wait after each answer. The pause grows with the
//! load up to that of an overloaded server, so that the region has time to flush or compact before
//! it refuses mutations.

use std::{collections::HashMap, time::Duration};

use bytes::Bytes;

use crate::wire::pb;

/// The load of a region, in percent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ReportedLoad {
    /// The memstore of the region, of the size at which it is flushed.
    memstore: u8,
    /// The heap of the server that is in use.
    heap: u8,
    /// The files of the region's stores, of the number at which they block flushes.
    compaction: u8,
}

/// The percentages up to which a region can take more. A heap is often nearly full until garbage is
/// collected.
const WATERMARKS: ReportedLoad = ReportedLoad {
    memstore: 80,
    heap: 95,
    compaction: 80,
};

/// Returns the reported loads by the names of their regions. Empty if there are more than expected,
/// or if loads and regions do not correspond.
pub(super) fn reported(
    statistics: Option<pb::MultiRegionLoadStats>,
    most: usize,
) -> HashMap<Bytes, ReportedLoad> {
    let Some(pb::MultiRegionLoadStats { region, stat }) = statistics else {
        return HashMap::new();
    };
    if region.len() != stat.len() || region.len() > most {
        return HashMap::new();
    }
    let regions = region.into_iter().map(|region| region.value);
    regions.zip(stat.iter().map(ReportedLoad::new)).collect()
}

impl ReportedLoad {
    /// Takes a number for 0 if it is absent or no percentage.
    fn new(statistics: &pb::RegionLoadStats) -> Self {
        let percent = |number: Option<i32>| {
            let number = number.and_then(|number| u8::try_from(number).ok());
            number.filter(|number| *number <= 100).unwrap_or(0)
        };
        Self {
            memstore: percent(statistics.mem_store_load),
            heap: percent(statistics.heap_occupancy),
            compaction: percent(statistics.compaction_pressure),
        }
    }

    /// Returns the pause of the region's mutations, `None` up to the watermarks. A load of 100 % has
    /// the longest pause. It takes at most half of the time that is left.
    pub(super) fn pause(self, longest: Duration, left: Duration) -> Option<Duration> {
        let numbers = [
            (self.memstore, WATERMARKS.memstore),
            (self.heap, WATERMARKS.heap),
            (self.compaction, WATERMARKS.compaction),
        ];
        let excesses = numbers.map(|(number, watermark)| {
            f64::from(number.saturating_sub(watermark)) / f64::from(100 - watermark)
        });
        let excess = excesses.into_iter().fold(0.0, f64::max);
        Some(longest.mul_f64(excess).min(left / 2)).filter(|pause| !pause.is_zero())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST: Duration = Duration::from_millis(100);
    const MINUTE: Duration = Duration::from_secs(60);

    fn statistics(memstore: i32, heap: i32, compaction: i32) -> pb::RegionLoadStats {
        pb::RegionLoadStats {
            mem_store_load: Some(memstore),
            heap_occupancy: Some(heap),
            compaction_pressure: Some(compaction),
        }
    }

    fn pause(memstore: i32, heap: i32, compaction: i32) -> Option<u128> {
        let load = ReportedLoad::new(&statistics(memstore, heap, compaction));
        load.pause(LONGEST, MINUTE).map(|pause| pause.as_millis())
    }

    #[test]
    fn pause_grows_from_the_watermark_of_the_most_loaded_part() {
        assert_eq!(pause(0, 0, 0), None);
        assert_eq!(pause(80, 95, 80), None);
        assert_eq!(pause(81, 0, 0), Some(5));
        assert_eq!(pause(90, 96, 0), Some(50));
        assert_eq!(pause(90, 99, 0), Some(80));
        assert_eq!(pause(0, 0, 95), Some(75));
        assert_eq!(pause(100, 100, 100), Some(100));
    }

    #[test]
    fn numbers_that_are_no_percentages_are_ignored() {
        for number in [-1, 101, 255, 256 + 90, i32::MIN, i32::MAX] {
            assert_eq!(pause(number, number, number), None, "{number}");
            assert_eq!(pause(number, number, 90), Some(50), "{number}");
        }
        assert_eq!(
            ReportedLoad::new(&pb::RegionLoadStats::default()),
            ReportedLoad::default()
        );
    }

    #[test]
    fn pause_leaves_half_of_the_time_to_the_deadline() {
        let load = ReportedLoad::new(&statistics(100, 0, 0));
        let left = Duration::from_millis(30);
        assert_eq!(load.pause(LONGEST, left), Some(left / 2));
        assert_eq!(load.pause(LONGEST, Duration::ZERO), None);
    }

    #[test]
    fn loads_without_their_regions_are_ignored() {
        let region = |name: &'static str| pb::RegionSpecifier {
            r#type: 1,
            value: Bytes::from_static(name.as_bytes()),
        };
        let full = statistics(100, 0, 0);
        let statistics = |names: &[&'static str], loads: usize| {
            let region = names.iter().copied().map(region).collect();
            let stat = vec![full; loads];
            Some(pb::MultiRegionLoadStats { region, stat })
        };
        let loads = reported(statistics(&["a", "b"], 2), 2);
        assert_eq!(loads.get("b".as_bytes()), Some(&ReportedLoad::new(&full)));
        assert_eq!(loads.len(), 2);
        assert!(reported(None, 2).is_empty());
        assert!(reported(statistics(&["a", "b"], 1), 2).is_empty());
        assert!(reported(statistics(&["a"], 2), 2).is_empty());
        assert!(reported(statistics(&["a", "b", "c"], 3), 2).is_empty());
    }
}
