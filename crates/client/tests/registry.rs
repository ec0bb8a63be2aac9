//! A client whose servers are all replaced, on a fake cluster in virtual time.

use std::time::Duration;

use futures::future::try_join_all;
use hbase_client::{Config, Connection, Get, Put};
use hbase_fake::{FakeHBase, Latency, Release};
use tokio::time::sleep;

/// Returns the URI of the registry on one server.
fn uri(hbase: &FakeHBase, server: usize) -> String {
    let (host, port) = hbase.server(server).address();
    format!("hbase+rpc://{host}:{port}")
}

#[test]
fn client_outlives_the_servers_that_it_was_configured_with() {
    const SERVERS: usize = 4;
    for survivor in 1..SERVERS {
        FakeHBase::run(async |_| {
            let hbase = FakeHBase::builder().servers(SERVERS).build();
            hbase.create_table("t", &["f"], &[]);
            let config = Config::from_uri(&uri(&hbase, 0))?;
            let connection = Connection::builder(config).connector(hbase.connector());
            let table = connection.connect().await?.table("t")?;
            table.put(Put::new("a").cell("f", "q", "v")).await?;
            sleep(Duration::from_secs(20)).await;
            for server in (0..SERVERS).filter(|server| *server != survivor) {
                hbase.server(server).crash();
            }
            assert!(table.get(Get::new("a")).await?.is_some(), "{survivor}");
            Ok(())
        });
    }
}

#[test]
fn client_of_an_old_release_learns_of_its_masters() {
    FakeHBase::run(async |_| {
        let hbase = FakeHBase::builder().masters(2).release(Release::V2_4).build();
        hbase.create_table("t", &["f"], &[]);
        // The servers of the cluster are the region server and then the masters.
        let config = Config::from_uri(&uri(&hbase, 1))?;
        let connection = Connection::builder(config).connector(hbase.connector());
        let table = connection.connect().await?.table("t")?;
        sleep(Duration::from_secs(20)).await;
        hbase.server(1).crash();
        hbase.server(0).crash();
        hbase.server(0).restart();
        assert!(table.get(Get::new("a")).await?.is_none());
        Ok(())
    });
}

#[test]
fn look_ups_that_lose_meta_ask_the_registry_once() {
    FakeHBase::run(async |_| {
        let millisecond = Duration::from_millis(1)..Duration::from_millis(2);
        let latency = Latency {
            request: millisecond.clone(),
            answer: millisecond,
            ..Latency::NONE
        };
        let hbase = FakeHBase::builder().servers(3).latency(latency).build();
        let tables: Vec<_> = (0..50).map(|number| format!("t{number}")).collect();
        for table in &tables {
            hbase.create_table(table, &["f"], &[]);
        }
        let connection = hbase.connect().await?;
        connection.table("t0")?.get(Get::new("a")).await?;
        let questions = || hbase.calls("GetMetaRegionLocations");
        let before = questions();
        // Each table is looked up in `hbase:meta` at its old server, which sends the calls away.
        hbase.move_region("hbase:meta", "", 1);
        try_join_all(tables[1..].iter().map(async |name| {
            let table = connection.table(name)?;
            table.get(Get::new("a")).await
        }))
        .await?;
        // A question goes to two servers.
        assert_eq!(questions() - before, 2);
        Ok(())
    });
}
