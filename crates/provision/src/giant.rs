//! Regions that HBase should have split and did not.
//!
//! HBase splits only at the beginning of a partition. If the middle of a region lies in its first
//! partition, there is no such split point, and the region keeps growing.

use std::collections::HashMap;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use hbase_admin::{Admin, RegionLoad, low_level::AdminCalls};
use hbase_client::{RegionInfo, Scan, Table, TableDescriptor};
use hbase_txn::{Partition, PartitionRule, Result};
use tokio::time::Instant;

/// HBase's default limit for the store files of a region (`hbase.hregion.max.filesize`): 10 GiB.
const LIMIT_MIB: u64 = 10 * 1_024;
/// The multiple of the limit from which a region counts: a region that was just split, or is about
/// to be, is below it.
const ABOVE: u64 = 2;

/// The number of regions that are looked at concurrently: each takes three calls.
const AT_ONCE: usize = 32;

/// The servers' load reports, by full region name.
pub(super) type RegionLoads = HashMap<Bytes, RegionLoad>;

pub(super) fn by_region(regions: impl Iterator<Item = RegionLoad>) -> RegionLoads {
    regions.map(|load| (load.name.clone(), load)).collect()
}

/// A region that is much larger than the limit at which HBase splits.
#[derive(Debug)]
pub(super) struct GiantRegion {
    pub(super) region: RegionInfo,
    /// The size of its store files.
    pub(super) mib: u64,
    /// The size at which HBase splits by default.
    pub(super) limit_mib: u64,
    /// The first partition with rows in the region.
    pub(super) partition: Partition,
    /// Whether other partitions have rows in the region.
    pub(super) others: bool,
}

/// Returns the giants among a table's regions. A region that HBase can split is left out: its
/// servers may have a higher limit, or splits may be switched off.
pub(super) async fn giants(
    loads: &RegionLoads,
    admin: &Admin,
    table: &Table,
    descriptor: &TableDescriptor,
    rule: &PartitionRule,
    regions: impl Iterator<Item = &RegionInfo>,
    deadline: Instant,
) -> Result<Vec<GiantRegion>> {
    let limit_mib = limit_mib(descriptor);
    let large = regions.filter_map(|region| {
        let mib = u64::from(loads.get(&region.name)?.store_files_mib);
        (mib >= ABOVE * limit_mib.max(1)).then_some((region, mib))
    });
    let look = |(region, mib)| look(region, mib, limit_mib, admin, table, rule, deadline);
    let looks: Vec<_> = large.map(look).collect();
    let found: Vec<_> = stream::iter(looks).buffered(AT_ONCE).try_collect().await?;
    Ok(found.into_iter().flatten().collect())
}

/// Returns a large region unless HBase can split it, or it has no rows.
async fn look(
    region: &RegionInfo,
    mib: u64,
    limit_mib: u64,
    admin: &Admin,
    table: &Table,
    rule: &PartitionRule,
    deadline: Instant,
) -> Result<Option<GiantRegion>> {
    let Some((partition, others)) = partitions(region, table, rule, deadline).await? else {
        return Ok(None);
    };
    if others {
        let middle = admin.until(deadline).split_point(region).await?;
        if !middle.is_some_and(|middle| is_first(&partition, &middle)) {
            return Ok(None);
        }
    }
    Ok(Some(GiantRegion {
        region: region.clone(),
        mib,
        limit_mib,
        partition,
        others,
    }))
}

/// Whether the split point of a region lies in its first partition. The server has already moved
/// the split point back to the beginning of a partition.
fn is_first(first: &Partition, middle: &Bytes) -> bool {
    middle <= first.first_key()
}

fn limit_mib(descriptor: &TableDescriptor) -> u64 {
    let limit = descriptor
        .attribute("MAX_FILESIZE")
        .and_then(|bytes| bytes.parse::<u64>().ok());
    limit.map_or(LIMIT_MIB, |bytes| bytes >> 20)
}

/// Returns the first partition with rows in the region, and whether other partitions have rows
/// there. Returns `None` for an empty region.
async fn partitions(
    region: &RegionInfo,
    table: &Table,
    rule: &PartitionRule,
    deadline: Instant,
) -> Result<Option<(Partition, bool)>> {
    let left = deadline.saturating_duration_since(Instant::now());
    let table = table.clone().with_operation_timeout(left);
    let first_row = async |scan: Scan| {
        let scan = if region.end_key.is_empty() {
            scan
        } else {
            scan.stop_row(region.end_key.clone())
        };
        table.scan(scan.limit(1))?.next().await
    };
    let Some(row) = first_row(Scan::new().start_row(region.start_key.clone())).await? else {
        return Ok(None);
    };
    let first = rule.partition_of(row.key());
    let behind = first.key_behind();
    // A region may be a part of one partition.
    let ends_before = behind.is_empty() || !region.end_key.is_empty() && region.end_key <= behind;
    let others = !ends_before && first_row(Scan::new().start_row(behind)).await?.is_some();
    Ok(Some((first, others)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn middle_moved_back_is_in_or_after_the_first_partition() {
        let delimited = PartitionRule::delimiter("/").unwrap();
        let first = delimited.partition_of("b/1");
        // The server removes the delimiter from the split point.
        for (middle, is) in [
            ("b", true),
            ("b/", true),
            ("a", true),
            ("b0", false),
            ("c", false),
        ] {
            assert_eq!(is_first(&first, &middle.into()), is, "{middle}");
        }
        let first = PartitionRule::prefix_length(3).unwrap().partition_of("bbb1");
        for (middle, is) in [("bbb", true), ("bb", true), ("bbc", false)] {
            assert_eq!(is_first(&first, &middle.into()), is, "{middle}");
        }
    }
}
