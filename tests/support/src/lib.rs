//! Shared by the tests against a real HBase: finding the cluster, temporary tables, waiting, and
//! programs between client and server.
//!
//! | file | what |
//! |---|---|
//! | `table` | tables of one test, and tables that the tests of a file share |
//! | `lock_rows` | lock tables, and the rows of locks |
//! | `proxy` | a proxy that decodes requests, and loses, delays or repeats them |
//! | `spy` | a connector that counts dials and calls, and can redirect them |
//! | `forwarder` | a port that forwards to a server, and can be made to misbehave |
//! | `clock_shift` | processes whose wall clock is wrong |
//! | `filters` | all filters of reads, and what they find |
//! | `fake` | the fake cluster, which some tests run on as well |
//! | `forge` | messages that the library would never send |
//! | `hostile` | peers that send escape sequences |
//! | `leftovers` | counts of tasks and threads that some work leaves running |
//! | `java` | the Java lock and latch libraries, run by a Java program |
//!
//! No test passes without a server: each fails with an instruction.

#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(
    missing_debug_implementations,
    missing_docs,
    unreachable_pub,
    reason = "only tests use this crate"
)]

pub mod bank;
pub mod clock_shift;
mod fake;
pub mod filters;
pub mod forge;
pub mod forwarder;
pub mod hostile;
pub mod java;
pub mod latch_rows;
pub mod leftovers;
pub mod lock_rows;
pub mod proxy;
pub mod spy;
pub mod table;

use std::{
    collections::BTreeMap,
    fmt::Debug,
    panic::{AssertUnwindSafe, resume_unwind},
    path::Path,
    time::{Duration, Instant},
};

use futures::{FutureExt, future::join_all};
use hbase_local::{HBaseVersion, LocalCluster};
use hbase_txn::{
    Error, Outcome, Transaction,
    client::{
        Config, Connection, Connector, Get, IntoBytes, IntoValue, Put, ResultScanner, Row, Scan, Table,
    },
};

use self::{forwarder::Forwarder, spy::Spy};

/// The name of the standalone cluster that the suite runs on, or `fake` for a fake one.
const STANDALONE: &str = "HBASE_TXN_TEST_STANDALONE";
/// The names of clusters, one of each release, separated by commas. A cluster that `dev` did not
/// start is named by its release and the ports of ZooKeeper, master and region server on 127.0.0.1,
/// such as `2.6.4:2181:16000:16020`.
const VERSIONS: &str = "HBASE_TXN_TEST_VERSIONS";
/// The names of clusters with Kerberos or TLS, separated by commas.
const SECURE: &str = "HBASE_TXN_TEST_SECURE";
const NO_HBASE: &str = "no HBase to test against: run make test";

/// A cluster to test against.
#[derive(Clone, Debug)]
pub struct Cluster {
    pub uri: String,
    pub rpc_uri: String,
    pub status: Status,
}

/// The properties of a cluster that are known without a call.
#[derive(Clone, Debug)]
pub struct Status {
    pub name: String,
    pub version: Option<HBaseVersion>,
    pub ports: BTreeMap<String, u16>,
    /// The variables that its clients need.
    pub environment: BTreeMap<String, String>,
}

/// The cluster that the suite runs on.
pub fn standalone() -> Cluster {
    let name = std::env::var(STANDALONE).unwrap_or_else(|_| panic!("{NO_HBASE} ({STANDALONE} is not set)"));
    match name.as_str() {
        "fake" => fake::cluster(),
        name => cluster(name),
    }
}

/// The clusters of `HBASE_TXN_TEST_VERSIONS`.
pub fn versions() -> Vec<Cluster> {
    let names = std::env::var(VERSIONS).unwrap_or_else(|_| panic!("{NO_HBASE} ({VERSIONS} is not set)"));
    let clusters = names.split(',').map(str::trim);
    clusters
        .map(|name| {
            if name.contains(':') {
                elsewhere(name)
            } else {
                cluster(name)
            }
        })
        .collect()
}

/// The clusters of `HBASE_TXN_TEST_SECURE`.
pub fn secure() -> Vec<Cluster> {
    let names = std::env::var(SECURE)
        .unwrap_or_else(|_| panic!("{NO_HBASE} with Kerberos or TLS ({SECURE} is not set)"));
    names.split(',').map(str::trim).map(cluster).collect()
}

/// Runs a part of a suite on all clusters concurrently, and names those on which it fails.
#[allow(clippy::future_not_send, reason = "a test runs on one thread")]
pub async fn on_all(clusters: &[Cluster], part: impl AsyncFn(&Cluster)) {
    let parts = clusters.iter().map(async |cluster| {
        let result = AssertUnwindSafe(part(cluster)).catch_unwind().await;
        if result.is_err() {
            eprintln!("on {}, {}", cluster.status.name, cluster.status.version.unwrap());
        }
        result
    });
    let failure = join_all(parts).await.into_iter().find_map(Result::err);
    if let Some(failure) = failure {
        resume_unwind(failure);
    }
}

/// A cluster on this machine that `dev` did not start.
fn elsewhere(name: &str) -> Cluster {
    let (version, ports) = name.split_once(':').unwrap();
    let servers = ["zookeeper", "master", "region-server"].map(str::to_owned);
    let ports = ports.split(':').map(|port| port.parse().unwrap());
    let ports: BTreeMap<String, u16> = servers.into_iter().zip(ports).collect();
    Cluster {
        uri: format!("hbase+zk://127.0.0.1:{}/hbase", ports["zookeeper"]),
        rpc_uri: format!("hbase+rpc://127.0.0.1:{}", ports["master"]),
        status: Status {
            name: name.to_owned(),
            version: Some(version.parse().unwrap()),
            ports,
            environment: BTreeMap::new(),
        },
    }
}

fn cluster(name: &str) -> Cluster {
    let status = LocalCluster::new(name)
        .and_then(|cluster| cluster.status())
        .unwrap_or_else(|error| panic!("{NO_HBASE} ({error})"));
    match (status.uri.clone(), status.rpc_uri.clone()) {
        (Some(uri), Some(rpc_uri)) => Cluster {
            uri,
            rpc_uri,
            status: Status {
                name: status.name,
                version: status.version,
                ports: status.ports,
                environment: status.environment,
            },
        },
        _ => panic!("{NO_HBASE} (cluster {name} is {})", status.state.as_str()),
    }
}

impl Cluster {
    /// Returns the settings of a client of this cluster. The first split or merge after another
    /// pauses for a region in transition; a short pause detects its end sooner.
    pub fn config(&self) -> Config {
        match self.conf_dir() {
            Some(folder) => Config::from_conf_dir(folder).unwrap(),
            None => Config::from_uri(&self.uri).unwrap(),
        }
    }

    /// Returns the folder with the configuration of clients of a cluster with Kerberos or TLS.
    pub fn conf_dir(&self) -> Option<&Path> {
        self.status.environment.get("HBASE_CONF_DIR").map(Path::new)
    }

    pub fn rpc_config(&self) -> Config {
        Config::from_uri(&self.rpc_uri).unwrap()
    }

    pub async fn connect(&self) -> Connection {
        Connection::builder(self.config())
            .connect()
            .await
            .unwrap_or_else(|error| panic!("{NO_HBASE} ({error})"))
    }
}

/// Returns a client of the suite's cluster.
pub async fn connect() -> Connection {
    standalone().connect().await
}

/// Returns a client that dials by this connector.
pub async fn connect_by(connector: impl Connector, config: Config) -> Connection {
    Connection::builder(config)
        .connector(connector)
        .connect()
        .await
        .unwrap()
}

/// Returns a client of the suite's cluster, and a spy of its calls.
pub async fn spied() -> (Connection, Spy) {
    let spy = Spy::default();
    (connect_by(spy.clone(), standalone().config()).await, spy)
}

/// Returns a client of the suite's cluster whose connections for rows lead through a forwarder.
pub async fn forwarded(config: Config) -> (Connection, Forwarder) {
    let forwarder = Forwarder::to(standalone().status.ports["region-server"]).await;
    let connection = connect_by(Spy::with_detour(forwarder.port), config).await;
    (connection, forwarder)
}

/// Calls `ask` repeatedly until it returns a value. Fails after half a minute.
pub async fn eventually<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Returns the resident memory of this process.
pub fn resident_bytes() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    let resident: usize = pages.split(' ').nth(1).unwrap().parse().unwrap();
    resident * 4096
}

/// Runs a future that must complete within the limit, plus two seconds for a busy machine.
pub async fn within<T>(limit: Duration, future: impl Future<Output = T>) -> T {
    let began = Instant::now();
    tokio::time::timeout(limit + Duration::from_secs(2), future)
        .await
        .unwrap_or_else(|_| panic!("not over after {:?}; the deadline was {limit:?}", began.elapsed()))
}

/// A put of `f:q`.
pub fn put(row: impl IntoBytes, value: impl IntoValue) -> Put {
    Put::new(row).cell("f", "q", value)
}

/// The text of `f:q`.
pub async fn value(table: &Table, row: impl IntoBytes) -> Option<String> {
    let row = table.get(Get::new(row)).await.unwrap()?;
    row.value("f", "q")
        .map(|value| String::from_utf8(value.to_vec()).unwrap())
}

/// Returns all rows of a scan.
pub async fn rows(table: &Table, scan: Scan) -> Vec<Row> {
    collect(table.scan(scan).unwrap()).await
}

/// Returns the keys of all rows of a scan.
pub async fn keys(table: &Table, scan: Scan) -> Vec<String> {
    rows(table, scan).await.iter().map(key).collect()
}

pub fn key(row: &Row) -> String {
    String::from_utf8(row.key().to_vec()).unwrap()
}

pub async fn collect(mut scanner: ResultScanner) -> Vec<Row> {
    let mut rows = Vec::new();
    while let Some(row) = scanner.next().await.unwrap() {
        rows.push(row);
    }
    rows
}

/// Commits an invalid transaction, and returns its error.
pub async fn invalid(transaction: Transaction) -> Error {
    match transaction.commit().await {
        Outcome::Invalid(error) => error,
        other => panic!("not invalid: {other}"),
    }
}

/// Asserts that the text has all of these parts.
#[track_caller]
pub fn says(text: &dyn std::fmt::Display, parts: &[&str]) {
    let text = text.to_string();
    for part in parts {
        assert!(text.contains(part), "does not say {part:?}: {text}");
    }
}
