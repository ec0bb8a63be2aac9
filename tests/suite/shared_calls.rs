//! Single gets, puts and deletes that share calls.

use std::{sync::mpsc, thread, time::Duration};

use futures::{StreamExt, future::join_all, poll, stream::FuturesUnordered};
use hbase_txn::{
    ClientErrorKind,
    client::{Connection, Delete, Get, Put, Table},
};
use tokio::{runtime::Builder, sync::oneshot};

use crate::{
    proxy::Proxy,
    support::{
        connect, connect_by, key, put, standalone,
        table::{TestTable, plain},
        within,
    },
};

const ROWS: usize = 400;
const SOON: Duration = Duration::from_secs(20);

fn row(number: usize) -> String {
    format!("{number:04}")
}

/// Connects through a proxy that counts calls.
async fn counted(coalescing: bool) -> (Proxy, Connection) {
    let proxy = Proxy::new();
    let config = standalone().config().with_coalescing(coalescing);
    let connection = connect_by(proxy.clone(), config).await;
    (proxy, connection)
}

async fn put_all(table: &Table) {
    let puts = (0..ROWS).map(|number| table.put(put(row(number), row(number))));
    for done in join_all(puts).await {
        done.unwrap();
    }
}

/// Repeats operations on all rows until they need few calls. A busy server takes longer for a call than
/// operations wait for it; then each is made in a call of its own.
async fn repeat_until_shared(proxy: &Proxy, operations: impl AsyncFn()) {
    let requests = || -> usize {
        let methods = ["Get", "Mutate", "Multi"].iter();
        methods.map(|method| proxy.requests(method)).sum()
    };
    let mut calls = Vec::new();
    for _ in 0..5 {
        let before = requests();
        operations().await;
        calls.push(requests() - before);
        if calls.last() < Some(&(ROWS / 4)) {
            return;
        }
    }
    panic!("{calls:?} calls for {ROWS} operations");
}

#[tokio::test]
async fn concurrent_operations_share_calls_and_have_their_own_outcomes() {
    let (proxy, connection) = counted(true).await;
    let table = TestTable::create("shared-calls", plain, &["0100", "0200"]).await;
    let rows = table.of(&connection);
    repeat_until_shared(&proxy, || put_all(&rows)).await;

    repeat_until_shared(&proxy, async || {
        let found = join_all((0..ROWS).map(|number| rows.get(Get::new(row(number))))).await;
        for (number, found) in found.into_iter().enumerate() {
            let found = found.unwrap().unwrap();
            assert_eq!(
                (key(&found), found.value("f", "q")),
                (row(number), Some(&row(number).into()))
            );
        }
    })
    .await;

    // Some fail, and the others of their calls do not.
    let changes = join_all((0..ROWS).map(async |number| match number % 10 {
        0 => rows.put(Put::new(row(number)).cell("absent", "q", "v")).await,
        1 => rows.delete(Delete::new(row(number))).await,
        _ => rows.put(put(row(number), "new")).await,
    }));
    for (number, changed) in changes.await.into_iter().enumerate() {
        let kind = changed.map_err(|error| error.kind());
        let expected = match number % 10 {
            0 => Err(ClientErrorKind::FamilyNotFound),
            _ => Ok(()),
        };
        assert_eq!(kind, expected, "{number}");
    }
    for number in 0..ROWS {
        let found = rows.get(Get::new(row(number))).await.unwrap();
        let value = found.as_ref().and_then(|found| found.value("f", "q"));
        match number % 10 {
            0 => assert_eq!(value.unwrap(), &row(number), "{number}"),
            1 => assert_eq!(value, None, "{number}"),
            _ => assert_eq!(value.unwrap(), "new", "{number}"),
        }
    }
    connection.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operations_wait_for_no_runtime_but_their_own() {
    let connection = connect().await;
    let owned = TestTable::create("shared-runtimes", plain, &[]).await;
    let table = owned.of(&connection);
    // From now on the region is known, and a put is sent when it is first polled.
    table.put(put("a", "1")).await.unwrap();
    let (begun, begins) = oneshot::channel();
    let (go_on, goes_on) = mpsc::channel();
    let elsewhere = thread::spawn({
        let table = table.clone();
        move || {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                // An answer may come within the first poll.
                let call = loop {
                    let mut call = Box::pin(table.put(put("a", "2")));
                    if poll!(&mut call).is_pending() {
                        break call;
                    }
                };
                begun.send(()).unwrap();
                goes_on.recv().unwrap();
                call.await.unwrap();
            });
            // It lives on, but nothing drives it.
            runtime
        }
    });
    begins.await.unwrap();
    let puts = ["b", "c", "d"].map(|row| table.put(put(row, "1")));
    let mut puts: FuturesUnordered<_> = puts.into_iter().collect();
    // One more call may begin. The others wait for both.
    within(SOON, puts.next()).await.unwrap().unwrap();
    go_on.send(()).unwrap();
    while let Some(done) = within(SOON, puts.next()).await {
        done.unwrap();
    }
    elsewhere.join().unwrap().shutdown_background();
}

#[tokio::test]
async fn operations_share_no_calls_if_coalescing_is_off() {
    let (proxy, connection) = counted(false).await;
    let table = TestTable::create("no-shared-calls", plain, &[]).await;
    put_all(&table.of(&connection)).await;
    assert_eq!((proxy.requests("Mutate"), proxy.requests("Multi")), (ROWS, 0));
    connection.close().await;
}

/// In an atomic action, which shared calls are, a server drops a mutation with an invalid expression
/// and reports success.
#[tokio::test]
#[ignore = "needs visibility expressions"]
async fn mutations_with_a_visibility_expression_share_no_call() {
    let (proxy, connection) = counted(true).await;
    let table = TestTable::create("shared-calls", plain, &[]).await;
    let rows = table.of(&connection);
    let puts = (0..50).map(|number| rows.put(put(row(number), "v").cell_visibility("secret")));
    for done in join_all(puts).await {
        done.unwrap();
    }
    assert_eq!((proxy.requests("Mutate"), proxy.requests("Multi")), (50, 0));
    let labelled = put("bulk", "v").cell_visibility("secret");
    let error = rows.mutate_many([labelled]).await.remove(0).unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::InvalidInput, "{error}");
    connection.close().await;
}
