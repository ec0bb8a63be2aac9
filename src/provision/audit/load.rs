//! Regions that have grown too large, or have too much of a table's requests.

use tokio::time::Instant;

use super::{cluster::Cluster, finding::Finding};
use crate::{
    client::{RegionLoad, Table, TableRegion},
    error::Result,
    model::{BytesBinary, PartitionRule, RegionInfo, TableDescriptor},
    provision::{
        command,
        giant::{Giant, giants},
    },
};

/// Fewer requests than these say nothing of a table's life.
const REQUESTS: u64 = 100_000;
/// Fewer regions than these always have most of the requests.
const REGIONS: usize = 4;

/// The regions of a table that should be split, or served by themselves.
pub(super) async fn findings(
    cluster: &Cluster,
    table: &Table,
    descriptor: &TableDescriptor,
    rule: &PartitionRule,
    regions: &[TableRegion],
    deadline: Instant,
) -> Result<Vec<Finding>> {
    let infos = regions.iter().map(|region| &region.region);
    let giants = giants(&cluster.loads, table, descriptor, rule, infos, deadline).await?;
    let mut findings: Vec<_> = giants.iter().map(|giant| told(giant, table)).collect();
    findings.extend(hot(cluster, regions).map(|finding| finding.of_table(table.name())));
    Ok(findings)
}

fn told(giant: &Giant, table: &Table) -> Finding {
    let name = encoded_name(&giant.region);
    let Giant {
        partition,
        mib,
        limit_mib: limit,
        ..
    } = giant;
    let finding = match giant.others {
        false => Finding::note(
            "partition-giant",
            format!(
                "partition {partition} has region {name} to itself, and {mib} MiB in it; HBase splits regions from {limit} \
                 MiB on"
            ),
            "it can't be split and only grows: all of it is one server's, and its files take ever longer to compact",
        )
        .mended_by_hand("only a finer prefix helps, in a new table: see the page on migrating"),
        true => Finding::note(
            "first-partition-giant",
            format!(
                "region {name} has {mib} MiB, and HBase splits regions from {limit} MiB on: the middle of this one lies in its \
                 first partition, {partition}"
            ),
            "HBase can't split it by itself, so its other partitions grow with it",
        )
        .mended_by(command::of_table("repair", table.name()), ""),
    };
    finding
        .of_table(table.name())
        .in_partition(partition)
        .in_regions(vec![name])
}

/// A region that has most of the table's requests.
fn hot(cluster: &Cluster, regions: &[TableRegion]) -> Option<Finding> {
    let loads = || cluster.loads.iter().flat_map(|server| &server.regions);
    let requests = |load: &RegionLoad| load.reads.saturating_add(load.writes);
    let loaded: Vec<(&RegionInfo, u64)> = regions
        .iter()
        .filter_map(|TableRegion { region, .. }| {
            let load = loads().find(|load| load.name == region.name)?;
            Some((region, requests(load)))
        })
        .collect();
    let total: u64 = loaded.iter().map(|(_, requests)| requests).sum();
    let (busiest, most) = loaded.iter().max_by_key(|(_, requests)| requests)?;
    if loaded.len() < REGIONS || total < REQUESTS || *most <= total / 2 {
        return None;
    }
    let name = encoded_name(busiest);
    Some(
        Finding::note(
            "region-hot",
            format!(
                "region {name}, {}, had {} % of the requests of {} regions since they were opened",
                busiest.range_text(),
                u128::from(*most) * 100 / u128::from(total),
                loaded.len()
            ),
            "one server does the work of the table, and transactions of one partition go one after the other",
        )
        .in_regions(vec![name])
        .mended_by_hand(
            "if it has several partitions, split it: hbase-txn table skew shows where; if it is one partition, only a finer \
             prefix helps",
        ),
    )
}

fn encoded_name(region: &RegionInfo) -> String {
    BytesBinary(region.encoded_name()).to_string()
}
