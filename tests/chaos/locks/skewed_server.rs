//! A region server whose clock is ahead of the others': the effect on a lease when its region moves
//! there, the guarantees that remain, and the finding of the audit.

use std::{path::Path, process::Stdio, time::Duration};

use hbase_provision::audit_cluster;
use hbase_txn::{
    Outcome, PartitionedTable, TableDescriptorExt,
    admin::Admin,
    client::{Connection, Put},
    lock::{LockGuard, LockLoss, PartitionLocks, ReleaseOutcome},
};
use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    process::Command,
    time::{Instant, timeout},
};

use crate::{
    clock_shift::{PRELOAD, SHIFT, compile},
    cluster::{FAMILY, PATIENCE, QUALIFIER, TestCluster, create_table_as, drop_table},
    settings::Settings,
};

const TEST: &str = "skewed_server";
const SERVER: u16 = 3;
const AHEAD: Duration = Duration::from_secs(5);
const LEASE: Duration = Duration::from_secs(12);
const PARTITION: &str = "aaa";

/// A region server with a shifted clock, which is killed with the test.
struct Shifted(Pid);

impl Shifted {
    /// Starts a killed server by the command, because the new process inherits the command's
    /// environment.
    async fn start(cluster: &TestCluster, shim: &Path) -> Self {
        let started = Command::new(env!("CARGO_BIN_EXE_hbase-txn"))
            .args(["dev", "start", "--name", &cluster.name(), "--server"])
            .arg(SERVER.to_string())
            .env(PRELOAD, shim)
            .env(SHIFT, AHEAD.as_secs().to_string())
            .stdout(Stdio::null())
            .status();
        assert!(timeout(PATIENCE, started).await.unwrap().unwrap().success());
        Self(Pid::from_raw(cluster.pid(SERVER)).unwrap())
    }
}

impl Drop for Shifted {
    fn drop(&mut self) {
        let _ = kill_process(self.0, Signal::KILL);
    }
}

/// Returns the audit's findings on clocks that are apart.
async fn apart(connection: &Connection, table: &PartitionedTable) -> Vec<String> {
    let audit = audit_cluster(connection, &[table.name().clone()]).await.unwrap();
    let findings = audit.findings.into_iter();
    let apart = findings.filter(|finding| finding.finding == "clocks-apart");
    apart.map(|finding| finding.what).collect()
}

/// Moves the region of the table to the server, or to another one.
async fn move_to(connection: &Connection, table: &PartitionedTable, port: u16, there: bool) {
    let admin = Admin::new(connection).with_operation_timeout(PATIENCE);
    let region = admin.regions(table.name()).await.unwrap().remove(0);
    let is_there = |server: &hbase_txn::client::ServerName| (server.port == port) == there;
    if region.server.as_ref().is_some_and(is_there) {
        return;
    }
    let servers = admin.cluster_info().await.unwrap().live_servers;
    let to = servers.iter().find(|server| is_there(server)).unwrap();
    admin.move_region(&region.region, to).await.unwrap();
}

/// Writes to the partition if the guard holds its lock.
async fn commit(table: &PartitionedTable, guard: &LockGuard) -> Outcome {
    let mut transaction = table.transaction(PARTITION).fenced_by(guard);
    let put = Put::new(format!("{PARTITION}row")).cell(FAMILY, QUALIFIER, "v");
    transaction = transaction.put(put).recorded();
    transaction.commit().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lease_on_a_faster_server_ends_early_and_fences_its_writes() {
    let settings = Settings::of(TEST);
    let folder = tempfile::tempdir().unwrap();
    let shim = compile(folder.path());
    let cluster = TestCluster::take().await;
    let connection = cluster.connect().await;
    let name = create_table_as(&connection, &settings, TEST, &[], |descriptor| {
        descriptor.with_record_family().with_lock_family()
    });
    let table = PartitionedTable::open(&connection, name.await.unwrap())
        .await
        .unwrap();
    assert_eq!(apart(&connection, &table).await, [""; 0], "clocks of one machine");

    let port = cluster.port(SERVER);
    cluster.kill(SERVER).await;
    let shifted = Shifted::start(&cluster, &shim).await;
    cluster.settle(&connection).await;
    let found = apart(&connection, &table).await;
    let [found] = &found[..] else {
        panic!("one finding, and not {found:?}");
    };
    let told = ["3", "4"].map(|seconds| found.contains(&format!(" is at least {seconds}.")));
    assert!(
        found.contains(&format!(",{port},")) && told.contains(&true),
        "{found}"
    );

    // Three managers, each like a process of its own.
    let locks = PartitionLocks::open(&table).await.unwrap();
    let others = PartitionLocks::open(&table).await.unwrap();
    move_to(&connection, &table, port, false).await;
    let renewed = locks.lock(PARTITION, "renewed").unwrap().ttl(LEASE).auto_renew();
    let renewed = renewed.acquire().await.unwrap();
    let began = Instant::now();
    let old = locks
        .lock(PARTITION, "l")
        .unwrap()
        .ttl(LEASE)
        .acquire()
        .await
        .unwrap();
    move_to(&connection, &table, port, true).await;

    // Others see the lease end by the faster clock; its holder still counts by its own clock.
    let next = others
        .lock(PARTITION, "l")
        .unwrap()
        .ttl(LEASE)
        .wait(LEASE)
        .acquire();
    let next = next.await.unwrap();
    let waited = began.elapsed();
    assert!(waited > LEASE - AHEAD - Duration::from_secs(1), "{waited:?}");
    assert!(waited < LEASE - Duration::from_secs(2), "{waited:?}");
    assert!(old.is_held() && old.remaining() > Duration::from_secs(1));
    assert!(next.fencing() > old.fencing());

    // A fenced write is still refused, and with the next call the old holder detects the loss.
    let refused = commit(&table, &old).await;
    assert!(matches!(refused, Outcome::Rejected(_)), "{refused}");
    assert!(commit(&table, &next).await.is_committed());
    let released = old.release().await.unwrap();
    let is_taken =
        matches!(&released, ReleaseOutcome::Lost(LockLoss::Taken(by)) if by.token == Some(next.token()));
    assert!(is_taken, "{released}");
    assert!(next.release().await.unwrap().is_released());

    // A renewed lease has enough time left when it arrives there.
    assert!(renewed.is_held());
    let other = others.lock(PARTITION, "renewed").unwrap().try_acquire().await;
    assert!(other.unwrap().is_none());
    assert!(commit(&table, &renewed).await.is_committed());
    assert!(renewed.release().await.unwrap().is_released());

    drop_table(&connection, &table).await;
    cluster.kill(SERVER).await;
    // Its process is killed already.
    std::mem::forget(shifted);
    cluster.start(SERVER).await;
    cluster.settle(&connection).await;
    connection.close().await;
}
