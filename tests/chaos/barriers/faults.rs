//! Spinning parties, lost requests, moving regions, killed servers.

use std::time::Duration;

use fastrand::Rng;
use hbase_txn::{
    client::Scan,
    latch::{Barrier, BarrierInfo, BarrierOutcome, LatchManagerOptions},
};
use tokio::time::timeout;

use super::parties::{PARTIES, Parties, Terms};
use crate::{
    cluster::PATIENCE,
    latches::Rig,
    proxy::{Action, Proxy},
    regions::Shuffler,
    settings::Settings,
};

/// The number of calls that learn the end of their generation in one cycle.
const EACH: usize = PARTIES;
const DAWDLING: Terms = Terms {
    time: Duration::from_millis(1_500),
    last: None,
    dawdle: true,
};

/// Chooses the treatment of a request by chance.
fn misfortune(rng: &mut Rng) -> Action {
    let late = Duration::from_millis(rng.u64(1..1_200));
    match rng.u16(..1_000) {
        0..15 => Action::DropAnswer,
        15..20 => Action::DropRequest,
        20..35 => Action::Detour(late),
        35..55 => Action::Again(late),
        55..65 => Action::DelayRequest(late),
        65..75 => Action::DelayAnswer(late),
        75..85 => Action::CutBeforeAnswer,
        85..95 => Action::Duplicate,
        _ => Action::Pass,
    }
}

/// Asserts that the table has only the two cells of the barrier.
async fn leaves_two_cells(rig: &Rig) {
    let table = rig.connection.table(rig.name.clone()).unwrap();
    let mut scanner = table.scan(Scan::new()).unwrap();
    while let Some(row) = scanner.next().await.unwrap() {
        for cell in row.cells() {
            assert!(["b", "g"].iter().any(|own| cell.qualifier == *own), "{cell:?}");
        }
    }
}

async fn barrier(rig: &Rig, id: &str) -> Barrier {
    let options = LatchManagerOptions::new("chaos", "-");
    let latches = options.open(&rig.connection, rig.name.clone()).await.unwrap();
    latches.barrier(id).unwrap()
}

async fn generation(rig: &Rig) -> u64 {
    let BarrierInfo { generation, .. } = barrier(rig, "rounds").await.show().await.unwrap().unwrap();
    generation
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn generations_open_or_break_under_moves_and_kills() {
    const TEST: &str = "barrier_servers";
    let settings = Settings::of(TEST);
    let rig = Rig::new(TEST, &settings, true).await;
    let config = rig
        .cluster
        .config()
        .with_operation_timeout(Duration::from_secs(5));
    let rng = |party| settings.rng(party);
    let parties = Parties::start(&config, None, &rig.connection, &rig.name, DAWDLING, rng).await;
    let mut shuffler = Shuffler::new(&rig.connection, &rig.name, settings.rng(77));
    for _ in 0..settings.rounds {
        for _ in 0..4 {
            shuffler.move_one().await;
            parties.goes_on(EACH).await;
        }
        let server = shuffler.rng.u16(1..=3);
        rig.cluster.kill(server).await;
        parties.goes_on(2 * EACH).await;
        rig.cluster.start(server).await;
        parties.goes_on(2 * EACH).await;
    }
    rig.cluster.settle(&rig.connection).await;
    let (opened, broken) = parties.stop(TEST).await;
    assert!(opened > 0, "{opened}, {broken}");
    leaves_two_cells(&rig).await;
    rig.end().await;
}

#[tokio::test]
async fn arrival_that_the_log_holds_up_past_the_limit_opens_the_generation_for_all() {
    const LIMIT: Duration = Duration::from_secs(2);
    const TEST: &str = "barrier_slow_log";
    let settings = Settings::of(TEST);
    let rig = Rig::new(TEST, &settings, true).await;
    let barrier = barrier(&rig, "slow").await;
    barrier.create(2, LIMIT).await.unwrap();
    let early = barrier.arrive("early").await.unwrap();

    // The server finds the conditions of the last arrival true, and cannot write its log until the
    // first arrival has expired.
    let data_node = rig.cluster.hang_data_node().await;
    let late = tokio::spawn({
        let barrier = barrier.clone();
        async move { barrier.arrive_and_wait("late", PATIENCE).await.unwrap() }
    });
    let outcome = timeout(2 * LIMIT, barrier.wait(&early, PATIENCE)).await;
    drop(data_node);

    assert_eq!(late.await.unwrap(), (early.clone(), BarrierOutcome::Opened));
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(_) => barrier.wait(&early, PATIENCE).await,
    };
    assert_eq!(outcome.unwrap(), BarrierOutcome::Opened);
    rig.end().await;
}

/// Under faults that the simulation has too: `make test` leaves them to it, `make chaos` runs both.
mod simulated {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn every_generation_opens_once_with_all_parties_that_spin() {
        const TEST: &str = "barrier_spinning";
        let settings = Settings::of(TEST);
        let rig = Rig::new(TEST, &settings, true).await;
        let cycles = Settings::cycles(60, 10_000);
        let terms = Terms {
            time: Duration::from_secs(3_600),
            last: Some(cycles as u64),
            dawdle: false,
        };
        let config = rig.cluster.config();
        let rng = |party| settings.rng(party);
        let parties = Parties::start(&config, None, &rig.connection, &rig.name, terms, rng).await;
        assert_eq!(parties.finish(TEST).await, (cycles, 0));
        assert_eq!(generation(&rig).await, cycles as u64 + 1);
        leaves_two_cells(&rig).await;
        rig.end().await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn generations_open_or_break_under_lost_answers_and_pauses() {
        const TEST: &str = "barrier_faults";
        let settings = Settings::of(TEST);
        let rig = Rig::new(TEST, &settings, true).await;
        let proxy = Proxy::new();
        let config = rig.behind_config();
        let rng = |party| settings.rng(party);
        let parties = Parties::start(&config, Some(&proxy), &rig.connection, &rig.name, DAWDLING, rng).await;
        parties.goes_on(EACH).await;
        let mut rng = settings.rng(99);
        proxy.rule(move |request| match request.method.as_str() {
            "Multi" => misfortune(&mut rng),
            _ => Action::Pass,
        });
        parties.goes_on(EACH * 15 * settings.rounds as usize).await;
        parties.one_breaks().await;
        proxy.pass_all();
        let (opened, broken) = parties.stop(TEST).await;
        assert!(opened > 0 && broken > 0, "{opened}, {broken}");
        assert!(generation(&rig).await > (opened + broken) as u64);
        leaves_two_cells(&rig).await;
        rig.end().await;
    }
}
