//! Parties that arrive again and again, each with its own thread, runtime and connection, so that a
//! stopped party stops as a whole.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc,
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use fastrand::Rng;
use hbase_txn::{
    ClientErrorKind,
    client::{Config, Connection, TableName},
    latch::{Arrival, Barrier, BarrierOutcome, LatchManagerOptions},
};
use tokio::{
    runtime::Handle,
    time::{sleep, timeout},
};

use super::history::{Call, Ended, History};
use crate::{
    cluster::{PATIENCE, until},
    proxy::Proxy,
};

pub(super) const PARTIES: usize = 4;
const ID: &str = "rounds";

/// The behaviour of all parties.
#[derive(Clone, Copy)]
pub(super) struct Terms {
    /// The time limit of a generation.
    pub(super) time: Duration,
    /// The generation after which all stop; only if none breaks.
    pub(super) last: Option<u64>,
    /// Whether parties also stop for a while, time out, drop their calls, and leave and return.
    pub(super) dawdle: bool,
}

struct Shared {
    terms: Terms,
    over: AtomicBool,
    history: History,
    ended: AtomicUsize,
    broken: AtomicUsize,
    unknown: AtomicUsize,
}

pub(super) struct Parties {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// A party while it has a connection.
struct Party {
    number: usize,
    barrier: Barrier,
    shared: Arc<Shared>,
}

async fn barrier(connection: &Connection, table: &TableName) -> Barrier {
    let latches = until("the table", PATIENCE, async || {
        LatchManagerOptions::new("chaos", "-")
            .open(connection, table.clone())
            .await
            .ok()
    })
    .await;
    latches.barrier(ID).unwrap()
}

impl Parties {
    /// Creates the barrier, and starts all parties, each with its own client, behind this proxy if
    /// there is one.
    pub(super) async fn start(
        config: &Config,
        proxy: Option<&Proxy>,
        connection: &Connection,
        table: &TableName,
        terms: Terms,
        rng: impl Fn(u64) -> Rng,
    ) -> Self {
        let made = barrier(connection, table).await;
        made.create(u32::try_from(PARTIES).unwrap(), terms.time)
            .await
            .unwrap();
        let shared = Arc::new(Shared {
            terms,
            over: AtomicBool::new(false),
            history: History::default(),
            ended: AtomicUsize::new(0),
            broken: AtomicUsize::new(0),
            unknown: AtomicUsize::new(0),
        });
        let threads = (0..PARTIES).map(|number| {
            let (config, proxy, table) = (config.clone(), proxy.cloned(), table.clone());
            let (rng, shared) = (rng(number as u64), Arc::clone(&shared));
            thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .unwrap();
                runtime.block_on(come_and_go(number, config, proxy, table, rng, shared));
            })
        });
        Self {
            threads: threads.collect(),
            shared,
        }
    }

    /// Waits until this many more calls have learned the end of their generation.
    pub(super) async fn goes_on(&self, more: usize) {
        self.count_grows("further generations", &self.shared.ended, more)
            .await;
    }

    /// Waits until one more call has learned that its generation broke.
    pub(super) async fn one_breaks(&self) {
        self.count_grows("a broken generation", &self.shared.broken, 1)
            .await;
    }

    async fn count_grows(&self, what: &str, count: &AtomicUsize, more: usize) {
        let goal = count.load(Ordering::Relaxed) + more;
        let patience = PATIENCE + Duration::from_secs(more as u64);
        until(what, patience, async || {
            let failed = self.threads.iter().any(JoinHandle::is_finished);
            assert!(!failed, "a party has failed; it says above why");
            (count.load(Ordering::Relaxed) >= goal).then_some(())
        })
        .await;
    }

    /// Lets all parties finish, and checks their results.
    pub(super) async fn stop(self, test: &str) -> (usize, usize) {
        self.shared.over.store(true, Ordering::Relaxed);
        self.finish(test).await
    }

    /// Waits until all have stopped, and checks their results. Returns the numbers of generations
    /// that opened and that broke.
    pub(super) async fn finish(self, test: &str) -> (usize, usize) {
        let threads = self.threads;
        tokio::task::spawn_blocking(move || {
            for thread in threads {
                thread.join().unwrap();
            }
        })
        .await
        .unwrap();
        let (opened, broken) = self.shared.history.check(PARTIES);
        println!(
            "{test}: {opened} generations opened, {broken} broke; {:?} calls of which nobody knows",
            self.shared.unknown
        );
        (opened, broken)
    }
}

async fn come_and_go(
    number: usize,
    config: Config,
    proxy: Option<Proxy>,
    table: TableName,
    mut rng: Rng,
    shared: Arc<Shared>,
) {
    let is_over = || shared.over.load(Ordering::Relaxed);
    let mut has_stopped = false;
    while !has_stopped && !is_over() {
        let connection = until("a connection", PATIENCE, async || {
            let builder = Connection::builder(config.clone());
            let builder = match proxy.clone() {
                Some(proxy) => builder.connector(proxy),
                None => builder,
            };
            builder.connect().await.ok()
        })
        .await;
        let party = Party {
            number,
            barrier: barrier(&connection, &table).await,
            shared: Arc::clone(&shared),
        };
        while !has_stopped && !is_over() {
            let ended = party.arrive(&mut rng).await;
            has_stopped = shared.terms.last.is_some_and(|last| ended == Ended::Opened(last));
            if shared.terms.dawdle && rng.u8(..10) == 0 {
                break;
            }
        }
        connection.close().await;
    }
    // Neither dropped calls nor calls with lost answers have left tasks behind.
    until("end of all tasks", PATIENCE, async || {
        (Handle::current().metrics().num_alive_tasks() == 0).then_some(())
    })
    .await;
}

impl Party {
    async fn arrive(&self, rng: &mut Rng) -> Ended {
        let asked = Instant::now();
        let name = format!("p{}", self.number);
        let arriving = self.barrier.arrive(&name);
        let arrived = if self.shared.terms.dawdle && rng.u8(..6) == 0 {
            // Dropped at a random point.
            timeout(Duration::from_micros(rng.u64(..20_000)), arriving)
                .await
                .ok()
        } else {
            Some(arriving.await)
        };
        if self.shared.terms.dawdle && rng.u8(..12) == 0 {
            stand_still(self.shared.terms.time.mul_f64(1.5 * rng.f64()));
        }
        let ended = match arrived {
            Some(Ok(arrival)) => self.wait(&arrival, rng).await,
            Some(Err(error)) => {
                assert!(
                    error.is_outcome_unknown()
                        || error.is_retryable()
                        || error.kind() == ClientErrorKind::DeadlineExceeded,
                    "{error}"
                );
                Ended::Unknown
            }
            None => Ended::Unknown,
        };
        match ended {
            Ended::Unknown => &self.shared.unknown,
            _ => &self.shared.ended,
        }
        .fetch_add(1, Ordering::Relaxed);
        if matches!(ended, Ended::Broken(_)) {
            self.shared.broken.fetch_add(1, Ordering::Relaxed);
        }
        self.shared.history.add(Call {
            party: self.number,
            asked,
            told: Instant::now(),
            ended,
        });
        ended
    }

    /// Waits until the generation has ended, in one or several calls.
    async fn wait(&self, arrival: &Arrival, rng: &mut Rng) -> Ended {
        let generation = arrival.generation();
        loop {
            let patience = if self.shared.terms.dawdle {
                Duration::from_millis(rng.u64(..600))
            } else {
                PATIENCE
            };
            match self.barrier.wait(arrival, patience).await {
                Ok(BarrierOutcome::Opened) => return Ended::Opened(generation),
                Ok(BarrierOutcome::Broken) => return Ended::Broken(generation),
                Ok(BarrierOutcome::TimedOut) => {}
                Ok(other) => panic!("{other:?}"),
                Err(error) => {
                    assert!(error.is_retryable(), "{error}");
                    sleep(Duration::from_millis(10)).await;
                }
            }
        }
    }
}

/// Blocks this thread, and with it all tasks of its runtime.
fn stand_still(time: Duration) {
    let (_nobody, never) = mpsc::channel::<()>();
    assert!(never.recv_timeout(time).is_err());
}
