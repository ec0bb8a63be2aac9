//! Queries regions for the endpoint of transactions. Only a call proves that a region has loaded
//! it; a descriptor does not.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures::{StreamExt, stream};
use hbase_client::{RegionInfo, Table, TableDescriptor, TableRegion};
use hbase_txn::{Result, honours_conditions};
use tokio::time::Instant;

/// The maximum number of concurrent queries to one server. Servers are queried independently, so a
/// server that hangs does not delay the others.
const AT_ONCE: usize = 8;

/// Queries each region with conditions but no mutations. Returns, in the order of the regions,
/// whether each one honours conditions. A region without the endpoint answers
/// [`EndpointMissing`](hbase_txn::ClientErrorKind::EndpointMissing).
pub(super) async fn ask<'r>(
    table: &Table,
    descriptor: &TableDescriptor,
    regions: &'r [TableRegion],
    deadline: Instant,
) -> Vec<(&'r TableRegion, Result<bool>)> {
    let family = descriptor.families.first().map(|family| family.name.clone());
    let family = family.unwrap_or_default();
    let mut of_servers: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (at, region) in regions.iter().enumerate() {
        let rows = of_servers.entry(&region.server).or_default();
        rows.push((at, first_row(&region.region)));
    }
    let of_servers = of_servers.into_values().map(|rows| {
        // A query is large in memory, so none exists before its turn.
        let queries = stream::iter(rows).map(|(at, row)| {
            let query = probe(table.clone(), row, family.clone(), deadline);
            async move { (at, query.await) }
        });
        queries.buffer_unordered(AT_ONCE)
    });
    let mut answers: Vec<_> = stream::select_all(of_servers).collect().await;
    answers.sort_unstable_by_key(|(at, _)| *at);
    regions
        .iter()
        .zip(answers.into_iter().map(|(_, answer)| answer))
        .collect()
}

async fn probe(table: Table, row: Bytes, family: Bytes, deadline: Instant) -> Result<bool> {
    let left = deadline.saturating_duration_since(Instant::now());
    honours_conditions(&table.with_operation_timeout(left), &row, &family).await
}

/// The first row that a region can have. A row key is never empty.
fn first_row(region: &RegionInfo) -> Bytes {
    if region.start_key.is_empty() {
        Bytes::from_static(&[0])
    } else {
        region.start_key.clone()
    }
}
