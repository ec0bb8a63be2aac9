//! Every public call in the corners: what it reports is compared with what is found afterwards.
//!
//! | corner | what happens |
//! |---|---|
//! | delayed | the answer comes after the deadline of the call |
//! | muted | from the request on nothing passes on its connection; the request is lost, arrives, or arrives late |
//! | master muted | no request reaches the master |
//! | moved | the region moves to another server |
//!
//! Each call meets each corner alone, and each pair of corners. `CHAOS_SEED` decides how often
//! answers are delayed, in which way a connection is muted, which corner of a pair comes first, and
//! when the region moves. The cases of a dozen calls go on at the same time, each with a client and
//! rows of its own; a region moves for all of its site.
//!
//! | file | what |
//! |---|---|
//! | `corner` | what the proxy does in a corner |
//! | `site` | tables, and the regions of them that are moved |
//! | `seat` | the client of one case, behind a proxy, and another one that is not |
//! | `report` | what a call reported, and what is to be found then |
//! | `calls` | the list of calls |

mod calls;
mod corner;
mod report;
mod seat;
mod site;

use std::{collections::BTreeMap, time::Duration};

use futures::{StreamExt, future::join_all, stream};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

use crate::{cluster::TestCluster, settings::Settings};
use corner::{Corner, Luck};
use report::{Call, Found, Prepared, Reported};
use seat::Seat;
use site::Site;

/// The deadline of every call, and how much later it may be seen to end on a busy machine.
const DEADLINE: Duration = Duration::from_secs(3);
const SLACK: Duration = Duration::from_secs(1);
/// So many cases are prepared at the same time.
const AT_ONCE: usize = 24;
/// The calls of a wave meet their corners at the same time; more would be too much for the servers.
const WAVE: usize = 12;
/// By then all calls of a wave are made, and the regions begin to move.
const START: u64 = 800;

/// A call in its corners, about to be made.
struct Case {
    name: String,
    seat: Seat,
    prepared: Prepared,
}

/// A call that is over.
struct Ended {
    name: String,
    seat: Seat,
    found: Found,
    reported: Result<Reported, String>,
    took: Duration,
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

    /// Makes the call, after a while.
    async fn run(self, pause: Duration) -> Ended {
        let Self { name, seat, prepared } = self;
        sleep(pause).await;
        let limit = DEADLINE + prepared.waits;
        seat.arm();
        let began = Instant::now();
        let reported = timeout(limit + 10 * SLACK, prepared.call).await;
        let took = began.elapsed();
        seat.disarm();
        // Transactions read the rule of a table again before they use a region that has moved.
        let was_hindered =
            seat.has_lost_answers() || seat.missed_master() || (seat.moves() && took + SLACK > DEADLINE);
        let may_fail = was_hindered || seat.asks_master || prepared.may_fail;
        // A lost or late answer leaves the outcome unknown; so does a region that closes between
        // two actions of one call, and a procedure that the master goes on with.
        let leaves_unknown = |reported: &Reported| {
            let was_cut = seat.moves() && reported.was_cut_by_a_move();
            seat.has_lost_answers() || seat.asks_master || was_cut
        };
        let reported = match reported {
            Err(_) => Err("it hangs".to_owned()),
            Ok(reported) if took > limit + SLACK => Err(format!("it is late: {reported:?}")),
            // A call that meets nothing that can leave its outcome unknown succeeds.
            Ok(reported) if reported.is_unknown() && took < DEADLINE && !leaves_unknown(&reported) => {
                Err(format!("all was answered: {reported:?}"))
            }
            Ok(reported) if !reported.is_done() && !may_fail => {
                Err(format!("nothing was in its way: {reported:?}"))
            }
            Ok(reported) => Ok(reported),
        };
        Ended {
            name,
            seat,
            found: prepared.found,
            reported,
            took,
        }
    }
}

impl Ended {
    /// Compares what was reported with what is found; returns the word for it, or what is wrong.
    async fn check(self) -> Result<&'static str, String> {
        let compared = match self.reported {
            Ok(reported) => {
                let word = reported.word();
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

/// Makes every call in every corner, and returns what is wrong.
async fn round(cluster: &TestCluster, settings: &Settings, round: u32) -> Vec<String> {
    let connection = cluster.connect().await;
    let mut rng = settings.rng(u64::from(round));
    // What does not move shares one site.
    let moves = Corner::combinations().map(|corners| corners.contains(&Corner::Moved));
    let moving = moves.iter().filter(|moves| **moves).count();
    let sites = join_all((0..=moving).map(|_| Site::create(cluster, &connection, settings))).await;
    let (still, moving) = sites.split_first().unwrap();
    let mut moved = moving.iter();
    let sites_of = moves.map(|moves| if moves { moved.next().unwrap() } else { still });

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
        let mut runs: JoinSet<_> = cases.into_iter().map(|case| case.run(pause())).collect();
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
