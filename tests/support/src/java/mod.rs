//! The protocols of the Java lock and latch libraries, run by a Java program (`tests/java`) with
//! HBase's own Java client.

mod build;
mod certificates;
mod configurations;
mod logins;

use std::{collections::BTreeMap, fmt, path::PathBuf, process::Stdio, time::Duration};

use hbase_txn::client::{ClusterAddress, Config, HostPort, TableName};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tempfile::NamedTempFile;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    sync::Mutex,
    task::spawn_blocking,
    time::{Instant, timeout, timeout_at},
};

pub use self::{
    certificates::{JavaTlsServer, tls_servers},
    configurations::configurations,
    logins::logins,
};

use self::build::Built;
use super::Cluster;

/// The time limit of an answer; the longest is that for a table of 257 regions, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);
/// The time limit of a call of the conformance program, on average, beside 100,000 raw operations.
const CALL: Duration = Duration::from_secs(1);

/// A Java process that runs the libraries' protocols. It exits when this is dropped, or when the
/// test process exits in any way.
///
/// It answers one request at a time; start another one for concurrent requests.
pub struct JavaSide {
    pipes: Mutex<Option<Pipes>>,
    stderr: NamedTempFile,
    _child: Child,
}

struct Pipes {
    requests: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

/// The stack trace that Java answered instead of a result.
pub struct JavaError(String);

/// A lock, by the parts of its row key.
#[derive(Clone, Copy, Debug)]
pub struct JavaLock<'a> {
    pub table: &'a TableName,
    /// `DC`, or `XDC` for all farms.
    pub level: &'a str,
    pub farm: &'a str,
    pub client: &'a str,
    pub id: &'a str,
}

/// A latch, by the parts of its row key and columns.
#[derive(Clone, Copy, Debug)]
pub struct JavaLatch<'a> {
    pub table: &'a TableName,
    pub farm: &'a str,
    pub client: &'a str,
    pub id: &'a str,
}

/// A table as the Java client sees it.
#[derive(Debug, Deserialize)]
pub struct JavaDescriptor {
    /// The attributes of each family.
    pub families: BTreeMap<String, BTreeMap<String, String>>,
    /// The attributes of the table.
    pub attributes: BTreeMap<String, String>,
    /// The start keys of all regions, in hex.
    pub start_keys: Vec<String>,
}

/// Java clients that acquire locks repeatedly: each tries one of the ids at random, holds it, releases.
#[derive(Clone, Copy, Debug)]
pub struct Spin<'a> {
    pub threads: u32,
    pub table: &'a TableName,
    pub level: &'a str,
    pub farm: &'a str,
    pub client: &'a str,
    pub ids: &'a [&'a str],
    pub ttl_s: u64,
    /// The time that a client holds a lock.
    pub inside: Duration,
    /// The pause of a client after a hold, and after an attempt at a lock that is not free.
    pub pause: Duration,
    /// The duration of the load.
    pub lasting: Duration,
}

/// A hold of a Java client. Times are in microseconds since 1970.
#[derive(Clone, Debug, Deserialize)]
pub struct Cycle {
    pub id: String,
    pub thread: u32,
    /// The timestamp of the marker, in milliseconds since 1970.
    pub stamp: u64,
    /// The time after the acquisition.
    pub enter: u64,
    /// The time before the release.
    pub leave: u64,
    /// The time after the release.
    pub released: u64,
    /// The number of attempts to acquire a lock since the previous hold.
    pub attempts: usize,
}

impl JavaDescriptor {
    /// Asserts that this table's additional attributes, compared with the other's, only keep a
    /// bucket's rows in one region.
    pub fn adds_whole_buckets_to(&self, other: &Self) {
        for key in other.attributes.keys() {
            assert!(self.attributes.contains_key(key), "{key} is missing");
        }
        let is_added = |(key, value): &(&String, &String)| other.attributes.get(*key) != Some(*value);
        let added = self.attributes.iter().filter(is_added);
        let added: BTreeMap<_, _> = added.map(|(key, value)| (key.as_str(), value.as_str())).collect();
        let whole_buckets = [
            (
                "SPLIT_POLICY",
                "org.apache.hadoop.hbase.regionserver.KeyPrefixRegionSplitPolicy",
            ),
            ("KeyPrefixRegionSplitPolicy.prefix_length", "1"),
            ("hbase.regionserver.region.split_restriction.type", "KeyPrefix"),
            ("hbase.regionserver.region.split_restriction.prefix_length", "1"),
        ];
        assert_eq!(added, BTreeMap::from(whole_buckets));
    }
}

/// Returns the jar of a coprocessor that fails puts after they were applied, `hbasetxn.AfterWrite`.
/// Builds it if necessary.
pub async fn coprocessor_jar() -> PathBuf {
    spawn_blocking(|| build::build().coprocessor_jar).await.unwrap()
}

/// Performs the calls of `hbasetxn.conformance` on a cluster, with new tables. Returns their
/// answers, a line each.
pub async fn conformance(config: &Config, seed: u64, calls: u64) -> Vec<String> {
    let built = spawn_blocking(build::build).await.unwrap();
    let output = program(&built, "hbasetxn.conformance.Conformance")
        .arg(format!("java{:x}_", fastrand::u64(..)))
        .args([seed, calls].map(|number| number.to_string()))
        .args(settings(config.address()))
        .kill_on_drop(true)
        .output();
    let output = timeout(PATIENCE + CALL * calls.try_into().unwrap(), output).await;
    let output = output.expect("the Java program hangs").unwrap();
    let lines: Vec<String> = String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(str::to_owned)
        .collect();
    assert!(
        output.status.success() && lines.last().is_some_and(|line| line == "done"),
        "the Java program failed after {:?}; its log:\n{}",
        lines.last(),
        String::from_utf8_lossy(&output.stderr)
    );
    lines
}

/// Returns a command that runs a class of the built program.
fn program(built: &Built, class: &str) -> Command {
    let mut command = Command::new(&built.java);
    command
        .args([
            "--add-opens=java.base/java.nio=ALL-UNNAMED",
            "--add-opens=java.base/jdk.internal.misc=ALL-UNNAMED",
            // Programs that end soon are not worth the time of the better compiler.
            "-XX:TieredStopAtLevel=1",
            "-XX:+UseSerialGC",
            // Output of the virtual machine would mix with the answers.
            "-Xlog:disable",
            "-Xlog:all=warning:stderr",
            "-XX:+DisplayVMOutputToStderr",
        ])
        .arg("-cp")
        .arg(&built.class_path)
        .arg(class);
    command
}

/// Returns the settings of a Java client that say where the cluster is.
fn settings(address: &ClusterAddress) -> Vec<String> {
    let joined = |parts: &[HostPort], text: fn(&HostPort) -> String| {
        let parts: Vec<_> = parts.iter().map(text).collect();
        parts.join(",")
    };
    match address {
        ClusterAddress::ZooKeeper { quorum, znode } => vec![
            format!(
                "hbase.zookeeper.quorum={}",
                joined(quorum, |server| server.host.clone())
            ),
            format!("hbase.zookeeper.property.clientPort={}", quorum[0].port),
            format!("zookeeper.znode.parent={znode}"),
        ],
        ClusterAddress::Rpc { servers } => vec![
            "hbase.client.registry.impl=org.apache.hadoop.hbase.client.RpcConnectionRegistry".to_owned(),
            format!(
                "hbase.client.bootstrap.servers={}",
                joined(servers, HostPort::to_string)
            ),
        ],
        other => panic!("a Java client cannot connect to {other:?}"),
    }
}

impl JavaSide {
    /// Starts the program. Builds it if necessary.
    pub async fn start(cluster: &Cluster) -> Self {
        let built = spawn_blocking(build::build).await.unwrap();
        let stderr = NamedTempFile::new().unwrap();
        let mut child = program(&built, "hbasetxn.JavaSide")
            .args(settings(cluster.config().address()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(stderr.reopen().unwrap())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let pipes = Pipes {
            requests: child.stdin.take().unwrap(),
            answers: BufReader::new(child.stdout.take().unwrap()).lines(),
        };
        Self {
            pipes: Mutex::new(Some(pipes)),
            stderr,
            _child: child,
        }
    }

    /// Returns the row of a logical key.
    pub async fn row(&self, key: &str) -> Result<String, JavaError> {
        self.ask(json!(["row", key])).await
    }

    pub async fn create_lock_table(&self, table: &TableName) -> Result<(), JavaError> {
        self.ask(json!(["create-locks", table.to_string()])).await
    }

    pub async fn create_latch_table(&self, table: &TableName) -> Result<(), JavaError> {
        self.ask(json!(["create-latches", table.to_string()])).await
    }

    pub async fn descriptor(&self, table: &TableName) -> Result<JavaDescriptor, JavaError> {
        self.ask(json!(["descriptor", table.to_string()])).await
    }

    /// Tries once to acquire the lock. Returns whether it was free.
    pub async fn acquire(&self, lock: JavaLock<'_>, ttl_s: u64) -> Result<bool, JavaError> {
        self.acquire_by_clock(lock, ttl_s, 0).await
    }

    /// Tries once with a clock that is this many milliseconds ahead.
    pub async fn acquire_by_clock(
        &self,
        lock: JavaLock<'_>,
        ttl_s: u64,
        ahead_ms: i64,
    ) -> Result<bool, JavaError> {
        let JavaLock {
            level,
            farm,
            client,
            id,
            ..
        } = lock;
        let table = lock.table.to_string();
        self.ask(json!([
            "acquire", table, level, farm, client, id, ttl_s, ahead_ms
        ]))
        .await
    }

    /// Deletes the lock's row, without regard to its holder.
    pub async fn release(&self, lock: JavaLock<'_>) -> Result<(), JavaError> {
        let JavaLock {
            level,
            farm,
            client,
            id,
            ..
        } = lock;
        self.ask(json!([
            "release",
            lock.table.to_string(),
            level,
            farm,
            client,
            id
        ]))
        .await
    }

    /// Adds to the latch's count, with a TTL.
    pub async fn init_latch(&self, latch: JavaLatch<'_>, count: i64, ttl_s: u64) -> Result<(), JavaError> {
        let JavaLatch { farm, client, id, .. } = latch;
        self.ask(json!([
            "init-latch",
            latch.table.to_string(),
            farm,
            client,
            id,
            count,
            ttl_s
        ]))
        .await
    }

    /// Adds to the latch's count, without a TTL: 1 to count up, -1 to count down.
    pub async fn count_latch(&self, latch: JavaLatch<'_>, by: i64) -> Result<(), JavaError> {
        let JavaLatch { farm, client, id, .. } = latch;
        self.ask(json!([
            "count-latch",
            latch.table.to_string(),
            farm,
            client,
            id,
            by
        ]))
        .await
    }

    /// Returns the latch's count: the farm's own at level `DC`, the sum of all at `XDC`. `None` if
    /// there is none.
    pub async fn get_latch(&self, latch: JavaLatch<'_>, level: &str) -> Result<Option<i64>, JavaError> {
        let JavaLatch { farm, client, id, .. } = latch;
        self.ask(json!([
            "get-latch",
            latch.table.to_string(),
            level,
            farm,
            client,
            id
        ]))
        .await
    }

    /// Returns the cells that a filter of the class `Filters` passes, a line each.
    pub async fn scan(&self, table: &TableName, filter: &str) -> Result<Vec<String>, JavaError> {
        self.ask(json!(["scan", table.to_string(), filter])).await
    }

    /// Performs a get or a scan with these options. Returns a line for each cell of each answer, and
    /// one behind each answer.
    pub async fn read(&self, table: &TableName, options: &[String]) -> Result<Vec<String>, JavaError> {
        self.ask(json!(["read", table.to_string(), options])).await
    }

    /// Performs the puts and deletes of a row.
    pub async fn write(&self, table: &TableName, options: &[String]) -> Result<(), JavaError> {
        self.ask(json!(["write", table.to_string(), options])).await
    }

    /// Runs a load to its end.
    pub async fn spin(&self, spin: Spin<'_>) -> Result<Vec<Cycle>, JavaError> {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap();
        let Spin {
            threads,
            level,
            farm,
            client,
            ids,
            ttl_s,
            ..
        } = spin;
        let (inside, pause) = (millis(spin.inside), millis(spin.pause));
        let (table, lasting) = (spin.table.to_string(), millis(spin.lasting));
        let request = json!([
            "spin", threads, table, level, farm, client, ids, ttl_s, inside, pause, lasting
        ]);
        let mut cycles = Vec::new();
        let count: usize = self
            .exchange(&request, PATIENCE + spin.lasting, |cycle| cycles.push(cycle))
            .await?;
        assert_eq!(cycles.len(), count, "cycles were lost on the way");
        Ok(cycles)
    }

    async fn ask<T: DeserializeOwned>(&self, request: Value) -> Result<T, JavaError> {
        let none = |cycle: Cycle| panic!("{request} is no load, but has {cycle:?}");
        self.exchange(&request, PATIENCE, none).await
    }

    async fn exchange<T: DeserializeOwned>(
        &self,
        request: &Value,
        patience: Duration,
        mut cycle: impl FnMut(Cycle),
    ) -> Result<T, JavaError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "lowercase")]
        enum Line {
            Ok(Value),
            Error(String),
            Cycle(Cycle),
        }
        let deadline = Instant::now() + patience;
        let mut place = self.pipes.lock().await;
        // A request that is dropped midway leaves no pipes, because the next answer would be its
        // own.
        let mut pipes = place
            .take()
            .expect("an earlier request was given up before its answer came");
        let line = format!("{request}\n");
        let sent = pipes.requests.write_all(line.as_bytes()).await;
        sent.unwrap_or_else(|error| self.fail(request, &error));
        let answer = loop {
            let line = match timeout_at(deadline, pipes.answers.next_line()).await {
                Ok(Ok(Some(line))) => line,
                Ok(Ok(None)) => self.fail(request, &"it has ended"),
                Ok(Err(error)) => self.fail(request, &error),
                Err(_) => self.fail(request, &format!("no answer within {patience:?}")),
            };
            match serde_json::from_str(&line)
                .unwrap_or_else(|error| self.fail(request, &format!("{error}: {line:?}")))
            {
                Line::Cycle(one) => cycle(one),
                Line::Ok(value) => break Ok(value),
                Line::Error(trace) => break Err(JavaError(trace)),
            }
        };
        *place = Some(pipes);
        answer.map(|value| serde_json::from_value(value).unwrap_or_else(|error| self.fail(request, &error)))
    }

    /// Fails the test with the output of the program.
    fn fail(&self, request: &Value, why: &dyn fmt::Display) -> ! {
        let said = std::fs::read_to_string(self.stderr.path()).unwrap_or_default();
        panic!("the Java side failed at {request}: {why}; it said:\n{said}")
    }
}

impl fmt::Debug for JavaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
