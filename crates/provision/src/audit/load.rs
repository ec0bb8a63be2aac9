//! Regions that have grown too large, or have too much of a table's requests.

use hbase_admin::{Admin, RegionLoad};
use hbase_client::{RegionInfo, Table, TableDescriptor, TableRegion};
use hbase_txn::{PartitionRule, Result};
use tokio::time::Instant;

use super::{finding::Finding, name::Name};
use crate::{
    command,
    giant::{GiantRegion, RegionLoads, giants},
};

/// The minimum number of requests for a finding; fewer say nothing about a table's usual load.
const REQUESTS: u64 = 100_000;
/// The minimum number of regions for a finding; among fewer, one easily has most of the requests.
const REGIONS: usize = 4;

/// Returns findings for regions that should be split, or moved to a server of their own.
pub(super) async fn findings(
    loads: &RegionLoads,
    admin: &Admin,
    table: &Table,
    descriptor: &TableDescriptor,
    rule: &PartitionRule,
    regions: &[TableRegion],
    deadline: Instant,
) -> Result<Vec<Finding>> {
    let infos = regions.iter().map(|region| &region.region);
    let giants = giants(loads, admin, table, descriptor, rule, infos, deadline).await?;
    let own_limit = descriptor.attribute("MAX_FILESIZE").is_some();
    let mut findings: Vec<_> = giants
        .iter()
        .map(|giant| finding(giant, table, own_limit))
        .collect();
    findings.extend(hot(loads, regions).map(|finding| {
        finding.of_table(table.name()).looked_into_by(
            &command::of_table("skew", table.name()),
            "if it has several partitions, split it where the skew shows; if it has one, only a finer prefix helps",
        )
    }));
    Ok(findings)
}

fn finding(giant: &GiantRegion, table: &Table, own_limit: bool) -> Finding {
    let unless = if own_limit {
        ""
    } else {
        " unless its servers have another hbase.hregion.max.filesize"
    };
    let name = giant.region.encoded_text();
    let GiantRegion {
        partition,
        mib,
        limit_mib: limit,
        ..
    } = giant;
    let finding = if giant.others {
        Finding::note(
            Name::FirstPartitionGiant,
            format!(
                "region {name} has {mib} MiB, and HBase splits regions from {limit} MiB on{unless}: the middle of this one is \
                 inside its first partition, {partition}"
            ),
            "HBase can't split it by itself, so its other partitions grow with it",
        )
        .fixed_by(command::of_table("repair", table.name()), "")
    } else {
        Finding::note(
            Name::PartitionGiant,
            format!(
                "partition {partition} has region {name} to itself, and {mib} MiB in it; HBase splits regions from {limit} \
                 MiB on{unless}"
            ),
            "it can't be split: one server has all of its load, and its files take longer and longer to compact",
        )
        .looked_into_by(
            &command::of_table("skew", table.name()),
            "only a new table with a finer prefix helps: see the page on migrating",
        )
    };
    finding
        .of_table(table.name())
        .in_partition(partition)
        .in_regions(vec![name])
}

/// Returns a finding for a region with most of the table's requests. Servers count requests by row,
/// from the opening of a region.
fn hot(loads: &RegionLoads, regions: &[TableRegion]) -> Option<Finding> {
    let requests = |load: &RegionLoad| load.reads.saturating_add(load.writes);
    let loaded: Vec<(&RegionInfo, u64)> = regions
        .iter()
        .filter_map(|TableRegion { region, .. }| Some((region, requests(loads.get(&region.name)?))))
        .collect();
    let total: u64 = loaded
        .iter()
        .fold(0, |total: u64, (_, requests)| total.saturating_add(*requests));
    let (busiest, most) = loaded.iter().max_by_key(|(_, requests)| requests)?;
    if loaded.len() < REGIONS || total < REQUESTS || *most <= total / 2 {
        return None;
    }
    let name = busiest.encoded_text();
    Some(
        Finding::note(
            Name::RegionHot,
            format!(
                "region {name}, {}, has {} % of the {total} rows that {} regions have read and written, each since it was opened",
                busiest.range_text(),
                u128::from(*most) * 100 / u128::from(total),
                loaded.len()
            ),
            "one server does most of the table's work; the number is misleading if this region was opened long before the \
             others, or a scan has read it",
        )
        .in_regions(vec![name]),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Severity;

    /// Returns the finding for regions with these numbers of requests.
    fn found(requests: &[u64]) -> Option<Finding> {
        let mut loads = RegionLoads::new();
        let mut regions = Vec::new();
        for (number, requests) in requests.iter().enumerate() {
            let region = RegionInfo {
                table: "t".parse().unwrap(),
                name: format!("t,{number},7.{number}.").into(),
                ..RegionInfo::meta()
            };
            let load = RegionLoad {
                name: region.name.clone(),
                store_files: 0,
                store_files_mib: 0,
                memstore_mib: 0,
                reads: requests / 2,
                writes: requests - requests / 2,
            };
            loads.insert(load.name.clone(), load);
            regions.push(TableRegion {
                region,
                server: None,
                replicas: Vec::new(),
            });
        }
        hot(&loads, &regions)
    }

    #[test]
    fn region_with_over_half_of_many_requests_is_hot() {
        let hot = found(&[20_000, 10_000, 60_001, 10_000]).unwrap();
        assert_eq!((hot.finding, hot.severity), ("region-hot", Severity::Note));
        assert_eq!(hot.regions, ["2"]);
        assert!(
            hot.what.contains("60 % of the 100001 rows") && hot.what.contains("4 regions"),
            "{hot:?}"
        );
        for cool in [
            // Half is not more than half.
            &[50_000, 50_000, 0, 0][..],
            // Too few requests.
            &[99_999, 0, 0, 0],
            // Too few regions.
            &[100_000, 0, 0],
            &[0, 0, 0, 0],
            &[],
        ] {
            assert_eq!(found(cool), None, "{cool:?}");
        }
        assert!(found(&[100_000, 0, 0, 0]).is_some());
        assert!(found(&[u64::MAX, u64::MAX, 0, 0]).is_some(), "no overflow");
    }

    #[test]
    fn regions_without_a_load_do_not_count() {
        let regions = [TableRegion {
            region: RegionInfo::meta(),
            server: None,
            replicas: Vec::new(),
        }];
        assert_eq!(hot(&RegionLoads::new(), &regions), None);
    }
}
