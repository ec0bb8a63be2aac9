//! Regions that HBase should have split and did not.
//!
//! It splits where a partition begins. Where the middle of a region lies in its first partition there is no such place, and
//! the region only grows.

use tokio::time::Instant;

use crate::{
    client::{ServerLoad, Table},
    error::Result,
    model::{Partition, PartitionRule, RegionInfo, Scan, TableDescriptor},
};

/// HBase's limit for the files of a region where a table has none of its own: 10 GiB.
const LIMIT_MIB: u64 = 10 * 1_024;
/// How far above its limit a region must be: one that was just split, or is about to be, does not count.
const ABOVE: u64 = 2;

/// A region that is much larger than those that HBase splits.
#[derive(Debug)]
pub(super) struct Giant {
    pub(super) region: RegionInfo,
    /// What its files take.
    pub(super) mib: u64,
    /// From how much on HBase splits.
    pub(super) limit_mib: u64,
    /// The first partition that it has rows of.
    pub(super) partition: Partition,
    /// Whether it has rows of others.
    pub(super) others: bool,
}

/// The giants among a table's regions.
pub(super) async fn giants(
    loads: &[ServerLoad],
    table: &Table,
    descriptor: &TableDescriptor,
    rule: &PartitionRule,
    regions: impl Iterator<Item = &RegionInfo>,
    deadline: Instant,
) -> Result<Vec<Giant>> {
    let limit_mib = limit_mib(descriptor);
    let mut giants = Vec::new();
    for region in regions {
        let mut loads = loads.iter().flat_map(|server| &server.regions);
        let mib = match loads.find(|load| load.name == region.name) {
            Some(load) => u64::from(load.store_files_mib),
            None => continue,
        };
        if mib < ABOVE * limit_mib.max(1) {
            continue;
        }
        if let Some((partition, others)) = partitions(region, table, rule, deadline).await? {
            giants.push(Giant {
                region: region.clone(),
                mib,
                limit_mib,
                partition,
                others,
            });
        }
    }
    Ok(giants)
}

fn limit_mib(descriptor: &TableDescriptor) -> u64 {
    let limit = descriptor
        .attribute("MAX_FILESIZE")
        .and_then(|bytes| bytes.parse::<u64>().ok());
    limit.map_or(LIMIT_MIB, |bytes| bytes >> 20)
}

/// The first partition that a region has rows of, and whether it has any of others. None of an empty region.
async fn partitions(
    region: &RegionInfo,
    table: &Table,
    rule: &PartitionRule,
    deadline: Instant,
) -> Result<Option<(Partition, bool)>> {
    let left = deadline.saturating_duration_since(Instant::now());
    let table = table.clone().with_operation_timeout(left);
    let first_row = async |scan: Scan| {
        let scan = match region.end_key.is_empty() {
            true => scan,
            false => scan.stop(region.end_key.clone()),
        };
        table.scan(scan.limit(1))?.next().await
    };
    let Some(row) = first_row(Scan::new().start(region.start_key.clone())).await? else {
        return Ok(None);
    };
    let first = rule.partition_of(row.key());
    let behind = first.key_behind();
    let others = !behind.is_empty() && first_row(Scan::new().start(behind)).await?.is_some();
    Ok(Some((first, others)))
}
