//! Every order in which a latch is created, counted, flushed, forgotten, counted too late and
//! created again, against a model. Many latches run concurrently, so that they expire together:
//! latches whose flush and expiry are at the same places of their orders share a region.

mod model;
mod sequence;

use fastrand::Rng;
use futures::future::join_all;
use hbase_txn::{Level, admin::Admin, client::RegionInfo};
use tokio::sync::Semaphore;

use crate::support::{
    connect,
    latch_rows::{latch_manager, latch_row, latch_table},
    table::TestTable,
};
use model::Event;
use sequence::{CLIENT, Players, Sequence};

/// The number of orders on each kind of table, of 80,640, and the seed that repeats a run.
const COUNT: &str = "HBASE_TXN_TEST_LATCH_ORDERS";
const SEED: &str = "HBASE_TXN_TEST_SEED";
const SHORT: usize = 224;
/// How many orders of one schedule run at a time in the first round. The number doubles after a
/// round without late orders, and halves after a round in which latches ended too early.
const FIRST: usize = 12;
/// The places of the flush and the expiry among the eight events.
const SCHEDULES: usize = 8 * 7;
/// The orders of the six other events.
const OTHERS: usize = 720;

#[tokio::test]
async fn a_latch_is_what_the_model_says_in_every_order_of_events() {
    run(true).await;
}

#[tokio::test]
async fn latch_without_notes_matches_the_model_in_every_order() {
    run(false).await;
}

/// The places of flush and expiry.
fn schedule(number: usize) -> (usize, usize) {
    let (flush, expiry) = (number / 7, number % 7);
    (flush, expiry + usize::from(expiry >= flush))
}

/// An order of all events: a schedule, and one of the orders of the other events.
fn order((flush, expiry): (usize, usize), mut number: usize) -> [Event; 8] {
    let fixed = |event: &Event| matches!(event, Event::Flush | Event::Expiry);
    let mut others: Vec<_> = Event::ALL.into_iter().filter(|event| !fixed(event)).collect();
    std::array::from_fn(|place| match place {
        _ if place == flush => Event::Flush,
        _ if place == expiry => Event::Expiry,
        _ => {
            let next = number % others.len();
            number /= others.len();
            others.remove(next)
        }
    })
}

fn setting(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok().filter(|text| !text.is_empty())?;
    Some(text.parse().unwrap())
}

async fn run(has_state: bool) {
    let seed = setting(SEED).unwrap_or_else(|| fastrand::u64(..));
    println!("{SEED}={seed}");
    let mut rng = Rng::with_seed(seed);
    let count = setting(COUNT).map_or(SHORT, |count| usize::try_from(count).unwrap());
    // All orders of each schedule at both levels, shuffled; a short run takes the first of them.
    let mut plans: Vec<Vec<(Level, usize)>> = (0..SCHEDULES)
        .map(|_| {
            let both = [Level::Dc, Level::Xdc];
            let numbers = (0..OTHERS).flat_map(|number| both.map(|level| (level, number)));
            let mut plans: Vec<_> = numbers.collect();
            rng.shuffle(&mut plans);
            plans.truncate(count.div_ceil(SCHEDULES));
            plans
        })
        .collect();
    let mut stage = Stage::new(has_state).await;
    let (mut done, mut late, mut in_vain, mut complaints) = (0, 0, 0, Vec::new());
    let mut most = FIRST;
    while plans.iter().any(|plans| !plans.is_empty()) {
        let round: Vec<Vec<_>> = plans
            .iter_mut()
            .map(|plans| plans.drain(..plans.len().min(most)).collect())
            .collect();
        let (done_before, late_before) = (done, late);
        let sequences = stage.side_by_side(&round).await;
        for ((plans, round), sequences) in plans.iter_mut().zip(round).zip(sequences) {
            for (plan, mut sequence) in round.into_iter().zip(sequences) {
                complaints.append(&mut sequence.complaints);
                if sequence.late {
                    // Repeats it alongside fewer others, so that a busy machine leaves none out.
                    late += 1;
                    plans.push(plan);
                } else {
                    done += 1;
                }
            }
        }
        println!("{done} orders, {late} too late; {most} of each schedule at a time");
        in_vain = if done == done_before { in_vain + 1 } else { 0 };
        most = if late == late_before {
            most * 2
        } else {
            most.div_ceil(2)
        };
        assert!(
            in_vain < 3,
            "three rounds in which all were too late: the machine is too slow"
        );
    }
    println!(
        "{done} orders, {late} of them once more because they were too late, {} complaints",
        complaints.len()
    );
    assert!(
        complaints.is_empty(),
        "{} complaints of {done} orders, the first: {:#?}",
        complaints.len(),
        &complaints[..complaints.len().min(5)]
    );
    assert_eq!(done, count.div_ceil(SCHEDULES).min(2 * OTHERS) * SCHEDULES);
}

/// A table with one region per schedule, and the clients that use it.
struct Stage {
    regions: Vec<RegionInfo>,
    players: Players,
    has_state: bool,
    /// The ids that were used.
    ids: usize,
    _table: TestTable,
}

impl Stage {
    async fn new(has_state: bool) -> Self {
        let connection = connect().await;
        let table = latch_table(&connection, "orders", SCHEDULES, has_state).await;
        let players = Players {
            here: latch_manager(&connection, &table.name, CLIENT, "fra").await,
            there: latch_manager(&connection, &table.name, CLIENT, "sgp").await,
            data: table.of(&connection).with_expiry(),
            calls: Semaphore::new(16),
        };
        Self {
            regions: table.regions(&connection).await,
            players,
            has_state,
            ids: 0,
            _table: table,
        }
    }

    /// Runs each plan of each schedule with a new latch.
    async fn side_by_side(&mut self, plans: &[Vec<(Level, usize)>]) -> Vec<Vec<Sequence>> {
        let wanted: usize = plans.iter().map(Vec::len).sum();
        let mut sequences: Vec<Vec<Sequence>> = (0..SCHEDULES).map(|_| Vec::new()).collect();
        while sequences.iter().map(Vec::len).sum::<usize>() < wanted {
            self.ids += 1;
            let id = self.ids.to_string();
            let row = latch_row(CLIENT, &id);
            let region = self
                .regions
                .iter()
                .position(|region| region.contains(&row))
                .unwrap();
            if let Some((level, others)) = plans[region].get(sequences[region].len()) {
                let events = order(schedule(region), *others);
                sequences[region].push(Sequence::new(id, *level, events, self.has_state));
            }
        }
        let regions = self.regions.iter().zip(&mut sequences).enumerate();
        let players = &self.players;
        let runs = regions.map(|(number, (region, sequences))| in_region(players, number, region, sequences));
        join_all(runs).await;
        sequences
    }
}

async fn in_region(players: &Players, number: usize, region: &RegionInfo, sequences: &mut [Sequence]) {
    for place in 0..Event::ALL.len() {
        if place == schedule(number).0 {
            let admin = Admin::new(players.data.connection());
            admin.flush_region(region).await.unwrap();
        }
        join_all(sequences.iter_mut().map(|one| one.take(players, place))).await;
    }
    for sequence in sequences {
        sequence.end();
    }
}

#[test]
fn all_orders_are_different() {
    let mut seen = std::collections::HashSet::new();
    for number in 0..SCHEDULES {
        for others in 0..OTHERS {
            let order = order(schedule(number), others);
            assert_eq!(order[schedule(number).0], Event::Flush);
            assert!(seen.insert(format!("{order:?}")));
        }
    }
    assert_eq!(seen.len(), 40_320);
}
