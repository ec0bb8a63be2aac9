//! Asks regions for the endpoint of transactions: by a call, because what a descriptor says proves nothing.

use std::collections::HashMap;

use bytes::Bytes;
use futures::{StreamExt, stream};
use tokio::time::Instant;

use crate::{
    client::{Table, TableRegion},
    error::Result,
    model::{RegionInfo, TableDescriptor},
    txn::probe::{contradiction, is_refused},
};

/// How many regions of one server are asked at a time. Servers are asked side by side: one that hangs delays no other.
const AT_ONCE: usize = 8;

/// Asks each region, by conditions with nothing under them, and tells whether it honours them, in the order of the regions.
/// One without the endpoint answers with [`EndpointMissing`](crate::ErrorKind::EndpointMissing).
pub(super) async fn ask<'r>(
    table: &Table,
    descriptor: &TableDescriptor,
    regions: &'r [TableRegion],
    deadline: Instant,
) -> Vec<(&'r TableRegion, Result<bool>)> {
    let family = descriptor.families.first().map(|family| family.name.clone());
    let family = family.unwrap_or_default();
    let mut of_servers: HashMap<_, Vec<_>> = HashMap::new();
    for (at, region) in regions.iter().enumerate() {
        let call = probe(table.clone(), first_row(&region.region), family.clone(), deadline);
        let calls = of_servers.entry(&region.server).or_default();
        calls.push(async move { (at, call.await) });
    }
    let of_servers = of_servers
        .into_values()
        .map(|calls| stream::iter(calls).buffer_unordered(AT_ONCE));
    let mut answers: Vec<_> = stream::select_all(of_servers).collect().await;
    answers.sort_unstable_by_key(|(at, _)| *at);
    regions
        .iter()
        .zip(answers.into_iter().map(|(_, answer)| answer))
        .collect()
}

async fn probe(table: Table, row: Bytes, family: Bytes, deadline: Instant) -> Result<bool> {
    let left = deadline.saturating_duration_since(Instant::now());
    let call = contradiction(&row, &family);
    is_refused(table.with_operation_timeout(left).call_endpoint(&call).await?)
}

/// The first row that a region can have: no row is empty.
fn first_row(region: &RegionInfo) -> Bytes {
    match region.start_key.is_empty() {
        true => Bytes::from_static(&[0]),
        false => region.start_key.clone(),
    }
}
