//! Locks that several owners contend for, and what only their holders may write.

use std::{
    cell::RefCell,
    rc::Rc,
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use fastrand::Rng;
use hbase_fake::{Call, sim::World};
use hbase_txn::{
    Level,
    admin::Admin,
    client::{Comparison, Condition, Delete, Get, Put, Table},
    lock::{LockGuard, LockLoss, LockManager, LockTableOptions, ReleaseOutcome},
};
use tokio::{
    task::{LocalSet, spawn_local},
    time::{Instant, sleep, timeout},
};

use crate::{
    bench::{CLIENT, connect, java_row, lease, lock_options, short_lease},
    histories::Checked,
    holds_checker::History,
    linearizable::objects::{ObjectLog, RecordedHold},
};

pub(crate) const FAMILY: &str = "D";
/// The column, of a row that belongs to no lock, with the highest fencing number of all writes.
const HIGHEST: &str = "highest";
const LOCKS: usize = 2;
const OWNERS: usize = 4;
const HOLDS: usize = 6;
/// Enough in virtual time, where all clocks run at one speed: a longer margin would hide a lease that
/// is counted too long.
const MARGIN: Duration = Duration::from_millis(2);

/// What Porcupine has checked.
pub(crate) static CHECKED: Checked = Checked::new();

/// The holds by the servers' clocks, which are all right.
///
/// A fencing number is the time at which a server gave a lock to its holder. The history has the time
/// of the answer, which hides an earlier holder that counted its lease for a little too long.
#[derive(Default)]
struct Spans {
    /// Lock, fencing number, and the time until which the holder counted on it.
    all: RefCell<Vec<(usize, i64, i64)>>,
}

impl Spans {
    fn check(&self) {
        let mut all = self.all.borrow_mut();
        all.sort_unstable();
        for pair in all.windows(2) {
            let [(lock, _, until), (next_lock, number, _)] = [pair[0], pair[1]];
            assert!(
                lock != next_lock || until <= number,
                "lock {lock} was given away {} ms before its holder's end",
                until - number
            );
        }
    }
}

struct Owner {
    spans: Rc<Spans>,
    clock: ServerClock,
    locks: LockManager,
    data: Table,
    history: History,
    log: Arc<ObjectLog>,
    number: usize,
    has_java: bool,
    lease: Duration,
    rng: Rng,
}

/// A moment, and the time of the servers then.
#[derive(Clone, Copy)]
struct ServerClock {
    at: Instant,
    time: Duration,
}

impl ServerClock {
    fn time_at(self, moment: Instant) -> Duration {
        self.time + moment.saturating_duration_since(self.at)
    }

    fn moment_of(self, time: Duration) -> Instant {
        self.at + time.saturating_sub(self.time)
    }
}

pub(crate) async fn scenario(world: World) {
    let mut rng = world.rng(0);
    let plain = world.connect(world.hbase().config(), 0).await.unwrap();
    let table = LockTableOptions::new("locks").unwrap().regions(2);
    // Java clients do not hide each other's locks in a table that protects them.
    let (table, has_java) = match rng.u8(..5) {
        0 => (table.protect_java_clients(), false),
        1 => (table, false),
        2..4 => (table, true),
        _ => (table.without_java_clients(), false),
    };
    table.create(&Admin::new(&plain)).await.unwrap();
    let data = plain.table("locks").unwrap();
    for lock in 0..LOCKS {
        let put = Put::new(guarded_row(lock)).cell(FAMILY, HIGHEST, 0i64);
        data.put(put).await.unwrap();
    }
    let lease = if has_java {
        short_lease(&mut rng)
    } else {
        lease(&mut rng)
    };
    let history = History::new();
    let log = ObjectLog::new();
    let spans = Rc::new(Spans::default());
    let wall = plain.environment().wall_clock();
    let clock = ServerClock {
        at: Instant::now(),
        time: wall.duration_since(UNIX_EPOCH).unwrap(),
    };
    let tasks = LocalSet::new();
    for number in 0..OWNERS {
        let connection = connect(&world, &mut rng).await;
        let locks = lock_options().farm("fra");
        let owner = Owner {
            spans: Rc::clone(&spans),
            clock,
            locks: locks.open(&connection, "locks").await.unwrap(),
            data: connection.table("locks").unwrap(),
            history: history.clone(),
            log: Arc::clone(&log),
            number,
            has_java,
            lease,
            rng: world.rng(1 + number as u64),
        };
        tasks.spawn_local(owner.come_and_go());
    }
    world.begin_faults();
    // What hides an attempt is found late.
    let slow_scans = (has_java && rng.bool()).then(|| {
        let late = Duration::from_millis(rng.u64(50..190));
        world.hbase().fault(Call::Scan.on("locks").delay_answer(late))
    });
    tasks.await;
    if let Some(slow) = slow_scans {
        slow.release();
    }
    world.end_faults().await;
    CHECKED.check_objects(&world, &log);
    history.check();
    spans.check();
}

impl Owner {
    async fn come_and_go(mut self) {
        for _ in 0..HOLDS {
            // One lock is wanted more, so that mostly an owner waits for the end of its lease.
            let lock = self.rng.usize(..LOCKS).min(self.rng.usize(..LOCKS));
            let wait = Duration::from_millis(self.rng.u64(..4_000));
            let mut request = self
                .locks
                .lock(Level::Dc, &format!("lock-{lock}"))
                .unwrap()
                .ttl(self.lease)
                .wait(wait);
            if self.rng.bool() {
                request = request.auto_renew();
            }
            if self.rng.u8(..4) > 0 {
                request = request.skew_margin(MARGIN);
            }
            let patience = match self.rng.u8(..10) {
                0 => Duration::from_micros(self.rng.u64(..50_000)),
                _ => wait + Duration::from_secs(120),
            };
            if self.has_java {
                self.release_as_java(lock, Duration::ZERO);
            }
            let called = self.log.now();
            match timeout(patience, request.acquire()).await {
                Ok(Ok(guard)) => {
                    let (name, fencing) = (format!("lock-{lock}"), guard.fencing());
                    // A server gave the lock to it in the millisecond of its fencing number.
                    let given = self
                        .clock
                        .moment_of(Duration::from_millis(u64::try_from(fencing).unwrap() + 1));
                    let (log, client) = (&self.log, self.number);
                    let recorded = RecordedHold::acquired(log, &name, client, fencing, called, given);
                    self.hold(lock, guard, recorded).await;
                }
                // Refused, or failed because of faults.
                Ok(Err(_)) => {}
                Err(_) => assert!(patience < Duration::from_secs(1), "a request does not end"),
            }
        }
    }

    async fn hold(&mut self, lock: usize, guard: LockGuard, recorded: RecordedHold) {
        let begun = self.history.acquired(lock, guard.fencing());
        if self.has_java {
            // When others try to acquire it.
            self.release_as_java(lock, guard.remaining());
        }
        let mut claim = Instant::now() + guard.remaining();
        // Mostly a holder sleeps past its lease, and has renewed it before; sometimes it stays as long
        // as its lease, or only for a moment.
        match self.rng.u8(..10) {
            0..6 => {
                if self.rng.u8(..4) > 0 {
                    sleep(self.lease.mul_f64(self.rng.f64() / 2.0)).await;
                    // Again after a lost answer, as the background task does.
                    for _ in 0..3 {
                        let called = self.log.now();
                        if guard.renew().await.is_ok() {
                            recorded.renewed(called);
                            break;
                        }
                    }
                    // A guard whose lease expired meanwhile claims nothing more, and releases what a
                    // late renewal has prolonged.
                    if guard.is_held() {
                        claim = Instant::now() + guard.remaining();
                    }
                }
                sleep(self.lease.mul_f64(1.0 + self.rng.f64())).await;
            }
            number => {
                let stay = match number {
                    6..8 => self.lease.mul_f64(1.5 * self.rng.f64()),
                    _ => self.lease.mul_f64(self.rng.f64() / 20.0),
                };
                let end = Instant::now() + stay;
                while Instant::now() < end && guard.is_held() {
                    claim = claim.max(Instant::now() + guard.remaining());
                    sleep(self.lease / 20).await;
                }
            }
        }
        let end = Instant::now() + guard.remaining();
        if let Ok(false) = self.write(lock, guard.fencing()).await {
            // A refusal may have ended the guard's hold, so the time is checked too.
            let is_over = Instant::now() >= end && !guard.is_held();
            assert!(
                is_over || self.highest(lock).await == Some(guard.fencing()),
                "lock {lock}: a holder's write was refused: {guard:?}"
            );
        }
        let now = Instant::now();
        let end = now + guard.remaining();
        // After the end of its lease a hold counts only until the end that its guard claimed when
        // it was last checked.
        let ended = if end > now { now } else { claim.min(now) };
        self.history.ended_at(begun, ended);
        let ended_at = i64::try_from(self.clock.time_at(ended).as_millis()).unwrap();
        self.spans
            .all
            .borrow_mut()
            .push((lock, guard.fencing(), ended_at));
        let until = if end > now { end } else { claim };
        let called = self.log.now();
        let outcome = guard.release().await;
        recorded.released(called, until, &outcome);
        if let Ok(ReleaseOutcome::Lost(loss)) = outcome
            && !self.has_java
        {
            assert_no_revocation(&loss, end);
        }
    }

    /// Releases a lock a few times, after a while, as a Java client does that may not hold it: deletes its
    /// row at the server's time, and so hides attempts of the same millisecond; or a little ahead of it,
    /// as the delete marker of a server from which the region has moved, and hides attempts for longer.
    fn release_as_java(&mut self, lock: usize, after: Duration) {
        let (rows, clock, mut rng) = (self.data.clone(), self.clock, self.rng.fork());
        let ahead = rng.bool().then(|| Duration::from_millis(rng.u64(1..20)));
        spawn_local(async move {
            sleep(after).await;
            for _ in 0..4 {
                sleep(Duration::from_micros(rng.u64(..2_000))).await;
                let mut delete = Delete::new(lock_row(lock));
                if let Some(ahead) = ahead {
                    let time = clock.time_at(Instant::now()) + ahead;
                    delete = delete.timestamp(u64::try_from(time.as_millis()).unwrap());
                }
                // Failures are those of the faults.
                let _ = rows.delete(delete).await;
            }
        });
    }

    /// Writes under a fencing number, if no number as high has been written. Returns whether it
    /// did.
    async fn write(&self, lock: usize, fencing: i64) -> hbase_txn::Result<bool> {
        let row = guarded_row(lock);
        let newer = Condition::compare(row.clone(), FAMILY, HIGHEST, Comparison::Less, fencing);
        let put = Put::new(row).cell(FAMILY, HIGHEST, fencing);
        Ok(self.data.check_and_mutate(newer, [put.into()]).await?.success)
    }

    /// Returns the highest number that was written, if it can be read.
    async fn highest(&self, lock: usize) -> Option<i64> {
        let row = self.data.get(Get::new(guarded_row(lock))).await.ok()??;
        row.get(FAMILY, HIGHEST).unwrap()
    }
}

/// Checks the loss of a lock that no client revokes and whose guard counted it as held until `end`: a
/// late release may find the next holder; a release in time may not.
pub(crate) fn assert_no_revocation(loss: &LockLoss, end: Instant) {
    match loss {
        LockLoss::Expired => {}
        LockLoss::Removed => panic!("no client revokes it: {loss}"),
        _ => assert!(Instant::now() >= end, "held, and no client revokes it: {loss}"),
    }
}

/// Returns the row of a lock.
pub(crate) fn lock_row(lock: usize) -> Vec<u8> {
    java_row(&format!("DC#fra#{CLIENT}#lock-{lock}"))
}

/// Returns the row that the holder of a lock writes.
fn guarded_row(lock: usize) -> String {
    format!("\u{1}data of {lock}")
}
