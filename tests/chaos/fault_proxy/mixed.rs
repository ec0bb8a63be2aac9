//! Random faults.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use fastrand::Rng;
use futures::future::join_all;
use hbase_txn::client::{Get, Row, Scan, ServiceKind};

use super::{COMMIT, Rig};
use crate::{
    cluster::{PATIENCE, drop_table, until},
    history::{Told, text},
    proxy::Action,
    settings::Settings,
    workload::{Load, Workload},
};

/// Returns a random fault; each costs a read at most one time-out.
fn fault(rng: &mut Rng) -> Action {
    let brief = Duration::from_millis(rng.u64(1..300));
    let faults = [
        Action::DropAnswer,
        Action::DropRequest,
        Action::DelayRequest(brief),
        Action::DelayAnswer(brief),
        Action::Duplicate,
        Action::CutBeforeRequest,
        Action::CutInRequest,
        Action::CutAfterRequest,
        Action::CutBeforeAnswer,
        Action::CutInAnswer,
        Action::Blackhole,
    ];
    *rng.choice(&faults).unwrap()
}

#[tokio::test]
async fn reads_survive_every_fault() {
    const TEST: &str = "faulty_reads";
    let settings = Settings::of(TEST);
    let timeout = Duration::from_millis(500);
    let mut rig = Rig::new(TEST, &settings, |config| config.with_read_timeout(timeout)).await;
    let mut expected = Vec::new();
    for number in 0..30 {
        let (outcome, group) = rig.commit(["aaa", "iii", "qqq"][number % 3]).await;
        assert!(outcome.is_committed(), "{outcome}");
        expected.push((group.row(1), group.value(super::ROWS)));
    }
    let mut all: Vec<(String, String)> = scan(&rig).await.iter().map(text).collect();
    all.sort();
    let mut rng = settings.rng(1);
    rig.proxy.rule(move |request| match request.service {
        ServiceKind::Client if rng.u8(..100) < 15 => fault(&mut rng),
        _ => Action::Pass,
    });
    for round in 0..2 * settings.rounds {
        let table = rig.table.table();
        let gets = expected.iter().map(|(row, _)| table.get(Get::new(row.clone())));
        for (found, expected) in join_all(gets).await.into_iter().zip(&expected) {
            assert_eq!(&text(&found.unwrap().unwrap()), expected, "round {round}");
        }
        let found: Vec<(String, String)> = scan(&rig).await.iter().map(text).collect();
        assert_eq!(found, all, "round {round}");
    }
    rig.still_works().await;
    rig.end().await;
}

/// Reads the whole table, in many small batches.
async fn scan(rig: &Rig) -> Vec<Row> {
    let mut scanner = rig.table.table().scan(Scan::new().caching(7)).unwrap();
    let mut rows = Vec::new();
    while let Some(row) = scanner.next().await.unwrap() {
        rows.push(row);
    }
    rows
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transactions_match_their_outcomes_under_any_fault() {
    const TEST: &str = "faulty_commits";
    let settings = Settings::of(TEST);
    let mut rig = Rig::new(TEST, &settings, |config| {
        config.with_read_timeout(Duration::from_millis(500))
    })
    .await;
    // A table whose rows are all in the history.
    drop_table(&rig.connection, &rig.table).await;
    rig.table = crate::cluster::create_table(&rig.connection, &settings, TEST, &["h".into(), "p".into()])
        .await
        .unwrap();
    let mut rng = settings.rng(2);
    let lost = Arc::new(AtomicBool::new(false));
    let has_lost = Arc::clone(&lost);
    rig.proxy.rule(move |request| match request.service {
        ServiceKind::Client if rng.u8(..100) < 4 => {
            let fault = fault(&mut rng);
            if request.method == COMMIT && fault == Action::DropAnswer {
                has_lost.store(true, Ordering::Relaxed);
            }
            fault
        }
        _ => Action::Pass,
    });
    let mut workload = Workload::start(
        &rig.table,
        &settings,
        Load {
            partitions: ["aaa", "bbb", "iii", "jjj", "qqq", "rrr"]
                .map(str::to_owned)
                .to_vec(),
            writers: 16,
            readers: 2,
            deadline: Duration::from_secs(3),
            may_run_out: true,
        },
    );
    workload
        .goes_on(250 * settings.rounds as usize, PATIENCE * settings.rounds)
        .await;
    until("lost answer of a commit", PATIENCE, async || {
        lost.load(Ordering::Relaxed).then_some(())
    })
    .await;
    let done = workload.stop().await;
    rig.proxy.pass_all();
    let sent = rig.proxy.requests(COMMIT);
    println!("{TEST}: {sent} requests, {} connections", rig.proxy.dialled());
    done.history.check(TEST, rig.table.table()).await;
    assert!(
        done.history.count(Told::Unknown) > 0,
        "a lost answer was reported as known"
    );
    rig.still_works().await;
    rig.end().await;
}
