//! The command `lock run` on a network that becomes silent: the only process of a separate cluster
//! is stopped, so that connections stay open without answers.

use std::{
    path::Path,
    process::Stdio,
    time::{Duration, SystemTime},
};

use hbase_local::{BootOptions, Home, LocalCluster};
use hbase_txn::{
    Level,
    admin::Admin,
    client::{Config, Connection, TableName},
    lock::LockTableOptions,
};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::Command,
    time::timeout,
};

use super::{CLIENT, FARM, locks_of};
use crate::cluster::{PATIENCE, Stopped, until};

/// The shortest lease before whose end the command guarantees to stop its program in any case.
const LEASE: &str = "18s";
/// The time between TERM and KILL.
const GRACE: Duration = Duration::from_secs(5);
const ID: &str = "silent";
/// It prints its id, reports TERM, and continues.
const STUBBORN: &str = "trap 'echo told' TERM; echo $$; while :; do sleep 0.05; done";

#[tokio::test]
async fn lock_run_ends_its_program_before_the_lease_on_silence() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path(), Home::from_env().unwrap().cache());
    let local = LocalCluster::in_home("silent", home).unwrap();
    let local = local.with_timeout(PATIENCE);
    let status = local.up(&BootOptions::new().standalone()).await.unwrap();
    let uri = status.uri.unwrap();
    let config = Config::from_uri(&uri).unwrap();
    let connection = Connection::builder(config).connect().await.unwrap();
    let table: TableName = "silent".parse().unwrap();
    let options = LockTableOptions::from(table.clone()).regions(1);
    assert!(options.create(&Admin::new(&connection)).await.unwrap());
    let locks = locks_of(&connection, &table).await;

    let mut run = Command::new(env!("CARGO_BIN_EXE_hbase-txn"))
        .args(["lock", "run", "silent", ID, "--farm", FARM, "--client", CLIENT])
        .args(["--ttl", LEASE, "--", "sh", "-c", STUBBORN])
        .env("HBASE_TXN_CONNECT", &uri)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(run.stdout.take().unwrap()).lines();
    let mut line = async || {
        let line = timeout(PATIENCE, lines.next_line()).await;
        line.expect("a line in time").unwrap().expect("a line")
    };
    let program = Path::new("/proc").join(line().await);
    // Until the process is stopped the lease may be renewed, and so last longer.
    let holder = locks.show(Level::Dc, ID).await.unwrap().holder.unwrap();
    let end = holder.since + holder.lease.unwrap();
    let stopped = Stopped::new(status.pids["standalone"]).await;

    assert_eq!(line().await, "told");
    let left = end.duration_since(SystemTime::now()).unwrap_or_default();
    assert!(
        left >= GRACE,
        "it was told to end {left:?} before the lease was over"
    );
    let ended = async || (!program.exists()).then_some(());
    until("end of the program", PATIENCE, ended).await;
    let left = end.duration_since(SystemTime::now());
    left.expect("the program goes on when its lease is over");
    let output = timeout(PATIENCE, run.wait_with_output()).await.unwrap().unwrap();
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(4), "{complaint}");
    assert!(complaint.contains("the lock was lost"), "{complaint}");

    drop(stopped);
    connection.close().await;
    local.purge().await.unwrap();
}
