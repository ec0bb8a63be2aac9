//! A semaphore, which is resized, a read/write lock and an election that several owners contend for.

use std::{cell::RefCell, rc::Rc, time::Duration};

use fastrand::Rng;
use hbase_fake::sim::World;
use hbase_txn::{
    ErrorKind, Level,
    admin::Admin,
    coordination::{Election, Leadership, ReadWriteLock, Semaphore},
    lock::{LockGuard, LockManager, LockTableOptions, ReleaseOutcome},
};
use tokio::{
    task::LocalSet,
    time::{Instant, sleep, timeout},
};

use crate::{
    bench::{connect, lease, lock_options},
    holds::assert_no_revocation,
    holds_checker::capacity::{History, Hold},
};

/// The number of permits of the semaphore at first, and the most that it has at any time.
const PERMITS: u32 = 3;
const MAX_PERMITS: u32 = 4;
const RESIZES: usize = 8;
/// A weight that all readers together can't reach.
const WRITER: usize = 1_000;
/// The semaphore, the read/write lock and the election, by their capacities.
const CAPACITIES: [usize; 3] = [MAX_PERMITS as usize, WRITER, 1];
const LEVEL: Level = Level::Xdc;
const OWNERS: usize = 4;
const HOLDS: usize = 6;
/// Enough in virtual time, as in `holds`.
const MARGIN: Duration = Duration::from_millis(2);

/// Longer than any request and the calls that it may take.
const PATIENCE: Duration = Duration::from_secs(180);

/// A change of the number of permits.
#[derive(Clone, Copy, Debug)]
struct Resize {
    asked: Instant,
    answered: Instant,
    permits: u32,
    is_certain: bool,
}

/// The changes of the number of permits, and the holds of permits.
#[derive(Default)]
struct Permits {
    resizes: RefCell<Vec<Resize>>,
    holds: RefCell<Vec<Hold>>,
}

struct Owner {
    semaphore: Semaphore,
    lock: ReadWriteLock,
    election: Election,
    history: History,
    permits: Rc<Permits>,
    lease: Duration,
    rng: Rng,
}

pub(crate) async fn scenario(world: World) {
    let mut rng = world.rng(0);
    let plain = world.connect(world.hbase().config(), 0).await.unwrap();
    let table = LockTableOptions::new("locks").unwrap().regions(2);
    table.create(&Admin::new(&plain)).await.unwrap();
    let defined = lock_options().open(&plain, "locks").await.unwrap();
    Semaphore::create(&defined, LEVEL, "permits", PERMITS)
        .await
        .unwrap();
    let lease = lease(&mut rng);
    let history = History::default();
    let permits = Rc::new(Permits::default());
    let tasks = LocalSet::new();
    for number in 0..OWNERS {
        let connection = connect(&world, &mut rng).await;
        let locks = lock_options().open(&connection, "locks").await.unwrap();
        let owner = Owner {
            semaphore: Semaphore::open(&locks, LEVEL, "permits").await.unwrap(),
            lock: ReadWriteLock::new(&locks, LEVEL, "shared").unwrap(),
            election: Election::new(&locks, LEVEL, "leader").unwrap(),
            history: history.clone(),
            permits: Rc::clone(&permits),
            lease,
            rng: world.rng(1 + number as u64),
        };
        tasks.spawn_local(owner.come_and_go());
    }
    let locks = lock_options();
    let locks = locks
        .open(&connect(&world, &mut rng).await, "locks")
        .await
        .unwrap();
    tasks.spawn_local(resize(locks, Rc::clone(&permits), world.rng(100)));
    world.begin_faults();
    tasks.await;
    world.end_faults().await;
    history.check(&CAPACITIES);
    permits.check();
    let last = Semaphore::open(&defined, LEVEL, "permits").await.unwrap();
    permits.check_number(last.permits());
}

/// Changes the number of permits several times. A change that failed may still be made later.
async fn resize(locks: LockManager, permits: Rc<Permits>, mut rng: Rng) {
    for _ in 0..RESIZES {
        sleep(Duration::from_millis(rng.u64(..800))).await;
        let number = rng.u32(2..=MAX_PERMITS);
        let asked = Instant::now();
        let resized = async {
            let semaphore = Semaphore::open(&locks, LEVEL, "permits").await?;
            permits.check_number(semaphore.permits());
            semaphore.resize(number).await
        };
        let resized = timeout(PATIENCE, resized).await;
        let resized = resized.expect("a change of the number of permits ends");
        permits.resizes.borrow_mut().push(Resize {
            asked,
            answered: Instant::now(),
            permits: number,
            is_certain: resized.is_ok(),
        });
    }
}

impl Permits {
    /// Returns the largest number of permits that there may have been while a hold was requested.
    fn limit(&self, hold: &Hold) -> usize {
        let (mut limit, mut is_over) = (0, false);
        // The latest number first: an earlier one counts unless a later one certainly replaced it.
        for resize in self.resizes.borrow().iter().rev() {
            if resize.asked <= hold.from && !is_over {
                limit = limit.max(resize.permits);
                // In virtual time, a change and a request may have the same time in either order.
                is_over = resize.is_certain && resize.answered < hold.asked;
            }
        }
        limit.max(if is_over { 0 } else { PERMITS }) as usize
    }

    /// Checks that a number of permits that was read after all changes so far is that of the last
    /// certain change, or of a later one.
    fn check_number(&self, read: u32) {
        let resizes = self.resizes.borrow();
        let last_certain = resizes.iter().rposition(|resize| resize.is_certain);
        let mut possible: Vec<_> = resizes[last_certain.unwrap_or(0)..]
            .iter()
            .map(|resize| resize.permits)
            .collect();
        if last_certain.is_none() {
            possible.push(PERMITS);
        }
        assert!(
            possible.contains(&read),
            "there are {read} permits, not one of {possible:?}: {resizes:?}"
        );
    }

    /// Checks that no permit was handed out while as many as there were, or more, were held.
    fn check(&self) {
        let holds = self.holds.borrow();
        for hold in &*holds {
            let beside = holds
                .iter()
                .filter(|other| other.from <= hold.from && other.until > hold.from);
            let (mut taken, mut limit) = (0, self.limit(hold));
            for other in beside {
                taken += other.part;
                limit = limit.max(self.limit(other));
            }
            assert!(
                taken <= limit,
                "{taken} of {limit} permits are held: {hold:?}, {:?}",
                self.resizes.borrow()
            );
        }
    }
}

impl Owner {
    async fn come_and_go(mut self) {
        for _ in 0..HOLDS {
            let thing = self.rng.usize(..CAPACITIES.len());
            let asked = Instant::now();
            let patience = match self.rng.u8(..10) {
                0 => Duration::from_micros(self.rng.u64(..50_000)),
                _ => PATIENCE,
            };
            let (part, acquiring) = self.acquire(thing);
            match timeout(patience, acquiring).await {
                Ok(Ok(guard)) => {
                    let hold = Hold {
                        thing,
                        part,
                        asked,
                        from: Instant::now(),
                        until: asked,
                        fencing: guard.fencing(),
                    };
                    self.hold(hold, guard).await;
                }
                Ok(Err(error)) => assert_ne!(error.kind(), ErrorKind::SemaphoreAbsent, "{error}"),
                Err(_) => assert!(patience < Duration::from_secs(1), "a request does not end"),
            }
        }
    }

    /// Returns the part of a thing that is requested, and the request.
    fn acquire(
        &mut self,
        thing: usize,
    ) -> (usize, impl Future<Output = hbase_txn::Result<LockGuard>> + use<>) {
        let wait = Duration::from_millis(self.rng.u64(..2_000));
        let (lease, renewed) = (self.lease, self.rng.bool());
        let permits = self.rng.u32(1..PERMITS);
        let writes = self.rng.u8(..3) == 0;
        let part = match thing {
            0 => permits as usize,
            1 if writes => WRITER,
            _ => 1,
        };
        let permit = self.semaphore.acquire_many(permits).ttl(lease).wait(wait);
        let permit = permit.skew_margin(MARGIN);
        let lock = if writes {
            self.lock.write()
        } else {
            self.lock.read()
        };
        let lock = lock.ttl(lease).wait(wait).skew_margin(MARGIN);
        let campaign = self.election.campaign().ttl(lease).wait(wait).skew_margin(MARGIN);
        let acquiring = async move {
            match thing {
                0 if renewed => permit.auto_renew().acquire().await,
                0 => permit.acquire().await,
                1 if renewed => lock.auto_renew().acquire().await,
                1 => lock.acquire().await,
                _ => campaign.lead().await.map(Leadership::into_guard),
            }
        };
        (part, acquiring)
    }

    /// Ends a hold, a writer's sometimes by becoming a reader.
    async fn hold(&mut self, hold: Hold, guard: LockGuard) {
        let (began, end, guard) = self.keep(hold, guard).await;
        if hold.part == WRITER && self.rng.bool() {
            if let Ok(Ok(reader)) = timeout(PATIENCE, self.lock.downgrade(guard)).await {
                let reading = Hold {
                    part: 1,
                    asked: began,
                    // No writer may come in between.
                    from: began,
                    fencing: reader.fencing(),
                    ..hold
                };
                let (_, end, reader) = self.keep(reading, reader).await;
                release(reader, end).await;
            }
        } else {
            release(guard, end).await;
        }
    }

    /// Keeps a hold for a while. Returns the end of the stay and of the lease.
    async fn keep(&mut self, mut hold: Hold, guard: LockGuard) -> (Instant, Instant, LockGuard) {
        let mut claim = Instant::now() + guard.remaining();
        // Mostly holds are short; sometimes a holder stays, or sleeps past its lease.
        match self.rng.u8(..10) {
            0 => sleep(self.lease.mul_f64(1.0 + self.rng.f64())).await,
            number => {
                let longest = if number < 4 { 1.5 } else { 0.05 };
                let end = Instant::now() + self.lease.mul_f64(longest * self.rng.f64());
                while Instant::now() < end && guard.is_held() {
                    claim = claim.max(Instant::now() + guard.remaining());
                    sleep(self.lease / 20).await;
                }
            }
        }
        let now = Instant::now();
        let end = now + guard.remaining();
        // After the end of its lease a hold counts only until the end that its guard claimed when
        // it was last checked.
        hold.until = if end > now { now } else { claim.min(now) };
        self.history.add(hold);
        if hold.thing == 0 {
            self.permits.holds.borrow_mut().push(hold);
        }
        (hold.until, end, guard)
    }
}

async fn release(guard: LockGuard, end: Instant) {
    if let Ok(ReleaseOutcome::Lost(loss)) = guard.release().await {
        assert_no_revocation(&loss, end);
    }
}
