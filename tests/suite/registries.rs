//! Every kind of registry, each with a full round of operations.

use std::{
    net::Ipv6Addr,
    time::{Duration, Instant},
};

use hbase_fake::FakeHBase;
use hbase_txn::{
    PartitionedTable,
    admin::Admin,
    client::{Config, Connection, Delete, Get, Scan},
};
use rstest::rstest;
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
};

use crate::support::{
    Cluster,
    forwarder::{nobody, stranger},
    keys, put, standalone,
    table::{TestTable, by_three},
    value,
};

/// Opens, commits, reads and deletes, and describes and alters through the master.
async fn whole_round(uri: &str, table: &TestTable) {
    let connection = Connection::connect(uri).await.unwrap();
    let opened = PartitionedTable::open(&connection, table.name.clone())
        .await
        .unwrap();
    let transaction = opened
        .transaction("xxx")
        .put(put("xxxa", "1"))
        .put(put("xxxb", "2"));
    assert!(transaction.commit().await.is_committed());
    let rows = opened.table();
    assert_eq!(value(rows, "xxxb").await.as_deref(), Some("2"));
    assert_eq!(keys(rows, Scan::new()).await, ["xxxa", "xxxb"]);
    for row in ["xxxa", "xxxb"] {
        rows.delete(Delete::new(row)).await.unwrap();
    }
    assert_eq!(rows.get(Get::new("xxxa")).await.unwrap(), None);
    let admin = Admin::new(&connection);
    assert!(admin.tables().await.unwrap().contains(&table.name));
    assert_eq!(admin.cluster_info().await.unwrap().live_servers.len(), 1);
    connection.close().await;
}

fn port(cluster: &Cluster, name: &str) -> u16 {
    cluster.status.ports[name]
}

#[tokio::test]
async fn zookeeper_master_and_region_server_each_find_the_cluster() {
    let cluster = standalone();
    let table = TestTable::create("registries", by_three, &[]).await;
    let region_server = format!("hbase+rpc://127.0.0.1:{}", port(&cluster, "region-server"));
    for uri in [&cluster.uri, &cluster.rpc_uri, &region_server] {
        whole_round(uri, &table).await;
    }
}

/// The first hosts of the list are dead. The last one is the cluster.
#[rstest]
#[ignore = "needs ZooKeeper"]
#[case::zookeeper("zookeeper")]
#[case::master("master")]
#[tokio::test]
async fn dead_hosts_before_the_right_one_cost_time_but_not_the_answer(
    #[case] role: &str,
    #[values(false, true)] silent: bool,
) {
    let cluster = standalone();
    let mut hosts = Vec::new();
    for _ in 0..3 {
        let dead = if silent {
            stranger(b"").await
        } else {
            nobody().await
        };
        hosts.push(format!("127.0.0.1:{dead}"));
    }
    hosts.push(format!("127.0.0.1:{}", port(&cluster, role)));
    let uri = match role {
        "zookeeper" => format!("hbase+zk://{}/hbase", hosts.join(",")),
        _ => format!("hbase+rpc://{}", hosts.join(",")),
    };
    let began = Instant::now();
    let connection = Connection::builder(Config::from_uri(&uri).unwrap())
        .connect()
        .await
        .unwrap();
    Admin::new(&connection).cluster_info().await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(16), "{:?}", began.elapsed());
}

/// Returns a port of `::1` that leads to a port of 127.0.0.1.
async fn on_ipv6(port: u16) -> u16 {
    let listener = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).await.unwrap();
    let ours = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut server = TcpStream::connect(("127.0.0.1", port)).await?;
                copy_bidirectional(&mut client, &mut server).await
            });
        }
    });
    ours
}

#[rstest]
#[ignore = "needs ZooKeeper"]
#[case::zookeeper("zookeeper")]
#[case::master("master")]
#[tokio::test]
async fn registry_is_found_by_ipv6(#[case] role: &str) {
    let port = on_ipv6(port(&standalone(), role)).await;
    let (uri, site) = match role {
        "zookeeper" => (
            format!("hbase+zk://[::1]:{port}/hbase"),
            format!(
                "<property><name>hbase.zookeeper.quorum</name><value>::1</value></property>
                <property><name>hbase.zookeeper.property.clientPort</name><value>{port}</value></property>"
            ),
        ),
        _ => (
            format!("hbase+rpc://[::1]:{port}"),
            format!(
                "<property><name>hbase.client.bootstrap.servers</name><value>[::1]:{port}</value></property>"
            ),
        ),
    };
    let site = format!("<configuration>{site}</configuration>");
    for config in [Config::from_uri(&uri), Config::from_hbase_site(&site)] {
        let connection = Connection::builder(config.unwrap()).connect().await.unwrap();
        let servers = Admin::new(&connection).cluster_info().await.unwrap().live_servers;
        assert_eq!(servers.len(), 1);
        connection.close().await;
    }
}

/// `hbase:meta` and the registry name all servers by IPv6 there.
#[tokio::test]
async fn cluster_on_ipv6_serves_rows() {
    let hbase = FakeHBase::builder().listen_on(Ipv6Addr::LOCALHOST.into());
    let hbase = hbase.await.unwrap();
    hbase.create_table("t", &["f"], &["m"]);
    let connection = Connection::connect(&hbase.uri()).await.unwrap();
    let table = connection.table("t").unwrap();
    for row in ["a", "z"] {
        table.put(put(row, row)).await.unwrap();
        assert_eq!(value(&table, row).await.as_deref(), Some(row));
    }
    let [server] = &Admin::new(&connection).cluster_info().await.unwrap().live_servers[..] else {
        panic!("one server");
    };
    assert_eq!(server.host, "::1");
    connection.close().await;
}

#[tokio::test]
async fn address_map_leads_to_servers_by_names_that_are_unknown_here() {
    let hbase = FakeHBase::builder().servers(2).advertised_host("hbase.invalid");
    let hbase = hbase.listen().await.unwrap();
    hbase.create_table("t", &["f"], &["m"]);
    let (_, master) = hbase.server(2).address();
    let limit = Duration::from_secs(1);
    let config = |uri: &str| Config::from_uri(uri).unwrap().with_operation_timeout(limit);

    // The registry is found, and names servers that are not.
    let bare = config(&format!("hbase+rpc://127.0.0.1:{master}"));
    let connection = Connection::builder(bare).connect().await.unwrap();
    let lost = connection
        .table("t")
        .unwrap()
        .put(put("a", "1"))
        .await
        .unwrap_err();
    for part in ["hbase.invalid", "Config::with_address_map"] {
        assert!(lost.to_string().contains(part), "{lost}");
    }

    let mapped = config(&hbase.uri()).with_address_map(["hbase.invalid=127.0.0.1".parse().unwrap()]);
    let connection = Connection::builder(mapped).connect().await.unwrap();
    let table = connection.table("t").unwrap();
    for row in ["a", "z"] {
        table.put(put(row, row)).await.unwrap();
        assert_eq!(value(&table, row).await.as_deref(), Some(row));
    }
    let servers = Admin::new(&connection).cluster_info().await.unwrap().live_servers;
    assert!(servers.iter().all(|server| server.host == "hbase.invalid"));
    connection.close().await;
}

#[tokio::test]
async fn address_map_leads_to_zookeeper_or_the_masters() {
    let cluster = standalone();
    let uri = cluster.uri.replacen("127.0.0.1", "hbase.invalid", 1);
    let config = Config::from_uri(&uri).unwrap();
    let mapped = config.with_address_map(["hbase.invalid=127.0.0.1".parse().unwrap()]);
    let connection = Connection::builder(mapped).connect().await.unwrap();
    assert_eq!(
        Admin::new(&connection)
            .cluster_info()
            .await
            .unwrap()
            .live_servers
            .len(),
        1
    );
    connection.close().await;
}
