//! Regions are moved, split and merged under running writers and readers.

use std::time::Duration;

use crate::{
    cluster::{PATIENCE, TestCluster, create_table, drop_table},
    history::Told,
    regions::Shuffler,
    settings::Settings,
    workload::{Load, Workload},
};

const DEADLINE: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_writes_are_whole_under_moves_splits_and_merges() {
    const TEST: &str = "moving_regions";
    let cluster = TestCluster::take().await;
    let settings = Settings::of(TEST);
    let connection = cluster.connect().await;
    let partitions: Vec<String> = (0..24).map(|number| format!("p{number:02}")).collect();
    let boundaries: Vec<String> = partitions.iter().skip(4).step_by(4).cloned().collect();
    let table = create_table(&connection, &settings, TEST, &boundaries)
        .await
        .unwrap();
    let mut workload = Workload::start(
        &table,
        &settings,
        Load {
            partitions: partitions.clone(),
            writers: 4,
            readers: 2,
            deadline: DEADLINE,
            may_run_out: false,
        },
    );
    // A separate client, because the writers' client must detect all changes by itself.
    let shuffler_connection = cluster.connect().await;
    let mut shuffler = Shuffler::new(&shuffler_connection, table.name(), settings.rng(77));
    let rounds = 2 * settings.rounds;
    for _ in 0..rounds {
        shuffler.merge_some(2, PATIENCE).await;
        workload.goes_on(50, PATIENCE).await;
        for _ in 0..2 {
            shuffler.move_one().await;
        }
        for _ in 0..1 + settings.rounds.min(2) / 2 {
            // In the long form every row may be a boundary already; the next merge makes room.
            for _ in 0..partitions.len() {
                let row = shuffler.rng.choice(&partitions).unwrap().clone();
                if shuffler.split_at(&row, PATIENCE).await {
                    break;
                }
            }
        }
        workload.goes_on(50, PATIENCE).await;
    }
    let done = workload.stop().await;
    println!(
        "{TEST}: {:?}, {} scans saw {} groups",
        shuffler.done, done.scans, done.groups_seen
    );
    let changes = shuffler.done;
    assert!(
        changes.moved > 0 && changes.split > 0 && changes.merged > 0,
        "nothing was changed under the writers: {changes:?}"
    );
    done.history.check(TEST, table.table()).await;
    assert_eq!(
        done.history.count(Told::NotApplied),
        0,
        "a region that only moves stops nobody for {DEADLINE:?}"
    );
    drop_table(&connection, &table).await;
    connection.close().await;
}
