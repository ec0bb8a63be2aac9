//! Regions that have grown too large, or have too much of a table's requests.

use tokio::time::Instant;

use super::{cluster::Cluster, command, finding::Finding};
use crate::{
    client::{Table, TableRegion},
    error::Result,
    model::{BytesBinary, Partition, PartitionRule, Scan, TableDescriptor},
};

/// HBase's limit for the files of a region where a table has none of its own: 10 GiB.
const LIMIT_MIB: u64 = 10 * 1_024;
/// How far above its limit a region must be: one that was just split, or is about to be, is not told.
const ABOVE: u64 = 2;
/// Fewer requests than these say nothing of a table's life.
const REQUESTS: u64 = 100_000;
/// Fewer regions than these always have most of the requests.
const REGIONS: usize = 4;

/// A region, and what its server said of it.
#[derive(Debug)]
struct Loaded<'a> {
    region: &'a TableRegion,
    mib: u64,
    requests: u64,
}

/// The regions of a table that should be split, or served by themselves.
pub(super) async fn findings(
    cluster: &Cluster,
    table: &Table,
    descriptor: &TableDescriptor,
    rule: &PartitionRule,
    regions: &[TableRegion],
    deadline: Instant,
) -> Result<Vec<Finding>> {
    let loaded = loaded(cluster, regions);
    let limit = limit_mib(descriptor);
    let mut findings = Vec::new();
    for region in loaded.iter().filter(|loaded| loaded.mib >= ABOVE * limit.max(1)) {
        findings.extend(oversized(region, limit, table, rule, deadline).await?);
    }
    findings.extend(hot(&loaded).map(|finding| finding.of_table(table.name())));
    Ok(findings)
}

fn loaded<'a>(cluster: &Cluster, regions: &'a [TableRegion]) -> Vec<Loaded<'a>> {
    let loads = || cluster.loads.iter().flat_map(|server| &server.regions);
    let loaded = regions.iter().filter_map(|region| {
        let load = loads().find(|load| load.name == region.region.name)?;
        Some(Loaded {
            region,
            mib: u64::from(load.store_files_mib),
            requests: load.reads.saturating_add(load.writes),
        })
    });
    loaded.collect()
}

/// From what size on HBase splits a region of the table.
fn limit_mib(descriptor: &TableDescriptor) -> u64 {
    let limit = descriptor
        .attribute("MAX_FILESIZE")
        .and_then(|bytes| bytes.parse::<u64>().ok());
    limit.map_or(LIMIT_MIB, |bytes| bytes >> 20)
}

impl Loaded<'_> {
    fn encoded_name(&self) -> String {
        BytesBinary(self.region.region.encoded_name()).to_string()
    }
}

/// Why a region was not split that should have been: HBase splits at the beginning of a partition, and can't where the
/// middle of the region lies in its first one.
async fn oversized(
    loaded: &Loaded<'_>,
    limit: u64,
    table: &Table,
    rule: &PartitionRule,
    deadline: Instant,
) -> Result<Option<Finding>> {
    let Some((first, others)) = partitions(loaded, table, rule, deadline).await? else {
        return Ok(None);
    };
    let (name, mib) = (loaded.encoded_name(), loaded.mib);
    let finding = match others {
        false => Finding::note(
            "partition-giant",
            format!("partition {first} has a region to itself, {name}, and that has {mib} MiB; regions are split from {limit} MiB on"),
            "it can't be split, and only grows: its transactions are one server's, and its files take ever longer to compact",
        )
        .mended_by_hand("a finer prefix, in a new table, is all that helps: see the page on migrating"),
        true => Finding::note(
            "first-partition-giant",
            format!("region {name} has {mib} MiB, and is not split from {limit} MiB on: its middle lies in its first partition, {first}"),
            "HBase can't split it by itself, so its other partitions grow with it",
        )
        .mended_by(command::of_table("repair", table.name()), ""),
    };
    Ok(Some(
        finding
            .of_table(table.name())
            .in_partition(&first)
            .in_regions(vec![name]),
    ))
}

/// The first partition that a region has rows of, and whether it has any of others. None of an empty region.
async fn partitions(
    loaded: &Loaded<'_>,
    table: &Table,
    rule: &PartitionRule,
    deadline: Instant,
) -> Result<Option<(Partition, bool)>> {
    let region = &loaded.region.region;
    let left = deadline.saturating_duration_since(Instant::now());
    let table = table.clone().with_operation_timeout(left);
    let first_row = |scan: Scan| {
        let scan = match region.end_key.is_empty() {
            true => scan,
            false => scan.stop(region.end_key.clone()),
        };
        let scanner = table.scan(scan.limit(1));
        async move { scanner?.next().await }
    };
    let Some(row) = first_row(Scan::new().start(region.start_key.clone())).await? else {
        return Ok(None);
    };
    let first = rule.partition_of(row.key());
    let behind = first.key_behind();
    if behind.is_empty() {
        return Ok(Some((first, false)));
    }
    let next = first_row(Scan::new().start(behind)).await?;
    Ok(Some((first, next.is_some())))
}

/// A region that has most of the table's requests.
fn hot(loaded: &[Loaded<'_>]) -> Option<Finding> {
    let total: u64 = loaded.iter().map(|loaded| loaded.requests).sum();
    let busiest = loaded.iter().max_by_key(|loaded| loaded.requests)?;
    if loaded.len() < REGIONS || total < REQUESTS || busiest.requests <= total / 2 {
        return None;
    }
    let name = busiest.encoded_name();
    let share = u128::from(busiest.requests) * 100 / u128::from(total);
    Some(
        Finding::note(
            "region-hot",
            format!(
                "region {name}, {}, had {share} % of the requests of {} regions since they were opened",
                busiest.region.region.range_text(),
                loaded.len()
            ),
            "one server does the work of the table, and transactions of one partition go one after the other",
        )
        .in_regions(vec![name])
        .mended_by_hand(
            "if it has several partitions, split it: hbase-txn table skew shows where; if it is one partition, a finer \
             prefix is all that helps",
        ),
    )
}
