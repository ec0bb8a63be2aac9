//! A double barrier which more participants enter and leave than it has parties.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    time::Duration,
};

use fastrand::Rng;
use hbase_fake::sim::World;
use hbase_txn::{
    ClientErrorKind,
    admin::Admin,
    client::Connection,
    latch::{BarrierOutcome, DoubleBarrier, Entry, LatchManagerOptions, LatchTableOptions},
};
use tokio::{
    task::LocalSet,
    time::{Instant, error::Elapsed, sleep, timeout},
};

use crate::bench::connect;

const PARTIES: usize = 3;
const PARTICIPANTS: usize = 4;
const ROUNDS: usize = 5;
/// Longer than any generation.
const PATIENCE: Duration = Duration::from_secs(60);
/// Longer than any round.
const ROUND: Duration = Duration::from_secs(600);

/// A call that may enter a generation after the first of these, and up to the second if that is known.
struct Call {
    participant: usize,
    after: u64,
    until: Option<u64>,
}

/// What the participants have called, and what they were told.
#[derive(Default)]
struct Told {
    entering: Vec<Call>,
    generations: BTreeMap<u64, Generation>,
}

#[derive(Default)]
struct Generation {
    entry_opened: Option<bool>,
    leave_opened: Option<bool>,
    /// The participants that have called `leave`.
    leaving: BTreeSet<usize>,
    /// How many those were when a participant knew that it had entered a later generation.
    left_before_the_next: Option<usize>,
}

struct Party {
    barrier: DoubleBarrier,
    number: usize,
    name: String,
    told: Rc<RefCell<Told>>,
    rng: Rng,
}

pub(crate) async fn scenario(world: World) {
    let mut rng = world.rng(0);
    let plain = world.connect(world.hbase().config(), 0).await.unwrap();
    let options = LatchTableOptions::new("latches").unwrap();
    options.create(&Admin::new(&plain)).await.unwrap();
    let time = Duration::from_millis(rng.u64(1_000..3_000));
    let parties = u32::try_from(PARTIES).unwrap();
    open(&plain).await.create(parties, time).await.unwrap();
    let told = Rc::default();
    let tasks = LocalSet::new();
    for number in 0..PARTICIPANTS {
        let party = Party {
            barrier: open(&connect(&world, &mut rng).await).await,
            number,
            name: format!("p{number}"),
            told: Rc::clone(&told),
            rng: world.rng(1 + number as u64),
        };
        tasks.spawn_local(party.take_part());
    }
    world.begin_faults();
    tasks.await;
    world.end_faults().await;
}

async fn open(connection: &Connection) -> DoubleBarrier {
    let latches = LatchManagerOptions::new("simulation", "fra");
    let latches = latches.open(connection, "latches").await.unwrap();
    latches.double_barrier("b").unwrap()
}

impl Party {
    async fn take_part(mut self) {
        let mut last = 0;
        for round in 1..=ROUNDS {
            sleep(Duration::from_millis(self.rng.u64(..100))).await;
            let (entry, is_open) = self.enter(last).await;
            let generation = entry.generation();
            assert!(
                generation > last,
                "{}: {generation} comes after {last}",
                self.name
            );
            sleep(Duration::from_millis(self.rng.u64(..200))).await;
            // A participant that dies inside may come back under its name, and is in the same
            // generation if the others have not ended that.
            if is_open && round < ROUNDS && self.rng.u8(..6) == 0 {
                sleep(Duration::from_millis(self.rng.u64(..5_000))).await;
                last = generation - 1;
                continue;
            }
            self.leave(&entry, is_open).await;
            last = generation;
        }
    }

    /// Returns how long a call may take: mostly too short for it, or for the others.
    fn patience(&mut self) -> Duration {
        match self.rng.u8(..3) {
            0 => Duration::from_millis(self.rng.u64(..300)),
            _ => PATIENCE,
        }
    }

    /// Returns the time after which a call is dropped.
    fn dropped_after(&mut self) -> Duration {
        match self.rng.u8(..8) {
            0 => Duration::from_micros(self.rng.u64(..50_000)),
            _ => ROUND,
        }
    }

    /// Returns the answer of a call. `None` if it was dropped, or failed and may be repeated.
    async fn answer<T>(&mut self, called: Result<hbase_txn::Result<T>, Elapsed>) -> Option<T> {
        match called {
            Ok(Ok(answer)) => return Some(answer),
            Ok(Err(error)) if error.kind() == ClientErrorKind::InvalidInput => {
                panic!("{} is refused: {error}", self.name)
            }
            Ok(Err(_)) | Err(_) => sleep(Duration::from_millis(self.rng.u64(..20))).await,
        }
        None
    }

    /// Enters a generation, however many calls that takes, and returns whether it opened.
    async fn enter(&mut self, last: u64) -> (Entry, bool) {
        let end = Instant::now() + ROUND;
        let mut entered = None;
        loop {
            assert!(Instant::now() < end, "{} does not enter after {last}", self.name);
            let (patience, dropped) = (self.patience(), self.dropped_after());
            let called = match entered {
                Some(generation) => {
                    let call = self.barrier.enter_in(&self.name, generation, patience);
                    timeout(dropped, call).await
                }
                None => {
                    self.told.borrow_mut().calls_enter(self.number, last);
                    timeout(dropped, self.barrier.enter(&self.name, patience)).await
                }
            };
            let Some((entry, outcome)) = self.answer(called).await else {
                continue;
            };
            let generation = entry.generation();
            if outcome == BarrierOutcome::NotEntered {
                assert_eq!(entered, None, "it was told that it has entered {generation}");
                self.leave_as_an_outsider(generation - 1).await;
                continue;
            }
            assert!(entered.is_none_or(|entered| entered == generation));
            entered = Some(generation);
            self.told.borrow_mut().entered(self.number, generation, outcome);
            match outcome {
                BarrierOutcome::Opened => return (entry, true),
                BarrierOutcome::Broken => return (entry, false),
                _ => {}
            }
        }
    }

    /// Leaves a generation that it may not have entered: that is refused, or the generation has ended.
    async fn leave_as_an_outsider(&self, generation: u64) {
        let has_left = |told: &Told| {
            told.generations
                .get(&generation)
                .is_some_and(|of| of.leaving.contains(&self.number))
        };
        if has_left(&self.told.borrow()) {
            return;
        }
        match self
            .barrier
            .leave_in(&self.name, generation, Duration::ZERO)
            .await
        {
            Ok(outcome) => assert!(
                matches!(outcome, BarrierOutcome::Opened | BarrierOutcome::Broken),
                "{} left generation {generation}, which it had not entered: {outcome:?}",
                self.name
            ),
            Err(error) => assert!(
                error.is_retryable()
                    || error.is_outcome_unknown()
                    || error.kind() == ClientErrorKind::InvalidInput,
                "{error}"
            ),
        }
    }

    async fn leave(&mut self, entry: &Entry, is_open: bool) {
        let generation = entry.generation();
        let end = Instant::now() + ROUND;
        loop {
            assert!(Instant::now() < end, "{} does not leave {generation}", self.name);
            let (patience, dropped) = (self.patience(), self.dropped_after());
            let is_late = self.told.borrow_mut().calls_leave(self.number, generation);
            let called = if self.rng.bool() {
                timeout(dropped, self.barrier.leave(entry, patience)).await
            } else {
                timeout(dropped, self.barrier.leave_in(&self.name, generation, patience)).await
            };
            let Some(outcome) = self.answer(called).await else {
                continue;
            };
            if outcome == BarrierOutcome::TimedOut {
                assert!(
                    is_open && !is_late,
                    "{}: generation {generation} is not left, and the next is entered",
                    self.name
                );
                continue;
            }
            let is_left = outcome == BarrierOutcome::Opened;
            assert!(is_open || !is_left, "broken generation {generation} is left");
            self.told.borrow_mut().left(generation, is_left);
            return;
        }
    }
}

impl Told {
    fn calls_enter(&mut self, participant: usize, after: u64) {
        self.entering.push(Call {
            participant,
            after,
            until: None,
        });
    }

    fn entered(&mut self, participant: usize, generation: u64, outcome: BarrierOutcome) {
        let mine = self
            .entering
            .iter_mut()
            .filter(|call| call.participant == participant);
        for call in mine {
            call.until.get_or_insert(generation);
        }
        if outcome != BarrierOutcome::TimedOut {
            let is_open = outcome == BarrierOutcome::Opened;
            let of = self.generations.entry(generation).or_default();
            let known = *of.entry_opened.get_or_insert(is_open);
            assert_eq!(known, is_open, "generation {generation} was open for others");
        }
        if outcome == BarrierOutcome::Opened {
            let may_be_in =
                |call: &&Call| call.after < generation && call.until.is_none_or(|until| until >= generation);
            let inside = self.entering.iter().filter(may_be_in);
            let inside: BTreeSet<_> = inside.map(|call| call.participant).collect();
            assert!(
                inside.len() >= PARTIES,
                "generation {generation} opened for {inside:?}"
            );
        }
        if outcome != BarrierOutcome::Broken {
            for (before, of) in self.generations.range_mut(..generation) {
                of.left_before_the_next.get_or_insert(of.leaving.len());
                of.check(*before);
            }
        }
    }

    /// Returns whether a later generation is entered already.
    fn calls_leave(&mut self, participant: usize, generation: u64) -> bool {
        let of = self.generations.entry(generation).or_default();
        of.leaving.insert(participant);
        of.left_before_the_next.is_some()
    }

    fn left(&mut self, generation: u64, is_left: bool) {
        let of = self.generations.entry(generation).or_default();
        let known = *of.leave_opened.get_or_insert(is_left);
        assert_eq!(known, is_left, "generation {generation} was left for others");
        of.check(generation);
    }
}

impl Generation {
    /// Checks that a generation is left by all before a party goes on, or enters a later one.
    fn check(&self, generation: u64) {
        if self.leave_opened == Some(true) {
            let leaving = self.left_before_the_next.unwrap_or(self.leaving.len());
            assert!(
                leaving >= PARTIES,
                "generation {generation} was left, and {leaving} had called leave: {:?}",
                self.leaving
            );
        }
    }
}
