//! Reads of all regions after they have moved.

use futures::future::join_all;
use hbase_txn::client::Connection;

use crate::cluster::{Cluster, IN_FLIGHT, get};

/// A client whose regions have all moved since it looked them up.
async fn moved() -> (Cluster, Connection) {
    let cluster = Cluster::start();
    let client = cluster.warm_client().await;
    cluster.move_all(1);
    cluster.hbase.settled().await;
    (cluster, client)
}

async fn get_all(cluster: &Cluster, client: &Connection, what: &str, in_flight: usize) {
    let gets = |region| get(client, region);
    cluster.call_all(what, in_flight, gets).await.check();
}

#[tokio::test(start_paused = true)]
async fn gets_after_a_mass_move_find_all_regions_at_once() {
    let (cluster, client) = moved().await;
    get_all(&cluster, &client, "gets after a mass move", usize::MAX).await;
}

#[tokio::test(start_paused = true)]
async fn gets_after_a_mass_move_find_regions_step_by_step() {
    let (cluster, client) = moved().await;
    get_all(&cluster, &client, "gets after a mass move", IN_FLIGHT).await;
}

#[tokio::test(start_paused = true)]
async fn gets_after_a_rolling_restart_find_all_regions() {
    let cluster = Cluster::start();
    let client = cluster.warm_client().await;
    let started = std::time::Instant::now();
    for server in 0..cluster.servers {
        let process = cluster.hbase.server(server);
        process.crash();
        cluster.hbase.settled().await;
        // A region that this server had: the client has to notice that the server is gone.
        get(&client, server).await;
        process.restart();
        cluster.hbase.settled().await;
    }
    println!(
        "rolling restart: {:.1} s of wall time",
        started.elapsed().as_secs_f64()
    );
    get_all(&cluster, &client, "gets after a rolling restart", usize::MAX).await;
}

#[tokio::test(start_paused = true)]
async fn gets_of_one_moved_region_share_a_look_up() {
    let (cluster, client) = moved().await;
    let meta_calls = cluster.meta_calls();
    join_all((0..1_000).map(|_| get(&client, 1))).await;
    let meta_calls = cluster.meta_calls() - meta_calls;
    println!("1000 gets of one moved region: {meta_calls} calls of hbase:meta");
    assert!(meta_calls <= 6, "{meta_calls} calls");
}
