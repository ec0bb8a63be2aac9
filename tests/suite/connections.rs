//! The number of connections to a region server.

use std::time::Duration;

use futures::future::join_all;
use hbase_txn::client::{Config, Connection, Get, ServiceKind, Table};

use crate::support::{
    connect_by, eventually, put,
    spy::Spy,
    standalone,
    table::{TestTable, plain},
    value,
};

async fn spied(config: Config) -> (Connection, Spy) {
    let spy = Spy::default();
    (connect_by(spy.clone(), config).await, spy)
}

/// Returns the number of connections to the region server for rows.
fn connections(spy: &Spy) -> usize {
    spy.dials(ServiceKind::Client)
}

/// Makes calls in rounds, each of 64 concurrent ones.
async fn load(table: &Table) {
    for round in 0..8 {
        let rows = (0..64).map(|row| format!("{round} {row}"));
        let calls = rows.map(async |row| {
            table.put(put(row.clone(), row.clone())).await.unwrap();
            assert_eq!(value(table, &row).await, Some(row));
        });
        join_all(calls).await;
    }
}

#[tokio::test]
async fn calls_in_flight_open_as_many_connections_as_are_allowed() {
    let shared = TestTable::create("connections", plain, &["4"]).await;
    for (allowed, coalescing) in [(1, true), (1, false), (4, true), (4, false)] {
        let config = standalone()
            .config()
            .with_coalescing(coalescing)
            .with_connections_per_server(allowed);
        let (connection, spy) = spied(config).await;
        let table = shared.of(&connection);
        load(&table).await;
        let opened = connections(&spy);
        if coalescing {
            // Few calls are in flight.
            assert!(
                (1..=usize::from(allowed)).contains(&opened),
                "{opened} of {allowed}"
            );
        } else {
            assert_eq!(opened, usize::from(allowed));
        }
        connection.close().await;
    }
}

#[tokio::test]
async fn one_call_at_a_time_needs_one_connection() {
    let shared = TestTable::create("connections", plain, &[]).await;
    let (connection, spy) = spied(standalone().config().with_connections_per_server(4)).await;
    let table = shared.of(&connection);
    for row in 0..20 {
        table.get(Get::new(format!("{row}"))).await.unwrap();
    }
    assert_eq!(connections(&spy), 1);
}

#[tokio::test]
async fn connections_without_calls_are_closed_and_opened_again() {
    let shared = TestTable::create("connections", plain, &[]).await;
    let config = standalone().config().with_idle_timeout(Duration::ZERO);
    let (connection, spy) = spied(config).await;
    let table = shared.of(&connection);
    let mut opened = 0;
    for round in ["1", "2"] {
        table.put(put("row", round)).await.unwrap();
        assert_eq!(value(&table, "row").await.as_deref(), Some(round));
        assert!(connections(&spy) > opened, "no connection was opened");
        opened = connections(&spy);
        eventually("all connections are closed", async || {
            (spy.open_streams() == 0).then_some(())
        })
        .await;
    }
    connection.close().await;
}
