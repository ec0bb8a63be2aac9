//! Writes to all regions, which all move in the middle.

use std::cell::Cell;

use hbase_txn::client::{Connection, Put, Scan, WriterOptions};
use tokio::time::Instant;

use crate::cluster::{Cluster, IN_FLIGHT, MAX_META_CALLS, TABLE, ratio, row};

/// The number of rows that bulk writes add to each region.
const ROWS: usize = 4;
/// The limit of calls a row, if rows are written in random order.
const MAX_CALLS: f64 = 0.5;

fn put(region: usize, number: usize) -> Put {
    Put::new(format!("{}-{number}", row(region))).cell("f", "q", "v")
}

#[tokio::test(start_paused = true)]
async fn single_puts_go_on_through_a_mass_move() {
    let cluster = Cluster::start();
    let client = cluster.warm_client().await;
    let table = client.table(TABLE).unwrap();
    let begun = Cell::new(0);
    let puts = async |region| {
        begun.set(begun.get() + 1);
        if begun.get() == cluster.regions / 2 {
            cluster.move_all(1);
        }
        table.put(put(region, 0)).await.unwrap();
    };
    cluster
        .call_all("puts during a mass move", IN_FLIGHT, puts)
        .await
        .check();
    assert_eq!(rows(&cluster, &client).await, cluster.regions);
}

#[tokio::test(start_paused = true)]
async fn bulk_writes_go_on_through_a_mass_move() {
    let cluster = Cluster::start();
    let client = cluster.warm_client().await;
    let (began, started) = (Instant::now(), std::time::Instant::now());
    let (meta_calls, calls) = (cluster.meta_calls(), cluster.hbase.calls("Multi"));
    let writer = client.table(TABLE).unwrap().writer(WriterOptions::new());
    for number in 0..ROWS {
        if number == ROWS / 2 {
            cluster.move_all(1);
        }
        for region in cluster.shuffled() {
            writer.write(put(region, number)).await.unwrap();
        }
    }
    writer.flush().await.unwrap();
    let failures = writer.take_failures();
    assert!(failures.is_empty(), "{failures:?}");
    let all = ROWS * cluster.regions;
    let calls = ratio(cluster.hbase.calls("Multi") - calls, all);
    let meta_calls = ratio(cluster.meta_calls() - meta_calls, cluster.regions);
    println!(
        "bulk during a mass move, {all} rows in {} regions on {} servers: {:.1} s, {calls:.3} calls a row, \
         {meta_calls:.4} calls of hbase:meta a region, {:.1} s of wall time",
        cluster.regions,
        cluster.servers,
        began.elapsed().as_secs_f64(),
        started.elapsed().as_secs_f64()
    );
    assert!(calls <= MAX_CALLS, "{calls} calls a row");
    assert!(
        meta_calls <= MAX_META_CALLS,
        "{meta_calls} calls of hbase:meta a region"
    );
    assert_eq!(rows(&cluster, &client).await, all);
}

async fn rows(cluster: &Cluster, client: &Connection) -> usize {
    let table = client.table(TABLE).unwrap();
    let mut scanner = table.scan_regions(Scan::new(), cluster.servers).unwrap();
    let mut rows = 0;
    while scanner.next().await.unwrap().is_some() {
        rows += 1;
    }
    rows
}
