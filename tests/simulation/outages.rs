//! Outages longer than leases: soon after them, everything that was requested, held or waited for
//! meanwhile is free.
//!
//! The scenario draws its outage, and has no other faults.

use std::{cell::RefCell, collections::BTreeSet, rc::Rc, time::Duration};

use fastrand::Rng;
use futures::future::{Either, pending};
use hbase_fake::{Call, FaultHandle, sim::World};
use hbase_txn::{
    ErrorKind, Level, Result,
    admin::Admin,
    client::{Connection, Put},
    coordination::{Election, Leadership, ReadWriteLock, Semaphore},
    lock::{LockGuard, LockManager, LockTableOptions},
};
use tokio::{
    task::LocalSet,
    time::{Instant, sleep, sleep_until, timeout},
};

use crate::{
    bench::lock_options,
    holds::{FAMILY, lock_row},
};

const PROCESSES: usize = 4;
const REQUESTS: usize = 4;
const PERMITS: u32 = 2;
const LEVEL: Level = Level::Dc;
/// How long a dropped request may continue, and how long a lock, permit or leadership may stay taken after the
/// outage.
const SOON: Duration = Duration::from_secs(15);
/// A wait that ends in no run.
const HOUR: Duration = Duration::from_secs(3_600);
/// As many tickets as a lock has places for.
const TICKETS: u8 = 64;

/// What a process requests, and in the end the main task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Thing {
    Lock,
    Permits,
    Reading,
    Writing,
    Leading,
}

/// All things, and those that exclude each other.
const THINGS: [&[Thing]; 5] = [
    &[
        Thing::Lock,
        Thing::Permits,
        Thing::Reading,
        Thing::Writing,
        Thing::Leading,
    ],
    &[Thing::Lock],
    &[Thing::Permits],
    &[Thing::Reading, Thing::Writing],
    &[Thing::Leading],
];

/// A part of an outage.
#[derive(Clone, Copy, Debug)]
enum Disturbance {
    /// All servers crash, and start again at the end.
    Crash,
    /// All servers hang, and execute at the end what has arrived.
    Hang,
    LoseRequests,
    LoseAnswers,
}

const DISTURBANCES: [Disturbance; 4] = [
    Disturbance::Crash,
    Disturbance::Hang,
    Disturbance::LoseRequests,
    Disturbance::LoseAnswers,
];

#[derive(Clone)]
struct Things {
    locks: LockManager,
    semaphore: Semaphore,
    lock: ReadWriteLock,
    election: Election,
}

struct Process {
    things: Things,
    lease: Duration,
    /// When the parts of the outage begin, and when it ends.
    outage: [Instant; 3],
    /// What a process that dies may leave behind until its lease is over.
    taken: Rc<RefCell<BTreeSet<Thing>>>,
    /// What all processes request.
    wanted: &'static [Thing],
    dies: bool,
    rng: Rng,
}

pub(crate) async fn scenario(world: World) {
    let mut rng = world.rng(0);
    let plain = world.connect(world.hbase().config(), 0).await.unwrap();
    let table = LockTableOptions::new("locks").unwrap().regions(rng.usize(1..3));
    table
        .without_java_clients()
        .create(&Admin::new(&plain))
        .await
        .unwrap();
    let servers = Admin::new(&plain)
        .cluster_info()
        .await
        .unwrap()
        .live_servers
        .len();
    let mine = open(&plain, true).await;
    if rng.u8(..3) == 0 {
        leave_tickets(&plain).await;
    }
    let lease = Duration::from_millis(rng.u64(30_000..120_000));
    let begin = Instant::now() + Duration::from_millis(rng.u64(2_000..10_000));
    // If a process died while answers are lost, what it holds would be unknown.
    let dies = Instant::now() + (begin - Instant::now()).mul_f64(0.5 + rng.f64() / 2.0);
    let dying = rng.bool().then(|| rng.usize(..PROCESSES));
    // Its lease must not be over in the end.
    let longest = if dying.is_some() { 0.3 } else { 2.0 };
    let end = begin + lease.mul_f64(0.1 + longest * rng.f64());
    let middle = begin + (end - begin).mul_f64(rng.f64());
    let taken = Rc::default();
    let wanted = *rng.choice(&THINGS).unwrap();
    let tasks = LocalSet::new();
    let (mut living, mut all_things) = (Vec::new(), Vec::new());
    for number in 0..PROCESSES {
        let timeouts = [Duration::from_secs(2), lease / 2, 3 * lease];
        let call = Duration::from_millis(*rng.choice(&[200, 5_000]).unwrap());
        let config = world.hbase().config().with_user(user(number));
        let config = config.with_pause(Duration::from_millis(20));
        let config = config.with_read_timeout(call).with_write_timeout(call);
        let config = config.with_operation_timeout(*rng.choice(&timeouts).unwrap());
        let connection = world.connect(config, 0).await.unwrap();
        let things = open(&connection, false).await;
        all_things.push(things.clone());
        let process = Process {
            things,
            lease,
            outage: [begin, middle, end],
            taken: Rc::clone(&taken),
            wanted,
            dies: dying == Some(number),
            rng: world.rng(1 + number as u64),
        };
        let running = tasks.spawn_local(process.run());
        if dying != Some(number) {
            living.push(running);
        }
    }
    let outage = async {
        if let Some(number) = dying {
            sleep_until(dies).await;
            world.hbase().fault(Call::Any.by(user(number)).lose_request());
            // A fault must happen once.
            read(&all_things[number]).await;
        }
        sleep_until(begin).await;
        for until in [middle, end] {
            let disturbance = *rng.choice(&DISTURBANCES).unwrap();
            disturb(&world, servers, disturbance, &mine, until).await;
        }
        world.hbase().settled().await;
    };
    let all = async {
        outage.await;
        let mut kept = Vec::new();
        for process in living {
            kept.extend(process.await.unwrap());
        }
        sleep(SOON).await;
        for &thing in THINGS[0] {
            if !taken.borrow().contains(&thing) {
                let acquired = mine.acquire(thing, lease, SOON, false).await;
                let free = acquired.unwrap_or_else(|error| panic!("{thing:?} is not free: {error}"));
                assert!(free.release().await.unwrap().is_released());
            }
        }
        // Of guards that were lost, nothing was left either.
        drop(kept);
    };
    tasks.run_until(all).await;
}

fn user(process: usize) -> String {
    format!("process-{process}")
}

/// Makes a call that may fail.
async fn read(things: &Things) {
    let _ = timeout(Duration::from_millis(100), things.locks.show(LEVEL, "lock-0")).await;
}

/// Disturbs all calls until then.
async fn disturb(world: &World, servers: usize, disturbance: Disturbance, mine: &Things, until: Instant) {
    let hbase = world.hbase();
    let fault: Option<FaultHandle> = match disturbance {
        Disturbance::LoseRequests => Some(hbase.fault(Call::Any.lose_request())),
        Disturbance::LoseAnswers => Some(hbase.fault(Call::Any.lose_answer())),
        Disturbance::Crash | Disturbance::Hang => None,
    };
    let each = |change: fn(hbase_fake::FakeServer<'_>)| {
        for server in 0..servers {
            change(hbase.server(server));
        }
    };
    match disturbance {
        Disturbance::Crash => each(|server| server.crash()),
        Disturbance::Hang => each(|server| server.hang()),
        Disturbance::LoseRequests | Disturbance::LoseAnswers => read(mine).await,
    }
    sleep_until(until).await;
    match disturbance {
        Disturbance::Crash => each(|server| server.restart()),
        Disturbance::Hang => each(|server| server.resume()),
        Disturbance::LoseRequests | Disturbance::LoseAnswers => fault.unwrap().release(),
    }
}

/// Fills the places of a lock with tickets that have no TTL, as of another program.
async fn leave_tickets(connection: &Connection) {
    let mut put = Put::new(lock_row(0));
    for slot in 0..TICKETS {
        let ticket = [&1_u64.to_be_bytes()[..], &u128::from(slot).to_be_bytes()].concat();
        put = put.cell(FAMILY, vec![b'Q', slot], ticket);
    }
    connection.table("locks").unwrap().put(put).await.unwrap();
}

async fn open(connection: &Connection, creates: bool) -> Things {
    let locks = lock_options().farm("fra");
    let locks = locks.open(connection, "locks").await.unwrap();
    if creates {
        Semaphore::create(&locks, LEVEL, "permits", PERMITS)
            .await
            .unwrap();
    }
    Things {
        semaphore: Semaphore::open(&locks, LEVEL, "permits").await.unwrap(),
        lock: ReadWriteLock::new(&locks, LEVEL, "shared").unwrap(),
        election: Election::new(&locks, LEVEL, "leader").unwrap(),
        locks,
    }
}

impl Things {
    fn acquire(
        &self,
        thing: Thing,
        lease: Duration,
        wait: Duration,
        renewed: bool,
    ) -> impl Future<Output = Result<LockGuard>> + use<> {
        let lock = self.locks.lock(LEVEL, "lock-0").unwrap().ttl(lease).wait(wait);
        let permits = self.semaphore.acquire_many(PERMITS).ttl(lease).wait(wait);
        let shared = match thing {
            Thing::Writing => self.lock.write(),
            _ => self.lock.read(),
        };
        let shared = shared.ttl(lease).wait(wait);
        let campaign = self.election.campaign().ttl(lease).wait(wait);
        async move {
            match (thing, renewed) {
                (Thing::Lock, true) => lock.auto_renew().acquire().await,
                (Thing::Lock, false) => lock.acquire().await,
                (Thing::Permits, true) => permits.auto_renew().acquire().await,
                (Thing::Permits, false) => permits.acquire().await,
                (Thing::Reading | Thing::Writing, true) => shared.auto_renew().acquire().await,
                (Thing::Reading | Thing::Writing, false) => shared.acquire().await,
                (Thing::Leading, _) => campaign.lead().await.map(Leadership::into_guard),
            }
        }
    }
}

impl Process {
    /// Makes requests until the outage ends. Returns the guards that were renewed and lost meanwhile,
    /// which stay.
    async fn run(mut self) -> Vec<LockGuard> {
        let mut lost = Vec::new();
        let end = self.outage[2];
        // Nothing that was won is released in the background.
        let mut is_clean = true;
        // The first requests mostly come before the outage.
        sleep(Duration::from_millis(self.rng.u64(..4_000))).await;
        for _ in 0..REQUESTS {
            if Instant::now() >= end {
                break;
            }
            let thing = *self.rng.choice(self.wanted).unwrap();
            let wait = match self.rng.u8(..3) {
                0 => Duration::ZERO,
                1 => self.lease.mul_f64(self.rng.f64()),
                _ => HOUR,
            };
            let patience = if self.rng.bool() {
                Either::Left(sleep(self.lease.mul_f64(self.rng.f64())))
            } else {
                Either::Right(pending())
            };
            let renewed = thing == Thing::Leading || self.rng.bool();
            let asked = Instant::now();
            // A writer has its slot before the last reader has left, and permits are taken one by one.
            if matches!(thing, Thing::Permits | Thing::Reading | Thing::Writing) {
                self.may_leave(thing);
            }
            let acquiring = self.things.acquire(thing, self.lease, wait, renewed);
            let acquired = tokio::select! {
                biased;
                acquired = acquiring => Some(acquired),
                () = patience => None,
            };
            match acquired {
                Some(Ok(guard)) => {
                    is_clean = false;
                    self.may_leave(thing);
                    lost.extend(self.hold(guard).await.filter(|_| renewed));
                }
                Some(Err(error)) => assert!(
                    wait < HOUR || error.kind() != ErrorKind::LockUnavailable,
                    "{thing:?} was not free for an hour: {error}"
                ),
                None => {
                    is_clean &= self.is_in_outage(asked, Instant::now() + SOON);
                    if is_clean {
                        let done = timeout(SOON, self.things.locks.background_done()).await;
                        assert!(done.is_ok(), "a dropped request for {thing:?} goes on");
                    }
                }
            }
            sleep(self.lease.mul_f64(self.rng.f64() / 4.0)).await;
        }
        lost
    }

    /// Notes what a process that dies may leave behind.
    fn may_leave(&self, thing: Thing) {
        if self.dies {
            let beside = THINGS[1..].iter().find(|beside| beside.contains(&thing)).unwrap();
            self.taken.borrow_mut().extend(beside.iter());
        }
    }

    /// Returns whether one part of the outage lasts over these times, so that nothing is known to be won.
    fn is_in_outage(&self, from: Instant, until: Instant) -> bool {
        let [begin, middle, end] = self.outage;
        // Answers may be under way at the beginning.
        let answered = Duration::from_secs(1);
        [(begin, middle), (middle, end)]
            .iter()
            .any(|(begin, end)| *begin + answered < from && until < *end)
    }

    /// Holds something for a moment, or until the outage is over. Returns the guard if it is lost.
    async fn hold(&mut self, guard: LockGuard) -> Option<LockGuard> {
        let until = match self.rng.u8(..3) {
            0 => Instant::now() + Duration::from_millis(self.rng.u64(..1_000)),
            1 => Instant::now() + self.lease.mul_f64(self.rng.f64()),
            _ => self.outage[2],
        };
        tokio::select! {
            biased;
            () = sleep_until(until) => {}
            _ = guard.lost() => return Some(guard),
        }
        if self.rng.bool() {
            // Without an answer it is released in the background.
            let _ = guard.release().await;
        }
        None
    }
}
