//! Latches that several workers count down and arrive at, and that others wait for.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    rc::Rc,
    time::{Duration, UNIX_EPOCH},
};

use fastrand::Rng;
use hbase_fake::sim::World;
use hbase_txn::{
    Level,
    admin::Admin,
    client::{Connection, Delete},
    latch::{LatchManager, LatchManagerOptions, LatchState, LatchTableOptions, WaitOutcome},
};
use tokio::{
    task::LocalSet,
    time::{Instant, sleep, timeout},
};

use crate::{
    bench::{CLIENT, MAX_SKEW, connect, connect_with, java_row, skew_clocks},
    histories::Checked,
    linearizable::objects::{ObjectLog, RecordedLatch},
};

/// Much longer than any run.
const LIFE: Duration = Duration::from_secs(24 * 3_600);
const WORKERS: usize = 4;
const CALLS: usize = 6;
/// How many latches of one name there are, one after the other.
const ROUNDS: usize = 5;
/// Longer than any round.
const PATIENCE: Duration = Duration::from_secs(120);
const COUNT: u64 = 100;
/// The count after all have arrived. A participant that counts twice lowers it.
const SPARE: u64 = 7;
/// The farm of one of two processes, and perhaps of the other.
const FARM: &str = "fra";
const OTHER_FARM: &str = "ams";
/// Half of the participants; the others arrive by name while all workers do so.
const PARTICIPANTS: usize = 6;

/// What Porcupine has checked.
pub(crate) static CHECKED: Checked = Checked::new();

#[derive(Default)]
struct Tally {
    /// The sum of the certain count-downs, and of those that are unknown.
    done: Cell<u64>,
    unknown: Cell<u64>,
    /// How often each participant was told that it counted.
    arrived: RefCell<BTreeMap<usize, usize>>,
}

/// One of two processes that count each latch of one name.
struct Party {
    latch: RecordedLatch,
    name: &'static str,
    /// How many rounds are left.
    rounds: Rc<Cell<usize>>,
}

struct Worker {
    counting: RecordedLatch,
    arriving: RecordedLatch,
    closing: RecordedLatch,
    tally: Rc<Tally>,
    rng: Rng,
}

pub(crate) async fn scenario(world: World) {
    let mut rng = world.rng(0);
    let plain = world.connect(world.hbase().config(), 0).await.unwrap();
    let options = LatchTableOptions::new("latches").unwrap().regions(2);
    options.create(&Admin::new(&plain)).await.unwrap();
    let here = open(&plain, FARM).await;
    let log = ObjectLog::new();
    let recorded = |latches: &LatchManager, level, id| {
        let latch = latches.latch(level, id).unwrap();
        RecordedLatch::new(&log, latch)
    };
    let [counting, arriving, closing] = ["c", "a", "z"].map(|id| recorded(&here, Level::Dc, id));
    counting.init(COUNT, LIFE).await.unwrap();
    arriving.init(SPARE + PARTICIPANTS as u64, LIFE).await.unwrap();
    closing.init(WORKERS as u64, LIFE).await.unwrap();
    let tally = Rc::new(Tally::default());
    let tasks = LocalSet::new();
    for number in 0..WORKERS {
        let connection = connect(&world, &mut rng).await;
        let latches = open(&connection, FARM).await;
        let worker = Worker {
            counting: recorded(&latches, Level::Dc, "c"),
            arriving: recorded(&latches, Level::Dc, "a"),
            closing: recorded(&latches, Level::Dc, "z"),
            tally: Rc::clone(&tally),
            rng: world.rng(1 + number as u64),
        };
        tasks.spawn_local(worker.run(format!("worker{number}")));
    }
    // Two processes that count each latch of one name, one after the other, on servers whose clocks may
    // differ.
    let level = *rng.choice(&[Level::Dc, Level::Xdc]).unwrap();
    skew_clocks(&world, &plain, *rng.choice(&[0, MAX_SKEW]).unwrap(), &mut rng).await;
    let rounds = Rc::new(Cell::new(ROUNDS));
    let has_farms = level == Level::Xdc && rng.bool();
    if has_farms {
        delete_ahead(&plain, Duration::from_millis(rng.u64(..60_000))).await;
    }
    for (leads, name) in [(true, "first"), (false, "second")] {
        // Under faults, a read of many small answers may fail for minutes, and no end would be seen.
        let connection = connect_with(&world, &mut rng, |config| config.with_scan_batch_bytes(1 << 20)).await;
        let farm = if has_farms && !leads { OTHER_FARM } else { FARM };
        let latches = open(&connection, farm).await;
        let party = Party {
            latch: recorded(&latches, level, "r"),
            name,
            rounds: Rc::clone(&rounds),
        };
        if leads {
            drop(tasks.spawn_local(party.lead()));
        } else {
            drop(tasks.spawn_local(party.follow()));
        }
    }
    let waiter = closing.clone();
    let waited = tasks.spawn_local(async move { waiter.wait(LIFE).await });
    world.begin_faults();
    tasks.await;
    world.end_faults().await;
    assert_eq!(waited.await.unwrap().unwrap(), WaitOutcome::Reached);
    let left = counting.show().await.unwrap().count.unwrap();
    let info = arriving.show().await.unwrap();
    CHECKED.check_objects(&world, &log);
    let (done, unknown) = (tally.done.get(), tally.unknown.get());
    assert!(
        (COUNT - done - unknown..=COUNT - done).contains(&left),
        "{left} of {COUNT} are left; {done} were counted down for certain and {unknown} perhaps"
    );
    let arrived = tally.arrived.borrow();
    let missing = PARTICIPANTS - arrived.len();
    assert_eq!(info.state, LatchState::Open);
    assert_eq!(
        info.count,
        Some(SPARE + missing as u64),
        "arrived are {arrived:?}"
    );
    assert!(
        arrived.values().all(|counted| *counted <= 1),
        "a participant counted twice: {arrived:?}"
    );
}

impl Party {
    /// Creates each latch, counts it when the other has done so, and deletes it when it is reached.
    async fn lead(self) {
        while self.rounds.get() > 0 {
            // It exists if an answer was lost.
            while self.latch.init(2, LIFE).await.is_err() && self.left().await.is_none() {}
            let end = Instant::now() + 2 * PATIENCE;
            while self.left().await != Some(1) {
                assert!(Instant::now() < end, "the other process does not arrive");
                sleep(Duration::from_millis(50)).await;
            }
            self.arrive_and_wait(true).await;
            self.rounds.set(self.rounds.get() - 1);
            while self.latch.delete().await.is_err() || self.left().await.is_some() {}
        }
    }

    async fn follow(self) {
        while self.rounds.get() > 0 {
            self.arrive_and_wait(false).await;
        }
    }

    /// Arrives at the latch of a round, and waits for it. The next one may exist before that wait.
    async fn arrive_and_wait(&self, leads: bool) {
        loop {
            match self.latch.arrive(self.name).await {
                // The leader has deleted the latch of the last round.
                Ok(count) if count.counted || leads => break,
                // It has arrived at the latch of the last round, which is not deleted yet, or an
                // answer was lost.
                Ok(count) if count.left > 0 => break,
                _ if self.rounds.get() == 0 => return,
                _ => sleep(Duration::from_millis(5)).await,
            }
        }
        let outcome = loop {
            match self.latch.wait(PATIENCE).await {
                Ok(outcome) => break outcome,
                Err(_) => sleep(Duration::from_millis(20)).await,
            }
        };
        assert_eq!(
            outcome,
            WaitOutcome::Reached,
            "{} misses the end of a latch, {} rounds before the last",
            self.name,
            self.rounds.get()
        );
    }

    /// Returns what is left to count, after a pause. `None` if that is unknown, or there is no latch.
    async fn left(&self) -> Option<u64> {
        sleep(Duration::from_millis(1)).await;
        self.latch.show().await.ok()?.count
    }
}

/// Deletes the count of the other farm as a client does on a server whose clock is ahead, before the
/// region moves away from it.
async fn delete_ahead(connection: &Connection, ahead: Duration) {
    let now = connection.environment().wall_clock();
    let time = now.duration_since(UNIX_EPOCH).unwrap() + ahead;
    let delete = Delete::new(java_row(&format!("{CLIENT}_r")))
        .column(LatchTableOptions::FAMILY, format!("count_{OTHER_FARM}"))
        .timestamp(u64::try_from(time.as_millis()).unwrap());
    let table = connection.table("latches").unwrap();
    table.delete(delete).await.unwrap();
}

async fn open(connection: &Connection, farm: &str) -> LatchManager {
    LatchManagerOptions::new(CLIENT, farm)
        .open(connection, "latches")
        .await
        .unwrap()
}

impl Worker {
    async fn run(mut self, name: String) {
        for _ in 0..CALLS {
            if self.rng.bool() {
                self.count_down().await;
            } else {
                self.arrive().await;
            }
        }
        while let Err(error) = self.closing.arrive(&name).await {
            assert!(
                error.is_retryable() || error.is_outcome_unknown() || error.to_string().contains("time"),
                "{error}"
            );
            sleep(Duration::from_millis(20)).await;
        }
    }

    async fn count_down(&mut self) {
        let patience = match self.rng.u8(..8) {
            0 => Duration::from_micros(self.rng.u64(..50_000)),
            _ => Duration::from_secs(180),
        };
        let by = self.rng.u64(1..3);
        let count = match timeout(patience, self.counting.count_down(by)).await {
            Ok(Ok(_)) => &self.tally.done,
            Ok(Err(error)) if !error.is_outcome_unknown() => return,
            Ok(Err(_)) => &self.tally.unknown,
            Err(_) => {
                assert!(patience < Duration::from_secs(1), "a count-down does not end");
                &self.tally.unknown
            }
        };
        count.set(count.get() + by);
    }

    async fn arrive(&mut self) {
        let number = self.rng.usize(..PARTICIPANTS);
        loop {
            match self.arriving.arrive(&format!("p{number}")).await {
                Ok(counted) => {
                    let mut arrived = self.tally.arrived.borrow_mut();
                    *arrived.entry(number).or_default() += usize::from(counted.counted);
                    return;
                }
                Err(_) => sleep(Duration::from_millis(20)).await,
            }
        }
    }
}
