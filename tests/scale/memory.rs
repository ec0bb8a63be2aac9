//! What a client keeps in memory for each region and each server.

use hbase_test_support::resident_bytes;

use crate::cluster::{Cluster, get};

/// The number of clients whose memory is measured.
const CLIENTS: usize = 4;
const MAX_REGION_BYTES: usize = 1_000;
const MAX_CONNECTION_BYTES: usize = 100_000;

#[tokio::test(start_paused = true)]
async fn cached_regions_are_small() {
    let cluster = Cluster::start();
    // The first client pays for the buffers that the allocator then uses again.
    let first = cluster.warm_client().await;
    first.close().await;
    let before = resident_bytes();
    let mut clients = vec![first];
    for _ in 0..CLIENTS {
        let client = cluster.warm_client().await;
        // A closed client keeps its cache, but not the buffers of its connections.
        client.close().await;
        clients.push(client);
    }
    let bytes = resident_bytes().saturating_sub(before) / (CLIENTS * cluster.regions);
    println!(
        "{} regions in the cache of a client: {bytes} bytes each",
        cluster.regions
    );
    assert!(bytes <= MAX_REGION_BYTES, "{bytes} bytes a region");
}

#[tokio::test(start_paused = true)]
async fn connections_are_small() {
    let cluster = Cluster::start();
    let client = cluster.warm_client().await;
    let before = resident_bytes();
    for server in 0..cluster.servers {
        get(&client, server).await;
    }
    let bytes = resident_bytes().saturating_sub(before) / cluster.servers;
    println!(
        "{} connections: {bytes} bytes each, those of the fake server included",
        cluster.servers
    );
    assert!(bytes <= MAX_CONNECTION_BYTES, "{bytes} bytes a connection");
}
