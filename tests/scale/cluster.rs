//! A cluster with one table of many regions, and what calls of all of them take.

use std::{
    env, fmt,
    future::Future,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::{StreamExt, stream};
use hbase_client::low_level::table_openings;
use hbase_fake::{Call, FakeHBase, FaultHandle, Latency};
use hbase_txn::client::{Connection, Get, TableName};
use tokio::time::Instant;

pub(crate) const TABLE: &str = "orders";
/// The number of calls in flight of a client that does not start all of them at once.
pub(crate) const IN_FLIGHT: usize = 256;

/// Requests and answers each take up to this long.
const ONE_WAY: Duration = Duration::from_millis(3);
/// The limits of a run of any size. A client with one look-up for each region exceeds them in the
/// short form.
const MAX_P99: Duration = Duration::from_secs(1);
pub(crate) const MAX_META_CALLS: f64 = 0.1;

/// One cluster at a time: the memory of the process is measured.
static TURN: Mutex<()> = Mutex::new(());

pub(crate) struct Cluster {
    _turn: Turn,
    pub(crate) hbase: FakeHBase,
    pub(crate) servers: usize,
    pub(crate) regions: usize,
    meta_calls: FaultHandle,
}

/// The times of calls, the shortest first.
pub(crate) struct Times(Vec<Duration>);

/// What one call in each region took.
pub(crate) struct Figures {
    times: Times,
    meta_calls: f64,
}

/// The only test with a cluster.
pub(crate) struct Turn {
    _held: MutexGuard<'static, ()>,
}

impl Turn {
    pub(crate) fn wait() -> Self {
        Self {
            _held: TURN.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }
}

impl Cluster {
    pub(crate) fn start() -> Self {
        let turn = Turn::wait();
        let (servers, regions) = (size("SCALE_SERVERS", 100), size("SCALE_REGIONS", 4_000));
        let hbase = FakeHBase::builder()
            .servers(servers)
            .latency(Latency {
                request: Duration::ZERO..ONE_WAY,
                answer: Duration::ZERO..ONE_WAY,
                ..Latency::NONE
            })
            .build();
        let split_keys: Vec<_> = (1..regions).map(row).collect();
        let split_keys: Vec<_> = split_keys.iter().map(String::as_str).collect();
        hbase.create_table(TABLE, &["f"], &split_keys);
        // The matcher counts the calls; the fault itself does nothing.
        let meta_calls = hbase.fault(Call::Any.on("hbase:meta").delay_answer(Duration::ZERO));
        Self {
            _turn: turn,
            hbase,
            servers,
            regions,
            meta_calls,
        }
    }

    /// Connects a client that knows all regions.
    pub(crate) async fn warm_client(&self) -> Connection {
        let client = self.hbase.connect().await.unwrap();
        let table: TableName = TABLE.parse().unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        let openings = table_openings(&client, &table, deadline).await.unwrap();
        assert_eq!(openings.len(), self.regions);
        client
    }

    /// Moves each region so many servers further.
    pub(crate) fn move_all(&self, by: usize) {
        for region in 0..self.regions {
            let server = (region % self.servers + by) % self.servers;
            self.hbase.move_region(TABLE, row(region), server);
        }
    }

    /// Returns the number of calls of `hbase:meta` so far.
    pub(crate) fn meta_calls(&self) -> usize {
        self.meta_calls.happened()
    }

    /// The regions in an order that looks random and is always the same.
    pub(crate) fn shuffled(&self) -> Vec<usize> {
        let mut regions: Vec<_> = (0..self.regions).collect();
        fastrand::Rng::with_seed(7).shuffle(&mut regions);
        regions
    }

    /// Calls each region once, in random order and with so many calls in flight.
    pub(crate) async fn call_all<F: Future<Output = ()>>(
        &self,
        what: &str,
        in_flight: usize,
        call: impl Fn(usize) -> F,
    ) -> Figures {
        let (started, meta_calls) = (std::time::Instant::now(), self.meta_calls());
        let call = &call;
        let calls = stream::iter(self.shuffled()).map(|region| async move {
            let began = Instant::now();
            call(region).await;
            began.elapsed()
        });
        let times = Times::new(calls.buffer_unordered(in_flight).collect().await);
        let meta_calls = ratio(self.meta_calls() - meta_calls, self.regions);
        println!(
            "{what}, {} regions on {} servers, {} calls in flight: {times}, {meta_calls:.4} calls of hbase:meta \
             a region, {:.1} s of wall time",
            self.regions,
            self.servers,
            in_flight.min(self.regions),
            started.elapsed().as_secs_f64()
        );
        Figures { times, meta_calls }
    }
}

impl Times {
    pub(crate) fn new(mut times: Vec<Duration>) -> Self {
        times.sort();
        Self(times)
    }

    fn at(&self, percent: usize) -> Duration {
        self.0[(self.0.len() - 1) * percent / 100]
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [p50, p99, max] = [50, 99, 100].map(|percent| self.at(percent).as_secs_f64());
        write!(f, "p50 {p50:.3} s, p99 {p99:.3} s, max {max:.3} s")
    }
}

impl Figures {
    #[track_caller]
    pub(crate) fn check(&self) {
        let (p99, meta_calls) = (self.times.at(99), self.meta_calls);
        assert!(p99 <= MAX_P99, "p99 {p99:?}");
        assert!(meta_calls <= MAX_META_CALLS, "{meta_calls} calls a region");
    }
}

pub(crate) async fn get(client: &Connection, region: usize) {
    let table = client.table(TABLE).unwrap();
    table.get(Get::new(row(region))).await.unwrap();
}

/// The first row of a region.
pub(crate) fn row(region: usize) -> String {
    format!("order-{region:08}")
}

/// Returns the number in a variable of the environment.
pub(crate) fn size(name: &str, default: usize) -> usize {
    env::var(name).map_or(default, |value| value.parse().unwrap())
}

#[allow(clippy::cast_precision_loss, reason = "small numbers")]
pub(crate) fn ratio(count: usize, of: usize) -> f64 {
    count as f64 / of as f64
}
