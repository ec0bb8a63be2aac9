//! Lost answers, late and doubled requests, stopped owners, moving regions, killed servers.

use std::time::Duration;

use super::contest::{Contest, Terms};
use crate::{
    cluster::PATIENCE,
    locks::{Rig, Sort, faults::misfortune},
    proxy::{Action, Proxy},
    regions::Shuffler,
    settings::Settings,
};

const TERMS: Terms = Terms {
    owners: 8,
    lease: Duration::from_millis(1_500),
    wait: Duration::from_millis(300),
    dawdle: true,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bounds_hold_under_region_moves_and_server_kills() {
    const TEST: &str = "coordination_servers";
    let settings = Settings::of(TEST);
    let rig = Rig::new(TEST, &settings, Sort::OursAlone).await;
    let config = rig
        .cluster
        .config()
        .with_operation_timeout(Duration::from_secs(5));
    let contest = Contest::start(&config, None, &rig.name, TERMS, |owner| settings.rng(owner)).await;
    let mut shuffler = Shuffler::new(&rig.connection, &rig.name, settings.rng(77));
    for _ in 0..settings.rounds {
        for _ in 0..3 {
            shuffler.move_one().await;
            contest.goes_on(8, PATIENCE).await;
        }
        let server = shuffler.rng.u16(1..=3);
        rig.cluster.kill(server).await;
        contest.goes_on(15, PATIENCE).await;
        rig.cluster.start(server).await;
        contest.goes_on(15, PATIENCE).await;
    }
    rig.cluster.settle(&rig.connection).await;
    contest.stop(TEST).await;
    rig.end().await;
}

/// Under faults that the simulation has too: `make test` leaves them to it, `make chaos` runs both.
mod simulated {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn bounds_hold_under_lost_answers_and_paused_owners() {
        const TEST: &str = "coordination_faults";
        let settings = Settings::of(TEST);
        let rig = Rig::new(TEST, &settings, Sort::WithCompanions).await;
        let proxy = Proxy::new();
        let config = rig
            .cluster
            .config()
            .with_operation_timeout(Duration::from_secs(2));
        let contest = Contest::start(&config, Some(&proxy), &rig.name, TERMS, |owner| {
            settings.rng(owner)
        })
        .await;
        contest.goes_on(10, PATIENCE).await;
        let mut rng = settings.rng(99);
        proxy.rule(move |request| match request.method.as_str() {
            "Multi" => misfortune(&mut rng),
            _ => Action::Pass,
        });
        contest.goes_on(50 * settings.rounds as usize, PATIENCE).await;
        proxy.pass_all();
        contest.stop(TEST).await;
        rig.end().await;
    }
}
