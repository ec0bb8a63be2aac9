//! Updates are serialisable, under lost answers, moving regions and killed servers.
//!
//! | file | what |
//! |---|---|
//! | `log` | the histories of a run, and their violations |
//! | `run` | tasks that run transactions under faults |
//! | `pairs` | two transactions that conflict |

mod log;
mod pairs;
mod run;

use std::collections::BTreeMap;

use crate::{
    cluster::TestCluster,
    serialisability::checker::Kind,
    settings::{Settings, is_long},
};
use pairs::{Pair, meet};
use run::{Plan, Upheaval, run};

fn upheaval() -> Upheaval {
    if is_long() {
        Upheaval::Kills
    } else {
        Upheaval::Faults
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn updates_with_versions_are_serialisable_under_any_fault() {
    let plan = Plan {
        test: "serialisable",
        versioned: true,
        updates: true,
        upheaval: upheaval(),
    };
    let cluster = TestCluster::take().await;
    let settings = Settings::of(plan.test);
    let log = run(&cluster, &settings, plan, 800).await;
    let report = log.report();
    assert!(report.anomalies.is_empty(), "{report}\n{}", report.anomalies[0]);
    assert!(
        report.absences > 10 * report.undecided,
        "it proves little: {report}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unchecked_reads_lose_updates_and_skew_writes() {
    let plan = Plan {
        test: "no_updates",
        versioned: true,
        updates: false,
        upheaval: Upheaval::None,
    };
    let cluster = TestCluster::take().await;
    let settings = Settings::of(plan.test);
    let log = run(&cluster, &settings, plan, 300).await;
    let kinds = log.report().kinds();
    assert!(kinds.contains_key(&Kind::LostUpdate), "{kinds:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_updates_are_serialisable_except_for_phantoms() {
    const TEST: &str = "meeting";
    let cluster = TestCluster::take().await;
    let settings = Settings::of(TEST);
    let plan = |versioned, updates| Plan {
        test: TEST,
        versioned,
        updates,
        upheaval: Upheaval::None,
    };
    let (with_versions, without, naive) = tokio::join!(
        meet(&cluster, &settings, plan(true, true)),
        meet(&cluster, &settings, plan(false, true)),
        // Partition versions have no effect on transactions that do not use them.
        meet(&cluster, &settings, plan(true, false)),
    );
    assert!(
        with_versions.values().all(BTreeMap::is_empty),
        "{with_versions:?}"
    );
    for (pair, kinds) in without {
        let found: Vec<Kind> = kinds.into_keys().collect();
        match pair {
            Pair::Range | Pair::Row => assert_eq!(found, [Kind::Phantom], "{pair:?}"),
            Pair::TwoCells | Pair::TwoAbsentCells | Pair::OneCell => assert_eq!(found, [], "{pair:?}"),
        }
    }
    for (pair, kinds) in naive {
        let found: Vec<Kind> = kinds.into_keys().collect();
        let expected = match pair {
            Pair::Range | Pair::Row => Kind::Phantom,
            Pair::TwoCells | Pair::TwoAbsentCells => Kind::WriteSkew,
            Pair::OneCell => Kind::LostUpdate,
        };
        assert_eq!(found, [expected], "{pair:?}");
    }
}

/// Under faults that the simulation has too: `make test` leaves them to it, `make chaos` runs both.
mod simulated {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn without_versions_of_partitions_only_phantoms_are_left() {
        let plan = Plan {
            test: "only_phantoms",
            versioned: false,
            updates: true,
            upheaval: upheaval(),
        };
        let cluster = TestCluster::take().await;
        let settings = Settings::of(plan.test);
        let log = run(&cluster, &settings, plan, 300).await;
        let report = log.report();
        let other = report
            .anomalies
            .iter()
            .find(|anomaly| anomaly.kind != Kind::Phantom);
        if let Some(other) = other {
            panic!("{report}\n{other}");
        }
    }
}
