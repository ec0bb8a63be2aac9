//! A barrier at which more participants arrive than it has parties.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use fastrand::Rng;
use hbase_fake::sim::World;
use hbase_txn::{
    admin::Admin,
    client::Connection,
    latch::{Barrier, BarrierOutcome, LatchManagerOptions, LatchTableOptions},
};
use tokio::{
    task::LocalSet,
    time::{Instant, sleep, timeout},
};

use crate::{bench::connect, histories::Checked, linearizable::objects::ObjectLog};

const PARTIES: u32 = 3;
const PARTICIPANTS: usize = 5;
const ARRIVALS: usize = 6;
/// Generations of the barrier of two.
const ROUNDS: u64 = 5;
/// Longer than any generation.
const PATIENCE: Duration = Duration::from_secs(180);

/// What Porcupine has checked.
pub(crate) static CHECKED: Checked = Checked::new();

/// What the participants were told.
#[derive(Default)]
struct Told {
    /// The participants that arrived in each generation.
    arrived: RefCell<BTreeMap<u64, BTreeSet<usize>>>,
    /// Whether the generations that ended have opened.
    opened: RefCell<BTreeMap<u64, bool>>,
    /// Participants whose arrival may have counted, with the last generation before it, and the place
    /// of the call.
    unknown: RefCell<Vec<(usize, u64, i64)>>,
}

pub(crate) async fn scenario(world: World) {
    let mut rng = world.rng(0);
    let plain = world.connect(world.hbase().config(), 0).await.unwrap();
    let options = LatchTableOptions::new("latches").unwrap();
    options.create(&Admin::new(&plain)).await.unwrap();
    let time = Duration::from_millis(rng.u64(1_000..3_000));
    open(&plain).await.create(PARTIES, time).await.unwrap();
    let told = Rc::new(Told::default());
    let log = ObjectLog::new();
    let tasks = LocalSet::new();
    for number in 0..PARTICIPANTS {
        let barrier = open(&connect(&world, &mut rng).await).await;
        let rng = world.rng(1 + number as u64);
        tasks.spawn_local(arrive_often(
            barrier,
            number,
            (Rc::clone(&told), Arc::clone(&log)),
            rng,
        ));
    }
    let pair = open_named(&plain, "pair").await;
    pair.create(2, Duration::from_secs(24 * 3_600)).await.unwrap();
    let passed = Rc::default();
    for generation in 1..=ROUNDS {
        log.generation(&format!("pair {generation}"), 2);
    }
    for number in 0..2 {
        let barrier = open_named(&connect(&world, &mut rng).await, "pair").await;
        let rng = world.rng(100 + number as u64);
        tasks.spawn_local(arrive_again(
            barrier,
            number,
            (Rc::clone(&passed), Arc::clone(&log)),
            rng,
        ));
    }
    world.begin_faults();
    tasks.await;
    world.end_faults().await;
    told.record(&log);
    CHECKED.check_objects(&world, &log);
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
async fn arrive_again(
    barrier: Barrier,
    number: usize,
    (passed, log): (Rc<RefCell<[u64; 2]>>, Arc<ObjectLog>),
    mut rng: Rng,
) {
    for generation in 1..=ROUNDS {
        let name = format!("pair {generation}");
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
            let called = log.now();
            let arrived = timeout(patience, barrier.arrive_in(&format!("p{number}"), generation)).await;
            log.arrived(&name, number, called, matches!(arrived, Ok(Ok(_))));
            let Ok(Ok(arrival)) = arrived else {
                sleep(Duration::from_millis(rng.u64(..20))).await;
                continue;
            };
            assert_eq!(arrival.generation(), generation, "p{number} named another one");
            let called = log.now();
            match barrier.wait(&arrival, patience).await {
                Ok(BarrierOutcome::Opened) => {
                    log.opened(&name, number, called);
                    break;
                }
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

async fn arrive_often(
    barrier: Barrier,
    number: usize,
    (told, log): (Rc<Told>, Arc<ObjectLog>),
    mut rng: Rng,
) {
    let mut last = 0;
    for _ in 0..ARRIVALS {
        sleep(Duration::from_millis(rng.u64(..100))).await;
        let patience = match rng.u8(..8) {
            0 => Duration::from_micros(rng.u64(..50_000)),
            _ => PATIENCE,
        };
        let called = log.now();
        let arrival = match timeout(patience, barrier.arrive(&format!("p{number}"))).await {
            Ok(Ok(arrival)) => arrival,
            Ok(Err(error)) if !error.is_outcome_unknown() => continue,
            Ok(Err(_)) => {
                told.unknown.borrow_mut().push((number, last, called));
                continue;
            }
            Err(_) => {
                assert!(patience < Duration::from_secs(1), "an arrival does not end");
                told.unknown.borrow_mut().push((number, last, called));
                continue;
            }
        };
        let generation = arrival.generation();
        let name = format!("b {generation}");
        log.arrived(&name, number, called, true);
        assert!(generation > last, "p{number}: {generation} comes after {last}");
        told.arrived
            .borrow_mut()
            .entry(generation)
            .or_default()
            .insert(number);
        let called = log.now();
        let is_open = loop {
            let until = Instant::now() + PATIENCE;
            match barrier.wait(&arrival, PATIENCE).await {
                Ok(outcome) => {
                    assert!(
                        Instant::now() < until,
                        "a wait goes on after the end of generation {generation}"
                    );
                    break outcome == BarrierOutcome::Opened;
                }
                Err(error) => assert!(
                    !error.is_retryable() || Instant::now() >= until,
                    "a wait ends with a failed read: {error}"
                ),
            }
            sleep(Duration::from_millis(20)).await;
        };
        if is_open {
            log.opened(&name, number, called);
        }
        last = generation;
        let before = *told.opened.borrow_mut().entry(generation).or_insert(is_open);
        assert_eq!(is_open, before, "generation {generation} was open for others");
    }
}

impl Told {
    /// Records the generations, and the arrivals that may have counted in any of them.
    fn record(&self, log: &ObjectLog) {
        for generation in self.opened.borrow().keys() {
            let name = format!("b {generation}");
            log.generation(&name, PARTIES);
            for (participant, last, called) in &*self.unknown.borrow() {
                if last < generation {
                    log.arrived(&name, *participant, *called, false);
                }
            }
        }
    }

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
            let perhaps = unknown.iter().filter(|(participant, last, _)| {
                last < generation
                    && !all
                        .range(last + 1..=*generation)
                        .any(|(_, arrived)| arrived.contains(participant))
            });
            let perhaps: BTreeSet<usize> = perhaps.map(|(participant, ..)| *participant).collect();
            assert!(
                !is_open || arrived.len() + perhaps.len() >= PARTIES as usize,
                "generation {generation} opened, {arrived:?} arrived and perhaps {perhaps:?}"
            );
        }
    }
}
