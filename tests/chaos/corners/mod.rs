//! Every public call under combinations of faults ("corners"): its reported result is compared with
//! its effect.
//!
//! | corner | what happens |
//! |---|---|
//! | delayed | the answer comes after the deadline of the call |
//! | muted | from the request on its connection forwards no bytes; the request is lost, arrives, or arrives late |
//! | master muted | no request reaches the master |
//! | moved | the region moves to another server |
//!
//! Each call meets each corner alone, and each pair of corners. `CHAOS_SEED` decides how often
//! answers are delayed, how a connection is muted, which corner of a pair comes first, and when the
//! region moves. The cases of a dozen calls run concurrently, each with its own client and rows; a
//! region moves for all cases of its site.
//!
//! | file | what |
//! |---|---|
//! | `corner` | the treatment of requests by the proxy in a corner |
//! | `site` | tables, and the moves of their regions |
//! | `seat` | the client of one case, behind a proxy, and another one without it |
//! | `pulse` | how fast the cluster answers meanwhile; a busy machine may stop for seconds |
//! | `report` | the reported result of a call, and its expected effect |
//! | `calls` | the list of calls |

mod calls;
mod corner;
mod pulse;
mod report;
mod seat;
mod site;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::{StreamExt, future::join_all, stream};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

use crate::{cluster::TestCluster, settings::Settings};
use corner::{Corner, Luck};
use pulse::Pulse;
use report::{Call, Found, Prepared, Reported};
use seat::Seat;
use site::Site;

/// The deadline of every call, and the tolerance on a busy machine.
const DEADLINE: Duration = Duration::from_secs(3);
const SLACK: Duration = Duration::from_secs(1);
/// The number of cases that are prepared concurrently.
const AT_ONCE: usize = 24;
/// The number of calls that run concurrently; more would overload the servers.
const WAVE: usize = 6;
/// The time in which all calls of a wave begin; then the regions begin to move.
const START: u64 = 800;
/// The part of the cases that may fail because the cluster was slow, in percent.
const STALLED: usize = 3;

/// A call in its corners, ready to run.
struct Case {
    name: String,
    seat: Seat,
    prepared: Prepared,
}

/// A call that has ended.
struct Ended {
    name: String,
    seat: Seat,
    found: Found,
    reported: Result<Reported, String>,
    took: Duration,
    /// Whether only a slow cluster explains its failure.
    stalled: bool,
}

impl Case {
    async fn prepare(
        call: &Call,
        site: &Site,
        corners: &'static [Corner],
        number: usize,
        luck: Luck,
    ) -> Self {
        let seat = Seat::take(site, corners, number, call.asks_master, luck).await;
        Self {
            name: format!("{} {corners:?}", call.name),
            prepared: (call.prepare)(seat.clone()).await,
            seat,
        }
    }

    /// Makes the call after a pause.
    async fn run(self, pause: Duration, pulse: Arc<Pulse>) -> Ended {
        let Self { name, seat, prepared } = self;
        sleep(pause).await;
        let limit = DEADLINE + prepared.waits;
        seat.arm();
        let (began, delays) = (Instant::now(), pulse.delays());
        let reported = timeout(limit + 10 * SLACK, prepared.call).await;
        let took = began.elapsed();
        seat.disarm();
        // Transactions read the rule of a table again before they use a region that has moved.
        let was_hindered =
            seat.has_lost_answers() || seat.missed_master() || (seat.moves() && took + SLACK > DEADLINE);
        let may_fail = was_hindered || seat.asks_master || prepared.may_fail;
        // A lost or late answer leaves the outcome unknown; so does a region that closes between
        // two actions of one call, and a procedure that the master continues.
        let leaves_unknown = |reported: &Reported| {
            let was_cut = seat.moves() && reported.was_cut_by_a_move();
            seat.has_lost_answers() || seat.asks_master || was_cut
        };
        let mut stalled = false;
        let mut unless_stalled = |reported: Reported, is_stall: bool, violation: &str| {
            stalled = is_stall;
            if is_stall {
                Ok(reported)
            } else {
                Err(format!("{violation}: {reported:?}"))
            }
        };
        let was_slow = || took + SLACK > DEADLINE && pulse.stalled_since(began);
        let reported = match reported {
            Err(_) => Err("it hangs".to_owned()),
            Ok(reported) if took > limit + SLACK => {
                let is_stall = took < limit + SLACK + (pulse.delays() - delays);
                unless_stalled(reported, is_stall, "it is late")
            }
            // A call without such an event must have a known outcome.
            Ok(reported) if reported.is_unknown() && took < DEADLINE && !leaves_unknown(&reported) => {
                unless_stalled(reported, was_slow(), "all was answered")
            }
            Ok(reported) if !reported.is_done() && !may_fail && !leaves_unknown(&reported) => {
                unless_stalled(reported, was_slow(), "nothing was in its way")
            }
            Ok(reported) => Ok(reported),
        };
        Ended {
            name,
            seat,
            found: prepared.found,
            reported,
            took,
            stalled,
        }
    }
}

impl Ended {
    /// Compares the reported result with the effect. Returns a word for the result, or the
    /// violation.
    async fn check(self) -> Result<&'static str, String> {
        let compared = match self.reported {
            Ok(reported) => {
                let word = if self.stalled { "stalled" } else { reported.word() };
                report::compare(reported, self.found, &self.seat)
                    .await
                    .map(|()| word)
            }
            Err(why) => Err(why),
        };
        compared.map_err(|why| {
            format!(
                "{}, after {:?}: {why}; {}",
                self.name,
                self.took,
                self.seat.story()
            )
        })
    }
}

/// Makes every call in every corner, and returns the violations.
async fn round(cluster: &TestCluster, settings: &Settings, round: u32) -> Vec<String> {
    let connection = cluster.connect().await;
    let mut rng = settings.rng(u64::from(round));
    // Cases without moves share one site.
    let moves = Corner::combinations().map(|corners| corners.contains(&Corner::Moved));
    let moving = moves.iter().filter(|moves| **moves).count();
    let sites = join_all((0..=moving).map(|_| Site::create(cluster, &connection, settings))).await;
    let (still, moving) = sites.split_first().unwrap();
    let mut moved = moving.iter();
    let sites_of = moves.map(|moves| if moves { moved.next().unwrap() } else { still });

    let tables = still
        .tables()
        .map(|table| connection.table(table.clone()).unwrap());
    let pulse = Arc::new(Pulse::of(tables.to_vec()));
    let calls = calls::all();
    let (mut number, mut checks) = (0, JoinSet::new());
    for wave in calls.chunks(WAVE) {
        let planned = wave.iter().flat_map(|call| {
            let corners = Corner::combinations().into_iter().zip(sites_of);
            corners.map(move |(corners, site)| (call, corners, site))
        });
        let cases = planned.map(|(call, corners, site)| {
            number += 1;
            Case::prepare(call, site, corners, number, Luck::new(rng.fork()))
        });
        let cases: Vec<Case> = stream::iter(cases.collect::<Vec<_>>())
            .buffer_unordered(AT_ONCE)
            .collect()
            .await;
        let mut pause = || Duration::from_millis(rng.u64(..START));
        let runs = cases
            .into_iter()
            .map(|case| case.run(pause(), Arc::clone(&pulse)));
        let mut runs: JoinSet<_> = runs.collect();
        let mut rng = rng.fork();
        let moves = moving
            .iter()
            .map(|site| site.move_regions(Duration::from_millis(rng.u64(..START)), rng.fork()));
        let run = async {
            while let Some(ended) = runs.join_next().await {
                checks.spawn(ended.unwrap().check());
            }
        };
        tokio::join!(run, join_all(moves));
    }
    let (mut wrong, mut words) = (Vec::new(), BTreeMap::<_, usize>::new());
    while let Some(checked) = checks.join_next().await {
        match checked.unwrap() {
            Ok(word) => *words.entry(word).or_default() += 1,
            Err(why) => wrong.push(why),
        }
    }
    println!("round {round}: {words:?} of {number}");
    for word in ["done", "not applied", "unknown"] {
        assert!(
            words.contains_key(word),
            "nothing was {word}: the round proves little"
        );
    }
    let stalled = words.get("stalled").copied().unwrap_or(0);
    assert!(
        stalled * 100 <= STALLED * number,
        "the cluster was too slow for {stalled} cases"
    );
    drop(pulse);
    join_all(sites.into_iter().map(Site::remove)).await;
    connection.close().await;
    wrong
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_call_reports_the_truth_in_every_pair_of_corners() {
    let settings = Settings::of("corners");
    let cluster = TestCluster::take().await;
    let mut wrong = Vec::new();
    for number in 0..settings.rounds {
        wrong.extend(round(&cluster, &settings, number).await);
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}
