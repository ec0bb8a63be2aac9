//! Lost requests, moving regions, killed servers.

use std::time::Duration;

use fastrand::Rng;
use hbase_txn::client::Connection;
use tokio::time::sleep;

use super::{Rig, load::Load};
use crate::{
    cluster::PATIENCE,
    proxy::{Action, Proxy},
    regions::Shuffler,
    settings::Settings,
};

const WORKERS: usize = 16;
const LONG: Duration = Duration::from_secs(3_600);

/// Chooses the treatment of a request by chance. A server may apply the second of two copies that
/// arrive close together first, which no real network causes and only a note detects. So without
/// notes there are no such copies.
fn misfortune(rng: &mut Rng, has_state: bool) -> Action {
    let late = Duration::from_millis(rng.u64(1..1_200));
    match rng.u16(..1_000) {
        0..10 => Action::DropAnswer,
        10..15 => Action::DropRequest,
        15..25 => Action::Detour(late),
        25..45 if has_state => Action::Again(late),
        25..45 => Action::Again(late + Duration::from_millis(500)),
        45..55 => Action::DelayRequest(late),
        55..65 => Action::DelayAnswer(late),
        65..75 => Action::CutBeforeAnswer,
        75..85 if has_state => Action::Duplicate,
        _ => Action::Pass,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counts_are_right_although_a_server_is_killed() {
    const TEST: &str = "latch_servers";
    let settings = Settings::of(TEST);
    for has_state in settings.variants([true, false]) {
        let rig = Rig::new(TEST, &settings, has_state).await;
        let mut connections = Vec::new();
        for _ in 0..WORKERS {
            let config = rig
                .cluster
                .config()
                .with_operation_timeout(Duration::from_secs(5));
            connections.push(Connection::builder(config).connect().await.unwrap());
        }
        let calls = Settings::cycles(3_000, 100_000) / 2;
        // Slow enough that the server is killed, and its death is detected, during the load.
        let load = Load::start(&rig, &connections, calls, Duration::from_millis(100)).await;
        load.goes_on(20, LONG).await;
        let server = settings.rng(7).u16(1..=3);
        rig.cluster.kill(server).await;
        load.goes_on(60, LONG).await;
        rig.cluster.start(server).await;
        load.goes_on(100, LONG).await;
        rig.cluster.settle(&rig.connection).await;
        load.end(&rig, TEST).await;
        for connection in connections {
            connection.close().await;
        }
        rig.end().await;
    }
}

/// Under faults that the simulation has too: `make test` leaves them to it, `make chaos` runs both.
mod simulated {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn counts_are_exact_under_lost_late_and_repeated_requests() {
        const TEST: &str = "latch_faults";
        let settings = Settings::of(TEST);
        for has_state in settings.variants([true, false]) {
            let rig = Rig::new(TEST, &settings, has_state).await;
            let proxy = Proxy::new();
            let mut connections = Vec::new();
            for _ in 0..WORKERS {
                connections.push(rig.behind(&proxy).await);
            }
            let load = Load::start(
                &rig,
                &connections,
                Settings::cycles(1_200, 100_000),
                Duration::ZERO,
            )
            .await;
            let mut rng = settings.rng(99);
            proxy.rule(move |request| match request.method.as_str() {
                "Multi" => misfortune(&mut rng, has_state),
                _ => Action::Pass,
            });
            let mut shuffler = Shuffler::new(&rig.connection, &rig.name, settings.rng(77));
            while !load.is_done() {
                shuffler.move_one().await;
                sleep(Duration::from_secs(1)).await;
            }
            println!("{TEST}: {:?}", shuffler.done);
            // Requests in flight may still be applied.
            load.goes_on(100, LONG).await;
            proxy.pass_all();
            crate::cluster::until("nothing under way", PATIENCE, async || {
                (proxy.under_way() == 0).then_some(())
            })
            .await;
            load.end(&rig, TEST).await;
            for connection in connections {
                connection.close().await;
            }
            rig.end().await;
        }
    }
}
