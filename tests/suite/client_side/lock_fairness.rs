//! Processes that wait for a lock acquire it in the order of their arrival.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures::{future::join_all, join};
use hbase_txn::{
    ErrorKind, Level,
    client::{Connection, Get, Put, Row},
    lock::LockManager,
};
use rstest::rstest;
use tokio::time::{Instant, sleep};

use crate::support::{
    connect, eventually,
    lock_rows::{companion_row, lock_manager, lock_table},
    says, spied,
    spy::Spy,
    table::TestTable,
};

const LEASE: Duration = Duration::from_secs(20);
const WAIT: Duration = Duration::from_secs(120);
/// With fewer turns each, one hiccup of a busy machine looks like an unfair share.
const TURNS: usize = 8;

/// The results of processes that hold, release and immediately request the lock again.
#[derive(Debug)]
struct Shares {
    /// How often each process held the lock.
    holds: Vec<usize>,
    longest_wait: Duration,
    /// The duration of the whole run.
    took: Duration,
    calls: usize,
}

impl Shares {
    fn total(&self) -> usize {
        self.holds.iter().sum()
    }

    /// The mean time in which each process holds the lock once.
    fn round(&self) -> Duration {
        self.took / u32::try_from(self.total()).unwrap() * u32::try_from(self.holds.len()).unwrap()
    }

    fn calls_per_second(&self) -> f64 {
        self.calls as f64 / self.took.as_secs_f64()
    }
}

/// Opens a lock manager for each process; none knows of another.
async fn processes(number: usize) -> (TestTable, Spy, Vec<LockManager>) {
    let (connection, spy) = spied().await;
    let table = lock_table(&connection, "fair", 1, false).await;
    let open = |_| lock_manager(&connection, &table.name, "fair");
    let managers = join_all((0..number).map(open)).await;
    (table, spy, managers)
}

/// Lets processes compete for this time, and until each has had this many turns on average.
async fn compete(
    spy: &Spy,
    managers: &[LockManager],
    hold: Duration,
    lasts: Duration,
    turns: usize,
) -> Shares {
    let (calls, began) = (spy.multi_calls(), Instant::now());
    let total = &AtomicUsize::new(0);
    let is_on = || began.elapsed() < lasts || total.load(Ordering::Relaxed) < turns * managers.len();
    let loops = managers.iter().map(|locks| async move {
        let (mut holds, mut longest) = (0, Duration::ZERO);
        while is_on() {
            let asked = Instant::now();
            let request = locks.lock(Level::Dc, "one").unwrap().ttl(LEASE).wait(WAIT);
            let guard = request.acquire().await.unwrap();
            let waited = asked.elapsed();
            // After the end each process acquires the lock once more.
            if is_on() {
                longest = longest.max(waited);
                holds += 1;
                total.fetch_add(1, Ordering::Relaxed);
                sleep(hold).await;
            }
            assert!(guard.release().await.unwrap().is_released());
        }
        (holds, longest)
    });
    let came = join_all(loops).await;
    Shares {
        holds: came.iter().map(|(holds, _)| *holds).collect(),
        longest_wait: came.iter().map(|(_, longest)| *longest).max().unwrap(),
        took: began.elapsed(),
        calls: spy.multi_calls() - calls,
    }
}

/// Returns the columns of the waiting processes' tickets.
async fn tickets(connection: &Connection, table: &TestTable) -> Vec<Bytes> {
    let row = table
        .of(connection)
        .get(Get::new(companion_row("fair", "one")))
        .await
        .unwrap();
    let cells = row.iter().flat_map(Row::cells);
    let tickets = cells.filter(|cell| cell.qualifier.starts_with(b"Q") && !cell.value.is_empty());
    tickets.map(|cell| cell.qualifier.clone()).collect()
}

async fn until_waiting(connection: &Connection, table: &TestTable, processes: usize) {
    eventually("the processes wait", async || {
        (tickets(connection, table).await.len() == processes).then_some(())
    })
    .await;
}

/// Writes the ticket of a process that dies: its arrival, where zero means the cell's own
/// timestamp, and 16 unique bytes.
async fn wait_and_die(connection: &Connection, table: &TestTable, ttl: Option<Duration>) {
    let row = companion_row("fair", "one");
    let value = [&[0; 8][..], &[7; 16]].concat();
    let ticket = Put::new(row).cell("D", &b"Q\x05"[..], value);
    let ticket = match ttl {
        Some(ttl) => ticket.ttl(ttl),
        None => ticket,
    };
    table.of(connection).put(ticket).await.unwrap();
}

/// A ticket may outlive its TTL on a server whose clock is behind.
#[rstest]
#[case::expires(Some(Duration::from_secs(3)))]
#[case::never_expires(None)]
#[tokio::test]
async fn dead_process_delays_only_those_that_wait(#[case] ttl: Option<Duration>) {
    const TICKET_TTL: Duration = Duration::from_secs(3);
    let connection = connect().await;
    let table = lock_table(&connection, "fair", 1, false).await;
    let locks = lock_manager(&connection, &table.name, "fair").await;
    let died = Instant::now();
    wait_and_die(&connection, &table, ttl).await;
    let request = || locks.lock(Level::Dc, "one").unwrap().ttl(LEASE);
    let guard = request().try_acquire().await.unwrap().unwrap();
    assert!(guard.release().await.unwrap().is_released());
    assert!(died.elapsed() < TICKET_TTL, "this machine is too slow");
    let guard = request().wait(WAIT).acquire().await.unwrap();
    let waited = died.elapsed();
    assert!(waited >= TICKET_TTL - Duration::from_millis(100), "{waited:?}");
    assert!(waited <= TICKET_TTL + Duration::from_secs(3), "{waited:?}");
    assert!(guard.release().await.unwrap().is_released());
}

#[tokio::test]
async fn short_wait_behind_others_is_reported() {
    let connection = connect().await;
    let table = lock_table(&connection, "fair", 1, false).await;
    let locks = lock_manager(&connection, &table.name, "fair").await;
    wait_and_die(&connection, &table, None).await;
    let request = locks.lock(Level::Dc, "one").unwrap().ttl(LEASE);
    let error = request.wait(Duration::from_secs(1)).acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LockUnavailable);
    says(&error, &["others have waited longer"]);
}

#[tokio::test]
async fn processes_acquire_in_order_of_arrival() {
    let (table, _, managers) = processes(5).await;
    let connection = connect().await;
    let request = |process: usize| managers[process].lock(Level::Dc, "one").unwrap().ttl(LEASE);
    let holder = request(0).acquire().await.unwrap();
    let order = Mutex::new(Vec::new());
    let wait = async |process: usize| {
        until_waiting(&connection, &table, process - 1).await;
        let guard = request(process).wait(WAIT).acquire().await.unwrap();
        order.lock().unwrap().push((process, Instant::now()));
        assert!(guard.release().await.unwrap().is_released());
    };
    let gives_up = async {
        tokio::select! {
            () = wait(2) => panic!("the lock is held"),
            () = until_waiting(&connection, &table, 4) => {}
        }
    };
    let release = async {
        gives_up.await;
        until_waiting(&connection, &table, 3).await;
        assert!(holder.release().await.unwrap().is_released());
        Instant::now()
    };
    let (released, ..) = join!(release, wait(1), wait(3), wait(4));
    let order = order.into_inner().unwrap();
    assert_eq!(
        order.iter().map(|(process, _)| *process).collect::<Vec<_>>(),
        [1, 3, 4]
    );
    let last = order[2].1 - released;
    assert!(
        last < Duration::from_millis(2_900),
        "a ticket had to expire: {order:?}"
    );
    eventually("no ticket is left", async || {
        tickets(&connection, &table).await.is_empty().then_some(())
    })
    .await;
}

/// Short holds make the waiting processes poll often; during a long one they must slow down.
#[tokio::test(flavor = "multi_thread")]
async fn long_hold_after_short_ones_is_polled_seldom() {
    let (_table, spy, managers) = processes(5).await;
    let short = Duration::from_millis(5);
    compete(&spy, &managers[1..], short, Duration::from_secs(2), 0).await;
    let request = |process: usize| managers[process].lock(Level::Dc, "one").unwrap().ttl(LEASE);
    let waiting = managers[1..].iter().map(|locks| async {
        let request = locks.lock(Level::Dc, "one").unwrap().ttl(LEASE).wait(WAIT);
        for _ in 0..3 {
            let guard = request.clone().acquire().await.unwrap();
            assert!(guard.release().await.unwrap().is_released());
        }
    });
    let holding = async {
        let holder = request(0).wait(WAIT).acquire().await.unwrap();
        let before = spy.multi_calls();
        sleep(Duration::from_secs(6)).await;
        let calls = spy.multi_calls() - before;
        assert!(holder.release().await.unwrap().is_released());
        calls
    };
    let (calls, _) = join!(holding, join_all(waiting));
    // A turn that takes longer than usual is polled ever less, until polls are half a second apart.
    assert!(calls <= 4 * (10 + 6 * 4), "{calls} calls");
}

/// A process that does not get to run for three seconds loses its place, so on a fake cluster these tests run with few
/// threads.
mod contention {
    use super::*;

    /// The limits are about three calls for each hold, and four a second for each process that waits; holds of 5 ms need
    /// more.
    #[rstest]
    #[case::two(2, 100, 32.0)]
    #[case::two_that_hold_long(2, 1_000, 7.0)]
    #[case::eight(8, 100, 64.0)]
    #[case::thirty_two(32, 50, 180.0)]
    #[case::eight_that_hold_briefly(8, 5, 600.0)]
    #[tokio::test(flavor = "multi_thread")]
    async fn competing_processes_take_turns(
        #[case] number: usize,
        #[case] hold_ms: u64,
        #[case] most_calls: f64,
    ) {
        let (_table, spy, managers) = processes(number).await;
        let hold = Duration::from_millis(hold_ms);
        let long = std::env::var_os("HBASE_TXN_TEST_LONG").is_some();
        let lasts = if long { 60 } else { 10 };
        let shares = compete(&spy, &managers, hold, Duration::from_secs(lasts), TURNS).await;
        let (calls, round) = (shares.calls_per_second(), shares.round());
        eprintln!("{number} for {hold:?}: {calls:.1} calls/s, a round in {round:?}, {shares:?}");
        let fair = shares.total() / number;
        assert!(shares.holds.iter().all(|holds| 2 * holds >= fair), "{shares:?}");
        let hiccup = Duration::from_secs(1);
        assert!(shares.longest_wait <= 3 * round + hiccup, "{shares:?}");
        let turn = 3 * hold + hiccup / 10;
        assert!(round <= turn * u32::try_from(number).unwrap(), "{shares:?}");
        assert!(calls <= most_calls, "{calls} calls/s, {shares:?}");
    }
}
