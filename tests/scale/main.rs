//! A large cluster in virtual time: all regions of a table move, and every server is restarted.
//!
//! `make scale` runs 100,000 regions on 1,000 servers in release mode and prints the figures;
//! `make test` runs the short form. `SCALE_REGIONS` and `SCALE_SERVERS` set other sizes.

#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(clippy::future_not_send, reason = "a run has one thread")]

use std::{
    env, fs,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::future::join_all;
use hbase_client::low_level::table_openings;
use hbase_fake::{Call, FakeHBase, FaultHandle, Latency};
use hbase_txn::{Connection, Get, TableName};
use tokio::{sync::Semaphore, time::Instant};

const TABLE: &str = "orders";
/// Calls and answers each take up to this long.
const ONE_WAY: Duration = Duration::from_millis(3);
/// The number of gets in flight of a client that does not start all of them at once.
const IN_FLIGHT: usize = 256;
/// The number of clients whose memory is measured.
const CLIENTS: usize = 4;

/// The limits of a run of any size. A client with one look-up for each region exceeds the first two
/// in the short form.
const MAX_P99: Duration = Duration::from_secs(1);
const MAX_META_CALLS: f64 = 0.1;
const MAX_BYTES: usize = 1_000;

#[tokio::test(start_paused = true)]
async fn gets_after_a_mass_move_find_all_regions_at_once() {
    let cluster = Cluster::start();
    let client = cluster.warm_client().await;
    cluster.move_all(1);
    cluster.hbase.settled().await;
    cluster.get_all(&client, "mass move", usize::MAX).await.check();
}

#[tokio::test(start_paused = true)]
async fn gets_after_a_mass_move_find_regions_step_by_step() {
    let cluster = Cluster::start();
    let client = cluster.warm_client().await;
    cluster.move_all(1);
    cluster.hbase.settled().await;
    cluster.get_all(&client, "mass move", IN_FLIGHT).await.check();
}

#[tokio::test(start_paused = true)]
async fn gets_after_a_rolling_restart_find_all_regions() {
    let cluster = Cluster::start();
    let client = cluster.warm_client().await;
    let started = std::time::Instant::now();
    for server in 0..cluster.servers {
        let process = cluster.hbase.server(server);
        process.crash();
        cluster.hbase.settled().await;
        // A region that this server had: the client has to notice that the server is gone.
        get(&client, server).await;
        process.restart();
        cluster.hbase.settled().await;
    }
    println!(
        "rolling restart: {:.1} s of wall time",
        started.elapsed().as_secs_f64()
    );
    cluster
        .get_all(&client, "rolling restart", usize::MAX)
        .await
        .check();
}

#[tokio::test(start_paused = true)]
async fn gets_of_one_moved_region_share_a_look_up() {
    let cluster = Cluster::start();
    let client = cluster.warm_client().await;
    cluster.move_all(1);
    cluster.hbase.settled().await;
    let meta_calls = cluster.meta_calls.happened();
    join_all((0..1_000).map(|_| get(&client, 1))).await;
    let meta_calls = cluster.meta_calls.happened() - meta_calls;
    println!("1000 gets of one moved region: {meta_calls} calls of hbase:meta");
    assert!(meta_calls <= 6, "{meta_calls} calls");
}

#[tokio::test(start_paused = true)]
async fn cached_regions_are_small() {
    let cluster = Cluster::start();
    // The first client pays for the buffers that the allocator then uses again.
    let first = cluster.warm_client().await;
    first.close().await;
    let before = resident_bytes();
    let mut clients = vec![first];
    for _ in 0..CLIENTS {
        let client = cluster.warm_client().await;
        // A closed client keeps its cache, but not the buffers of its connections.
        client.close().await;
        clients.push(client);
    }
    let bytes = resident_bytes().saturating_sub(before) / (CLIENTS * cluster.regions);
    println!(
        "{} regions in the cache of a client: {bytes} bytes each",
        cluster.regions
    );
    assert!(bytes <= MAX_BYTES, "{bytes} bytes a region");
}

/// One cluster at a time: the memory of the process is measured.
static TURN: Mutex<()> = Mutex::new(());

/// A cluster with one table of many regions.
struct Cluster {
    _turn: MutexGuard<'static, ()>,
    hbase: FakeHBase,
    servers: usize,
    regions: usize,
    meta_calls: FaultHandle,
}

/// What one get of each region took.
struct Figures {
    p99: Duration,
    meta_calls: f64,
}

impl Cluster {
    fn start() -> Self {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let number =
            |name: &str, default: usize| env::var(name).map_or(default, |value| value.parse().unwrap());
        let (servers, regions) = (number("SCALE_SERVERS", 100), number("SCALE_REGIONS", 4_000));
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
    async fn warm_client(&self) -> Connection {
        let client = self.hbase.connect().await.unwrap();
        let table: TableName = TABLE.parse().unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        let openings = table_openings(&client, &table, deadline).await.unwrap();
        assert_eq!(openings.len(), self.regions);
        client
    }

    /// Moves each region so many servers further.
    fn move_all(&self, by: usize) {
        for region in 0..self.regions {
            let server = (region % self.servers + by) % self.servers;
            self.hbase.move_region(TABLE, row(region), server);
        }
    }

    /// Reads one row of each region, in random order and with so many gets in flight.
    async fn get_all(&self, client: &Connection, what: &str, in_flight: usize) -> Figures {
        let (started, meta_calls) = (std::time::Instant::now(), self.meta_calls.happened());
        let mut order: Vec<_> = (0..self.regions).collect();
        fastrand::Rng::with_seed(7).shuffle(&mut order);
        let permits = Arc::new(Semaphore::new(in_flight.min(self.regions)));
        let gets: Vec<_> = order
            .into_iter()
            .map(|region| {
                let (client, permits) = (client.clone(), Arc::clone(&permits));
                tokio::spawn(async move {
                    let _permit = permits.acquire().await.unwrap();
                    let began = Instant::now();
                    get(&client, region).await;
                    began.elapsed()
                })
            })
            .collect();
        let mut times = Vec::new();
        for get in gets {
            times.push(get.await.unwrap());
        }
        times.sort();
        let at = |share: usize| times[(times.len() - 1) * share / 100];
        let meta_calls = self.meta_calls.happened() - meta_calls;
        #[allow(clippy::cast_precision_loss, reason = "small numbers")]
        let meta_calls = meta_calls as f64 / self.regions as f64;
        println!(
            "{what}, {} regions on {} servers, {} gets in flight: p50 {:.3} s, p99 {:.3} s, max {:.3} s, \
             {meta_calls:.4} calls of hbase:meta a region, {:.1} s of wall time",
            self.regions,
            self.servers,
            in_flight.min(self.regions),
            at(50).as_secs_f64(),
            at(99).as_secs_f64(),
            at(100).as_secs_f64(),
            started.elapsed().as_secs_f64()
        );
        Figures {
            p99: at(99),
            meta_calls,
        }
    }
}

impl Figures {
    #[track_caller]
    fn check(&self) {
        assert!(self.p99 <= MAX_P99, "p99 {:?}", self.p99);
        assert!(
            self.meta_calls <= MAX_META_CALLS,
            "{} calls a region",
            self.meta_calls
        );
    }
}

async fn get(client: &Connection, region: usize) {
    let table = client.table(TABLE).unwrap();
    table.get(Get::new(row(region))).await.unwrap();
}

fn row(region: usize) -> String {
    format!("order-{region:08}")
}

/// Returns the memory of this process.
fn resident_bytes() -> usize {
    let pages = fs::read_to_string("/proc/self/statm").unwrap();
    let resident: usize = pages.split(' ').nth(1).unwrap().parse().unwrap();
    resident * 4096
}
