//! Owners that acquire and release, each with its own thread, runtime and connection, so that a
//! stopped owner stops as a whole and does not renew its holds.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc,
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use fastrand::Rng;
use hbase_txn::{
    ErrorKind, Level,
    client::{Config, Connection, TableName},
    coordination::{Election, ReadWriteLock, Semaphore},
    lock::{LockGuard, LockLoss, LockManager, LockManagerOptions, ReleaseOutcome},
};
use tokio::time::{Instant, sleep};

use crate::{
    cluster::until,
    holds::capacity::{History, Hold},
    proxy::Proxy,
};

/// The number of permits of the semaphore.
const PERMITS: u32 = 3;
/// A weight that all readers together can't reach.
const WRITER: usize = 1_000;
/// The semaphore, the read/write lock and the election, by their capacities.
const CAPACITIES: [usize; 3] = [PERMITS as usize, WRITER, 1];
const LEVEL: Level = Level::Xdc;
/// The interval of a holder's checks of its guard.
const LOOKS: Duration = Duration::from_millis(3);

/// The behaviour of all owners of a contest.
#[derive(Clone, Copy)]
pub(super) struct Terms {
    pub(super) owners: u64,
    pub(super) lease: Duration,
    pub(super) wait: Duration,
    /// Whether holders also stay long, sleep, and stop for a while.
    pub(super) dawdle: bool,
}

#[derive(Debug, Default)]
struct Counts {
    acquired: AtomicUsize,
    unavailable: AtomicUsize,
    /// Holds that ended before their owner released them.
    lost: AtomicUsize,
    /// Calls that ended with an error because of faults.
    failed: AtomicUsize,
}

struct Shared {
    terms: Terms,
    over: AtomicBool,
    history: History,
    counts: Counts,
}

pub(super) struct Contest {
    shared: Arc<Shared>,
    owners: Vec<JoinHandle<()>>,
}

struct Owner {
    semaphore: Semaphore,
    lock: ReadWriteLock,
    election: Election,
    rng: Rng,
    shared: Arc<Shared>,
}

async fn locks(connection: &Connection, table: &TableName) -> LockManager {
    LockManagerOptions::new("chaos")
        .open(connection, table.clone())
        .await
        .unwrap()
}

impl Contest {
    /// Starts one client for each owner, all behind this proxy if there is one.
    pub(super) async fn start(
        config: &Config,
        proxy: Option<&Proxy>,
        table: &TableName,
        terms: Terms,
        rng: impl Fn(u64) -> Rng,
    ) -> Self {
        let connection = Connection::builder(config.clone()).connect().await.unwrap();
        let defined = locks(&connection, table).await;
        Semaphore::create(&defined, LEVEL, "permits", PERMITS)
            .await
            .unwrap();
        connection.close().await;
        let shared = Arc::new(Shared {
            terms,
            over: AtomicBool::new(false),
            history: History::default(),
            counts: Counts::default(),
        });
        let owners = (0..terms.owners).map(|number| {
            let (config, proxy, table) = (config.clone(), proxy.cloned(), table.clone());
            let (rng, shared) = (rng(number), Arc::clone(&shared));
            thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .unwrap();
                runtime.block_on(run(config, proxy, table, rng, shared));
            })
        });
        Self {
            owners: owners.collect(),
            shared,
        }
    }

    /// Waits until this many more holds were acquired.
    pub(super) async fn goes_on(&self, more: usize, patience: Duration) {
        let acquired = &self.shared.counts.acquired;
        let goal = acquired.load(Ordering::Relaxed) + more;
        until("further holds", patience, async || {
            let ended = self.owners.iter().any(JoinHandle::is_finished);
            assert!(!ended, "an owner has failed; it says above why");
            (acquired.load(Ordering::Relaxed) >= goal).then_some(())
        })
        .await;
    }

    /// Lets all owners finish, and checks the history of their holds.
    pub(super) async fn stop(self, test: &str) {
        self.shared.over.store(true, Ordering::Relaxed);
        let owners = self.owners;
        tokio::task::spawn_blocking(move || {
            for owner in owners {
                owner.join().unwrap();
            }
        })
        .await
        .unwrap();
        let holds = self.shared.history.check(&CAPACITIES);
        println!(
            "{test}: {:?}; permits, read/write, leaders: {holds:?}",
            self.shared.counts
        );
        assert!(holds.iter().all(|holds| *holds > 0), "{holds:?}");
        let of = |count: &AtomicUsize| count.load(Ordering::Relaxed);
        let counts = &self.shared.counts;
        let gone_wrong = of(&counts.lost) + of(&counts.failed);
        assert!(
            gone_wrong > 0 || !self.shared.terms.dawdle,
            "nobody was disturbed: {counts:?}"
        );
        let acquired = self.shared.counts.acquired.load(Ordering::Relaxed);
        assert_eq!(holds.iter().sum::<usize>(), acquired);
    }
}

async fn run(config: Config, proxy: Option<Proxy>, table: TableName, rng: Rng, shared: Arc<Shared>) {
    let builder = Connection::builder(config);
    let builder = match proxy {
        Some(proxy) => builder.connector(proxy),
        None => builder,
    };
    let connection = builder.connect().await.unwrap();
    let locks = until("the table", Duration::from_secs(60), async || {
        let options = LockManagerOptions::new("chaos");
        options.open(&connection, table.clone()).await.ok()
    })
    .await;
    let semaphore = until("the semaphore", Duration::from_secs(60), async || {
        Semaphore::open(&locks, LEVEL, "permits").await.ok()
    })
    .await;
    let mut owner = Owner {
        semaphore,
        lock: ReadWriteLock::new(&locks, LEVEL, "shared").unwrap(),
        election: Election::new(&locks, LEVEL, "leader").unwrap(),
        rng,
        shared: Arc::clone(&shared),
    };
    while !shared.over.load(Ordering::Relaxed) {
        owner.come_and_go().await;
    }
    connection.close().await;
}

impl Owner {
    async fn come_and_go(&mut self) {
        let shared = Arc::clone(&self.shared);
        let counts = &shared.counts;
        let thing = self.rng.usize(..CAPACITIES.len());
        let asked = Instant::now();
        let (part, acquired) = self.acquire(thing).await;
        match acquired {
            Ok(guard) => {
                count(&counts.acquired);
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
            Err(error) if error.kind() == ErrorKind::LockUnavailable => count(&counts.unavailable),
            Err(error) => {
                assert_ne!(error.kind(), ErrorKind::SemaphoreAbsent, "{error}");
                count(&counts.failed);
            }
        }
    }

    /// Acquires a part of the thing. Returns the part and the result.
    async fn acquire(&mut self, thing: usize) -> (usize, hbase_txn::Result<LockGuard>) {
        let Terms { lease, wait, .. } = self.shared.terms;
        let renewed = self.rng.bool();
        match thing {
            0 => {
                let permits = self.rng.u32(1..PERMITS);
                let request = self.semaphore.acquire_many(permits).ttl(lease).wait(wait);
                let request = if renewed { request.auto_renew() } else { request };
                (permits as usize, request.acquire().await)
            }
            1 => {
                let writes = self.rng.u8(..3) == 0;
                let request = if writes {
                    self.lock.write()
                } else {
                    self.lock.read()
                };
                let request = request.ttl(lease).wait(wait);
                let request = if renewed { request.auto_renew() } else { request };
                (if writes { WRITER } else { 1 }, request.acquire().await)
            }
            _ => {
                let campaign = self.election.campaign().ttl(lease).wait(wait);
                let led = campaign.lead().await;
                (1, led.map(hbase_txn::coordination::Leadership::into_guard))
            }
        }
    }

    async fn hold(&mut self, mut hold: Hold, guard: LockGuard) {
        let Terms { lease, dawdle, .. } = self.shared.terms;
        let mut claim = Instant::now() + guard.remaining();
        // Mostly holds are short; sometimes a holder stays, sleeps past its lease, or blocks its
        // runtime.
        match self.rng.u8(..if dawdle { 12 } else { 1 }) {
            10 => stand_still(lease.mul_f64(2.0 * self.rng.f64())),
            11 => sleep(lease.mul_f64(1.0 + self.rng.f64())).await,
            stay @ 7..=9 => {
                let end = Instant::now() + lease.mul_f64(f64::from(stay - 6) * 0.5 * self.rng.f64());
                while Instant::now() < end && guard.is_held() {
                    claim = claim.max(Instant::now() + guard.remaining());
                    sleep(LOOKS).await;
                }
            }
            _ => tokio::task::yield_now().await,
        }
        let now = Instant::now();
        let end = now + guard.remaining();
        // After the end of its lease a hold counts only until the end that its guard claimed when
        // it was last checked.
        hold.until = if end > now { now } else { claim.min(now) };
        self.shared.history.add(hold);
        let counts = &self.shared.counts;
        match guard.release().await {
            Ok(ReleaseOutcome::Released) => {}
            Ok(ReleaseOutcome::Lost(loss)) => {
                assert!(
                    loss == LockLoss::Expired || Instant::now() >= end,
                    "held, and nobody may take it away: {loss}"
                );
                count(&counts.lost);
            }
            Ok(other) => panic!("{other}"),
            Err(_) => count(&counts.failed),
        }
    }
}

/// Blocks this thread, and with it all tasks of its runtime.
fn stand_still(time: Duration) {
    let (_nobody, never) = mpsc::channel::<()>();
    assert!(never.recv_timeout(time).is_err());
}

fn count(counter: &AtomicUsize) {
    counter.fetch_add(1, Ordering::Relaxed);
}
