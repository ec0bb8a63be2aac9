//! Processes that wait for a lock, for permits, or to read or write acquire them about in the order in which
//! they began to wait. Without faults: tickets of processes that are cut off expire.

use std::{cell::RefCell, rc::Rc, time::Duration};

use fastrand::Rng;
use hbase_fake::sim::World;
use hbase_txn::{
    Level,
    admin::Admin,
    coordination::{ReadWriteLock, Semaphore},
    lock::{LockGuard, LockManager, LockTableOptions},
};
use tokio::{
    task::LocalSet,
    time::{Instant, sleep, timeout},
};

use crate::bench::lock_options;

const LEVEL: Level = Level::Xdc;
const HOLDS: usize = 8;
/// Longer than all holds of a run, one after the other.
const PATIENCE: Duration = Duration::from_secs(600);
/// The time in which a process learns that it must wait and writes its ticket: some calls.
const QUEUED: Duration = Duration::from_millis(500);
/// With a lock that it has just released it steps back first, for a second at most.
const QUEUED_AGAIN: Duration = Duration::from_millis(1_500);
/// How often another process may pass by: tickets that two write to one column at once cost one of them a poll.
const MAX_OVERTAKEN: usize = 3;

/// What the processes of a run want.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Thing {
    Lock,
    Permits(u32),
    ReadWrite,
}

/// A wait that has ended.
#[derive(Clone, Copy, Debug)]
struct Wait {
    process: usize,
    /// The number of permits, or [`WRITER`].
    need: u32,
    asked: Instant,
    acquired: Instant,
}

const WRITER: u32 = 1_000;

struct Process {
    number: usize,
    thing: Thing,
    locks: LockManager,
    waits: Rc<RefCell<Vec<Wait>>>,
    longest_hold: u64,
    rng: Rng,
}

pub(crate) async fn scenario(world: World) {
    let mut rng = world.rng(0);
    let connection = world.connect(world.hbase().config(), 0).await.unwrap();
    let table = LockTableOptions::new("locks").unwrap().regions(1);
    table.create(&Admin::new(&connection)).await.unwrap();
    let thing = match rng.u8(..4) {
        0 => Thing::Lock,
        1 => Thing::ReadWrite,
        _ => Thing::Permits(rng.u32(1..=4)),
    };
    if let Thing::Permits(permits) = thing {
        let locks = lock_options().open(&connection, "locks").await.unwrap();
        Semaphore::create(&locks, LEVEL, "permits", permits)
            .await
            .unwrap();
    }
    let (processes, longest_hold) = (rng.usize(2..=10), rng.u64(10..400));
    let waits = Rc::new(RefCell::new(Vec::new()));
    let tasks = LocalSet::new();
    for number in 0..processes {
        let connection = world.connect(world.hbase().config(), 0).await.unwrap();
        let process = Process {
            number,
            thing,
            locks: lock_options().open(&connection, "locks").await.unwrap(),
            waits: Rc::clone(&waits),
            longest_hold,
            rng: world.rng(1 + number as u64),
        };
        tasks.spawn_local(process.come_and_go());
    }
    tasks.await;
    let waits = waits.borrow();
    assert_eq!(waits.len(), processes * HOLDS);
    for wait in &*waits {
        // A later request may be granted beside one for a part of the permits.
        if matches!(thing, Thing::Permits(permits) if wait.need < permits) {
            continue;
        }
        check(wait, &waits, thing);
    }
}

/// Checks that others which began to wait later passed by only a few times, while this one excluded them.
fn check(wait: &Wait, waits: &[Wait], thing: Thing) {
    let queued = wait.asked
        + match thing {
            Thing::Lock => QUEUED_AGAIN,
            Thing::Permits(_) | Thing::ReadWrite => QUEUED,
        };
    let passed: Vec<_> = waits
        .iter()
        .filter(|other| other.process != wait.process)
        // Readers go together.
        .filter(|other| thing != Thing::ReadWrite || wait.need.max(other.need) == WRITER)
        .filter(|other| other.asked > queued && other.acquired < wait.acquired)
        .collect();
    assert!(
        passed.len() <= MAX_OVERTAKEN,
        "{} passed by {wait:?} for {thing:?}: {passed:#?}",
        passed.len()
    );
}

impl Process {
    async fn come_and_go(mut self) {
        for _ in 0..HOLDS {
            // Some ask again at once.
            if self.rng.bool() {
                sleep(Duration::from_millis(self.rng.u64(..2 * self.longest_hold))).await;
            }
            let asked = Instant::now();
            let (need, guard) = timeout(PATIENCE, self.acquire()).await.expect("a wait ends");
            self.waits.borrow_mut().push(Wait {
                process: self.number,
                need,
                asked,
                acquired: Instant::now(),
            });
            sleep(Duration::from_millis(self.rng.u64(..self.longest_hold))).await;
            assert!(guard.release().await.unwrap().is_released());
        }
    }

    async fn acquire(&mut self) -> (u32, LockGuard) {
        let (need, acquired) = match self.thing {
            Thing::Lock => {
                let lock = self.locks.lock(LEVEL, "lock").unwrap();
                (1, lock.wait(PATIENCE).acquire().await)
            }
            Thing::Permits(permits) => {
                let need = match self.rng.u8(..3) {
                    0 => permits,
                    1 => self.rng.u32(1..=permits),
                    _ => 1,
                };
                let semaphore = Semaphore::open(&self.locks, LEVEL, "permits").await.unwrap();
                let permits = semaphore.acquire_many(need);
                (need, permits.wait(PATIENCE).acquire().await)
            }
            Thing::ReadWrite => {
                let lock = ReadWriteLock::new(&self.locks, LEVEL, "shared").unwrap();
                let writes = self.rng.u8(..3) == 0;
                let (need, request) = if writes {
                    (WRITER, lock.write())
                } else {
                    (1, lock.read())
                };
                (need, request.wait(PATIENCE).acquire().await)
            }
        };
        (need, acquired.unwrap())
    }
}
