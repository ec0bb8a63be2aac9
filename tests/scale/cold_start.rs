//! Many clients that start at the same time and know no region.

use std::time::Duration;

use fastrand::Rng;
use futures::future::join_all;
use tokio::time::Instant;

use crate::cluster::{Cluster, Times, get, ratio, size};

/// The number of rows that each client reads at once, in random regions.
const GETS: usize = 64;
const MAX_META_CALLS: f64 = 70.0;

#[tokio::test(start_paused = true)]
async fn many_clients_start_at_once() {
    let cluster = Cluster::start();
    let clients = size("SCALE_CLIENTS", 50);
    let meta_calls = cluster.meta_calls();
    let starts = (0..clients).map(|client| start(&cluster, client));
    let (first, all): (Vec<_>, Vec<_>) = join_all(starts).await.into_iter().unzip();
    let meta_calls = ratio(cluster.meta_calls() - meta_calls, clients);
    println!(
        "cold start of {clients} clients, {} regions on {} servers: first get {}; {GETS} gets {}; {meta_calls:.1} \
         calls of hbase:meta a client",
        cluster.regions,
        cluster.servers,
        Times::new(first),
        Times::new(all)
    );
    assert!(meta_calls <= MAX_META_CALLS, "{meta_calls} calls a client");
}

/// Returns the time of a client's first get, and of many concurrent ones after it.
async fn start(cluster: &Cluster, client: usize) -> (Duration, Duration) {
    let mut rng = Rng::with_seed(client as u64);
    let began = Instant::now();
    let connection = cluster.hbase.connect().await.unwrap();
    get(&connection, rng.usize(..cluster.regions)).await;
    let first = began.elapsed();
    let began = Instant::now();
    join_all((0..GETS).map(|_| get(&connection, rng.usize(..cluster.regions)))).await;
    (first, began.elapsed())
}
