//! The world of one run: a cluster, its clients, and the faults of its seed.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use fastrand::Rng;
use hbase_client::{Config, Connection, Connector};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep, sleep_until},
};

use super::plan::{FaultId, FaultReport, LATEST_MESSAGE, Plan};
use crate::{FakeHBase, cluster::ServerIndex, network::RandomDraws};

/// A cluster in virtual time, with the faults that follow from a seed.
#[derive(Debug)]
pub struct World {
    hbase: Arc<FakeHBase>,
    seed: u64,
    plan: Plan,
    /// The faults of a repeated run, or `None` for all.
    only: Option<BTreeSet<FaultId>>,
    clients: AtomicU64,
    events: Mutex<Option<JoinHandle<()>>>,
    journal: Arc<Journal>,
}

/// The faults that happened in a run.
#[derive(Debug, Default)]
pub(super) struct Journal {
    happened: Mutex<Vec<FaultReport>>,
}

impl Journal {
    pub(super) fn happened(&self) -> MutexGuard<'_, Vec<FaultReport>> {
        self.happened.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl World {
    pub(super) fn new(seed: u64, plan: Plan, only: Option<BTreeSet<FaultId>>) -> Self {
        let mut hbase = FakeHBase::builder()
            .servers(plan.servers)
            .release(plan.release)
            .seed(seed)
            .latency(plan.latency.clone());
        if let Some((least, most)) = plan.chunks {
            hbase = hbase.chunks(least, most);
        }
        let hbase = hbase.build();
        Self {
            hbase: Arc::new(hbase),
            seed,
            plan,
            only,
            clients: AtomicU64::new(0),
            events: Mutex::default(),
            journal: Arc::default(),
        }
    }

    /// The cluster.
    #[must_use]
    pub fn hbase(&self) -> &FakeHBase {
        &self.hbase
    }

    pub(super) fn shared(&self) -> (Arc<FakeHBase>, Arc<Journal>) {
        (Arc::clone(&self.hbase), Arc::clone(&self.journal))
    }

    /// The seed of this run.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Returns random numbers of this seed. Each task of a scenario should have a stream of its own,
    /// so that its choices do not depend on the order of the others'.
    #[must_use]
    pub fn rng(&self, stream: u64) -> Rng {
        Rng::with_seed(self.seed.rotate_left(17) ^ stream.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// Connects a client whose wall clock is ahead of the cluster's by so many milliseconds, or
    /// behind if they are negative.
    ///
    /// # Errors
    ///
    /// Returns an error as [`ConnectionBuilder::connect`](hbase_client::ConnectionBuilder::connect)
    /// does.
    pub async fn connect(&self, config: Config, ahead: i64) -> hbase_client::Result<Connection> {
        self.connect_by(self.hbase.connector(), config, ahead).await
    }

    /// Connects a client as [`connect`](Self::connect) does, with a transport based on that of the
    /// cluster.
    ///
    /// # Errors
    ///
    /// Returns an error as [`ConnectionBuilder::connect`](hbase_client::ConnectionBuilder::connect)
    /// does.
    pub async fn connect_by(
        &self,
        connector: impl Connector,
        config: Config,
        ahead: i64,
    ) -> hbase_client::Result<Connection> {
        let number = self.clients.fetch_add(1, Ordering::Relaxed);
        let environment = self
            .hbase
            .environment()
            .seed(self.seed ^ (number << 32))
            .ahead(ahead);
        Connection::builder(config)
            .connector(connector)
            .environment(environment)
            .connect()
            .await
    }

    /// Begins the faults of the seed: calls and dials fail at random, and regions and servers move,
    /// crash, hang and change.
    pub fn begin_faults(&self) {
        let only = self.only.as_ref().map(|only| {
            let calls = only.iter().filter_map(|fault| match fault {
                FaultId::Call(number) => Some(*number),
                FaultId::Event(_) => None,
            });
            calls.collect()
        });
        let draws = RandomDraws::new(self.plan.faults.clone(), self.seed, only);
        self.hbase.network().set_random_faults(Some(draws));
        let events = self
            .plan
            .events
            .iter()
            .copied()
            .enumerate()
            .filter(|(number, _)| {
                let event = FaultId::Event(*number);
                self.only.as_ref().is_none_or(|only| only.contains(&event))
            });
        let (hbase, journal) = self.shared();
        let events: Vec<_> = events.collect();
        let began = Instant::now();
        let task = tokio::spawn(async move {
            for (number, (after, event)) in events {
                sleep_until(began + after).await;
                if let Some(text) = event.happen(&hbase) {
                    journal.happened().push(FaultReport {
                        id: FaultId::Event(number),
                        kind: event.name(),
                        text: format!("after {after:?}: {text}"),
                    });
                }
            }
        });
        *self.events() = Some(task);
    }

    /// Ends the faults, and waits until the cluster has recovered: every server serves, and every
    /// region is open, and until all requests that are late have arrived.
    ///
    /// # Panics
    ///
    /// Panics if the cluster does not recover.
    pub async fn end_faults(&self) {
        if let Some(task) = self.events().take() {
            task.abort();
        }
        self.note_draws();
        self.hbase.network().with_world(|cluster, wall| {
            for server in 0..cluster.servers().len() {
                cluster.heal(ServerIndex(server), wall);
            }
        });
        self.hbase.settled().await;
        sleep(LATEST_MESSAGE).await;
    }

    fn events(&self) -> MutexGuard<'_, Option<JoinHandle<()>>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the faults of calls, and keeps those that happened.
    pub(super) fn note_draws(&self) {
        note_draws(&self.hbase, &self.journal);
    }
}

/// Ends the faults of calls, and keeps those that happened.
pub(super) fn note_draws(hbase: &FakeHBase, journal: &Journal) {
    if let Some(draws) = hbase.network().set_random_faults(None) {
        let calls = draws.into_happened().into_iter();
        journal.happened().extend(calls.map(|fault| FaultReport {
            id: FaultId::Call(fault.number),
            kind: fault.kind,
            text: fault.text,
        }));
    }
}
