//! Asks regions for the endpoint of transactions: by a call, because what a descriptor says proves nothing.

use bytes::Bytes;
use futures::{StreamExt, stream};
use tokio::time::Instant;

use crate::{
    client::{Table, TableRegion},
    error::Result,
    model::{RegionInfo, TableDescriptor},
    txn::probe::{contradiction, is_refused},
};

/// How many regions are asked at a time.
const AT_ONCE: usize = 16;

/// Asks each region, by conditions with nothing under them, and tells whether it honours them. One without the endpoint
/// answers with [`EndpointMissing`](crate::ErrorKind::EndpointMissing).
pub(super) async fn ask<'r>(
    table: &Table,
    descriptor: &TableDescriptor,
    regions: &'r [TableRegion],
    deadline: Instant,
) -> Vec<(&'r TableRegion, Result<bool>)> {
    let family = descriptor.families.first().map(|family| family.name.clone());
    let family = family.unwrap_or_default();
    let calls: Vec<_> = regions
        .iter()
        .map(|region| probe(table.clone(), first_row(&region.region), family.clone(), deadline))
        .collect();
    let answers: Vec<_> = stream::iter(calls).buffered(AT_ONCE).collect().await;
    regions.iter().zip(answers).collect()
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
