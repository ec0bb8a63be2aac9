//! What an administrator does to a whole region server, or to the master.

use std::time::Duration;

use hbase_txn::{
    admin::Admin,
    client::{Get, Put, ServerName, TableName},
};

use crate::{
    cluster::{FAMILY, PATIENCE, QUALIFIER, TestCluster, create_table_as, until},
    settings::Settings,
};

const TEST: &str = "region_servers";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn region_server_is_flushed_compacted_and_stopped() {
    let settings = Settings::of(TEST);
    let cluster = TestCluster::take().await;
    let connection = cluster.connect().await;
    let admin = Admin::new(&connection).with_operation_timeout(PATIENCE);
    let rows: Vec<String> = (0..9).map(|row| row.to_string()).collect();
    let name = create_table_as(&connection, &settings, TEST, &rows[1..], |descriptor| descriptor)
        .await
        .unwrap();
    let table = connection.table(&name).unwrap().with_operation_timeout(PATIENCE);
    let server = admin.regions(&name).await.unwrap()[0].server.clone().unwrap();
    let put_all = async || {
        for row in &rows {
            table
                .put(Put::new(row.clone()).cell(FAMILY, QUALIFIER, "v"))
                .await
                .unwrap();
        }
    };
    put_all().await;
    admin.flush_region_server(&server).await.unwrap();
    let until_files = async |expected: (u32, u32)| {
        until("report of the store files", PATIENCE, async || {
            (files(&admin, &name, &server).await == expected).then_some(())
        })
        .await;
    };
    until_files((1, 0)).await;
    put_all().await;
    admin.flush_region_server(&server).await.unwrap();
    until_files((2, 0)).await;
    admin.major_compact_region_server(&server).await.unwrap();
    until_files((1, 0)).await;

    admin.stop_region_server(&server).await.unwrap();
    until("regions on other servers", PATIENCE, async || {
        let regions = admin.regions(&name).await.unwrap();
        let has_moved = |other: &Option<ServerName>| other.as_ref().is_some_and(|other| *other != server);
        let live = admin.cluster_info().await.unwrap().live_servers;
        let all = regions.iter().all(|found| has_moved(&found.server));
        (all && !live.contains(&server)).then_some(())
    })
    .await;
    for row in &rows {
        assert!(table.get(Get::new(row.clone())).await.unwrap().is_some(), "{row}");
    }
    let number = (1..=3)
        .find(|number| cluster.port(*number) == server.port)
        .unwrap();
    cluster.await_end(&format!("region-server-{number}")).await;
    cluster.start(number).await;
    cluster.settle(&connection).await;
    admin.delete_table(&name).await.unwrap();
}

/// Returns the most store files of a region of the table on the server, and on others, by the latest reports.
async fn files(admin: &Admin, table: &TableName, server: &ServerName) -> (u32, u32) {
    let regions = admin.regions(table).await.unwrap();
    let is_of_table = |name| regions.iter().any(|found| found.region.name == name);
    let (mut own, mut others) = (Vec::new(), Vec::new());
    for load in admin.server_loads().await.unwrap() {
        let counts = if load.server == *server {
            &mut own
        } else {
            &mut others
        };
        let of_table = load
            .regions
            .into_iter()
            .filter(|region| is_of_table(region.name.clone()));
        counts.extend(of_table.map(|region| region.store_files));
    }
    assert!(own.iter().all(|count| *count <= 2), "{own:?}");
    (
        own.iter().min().copied().unwrap_or(0),
        others.into_iter().max().unwrap_or(0),
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn master_is_stopped_and_region_servers_go_on() {
    let settings = Settings::of(TEST);
    let cluster = TestCluster::take().await;
    let connection = cluster.connect().await;
    let admin = Admin::new(&connection).with_operation_timeout(PATIENCE);
    let name = create_table_as(&connection, &settings, TEST, &[], |descriptor| descriptor)
        .await
        .unwrap();
    let table = connection.table(&name).unwrap();
    admin.stop_master().await.unwrap();
    cluster.await_end("master").await;
    let hasty = Admin::new(&connection).with_operation_timeout(Duration::from_secs(1));
    hasty.cluster_info().await.unwrap_err();
    table
        .put(Put::new("a").cell(FAMILY, QUALIFIER, "v"))
        .await
        .unwrap();
    cluster.start_master().await;
    cluster.settle(&connection).await;
    admin.delete_table(&name).await.unwrap();
}
