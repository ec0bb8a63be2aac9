//! Regions whose locations turned out to be stale.

use std::{
    collections::BTreeMap,
    ops::Bound,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use tokio::time::Instant;

use crate::model::{RegionInfo, TableName};

/// How long the location of a region is read from the primary of `hbase:meta` after it turned out
/// to be stale: replicas may have the old one.
const MEMORY: Duration = Duration::from_secs(60);

/// The rows of the regions, by table and start key. Ranges of a table do not overlap, so there are
/// never more than regions.
#[derive(Debug, Default)]
pub(super) struct StaleRegions {
    tables: Mutex<BTreeMap<TableName, BTreeMap<Bytes, Rows>>>,
}

/// The rows before `end`, or all if it is empty.
#[derive(Clone, Debug)]
struct Rows {
    end: Bytes,
    stale_until: Instant,
}

impl StaleRegions {
    fn tables(&self) -> MutexGuard<'_, BTreeMap<TableName, BTreeMap<Bytes, Rows>>> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a region. Ranges that overlap it, of regions before or after a split or merge, become a
    /// part of its own.
    pub(super) fn add(&self, region: &RegionInfo) {
        let mut tables = self.tables();
        let ranges = tables.entry(region.table.clone()).or_default();
        let (mut start, mut end) = (region.start_key.clone(), region.end_key.clone());
        for (first, rows) in overlapping(ranges, region) {
            ranges.remove(&first);
            start = start.min(first);
            end = if end.is_empty() || rows.end.is_empty() {
                Bytes::new()
            } else {
                end.max(rows.end)
            };
        }
        let stale_until = Instant::now() + MEMORY;
        ranges.insert(start, Rows { end, stale_until });
    }

    /// Forgets the regions of a table.
    pub(super) fn forget_table(&self, table: &TableName) {
        self.tables().remove(table);
    }

    /// Returns whether the location of the row was found to be stale a short time ago.
    pub(super) fn contains(&self, table: &TableName, row: &[u8]) -> bool {
        let tables = self.tables();
        let range = tables.get(table).and_then(|ranges| {
            ranges
                .range::<[u8], _>((Bound::Unbounded, Bound::Included(row)))
                .next_back()
        });
        range.is_some_and(|(_, rows)| rows.is_stale() && (rows.end.is_empty() || row < &rows.end[..]))
    }

    /// Returns whether the location of any row of the region was found to be stale a short time ago.
    pub(super) fn overlap(&self, region: &RegionInfo) -> bool {
        let tables = self.tables();
        let ranges = tables
            .get(&region.table)
            .map(|ranges| overlapping(ranges, region));
        ranges.is_some_and(|ranges| ranges.iter().any(|(_, rows)| rows.is_stale()))
    }
}

impl Rows {
    fn is_stale(&self) -> bool {
        Instant::now() < self.stale_until
    }
}

/// Returns the ranges that have rows in common with the region.
fn overlapping(ranges: &BTreeMap<Bytes, Rows>, region: &RegionInfo) -> Vec<(Bytes, Rows)> {
    let before = ranges.range(..region.start_key.clone()).next_back();
    let before = before.filter(|(_, rows)| rows.end.is_empty() || rows.end > region.start_key);
    let inside = ranges
        .range(region.start_key.clone()..)
        .take_while(|(start, _)| region.end_key.is_empty() || **start < region.end_key);
    before
        .into_iter()
        .chain(inside)
        .map(|(start, rows)| (start.clone(), rows.clone()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(start: &'static str, end: &'static str) -> RegionInfo {
        RegionInfo {
            table: "t".parse().unwrap(),
            start_key: start.into(),
            end_key: end.into(),
            ..RegionInfo::meta()
        }
    }

    /// Returns those of the rows `a` to `g` that are stale.
    fn stale(regions: &StaleRegions) -> String {
        let table = "t".parse().unwrap();
        ('a'..='g')
            .filter(|row| regions.contains(&table, row.to_string().as_bytes()))
            .collect()
    }

    #[test]
    fn rows_of_stale_regions_are_found() {
        let regions = StaleRegions::default();
        assert_eq!(stale(&regions), "");
        regions.add(&region("b", "d"));
        assert_eq!(stale(&regions), "bc");
        regions.add(&region("f", ""));
        assert_eq!(stale(&regions), "bcfg");
        for (start, end, overlaps) in [
            ("", "b", false),
            ("", "c", true),
            ("d", "f", false),
            ("e", "", true),
        ] {
            assert_eq!(regions.overlap(&region(start, end)), overlaps, "{start} {end}");
        }
        assert!(!regions.contains(&"u".parse().unwrap(), b"b"));
    }

    #[test]
    fn ranges_that_overlap_become_one() {
        let regions = StaleRegions::default();
        for (start, end) in [("a", "c"), ("c", "d"), ("e", "f")] {
            regions.add(&region(start, end));
        }
        regions.add(&region("b", "e"));
        assert_eq!(stale(&regions), "abcde");
        regions.add(&region("", ""));
        assert_eq!(stale(&regions), "abcdefg");
        assert_eq!(regions.tables().values().next().unwrap().len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn regions_are_stale_for_a_while() {
        let regions = StaleRegions::default();
        regions.add(&region("b", ""));
        tokio::time::advance(MEMORY - Duration::from_millis(1)).await;
        assert!(regions.overlap(&region("", "")) && stale(&regions) == "bcdefg");
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(!regions.overlap(&region("", "")) && stale(&regions).is_empty());
    }
}
