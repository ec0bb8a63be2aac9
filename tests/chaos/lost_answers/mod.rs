//! Every tenth answer is lost, requests arrive late and twice, regions move and split, servers
//! refuse requests that they performed before, a server is killed: the reported outcome of each
//! transaction is the true one.
//!
//! | file | what |
//! |---|---|
//! | `ledger` | the table, its transactions, and the marks that count how often each was applied |
//! | `faults` | the treatment of requests and answers by the proxy |
//! | `run` | tasks that commit, settle, read and delete |
//! | `log` | the reported outcome of each commit, compared with the marks |
//!
//! `CHAOS_COMMITS` sets the number of commits of a run.

pub(crate) mod faults;
pub(crate) mod ledger;
mod log;
mod run;

use crate::{
    cluster::{PATIENCE, TestCluster},
    regions::Shuffler,
    settings::{Settings, is_long},
};
use ledger::{accounts, check_balance, marks};
use log::Told;
use run::{Plan, Run};

/// Performs a run with this number of commits.
async fn run(cluster: &TestCluster, settings: &Settings, plan: Plan, commits: usize) -> Run {
    let mut run = Run::begin(cluster, settings, plan).await;
    let connection = cluster.connect().await;
    let mut shuffler = Shuffler::new(&connection, run.table.name(), settings.rng(77));
    let rounds = settings.rounds as usize;
    for round in 0..rounds {
        let share = |part: usize, parts: usize| (round * parts + part) * commits / (rounds * parts);
        run.goes_on_to(share(1, 4), PATIENCE).await;
        for _ in 0..2 {
            shuffler.move_one().await;
        }
        for _ in 0..if is_long() { 3 } else { 1 } {
            let found = shuffler.choose_region().await;
            let home = found.server.as_ref().unwrap().port;
            run.faults
                .lose_then_refuse(home, shuffler.move_away(&found))
                .await;
        }
        // Some rows are boundaries already.
        for _ in 0..run.partitions.len() {
            let row = shuffler.rng.choice(&run.partitions).unwrap().clone();
            if shuffler.split_at(&row, PATIENCE).await {
                break;
            }
        }
        run.goes_on_to(share(2, 4), PATIENCE).await;
        if plan.kill {
            let server = shuffler.rng.u16(1..=3);
            cluster.kill(server).await;
            run.goes_on_to(run.ended() + commits / (8 * rounds), PATIENCE)
                .await;
            cluster.start(server).await;
            cluster.settle(&connection).await;
        }
        shuffler.move_one().await;
        run.goes_on_to(share(4, 4), PATIENCE * 2).await;
    }
    run.stop().await;
    println!("{}: {:?}", plan.test, shuffler.done);
    connection.close().await;
    run
}

/// Under faults that the simulation has too: `make test` leaves them to it, `make chaos` runs both.
mod simulated {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn records_lose_and_double_nothing_under_any_fault() {
        const PLAN: Plan = Plan {
            test: "with_records",
            recorded: true,
            foreign_hands: false,
            kill: true,
        };
        let cluster = TestCluster::take().await;
        let settings = Settings::of(PLAN.test);
        let commits = Settings::commits(3_000, 100_000);
        let run = run(&cluster, &settings, PLAN, commits).await;
        let wrong = run.log().compare(marks(&run.table, &run.partitions).await);
        assert!(wrong.is_nothing(), "{wrong:#?}");
        for partition in &run.partitions {
            check_balance(partition, &accounts(&run.table, partition).await.unwrap());
        }
        for told in [
            Told::Committed,
            Told::Replayed,
            Told::Rejected,
            Told::SettledCommitted,
            Told::SettledNotApplied,
        ] {
            assert!(
                run.log().count(told) > 0,
                "no commit was {told:?}: the run proves little"
            );
        }
        run.end().await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn without_records_the_same_run_shows_doubles_and_ghosts() {
        const PLAN: Plan = Plan {
            test: "without_records",
            recorded: false,
            foreign_hands: false,
            kill: false,
        };
        let cluster = TestCluster::take().await;
        let settings = Settings::of(PLAN.test);
        let commits = Settings::commits(1_000, 20_000);
        let run = run(&cluster, &settings, PLAN, commits).await;
        let wrong = run.log().compare(marks(&run.table, &run.partitions).await);
        println!(
            "{}: {} doubles, {} ghosts, {} lost",
            PLAN.test,
            wrong.doubles.len(),
            wrong.ghosts.len(),
            wrong.lost.len()
        );
        assert!(!wrong.doubles.is_empty() && !wrong.ghosts.is_empty(), "{wrong:?}");
        // The sums do not show it.
        for partition in &run.partitions {
            check_balance(partition, &accounts(&run.table, partition).await.unwrap());
        }
        run.end().await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn deletes_by_others_make_no_outcome_wrong() {
        let plan = Plan {
            test: "foreign_hands",
            recorded: true,
            foreign_hands: true,
            kill: is_long(),
        };
        let cluster = TestCluster::take().await;
        let settings = Settings::of(plan.test);
        let commits = Settings::commits(1_500, 50_000);
        let run = run(&cluster, &settings, plan, commits).await;
        let wrong = run.log().compare(marks(&run.table, &run.partitions).await);
        assert!(wrong.is_nothing(), "{wrong:#?}");
        run.end().await;
    }
}
