//! A closed client leaves nothing behind.

use std::{collections::HashSet, fs, time::Duration};

use hbase_txn::{
    admin::Admin,
    client::{Connection, Get},
};
use tokio::runtime::Handle;

use crate::{
    cluster::{TestCluster, create_table, drop_table, until},
    settings::Settings,
};

/// Returns the number of open sockets of this process that lead to the servers of a cluster. Other tests
/// have clusters of their own.
fn sockets(cluster: &TestCluster) -> usize {
    let own: HashSet<String> = fs::read_dir("/proc/self/fd")
        .unwrap()
        .filter_map(|entry| {
            let target = fs::read_link(entry.ok()?.path()).ok()?;
            let inode = target.to_str()?.strip_prefix("socket:[")?.strip_suffix("]")?;
            Some(inode.to_owned())
        })
        .collect();
    let ports: Vec<String> = cluster
        .ports()
        .into_iter()
        .map(|port| format!(":{port:04X}"))
        .collect();
    let all = fs::read_to_string("/proc/self/net/tcp").unwrap();
    let leads_there = |line: &&str| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let (remote, inode) = (columns[2], columns[9]);
        own.contains(inode) && ports.iter().any(|port| remote.ends_with(port))
    };
    all.lines().skip(1).filter(leads_there).count()
}

fn tasks() -> usize {
    Handle::current().metrics().num_alive_tasks()
}

#[tokio::test]
async fn clients_that_come_and_go_leave_no_socket_and_no_task() {
    const TEST: &str = "leaks";
    const CLIENTS: usize = 100;
    let cluster = TestCluster::take().await;
    let settings = Settings::of(TEST);
    let first = cluster.connect().await;
    let table = create_table(&first, &settings, TEST, &[]).await.unwrap();
    table.table().get(Get::new("aaa")).await.unwrap();
    let config = cluster.config();
    // The first client of a process has started the parts that stay.
    let (sockets_before, tasks_before) = (sockets(&cluster), tasks());
    for round in 0..CLIENTS {
        let connection = Connection::builder(config.clone()).connect().await.unwrap();
        connection
            .table(table.name().clone())
            .unwrap()
            .get(Get::new("aaa"))
            .await
            .unwrap();
        Admin::new(&connection).exists(table.name()).await.unwrap();
        assert!(sockets(&cluster) > sockets_before);
        // A closed client is gone when `close` returns, except for its session at the registry.
        if round % 2 == 0 {
            connection.close().await;
        }
    }
    until(
        "end of all sockets and tasks",
        Duration::from_secs(20),
        async || (sockets(&cluster) <= sockets_before && tasks() <= tasks_before).then_some(()),
    )
    .await;
    drop_table(&first, &table).await;
    first.close().await;
}
