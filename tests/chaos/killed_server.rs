//! A region server is killed under running writers, and restarted.

use std::time::Duration;

use crate::{
    cluster::{PATIENCE, TestCluster, create_table, drop_table},
    history::Told,
    settings::Settings,
    workload::{Load, Workload},
};

/// A dead server is detected by the end of its session, after 15 s; then its log is split and its
/// regions are opened.
const DEADLINE: Duration = Duration::from_secs(90);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_when_a_region_server_is_killed() {
    const TEST: &str = "killed_server";
    let cluster = TestCluster::take().await;
    let settings = Settings::of(TEST);
    let connection = cluster.connect().await;
    let partitions: Vec<String> = (0..12).map(|number| format!("p{number:02}")).collect();
    let boundaries: Vec<String> = partitions[1..].iter().step_by(2).cloned().collect();
    let table = create_table(&connection, &settings, TEST, &boundaries)
        .await
        .unwrap();
    let mut workload = Workload::start(
        &table,
        &settings,
        Load {
            partitions,
            writers: 6,
            readers: 2,
            deadline: DEADLINE,
            may_run_out: false,
        },
    );
    let mut rng = settings.rng(77);
    for _ in 0..settings.rounds {
        workload.goes_on(100, PATIENCE).await;
        let server = rng.u16(1..=3);
        cluster.kill(server).await;
        // Sometimes its regions are opened elsewhere first, sometimes the restart is faster.
        if rng.bool() {
            workload.goes_on(100, PATIENCE).await;
        }
        cluster.start(server).await;
        workload.goes_on(100, PATIENCE).await;
        workload.touches_all_partitions(PATIENCE).await;
    }
    let done = workload.stop().await;
    println!("{TEST}: {} scans saw {} groups", done.scans, done.groups_seen);
    done.history.check(TEST, table.table()).await;
    // Requests in flight to the dead server may be unknown; all others wait until their region is
    // back.
    assert_eq!(
        done.history.count(Told::NotApplied),
        0,
        "the client did not recover by itself"
    );
    cluster.settle(&connection).await;
    drop_table(&connection, &table).await;
    connection.close().await;
}
