//! One client: its connections, how it closes, and a custom connector.

use std::{
    collections::HashMap,
    io,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use futures::future::{BoxFuture, join_all};
use hbase_txn::{
    ClientErrorKind,
    admin::Admin,
    client::{Connection, Connector, DialTarget, Get, Io, Scan, ServiceKind, TcpConnector},
};

use crate::support::{
    connect, connect_by, eventually, forwarded,
    forwarder::Forwarder,
    keys, put, spied,
    spy::Spy,
    standalone,
    table::{SharedTable, plain},
    value,
};

static TABLE: SharedTable = SharedTable::new("client", plain, &["m"]);

#[tokio::test]
async fn one_connection_carries_a_thousand_outstanding_calls() {
    let (connection, spy) = spied().await;
    let shared = TABLE.get().await;
    let table = shared.of(&connection);
    let row = |number: usize| format!("t{number:04}");
    // All at once from a cold client: one dial and one lookup, shared by all calls.
    let puts = join_all((0..1_000).map(|number| table.put(put(row(number), row(number))))).await;
    for result in puts {
        result.unwrap();
    }
    let gets = join_all((0..1_000).map(|number| value(&table, row(number)))).await;
    for (number, found) in gets.into_iter().enumerate() {
        assert_eq!(found, Some(row(number)));
    }
    assert_eq!(spy.dials(ServiceKind::Client), 1, "{:?}", spy.targets());
    assert_eq!(keys(&table, Scan::prefix("t")).await.len(), 1_000);
}

#[tokio::test]
async fn hundred_concurrent_calls_share_one_lookup() {
    let shared = TABLE.get().await;
    let (connection, spy) = spied().await;
    let table = shared.of(&connection);
    let before = spy.scan_calls();
    // Rows of both regions.
    let rows = (0..50).flat_map(|number| [format!("a{number}"), format!("z{number}")]);
    let gets = join_all(rows.map(|row| table.get(Get::new(row)))).await;
    assert!(gets.iter().all(Result::is_ok));
    let scans = spy.scan_calls() - before;
    assert!((1..=4).contains(&scans), "{scans} calls for two locations");
}

#[tokio::test]
async fn server_accepts_requests_with_a_trace() {
    let shared = TABLE.get().await;
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let headers = move || HashMap::from([("traceparent".to_owned(), parent.to_owned())]);
    let builder = Connection::builder(standalone().config()).trace_headers(headers);
    let connection = builder.connect().await.unwrap();
    let table = shared.of(&connection);
    let puts = (0..100).map(|number| table.put(put(format!("headers{number}"), "v")));
    assert!(join_all(puts).await.iter().all(Result::is_ok));
    assert_eq!(keys(&table, Scan::prefix("headers")).await.len(), 100);
    assert!(Admin::new(&connection).exists(table.name()).await.unwrap());
}

#[tokio::test]
async fn closed_client_finishes_calls_in_flight_and_refuses_others() {
    let connection = connect().await;
    let shared = TABLE.get().await;
    let table = shared.of(&connection);
    table.put(put("close", "warm")).await.unwrap();
    let row = |number: usize| format!("close{number:03}");
    let puts = join_all((0..200).map(|number| table.put(put(row(number), "v"))));
    // The puts are polled first, so that all of them are sent.
    let (results, ()) = tokio::join!(puts, connection.close());
    for result in results {
        result.unwrap();
    }
    let began = Instant::now();
    let mut scanner = table.scan(Scan::new()).unwrap();
    for error in [
        table.get(Get::new("r")).await.unwrap_err(),
        table.put(put("r", "v")).await.unwrap_err(),
        scanner.next().await.unwrap_err(),
        Admin::new(&connection).tables().await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ClientErrorKind::Closed, "{error}");
        assert!(!error.is_outcome_unknown() && !error.is_retryable());
    }
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    connection.close().await;
    let again = shared.of(&connect().await);
    assert_eq!(
        keys(&again, Scan::new().start_row("close0").stop_row("close9"))
            .await
            .len(),
        200
    );
}

#[tokio::test]
async fn a_connector_leads_connections_where_it_wants() {
    let cluster = standalone();
    let forwarder = Forwarder::to(cluster.status.ports["region-server"]).await;
    let spy = Spy::with_detour(forwarder.port);
    let connection = connect_by(spy.clone(), standalone().config()).await;
    let shared = TABLE.get().await;
    let table = shared.of(&connection);
    table.put(put("forward", "v")).await.unwrap();
    assert_eq!(value(&table, "forward").await.as_deref(), Some("v"));
    assert_eq!(forwarder.accepted(), 1);
    // The connector receives the cluster's own names.
    let port = cluster.status.ports["region-server"];
    let mut targets = spy.targets().into_iter();
    let target = targets.find(|target| target.address.port == port).unwrap();
    assert_eq!(target.service, ServiceKind::Client);
}

#[tokio::test]
async fn reads_survive_silent_and_corrupt_connections() {
    let cluster = standalone();
    let config = cluster.config().with_read_timeout(Duration::from_millis(500));
    let (connection, forwarder) = forwarded(config).await;
    let shared = TABLE.get().await;
    let table = shared.of(&connection);
    table.put(put("survive", "v")).await.unwrap();

    forwarder.mute(true);
    let (found, ()) = tokio::join!(value(&table, "survive"), async {
        eventually("the silent connection is left", async || {
            (forwarder.accepted() > 1).then_some(())
        })
        .await;
        forwarder.mute(false);
    });
    assert_eq!(found.as_deref(), Some("v"));

    // A malformed answer is not retried, and closes only its own connection.
    forwarder.garble();
    let error = table.get(Get::new("survive")).await.unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::Protocol, "{error}");
    assert_eq!(value(&table, "survive").await.as_deref(), Some("v"));
}

/// Panics at the first dial for rows.
#[derive(Debug, Default)]
struct Panicking {
    panicked: AtomicBool,
}

impl Connector for Panicking {
    fn connect(&self, target: &DialTarget) -> BoxFuture<'static, io::Result<Box<dyn Io>>> {
        assert!(
            self.panicked.swap(true, Ordering::SeqCst),
            "the first dial panics"
        );
        TcpConnector.connect(target)
    }
}

#[tokio::test]
async fn panic_of_a_connector_is_a_failed_dial_and_is_retried() {
    let connection = connect_by(Panicking::default(), standalone().config()).await;
    let shared = TABLE.get().await;
    let table = shared.of(&connection);
    table.put(put("panic", "v")).await.unwrap();
}
