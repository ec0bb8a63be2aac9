//! A closed client leaves nothing behind.

use std::{fs, time::Duration};

use hbase_txn::{Connection, Get};
use tokio::runtime::Handle;

use crate::{
    cluster::{TestCluster, create_table, drop_table, until},
    settings::Settings,
};

/// Returns the number of open sockets of this process.
fn sockets() -> usize {
    fs::read_dir("/proc/self/fd")
        .unwrap()
        .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok())
        .filter(|target| target.to_string_lossy().starts_with("socket:"))
        .count()
}

fn tasks() -> usize {
    Handle::current().metrics().num_alive_tasks()
}

#[tokio::test]
async fn clients_that_come_and_go_leave_no_socket_and_no_task() {
    const TEST: &str = "leaks";
    const CLIENTS: usize = 100;
    let cluster = TestCluster::take_alone().await;
    let settings = Settings::of(TEST);
    let first = cluster.connect().await;
    let table = create_table(&first, &settings, TEST, &[]).await.unwrap();
    table.table().get(Get::new("aaa")).await.unwrap();
    let config = cluster.config();
    // The first client of a process has started the parts that stay.
    let (sockets_before, tasks_before) = (sockets(), tasks());
    for round in 0..CLIENTS {
        let connection = Connection::builder(config.clone()).connect().await.unwrap();
        connection
            .table(table.name().clone())
            .unwrap()
            .get(Get::new("aaa"))
            .await
            .unwrap();
        connection.admin().exists(table.name()).await.unwrap();
        assert!(sockets() > sockets_before);
        // A closed client is gone when `close` returns, except for its session at the registry.
        if round % 2 == 0 {
            connection.close().await;
        }
    }
    until(
        "end of all sockets and tasks",
        Duration::from_secs(20),
        async || (sockets() <= sockets_before && tasks() <= tasks_before).then_some(()),
    )
    .await;
    drop_table(&first, &table).await;
    first.close().await;
}
