//! Many gets at once, compared with single ones.

use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, stream};
use hbase_txn::{
    ClientErrorKind,
    admin::Admin,
    client::{Connection, Consistency, Get, Table},
};
use tokio::time::Instant;

use crate::support::{
    connect, forwarded, put, says, spied,
    spy::Spy,
    standalone,
    table::{TestTable, plain},
    within,
};

const ROWS: usize = 6_000;
const SPLITS: [&str; 7] = ["0750", "1500", "2250", "3000", "3750", "4500", "5250"];

fn row(number: usize) -> String {
    format!("{number:04}")
}

/// Writes all rows except every seventh.
async fn fill(table: &Table) {
    stream::iter((0..ROWS).filter(|number| number % 7 != 0))
        .for_each_concurrent(64, |number| async move {
            table.put(put(row(number), row(number))).await.unwrap();
        })
        .await;
}

/// All rows once, in a fixed random order.
fn order() -> Vec<usize> {
    let mut order: Vec<usize> = (0..ROWS).collect();
    fastrand::Rng::with_seed(1).shuffle(&mut order);
    order
}

async fn check_all(table: &Table) {
    let order = order();
    let found = table
        .get_many(order.iter().map(|number| Get::new(row(*number))))
        .await
        .unwrap();
    assert_eq!(found.len(), ROWS);
    for (number, found) in order.into_iter().zip(found) {
        let value = found.as_ref().and_then(|found| found.value("f", "q"));
        match number % 7 {
            0 => assert_eq!(found, None, "{number}"),
            _ => assert_eq!(value.unwrap(), &row(number), "{number}"),
        }
    }
}

async fn check_existence(table: &Table) {
    let order = order();
    let gets = order.iter().map(|number| Get::new(row(*number)));
    let exist = table.exists_many(gets).await.unwrap();
    assert_eq!(exist.len(), ROWS);
    for (number, exists) in order.into_iter().zip(exist) {
        assert_eq!(exists, number % 7 != 0, "{number}");
    }
}

async fn watched() -> (Spy, Connection) {
    let (connection, spy) = spied().await;
    (spy, connection)
}

#[tokio::test]
async fn get_many_reads_eight_regions_in_order_after_a_split() {
    let (spy, connection) = watched().await;
    let shared = TestTable::create("many", plain, &SPLITS).await;
    let table = shared.of(&connection);
    fill(&table).await;
    check_all(&table).await;
    let before = spy.multi_calls();
    check_all(&table).await;
    assert_eq!(spy.multi_calls(), before + 2);
    check_existence(&table).await;
    assert_eq!(spy.multi_calls(), before + 4);

    // The split is not in the client's cache; its first call finds the region gone.
    shared.split_at(&connect().await, "1000").await;
    let before = spy.multi_calls();
    check_all(&table).await;
    let calls = spy.multi_calls() - before;
    assert!((3..=6).contains(&calls), "{calls} calls");
}

#[tokio::test]
async fn few_rows_are_one_call_and_none_are_none() {
    let (spy, connection) = watched().await;
    let shared = TestTable::create("few", plain, &["b", "c"]).await;
    let table = shared.of(&connection);
    table.put(put("b", "v")).await.unwrap();
    let before = spy.multi_calls();
    assert_eq!(table.get_many([]).await.unwrap(), []);
    assert_eq!(spy.multi_calls(), before);
    let rows = ["c", "b", "a", "b"];
    let found = table.get_many(rows.map(Get::new)).await.unwrap();
    let found: Vec<_> = found
        .iter()
        .map(|row| row.as_ref().map(|row| row.key().as_ref()))
        .collect();
    assert_eq!(found, [None, Some(&b"b"[..]), None, Some(b"b")]);
    assert_eq!(spy.multi_calls(), before + 1);

    let refused = table.get_many([Get::new("a"), Get::new("")]).await.unwrap_err();
    assert_eq!(refused.kind(), ClientErrorKind::InvalidInput);
    let gets = [Get::new("a"), Get::new("c").family("absent"), Get::new("b")];
    let failed = table.get_many(gets).await.unwrap_err();
    assert_eq!(failed.kind(), ClientErrorKind::FamilyNotFound, "{failed}");
    says(&failed, &["get_many", &shared.name.to_string(), "row c"]);
    assert!(failed.server().is_some());
}

#[tokio::test]
async fn silent_server_ends_get_many_at_the_deadline() {
    let cluster = standalone();
    let (connection, forwarder) = forwarded(cluster.config()).await;
    let shared = TestTable::create("silent", plain, &["b"]).await;
    let table = shared.of(&connection);
    table.put(put("a", "v")).await.unwrap();
    let gets = || ["a", "b"].map(Get::new);
    assert!(table.get_many(gets()).await.unwrap()[0].is_some());

    forwarder.mute(true);
    let brief = table.clone().with_operation_timeout(Duration::from_secs(1));
    let began = Instant::now();
    let failed = within(Duration::from_secs(20), brief.get_many(gets()))
        .await
        .unwrap_err();
    assert_eq!(failed.kind(), ClientErrorKind::DeadlineExceeded, "{failed}");
    assert!(
        began.elapsed() >= Duration::from_millis(900),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(failed.table(), Some(&shared.name.to_string()[..]));
    let dropped = tokio::time::timeout(Duration::from_millis(100), table.get_many(gets()));
    assert!(dropped.await.is_err());

    forwarder.mute(false);
    let found = within(Duration::from_secs(60), table.get_many(gets()))
        .await
        .unwrap();
    assert!(found[0].is_some() && found[1].is_none());
}

#[tokio::test]
#[ignore = "needs servers that read from replicas"]
async fn gets_that_replicas_may_answer_keep_their_places_among_others() {
    let connection = connect().await;
    let name = TestTable::create("timeline", plain, &["m"]).await;
    let table = name.of(&connection);
    for row in ["a", "z"] {
        table.put(put(row, row)).await.unwrap();
    }
    let get = |row: &'static str, consistency| Get::new(row).consistency(consistency);
    let gets = || {
        ["z", "none", "a"].into_iter().flat_map(|row| {
            [Consistency::Timeline, Consistency::Strong].map(|consistency| get(row, consistency))
        })
    };
    let found = table.get_many(gets()).await.unwrap();
    let keys: Vec<_> = found.iter().map(|row| Some(row.as_ref()?.key())).collect();
    let row = |row: &'static str| Some(Bytes::from(row));
    let expected = [row("z"), row("z"), None, None, row("a"), row("a")];
    assert_eq!(keys, expected.each_ref().map(Option::as_ref));
    let exist = table.exists_many(gets()).await.unwrap();
    assert_eq!(exist, [true, true, false, false, true, true]);
}

#[tokio::test]
async fn located_region_is_one_of_those_of_the_table() {
    let connection = connect().await;
    let name = TestTable::create("locate", plain, &["m"]).await;
    let table = name.of(&connection);
    let regions = Admin::new(&connection).regions(table.name()).await.unwrap();
    for (row, place) in [("", 0), ("a", 0), ("m", 1), ("z", 1)] {
        assert_eq!(table.locate(row).await.unwrap(), regions[place], "{row}");
    }
    let missing = connection.table("no-such-table").unwrap().locate("a").await;
    assert_eq!(missing.unwrap_err().kind(), ClientErrorKind::TableNotFound);
}
