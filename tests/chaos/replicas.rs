//! Reads that replicas answer while the server of the primary hangs.

use std::time::Duration;

use hbase_txn::{
    ClientErrorKind,
    admin::Admin,
    client::{Consistency, Get, Put, Row, Scan},
};
use tokio::time::Instant;

use crate::{
    cluster::{FAMILY, PATIENCE, QUALIFIER, TestCluster, create_table_as, until},
    settings::Settings,
};

const ROWS: [&str; 2] = ["aaa1", "zzz1"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_answer_while_the_server_of_the_primary_hangs() {
    const TEST: &str = "replicas";
    let cluster = TestCluster::take().await;
    let settings = Settings::of(TEST);
    let connection = cluster.connect().await;
    let admin = Admin::new(&connection).with_operation_timeout(PATIENCE);
    let name = create_table_as(&connection, &settings, TEST, &["mmm".to_owned()], |descriptor| {
        descriptor.with_attribute("REGION_REPLICATION", "2")
    })
    .await
    .unwrap();
    let table = connection.table(&name).unwrap();
    for row in ROWS {
        table
            .put(Put::new(row).cell(FAMILY, QUALIFIER, row))
            .await
            .unwrap();
    }
    // A replica opens the files that were flushed.
    admin.flush_table(&name).await.unwrap();
    admin.disable_table(&name).await.unwrap();
    admin.enable_table(&name).await.unwrap();
    let timeline = |row: &'static str| Get::new(row).consistency(Consistency::Timeline);
    // The client knows the replicas of all regions, and they have the rows.
    let hasty = cluster
        .config()
        .with_primary_call_timeouts(Duration::ZERO, Duration::ZERO);
    let hasty = hbase_txn::client::Connection::builder(hasty)
        .connect()
        .await
        .unwrap();
    for row in ROWS {
        until("an answer of a replica", PATIENCE, async || {
            let found = hasty.table(&name).unwrap().get(timeline(row)).await.ok()??;
            (found.is_stale() && found.value(FAMILY, QUALIFIER)? == row).then_some(())
        })
        .await;
        assert!(
            !table
                .get(timeline(row))
                .await
                .unwrap()
                .unwrap()
                .cells()
                .is_empty()
        );
    }

    let regions = admin.regions(&name).await.unwrap();
    let primary = regions[0].server.clone().unwrap();
    let server = (1..=3)
        .find(|server| cluster.port(*server) == primary.port)
        .unwrap();
    let hung = cluster.hang(server).await;
    let began = Instant::now();
    for _ in 0..20 {
        let row = table.get(timeline(ROWS[0])).await.unwrap().unwrap();
        assert!(row.is_stale() && row.value(FAMILY, QUALIFIER).unwrap() == ROWS[0]);
    }
    println!("{TEST}: 20 gets in {:?}", began.elapsed());
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert!(table.exists(timeline(ROWS[0])).await.unwrap());
    let mut scanner = table
        .scan(Scan::new().consistency(Consistency::Timeline))
        .unwrap();
    let mut rows: Vec<Row> = Vec::new();
    while let Some(row) = scanner.next().await.unwrap() {
        rows.push(row);
    }
    let keys: Vec<_> = rows.iter().map(|row| row.key().clone()).collect();
    assert_eq!(keys, ROWS);
    assert!(rows[0].is_stale());
    let strong = table.clone().with_operation_timeout(Duration::from_secs(1));
    let error = strong.get(Get::new(ROWS[0])).await.unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::DeadlineExceeded, "{error}");

    drop(hung);
    until("an answer of the primary", PATIENCE, async || {
        let row = strong.get(Get::new(ROWS[0])).await.ok()??;
        (!row.is_stale()).then_some(())
    })
    .await;
    cluster.settle(&connection).await;
    admin.delete_table(&name).await.unwrap();
}
