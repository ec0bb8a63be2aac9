//! A barrier at which more participants arrive than it has parties.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    time::Duration,
};

use fastrand::Rng;
use hbase_fake::sim::World;
use hbase_txn::{
    Connection,
    latch::{Barrier, BarrierOutcome, LatchManagerOptions, LatchTableOptions},
};
use tokio::{
    task::LocalSet,
    time::{Instant, sleep, timeout},
};

use crate::bench::connect;

const PARTIES: u32 = 3;
const PARTICIPANTS: usize = 5;
const ARRIVALS: usize = 6;
/// Generations of the barrier of two.
const ROUNDS: u64 = 5;

/// What the participants were told.
#[derive(Default)]
struct Told {
    /// The participants that arrived in each generation.
    arrived: RefCell<BTreeMap<u64, BTreeSet<usize>>>,
    /// Whether the generations that ended have opened.
    opened: RefCell<BTreeMap<u64, bool>>,
    /// Participants whose arrival may have counted, with the last generation before it.
    unknown: RefCell<Vec<(usize, u64)>>,
}

pub(crate) async fn scenario(world: World) {
    let mut rng = world.rng(0);
    let plain = world.connect(world.hbase().config(), 0).await.unwrap();
    let options = LatchTableOptions::new("latches").unwrap();
    options.create(&plain.admin()).await.unwrap();
    let time = Duration::from_millis(rng.u64(1_000..3_000));
    open(&plain).await.create(PARTIES, time).await.unwrap();
    let told = Rc::new(Told::default());
    let tasks = LocalSet::new();
    for number in 0..PARTICIPANTS {
        let barrier = open(&connect(&world, &mut rng).await).await;
        let rng = world.rng(1 + number as u64);
        tasks.spawn_local(arrive_often(barrier, number, Rc::clone(&told), rng));
    }
    let pair = open_named(&plain, "pair").await;
    pair.create(2, Duration::from_secs(24 * 3_600)).await.unwrap();
    let passed = Rc::default();
    for number in 0..2 {
        let barrier = open_named(&connect(&world, &mut rng).await, "pair").await;
        let rng = world.rng(100 + number as u64);
        tasks.spawn_local(arrive_again(barrier, number, Rc::clone(&passed), rng));
    }
    world.begin_faults();
    tasks.await;
    world.end_faults().await;
    told.check();
}

async fn open(connection: &Connection) -> Barrier {
    open_named(connection, "b").await
}

async fn open_named(connection: &Connection, name: &str) -> Barrier {
    let latches = LatchManagerOptions::new("simulation", "fra");
    let latches = latches.open(connection, "latches").await.unwrap();
    latches.barrier(name).unwrap()
}

/// Two participants repeat each arrival and each wait, with short timeouts, until the generation that
/// they named has ended. They pass all generations together.
async fn arrive_again(barrier: Barrier, number: usize, passed: Rc<RefCell<[u64; 2]>>, mut rng: Rng) {
    for generation in 1..=ROUNDS {
        let end = Instant::now() + Duration::from_secs(600);
        loop {
            assert!(
                Instant::now() < end,
                "p{number}: generation {generation} does not end"
            );
            // Mostly too short for a call: a server that answers slowly needs more.
            let patience = match rng.u8(..4) {
                0 => Duration::from_secs(20),
                _ => Duration::from_millis(rng.u64(..200)),
            };
            let Ok(Ok(arrival)) =
                timeout(patience, barrier.arrive_in(&format!("p{number}"), generation)).await
            else {
                sleep(Duration::from_millis(rng.u64(..20))).await;
                continue;
            };
            assert_eq!(arrival.generation(), generation, "p{number} named another one");
            match barrier.wait(&arrival, patience).await {
                Ok(BarrierOutcome::Opened) => break,
                Ok(BarrierOutcome::TimedOut) | Err(_) => sleep(Duration::from_millis(rng.u64(..20))).await,
                Ok(other) => panic!("generation {generation}: {other:?}"),
            }
        }
        let mut passed = passed.borrow_mut();
        passed[number] = generation;
        let other = passed[1 - number];
        // The other has arrived in this generation, so it has passed the one before.
        assert!(
            other.abs_diff(generation) <= 1,
            "p{number} has passed generation {generation}, and the other {other}"
        );
    }
}

async fn arrive_often(barrier: Barrier, number: usize, told: Rc<Told>, mut rng: Rng) {
    let mut last = 0;
    for _ in 0..ARRIVALS {
        sleep(Duration::from_millis(rng.u64(..100))).await;
        let patience = match rng.u8(..8) {
            0 => Duration::from_micros(rng.u64(..50_000)),
            _ => Duration::from_secs(180),
        };
        let arrival = match timeout(patience, barrier.arrive(&format!("p{number}"))).await {
            Ok(Ok(arrival)) => arrival,
            Ok(Err(error)) if !error.is_outcome_unknown() => continue,
            Ok(Err(_)) => {
                told.unknown.borrow_mut().push((number, last));
                continue;
            }
            Err(_) => {
                assert!(patience < Duration::from_secs(1), "an arrival does not end");
                told.unknown.borrow_mut().push((number, last));
                continue;
            }
        };
        let generation = arrival.generation();
        assert!(generation > last, "p{number}: {generation} comes after {last}");
        told.arrived
            .borrow_mut()
            .entry(generation)
            .or_default()
            .insert(number);
        let is_open = loop {
            match barrier.wait(&arrival, Duration::from_secs(180)).await {
                Ok(outcome) => break outcome == BarrierOutcome::Opened,
                Err(_) => sleep(Duration::from_millis(20)).await,
            }
        };
        last = generation;
        let before = *told.opened.borrow_mut().entry(generation).or_insert(is_open);
        assert_eq!(is_open, before, "generation {generation} was open for others");
    }
}

impl Told {
    /// Checks that no generation opened early or for too many.
    fn check(&self) {
        let (all, unknown) = (self.arrived.borrow(), self.unknown.borrow());
        for (generation, is_open) in &*self.opened.borrow() {
            let arrived = &all[generation];
            assert!(
                arrived.len() <= PARTIES as usize,
                "{arrived:?} arrived in generation {generation}"
            );
            // Before its next certain arrival, which is in a later generation, or in none.
            let perhaps = unknown.iter().filter(|(participant, last)| {
                last < generation
                    && !all
                        .range(last + 1..=*generation)
                        .any(|(_, arrived)| arrived.contains(participant))
            });
            let perhaps: BTreeSet<usize> = perhaps.map(|(participant, _)| *participant).collect();
            assert!(
                !is_open || arrived.len() + perhaps.len() >= PARTIES as usize,
                "generation {generation} opened, {arrived:?} arrived and perhaps {perhaps:?}"
            );
        }
    }
}
