//! Look-ups of regions while the server of `hbase:meta` hangs.

use std::time::Duration;

use hbase_txn::{
    ClientErrorKind,
    admin::Admin,
    client::{Connection, Get, MetaReplicaMode, Put, TableRegion},
};
use tokio::time::Instant;

use crate::{
    cluster::{FAMILY, PATIENCE, QUALIFIER, TestCluster, create_table_as, until},
    settings::Settings,
};

const META: &str = "hbase:meta";
const SPLIT_KEYS: [&str; 5] = ["bbb", "ccc", "ddd", "eee", "fff"];
const ROWS: [&str; 6] = ["aaa1", "bbb1", "ccc1", "ddd1", "eee1", "fff1"];

/// Returns a client that knows no region.
async fn connect(cluster: &TestCluster, mode: MetaReplicaMode) -> Connection {
    let config = cluster
        .config()
        .with_meta_replicas(mode)
        .with_meta_replica_timeout(Duration::from_millis(200));
    Connection::builder(config).connect().await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn regions_are_found_while_the_server_of_meta_hangs() {
    const TEST: &str = "meta_replicas";
    let cluster = TestCluster::take().await;
    let settings = Settings::of(TEST);
    let connection = cluster.connect().await;
    let admin = Admin::new(&connection).with_operation_timeout(PATIENCE);
    let split_keys = SPLIT_KEYS.map(str::to_owned);
    let name = create_table_as(&connection, &settings, TEST, &split_keys, |descriptor| descriptor)
        .await
        .unwrap();
    let table = connection.table(&name).unwrap();
    for row in ROWS {
        let put = Put::new(row).cell(FAMILY, QUALIFIER, row);
        table.put(put).await.unwrap();
    }

    // Replicas open the files that were flushed, and see nothing later.
    admin.flush_table(META).await.unwrap();
    let catalog = admin.descriptor(META).await.unwrap();
    let replicated = catalog.clone().with_attribute("REGION_REPLICATION", "3");
    admin.modify_table(&replicated).await.unwrap();
    let primary = server_of_meta(&admin.regions(META).await.unwrap());
    let regions = admin.regions(&name).await.unwrap();
    let elsewhere = |region: &TableRegion| {
        region
            .server
            .as_ref()
            .is_some_and(|server| server.port != primary)
    };
    let rows: Vec<_> = ROWS
        .into_iter()
        .filter(|row| {
            regions
                .iter()
                .any(|found| found.region.contains(row) && elsewhere(found))
        })
        .collect();
    println!(
        "{TEST}: {} of {} regions are on other servers",
        rows.len(),
        ROWS.len()
    );
    assert!(rows.len() >= 2);
    until("replicas", PATIENCE, async || {
        let client = connect(&cluster, MetaReplicaMode::LoadBalance).await;
        client.table(&name).unwrap().get(Get::new(rows[0])).await.ok()
    })
    .await;

    let server = (1..=3).find(|server| cluster.port(*server) == primary).unwrap();
    let hung = cluster.hang(server).await;
    for mode in [MetaReplicaMode::HedgedRead, MetaReplicaMode::LoadBalance] {
        let table = connect(&cluster, mode).await.table(&name).unwrap();
        let began = Instant::now();
        for row in &rows {
            let found = table.get(Get::new(*row)).await.unwrap().unwrap();
            assert_eq!(found.value(FAMILY, QUALIFIER).unwrap(), row);
        }
        println!(
            "{TEST}: {mode:?} found {} rows in {:?}",
            rows.len(),
            began.elapsed()
        );
        assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    }
    let table = connect(&cluster, MetaReplicaMode::None)
        .await
        .table(&name)
        .unwrap();
    let table = table.with_operation_timeout(Duration::from_secs(1));
    let error = table.get(Get::new(rows[0])).await.unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::DeadlineExceeded, "{error}");
    drop(hung);
    cluster.settle(&connection).await;

    // The replicas do not learn of a move.
    let old = regions
        .iter()
        .find(|found| found.region.contains(rows[0]))
        .unwrap();
    let others = admin.cluster_info().await.unwrap().live_servers;
    let target = others
        .into_iter()
        .find(|server| Some(server) != old.server.as_ref())
        .unwrap();
    admin.move_region(&old.region, &target).await.unwrap();
    for _ in 0..5 {
        for mode in [MetaReplicaMode::HedgedRead, MetaReplicaMode::LoadBalance] {
            let table = connect(&cluster, mode).await.table(&name).unwrap();
            assert!(table.get(Get::new(rows[0])).await.unwrap().is_some());
        }
    }
    admin.modify_table(&catalog).await.unwrap();
    admin.delete_table(&name).await.unwrap();
}

fn server_of_meta(regions: &[TableRegion]) -> u16 {
    regions[0].server.as_ref().unwrap().port
}
