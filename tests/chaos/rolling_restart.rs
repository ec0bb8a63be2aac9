//! A table of many regions is merged, split again and moved, and every server is restarted, while
//! writers run, and readers that scan in both directions: as in asynchbase's test, in the long form
//! with 256 regions, 64 writers and 16 readers.

use std::time::Duration;

use hbase_txn::client::Get;

use crate::{
    cluster::{PATIENCE, TestCluster, create_table, drop_table},
    regions::Shuffler,
    settings::Settings,
    workload::{Load, Workload},
};

const DEADLINE: Duration = Duration::from_secs(30);
/// Regions, writers and readers.
const SHORT: (usize, u32, u32) = (32, 3, 1);
const LONG: (usize, u32, u32) = (256, 64, 16);
const MERGED: usize = 8;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_outlives_its_deadline_under_cluster_changes() {
    const TEST: &str = "rolling_restart";
    let cluster = TestCluster::take().await;
    let settings = Settings::of(TEST);
    let connection = cluster.connect().await;
    let is_long = settings.rounds > 1;
    let (regions, writers, readers) = if is_long { LONG } else { SHORT };
    let mut partitions: Vec<String> = (0..regions).map(|number| format!("p{number:02x}")).collect();
    let table = create_table(&connection, &settings, TEST, &partitions[1..])
        .await
        .unwrap();
    let mut workload = Workload::start(
        &table,
        &settings,
        Load {
            partitions: partitions.clone(),
            writers,
            readers,
            deadline: DEADLINE,
            may_run_out: true,
        },
    );
    let shuffler_connection = cluster.connect().await;
    let mut shuffler = Shuffler::new(&shuffler_connection, table.name(), settings.rng(77));
    workload.goes_on(100, PATIENCE).await;

    shuffler.merge_all(MERGED).await;
    assert_eq!(shuffler.regions().await.len(), regions / MERGED);
    workload.goes_on(50, PATIENCE).await;
    // In the long form to the last region; a few suffice to affect the client.
    let splits = if is_long { regions - regions / MERGED } else { 2 };
    shuffler.rng.shuffle(&mut partitions);
    for partition in &partitions {
        if shuffler.done.split < splits {
            shuffler.split_at(partition, PATIENCE).await;
        }
    }
    assert_eq!(shuffler.done.split, splits);
    for _ in 0..2 * settings.rounds {
        shuffler.move_one().await;
    }
    workload.goes_on(50, PATIENCE).await;
    for server in settings.variants([1, 2, 3]) {
        cluster.kill(server).await;
        cluster.start(server).await;
        workload.goes_on(50, PATIENCE).await;
    }
    workload.touches_all_partitions(PATIENCE).await;
    let done = workload.stop().await;
    println!(
        "{TEST}: {:?}, {} scans saw {} groups",
        shuffler.done, done.scans, done.groups_seen
    );
    done.history.check(TEST, table.table()).await;

    // The same client still works: every partition answers at once.
    for partition in &partitions {
        table.table().get(Get::new(partition.clone())).await.unwrap();
    }
    cluster.settle(&connection).await;
    drop_table(&connection, &table).await;
    connection.close().await;
}
