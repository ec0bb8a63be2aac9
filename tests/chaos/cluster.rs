//! The clusters that the tests break, each used by one test at a time.

use std::{
    env, fs,
    path::Path,
    sync::{LazyLock, Mutex},
    time::Duration,
};

use hbase_local::{ClusterState, LocalCluster};
use hbase_txn::{
    PartitionRule, PartitionedTable, Result,
    admin::{Admin, ClusterInfo},
    client::{Config, Connection, FamilyDescriptor, TableDescriptor, TableName},
};
use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::{Instant, sleep},
};

use crate::settings::Settings;

const NONE: &str = "no HBase to test against: run make test";

/// The clusters that no test uses. A test has a cluster of its own, because tests kill servers.
static FREE: LazyLock<Free> = LazyLock::new(|| {
    let names = env::var("HBASE_TXN_TEST_DISTRIBUTED").expect(NONE);
    let names: Vec<_> = names.split(',').map(str::to_owned).collect();
    Free {
        turns: Semaphore::new(names.len()),
        names: Mutex::new(names),
    }
});

struct Free {
    /// One permit for each name.
    turns: Semaphore,
    names: Mutex<Vec<String>>,
}

/// The time limit of operations that HBase does by itself: recovering a server, opening regions,
/// compacting.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);

/// The column of all tests.
pub(crate) const FAMILY: &str = "f";
pub(crate) const QUALIFIER: &str = "q";

/// A process that is stopped until this is dropped.
pub(crate) struct Stopped(Pid);

impl Stopped {
    /// Stops a process, and waits until all of its threads have stopped. On a busy machine, others go
    /// on until the one that gets the signal runs.
    pub(crate) async fn new(pid: i32) -> Self {
        let stopped = Self(Pid::from_raw(pid).unwrap());
        kill_process(stopped.0, Signal::STOP).unwrap();
        until("stopped process", PATIENCE, async || {
            let mut threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
            threads
                .all(|thread| has_stopped(&thread.unwrap().path().join("stat")))
                .then_some(())
        })
        .await;
        stopped
    }
}

/// Reads whether a thread has stopped. One that has ended meanwhile has.
fn has_stopped(stat: &Path) -> bool {
    fs::read_to_string(stat).map_or(true, |stat| {
        // The state follows the name, which is in brackets and may have any character.
        stat.rsplit_once(") ")
            .is_some_and(|(_, state)| state.starts_with('T'))
    })
}

impl Drop for Stopped {
    fn drop(&mut self) {
        kill_process(self.0, Signal::CONT).unwrap();
    }
}

/// A local cluster with several region servers, in exclusive use until this is dropped.
pub(crate) struct TestCluster {
    local: LocalCluster,
    _turn: SemaphorePermit<'static>,
}

impl Drop for TestCluster {
    fn drop(&mut self) {
        FREE.names.lock().unwrap().push(self.name());
    }
}

impl TestCluster {
    /// Waits for exclusive use, and restarts servers that an earlier test has killed. Regions move only
    /// if a test moves them: the balancer is off.
    pub(crate) async fn take() -> Self {
        let turn = FREE.turns.acquire().await.unwrap();
        let name = FREE.names.lock().unwrap().pop().unwrap();
        let local = LocalCluster::new(&name).expect(NONE).with_timeout(PATIENCE);
        let cluster = Self { local, _turn: turn };
        let state = cluster.local.status().expect(NONE).state;
        assert!(state.is_running(), "{NONE} ({name} is {})", state.as_str());
        if state == ClusterState::Degraded {
            for server in 1..=3 {
                cluster.start(server).await;
            }
        }
        let connection = cluster.connect().await;
        cluster.settle(&connection).await;
        Admin::new(&connection).balancer_switch(false).await.unwrap();
        cluster
    }

    pub(crate) fn uri(&self) -> String {
        self.local.status().unwrap().uri.unwrap()
    }

    /// Returns the settings of the tests' clients. Pauses are short: a client that sleeps past the
    /// end of a fault only costs time.
    pub(crate) fn config(&self) -> Config {
        Config::from_uri(&self.uri())
            .unwrap()
            .with_pause(Duration::from_millis(20))
    }

    /// Returns the same settings, with the servers themselves as the registry.
    pub(crate) fn rpc_config(&self) -> Config {
        let uri = self.local.status().unwrap().rpc_uri.unwrap();
        self.config().with_address(uri.parse().unwrap())
    }

    pub(crate) async fn connect(&self) -> Connection {
        Connection::builder(self.config()).connect().await.unwrap()
    }

    /// Kills a region server without a shutdown, as in a power failure.
    pub(crate) async fn kill(&self, server: u16) {
        self.local.kill(server).await.unwrap();
    }

    /// Returns the name of the cluster.
    pub(crate) fn name(&self) -> String {
        self.local.name().to_owned()
    }

    /// Returns the process id of a region server.
    pub(crate) fn pid(&self, server: u16) -> i32 {
        self.local.status().unwrap().pids[&format!("region-server-{server}")]
    }

    /// Stops the process of a region server until the result is dropped.
    pub(crate) async fn hang(&self, server: u16) -> Stopped {
        Stopped::new(self.pid(server)).await
    }

    /// Stops the process that stores the files of all servers until the result is dropped.
    pub(crate) async fn hang_data_node(&self) -> Stopped {
        Stopped::new(self.local.status().unwrap().pids["datanode"]).await
    }

    /// Returns the ports of all servers.
    pub(crate) fn ports(&self) -> Vec<u16> {
        self.local.status().unwrap().ports.into_values().collect()
    }

    /// Returns the port of a region server.
    pub(crate) fn port(&self, server: u16) -> u16 {
        self.local.status().unwrap().ports[&format!("region-server-{server}")]
    }

    /// Kills the master, and starts it again.
    pub(crate) async fn restart_master(&self) {
        self.local.kill_master().await.unwrap();
        self.local.start_master().await.unwrap();
    }

    /// Waits for the end of a server that was asked to stop. A start before that leaves it unchanged.
    pub(crate) async fn await_end(&self, process: &str) {
        until("end of the process", PATIENCE, async || {
            let pids = self.local.status().unwrap().pids;
            (!pids.contains_key(process)).then_some(())
        })
        .await;
    }

    /// Starts a master that has stopped.
    pub(crate) async fn start_master(&self) {
        self.local.start_master().await.unwrap();
    }

    pub(crate) async fn start(&self, server: u16) {
        self.local.start(server).await.unwrap();
    }

    /// Waits until the master knows all three servers, each with one start only.
    pub(crate) async fn settle(&self, connection: &Connection) -> ClusterInfo {
        let admin = Admin::new(connection);
        until("three live servers", PATIENCE, async || {
            let info = admin.cluster_info().await.ok()?;
            (info.live_servers.len() == 3).then_some(info)
        })
        .await
    }
}

/// Calls `ask` repeatedly until it returns a value. Fails the test after the time limit.
pub(crate) async fn until<T>(what: &str, patience: Duration, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + patience;
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(Instant::now() < deadline, "no {what} within {patience:?}");
        sleep(Duration::from_millis(100)).await;
    }
}

/// Creates a table for one test: partitions by three bytes, with a region boundary at each split
/// key.
pub(crate) async fn create_table(
    connection: &Connection,
    settings: &Settings,
    test: &str,
    split_keys: &[String],
) -> Result<PartitionedTable> {
    let name = create_table_as(connection, settings, test, split_keys, |descriptor| descriptor).await?;
    PartitionedTable::open(connection, name).await
}

/// Creates a table with a changed descriptor, and returns its name.
pub(crate) async fn create_table_as(
    connection: &Connection,
    settings: &Settings,
    test: &str,
    split_keys: &[String],
    add: impl FnOnce(TableDescriptor) -> TableDescriptor,
) -> Result<TableName> {
    let name: TableName = format!("{test}_{}_{:x}", settings.seed, fastrand::u32(..)).parse()?;
    let mut descriptor = TableDescriptor::from(name.clone())
        .with_family(FamilyDescriptor::new(FAMILY))
        .with_multi_row_mutation_endpoint();
    for (key, value) in PartitionRule::prefix_length(3)?.attributes() {
        descriptor = descriptor.with_attribute(key, value);
    }
    let split_keys: Vec<_> = split_keys.iter().map(|key| key.clone().into()).collect();
    let admin = Admin::new(connection).with_operation_timeout(PATIENCE);
    admin.create_table(&add(descriptor), &split_keys).await?;
    Ok(name)
}

/// Deletes a test's table, which would slow down the next tests.
pub(crate) async fn drop_table(connection: &Connection, table: &PartitionedTable) {
    let admin = Admin::new(connection).with_operation_timeout(PATIENCE);
    admin.delete_table(table.name()).await.unwrap();
}
