//! Waits for latches on unavailable regions, and waiters that depend on another waiter's polls.

use std::{
    pin::pin,
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use futures::poll;
use hbase_txn::{
    ClientErrorKind, Level,
    admin::Admin,
    client::{Connection, Delete, Get, Put},
    latch::{Latch, WaitOutcome},
};
use tokio::{
    runtime::{Builder, Runtime},
    sync::oneshot,
    task::JoinHandle,
};

use crate::support::{
    connect, eventually, forwarded,
    latch_rows::{latch_manager, latch_row, latch_table},
    standalone,
    table::TestTable,
    within,
};

const LATCHES: usize = 40;
const REGIONS: usize = 4;
const HOUR: Duration = Duration::from_secs(3_600);
const PATIENCE: Duration = Duration::from_secs(60);

fn id(number: usize) -> String {
    format!("{}", number * 12_345)
}

async fn latches(connection: &Connection, table: &TestTable) -> Vec<Latch> {
    let manager = latch_manager(connection, &table.name, "svc", "fra").await;
    (0..LATCHES)
        .map(|number| manager.latch(Level::Dc, &id(number)).unwrap())
        .collect()
}

fn wait(latch: &Latch) -> JoinHandle<WaitOutcome> {
    let latch = latch.clone();
    tokio::spawn(async move { latch.wait(PATIENCE * 2).await.unwrap() })
}

#[tokio::test]
async fn latches_of_a_region_that_is_nowhere_hold_up_no_others() {
    let connection = connect().await;
    let table = latch_table(&connection, "latch_away", REGIONS, true).await;
    let theirs = latches(&connection, &table).await;
    for latch in &theirs {
        latch.init(1, HOUR).await.unwrap();
    }
    let regions = Admin::new(&connection).regions(&table.name).await.unwrap();
    let first = latch_row("svc", &id(0));
    let found = regions.iter().find(|found| found.region.contains(&first));
    let away = &found.unwrap().region;
    let of_away = |number: &usize| away.contains(latch_row("svc", &id(*number)));
    let (away_ones, others): (Vec<_>, Vec<_>) = (0..LATCHES).partition(of_away);
    assert!(!away_ones.is_empty() && !others.is_empty());

    // New lookups find the region on no server.
    let meta = connection.table("hbase:meta").unwrap();
    let row = away.name.clone();
    let found = meta
        .get(Get::new(row.clone()).column("info", "server"))
        .await
        .unwrap();
    let server = found.unwrap().value("info", "server").unwrap().clone();
    let nowhere = Delete::new(row.clone()).column("info", "server");
    meta.delete(nowhere).await.unwrap();
    let here = latches(&connect().await, &table).await;
    let waiting: Vec<_> = here.iter().map(wait).collect();
    let told = async |numbers: &[usize]| {
        for number in numbers {
            theirs[*number].count_down(1).await.unwrap();
        }
        eventually("all are told", async || {
            numbers
                .iter()
                .all(|number| waiting[*number].is_finished())
                .then_some(())
        })
        .await;
    };
    let half = others.len() / 2;
    told(&others[..half]).await;
    // A later waiter for the unavailable region does not delay the others either.
    let late = wait(&here[away_ones[0]]);
    told(&others[half..]).await;
    assert!(!late.is_finished());
    assert!(away_ones.iter().all(|number| !waiting[*number].is_finished()));

    meta.put(Put::new(row).cell("info", "server", server))
        .await
        .unwrap();
    told(&away_ones).await;
    assert_eq!(within(PATIENCE, late).await.unwrap(), WaitOutcome::Reached);
    for waiting in waiting {
        assert_eq!(waiting.await.unwrap(), WaitOutcome::Reached);
    }
}

/// A runtime that runs only while a caller blocks on it.
fn alone() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Waits on a thread and a runtime of its own, and signals once the wait has begun.
fn wait_alone(latch: &Latch, waits: oneshot::Sender<()>) -> thread::JoinHandle<WaitOutcome> {
    let latch = latch.clone();
    thread::spawn(move || {
        alone().block_on(async {
            let mut waiting = pin!(latch.wait(PATIENCE));
            assert!(poll!(&mut waiting).is_pending());
            waits.send(()).unwrap();
            waiting.await.unwrap()
        })
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn waiter_is_notified_while_an_earlier_waiter_is_busy() {
    let connection = connect().await;
    let table = latch_table(&connection, "latch_runtimes", 1, true).await;
    let latches = latch_manager(&connection, &table.name, "svc", "fra").await;
    for is_dropped in [true, false] {
        let [first, second] = ["first", "second"].map(|id| {
            let id = format!("{id}-{is_dropped}");
            latches.latch(Level::Dc, &id).unwrap()
        });
        first.init(1, HOUR).await.unwrap();
        second.init(1, HOUR).await.unwrap();
        let (waits, has_begun) = oneshot::channel();
        let (stop, stopped) = oneshot::channel::<()>();
        let (left, has_left) = oneshot::channel();
        let (end, ended) = mpsc::channel::<()>();
        let begins = thread::spawn(move || {
            let runtime = alone();
            runtime.block_on(async {
                let mut waiting = pin!(first.wait(HOUR));
                assert!(poll!(&mut waiting).is_pending());
                waits.send(()).unwrap();
                tokio::select! {
                    stopped = stopped => stopped.unwrap(),
                    waited = waiting => panic!("{waited:?}"),
                }
            });
            let kept = (!is_dropped).then_some(runtime);
            left.send(()).unwrap();
            // Nothing drives the runtime meanwhile.
            let _ = ended.recv();
            drop(kept);
        });
        has_begun.await.unwrap();
        let (waits, has_begun) = oneshot::channel();
        let waiting = wait_alone(&second, waits);
        has_begun.await.unwrap();
        stop.send(()).unwrap();
        has_left.await.unwrap();
        let began = Instant::now();
        second.count_down(1).await.unwrap();
        eventually("the second is told", async || waiting.is_finished().then_some(())).await;
        assert!(began.elapsed() < PATIENCE / 3, "{:?}", began.elapsed());
        assert_eq!(waiting.join().unwrap(), WaitOutcome::Reached, "{is_dropped}");
        drop(end);
        begins.join().unwrap();
    }
}

#[tokio::test]
async fn short_wait_ends_in_time_on_a_silent_server() {
    // Long enough for a busy machine, and far shorter than a poll may take.
    const TIMEOUT: Duration = Duration::from_secs(4);
    let steady = connect().await;
    let table = latch_table(&steady, "latch_silent", 1, true).await;
    let theirs = latch_manager(&steady, &table.name, "svc", "fra").await;
    theirs
        .latch(Level::Dc, "one")
        .unwrap()
        .init(1, HOUR)
        .await
        .unwrap();
    let config = standalone().config().with_operation_timeout(TIMEOUT);
    let (connection, forwarder) = forwarded(config).await;
    let latches = latch_manager(&connection, &table.name, "svc", "fra").await;
    let latch = latches.latch(Level::Dc, "one").unwrap();
    let moment = Duration::from_millis(10);
    assert_eq!(latch.wait(moment).await.unwrap(), WaitOutcome::TimedOut);
    forwarder.mute(true);
    let error = within(moment + TIMEOUT, latch.wait(moment)).await.unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::DeadlineExceeded, "{error:?}");
}
