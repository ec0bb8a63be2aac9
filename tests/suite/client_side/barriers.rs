//! Barriers: how they open, how they break, and which arrivals count.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use futures::future::join_all;
use hbase_txn::{
    ClientErrorKind, ErrorKind,
    admin::Admin,
    client::{Connection, Get, Put, Scan},
    latch::{Barrier, BarrierOutcome, DoubleBarrier, MAX_PARTIES},
};
use rstest::rstest;

use crate::{
    proxy::{Action, Proxy},
    support::{
        connect, connect_by,
        latch_rows::{latch_manager, latch_row, latch_table},
        rows, says, standalone,
        table::TestTable,
        within,
    },
};

const HOUR: Duration = Duration::from_secs(3_600);
const PATIENCE: Duration = Duration::from_secs(60);

async fn barrier(connection: &Connection, table: &TestTable, id: &str) -> Barrier {
    let latches = latch_manager(connection, &table.name, "svc", "fra").await;
    latches.barrier(id).unwrap()
}

#[tokio::test]
async fn a_barrier_is_made_shown_and_deleted() {
    let connection = connect().await;
    let table = latch_table(&connection, "barrier_life", 1, true).await;
    let barrier = barrier(&connection, &table, "b").await;
    assert_eq!(barrier.show().await.unwrap(), None);
    assert_eq!(
        barrier.arrive("p").await.unwrap_err().kind(),
        ErrorKind::LatchAbsent
    );
    barrier.create(2, HOUR).await.unwrap();
    let error = barrier.create(3, HOUR).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LatchExists);
    says(&error, &["barrier svc_b", "with 2 parties"]);
    let first = barrier.arrive("p").await.unwrap();
    assert_eq!(first.generation(), 1);
    assert_eq!(barrier.arrive("p").await.unwrap(), first, "once");
    let info = barrier.show().await.unwrap().unwrap();
    assert_eq!((info.parties, info.generation, info.arrived), (2, 1, 1));
    assert_eq!(
        barrier.wait(&first, Duration::from_millis(100)).await.unwrap(),
        BarrierOutcome::TimedOut
    );
    assert_eq!(barrier.arrive("q").await.unwrap(), first);
    assert_eq!(
        barrier.wait(&first, Duration::ZERO).await.unwrap(),
        BarrierOutcome::Opened
    );
    let second = barrier.arrive("p").await.unwrap();
    assert_eq!(second.generation(), 2);
    assert!(barrier.delete().await.unwrap());
    assert!(!barrier.delete().await.unwrap());
    let error = barrier.wait(&second, PATIENCE).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LatchAbsent);
    // A new barrier of that name is not the barrier of the earlier arrival.
    barrier.create(1, HOUR).await.unwrap();
    for generation in 1..4 {
        assert_eq!(barrier.arrive("p").await.unwrap().generation(), generation);
    }
    assert_eq!(
        barrier.wait(&second, PATIENCE).await.unwrap_err().kind(),
        ErrorKind::LatchAbsent
    );
}

#[tokio::test]
async fn each_generation_opens_once_and_only_when_all_have_arrived() {
    const PARTIES: u32 = 5;
    const GENERATIONS: u64 = 12;
    let connection = connect().await;
    let table = latch_table(&connection, "barrier_rounds", 1, true).await;
    barrier(&connection, &table, "b")
        .await
        .create(PARTIES, HOUR)
        .await
        .unwrap();
    let arrived: Arc<Mutex<HashMap<u64, u32>>> = Arc::default();
    let party = async |number: u32| {
        let barrier = barrier(&connection, &table, "b").await;
        for generation in 1..=GENERATIONS {
            *arrived.lock().unwrap().entry(generation).or_default() += 1;
            let (arrival, outcome) = barrier
                .arrive_and_wait(&format!("p{number}"), PATIENCE)
                .await
                .unwrap();
            assert_eq!(
                (arrival.generation(), outcome),
                (generation, BarrierOutcome::Opened)
            );
            assert_eq!(arrived.lock().unwrap()[&generation], PARTIES, "{generation}");
        }
    };
    within(PATIENCE * 2, join_all((0..PARTIES).map(party))).await;
    let barrier = barrier(&connection, &table, "b").await;
    let info = barrier.show().await.unwrap().unwrap();
    assert_eq!((info.generation, info.arrived), (GENERATIONS + 1, 0));
}

#[tokio::test]
async fn incomplete_generation_breaks_and_the_next_begins() {
    const TIME: Duration = Duration::from_secs(2);
    let connection = connect().await;
    let table = latch_table(&connection, "barrier_broken", 1, true).await;
    let barrier = barrier(&connection, &table, "b").await;
    barrier.create(3, TIME).await.unwrap();
    let began = Instant::now();
    let waiting = ["p", "q"].map(|name| barrier.arrive_and_wait(name, PATIENCE));
    for waited in join_all(waiting).await {
        let (arrival, outcome) = waited.unwrap();
        assert_eq!((arrival.generation(), outcome), (1, BarrierOutcome::Broken));
    }
    // The second arrival did not prolong the generation.
    assert!(
        began.elapsed() > TIME - Duration::from_millis(200),
        "{:?}",
        began.elapsed()
    );
    let info = barrier.show().await.unwrap().unwrap();
    assert_eq!((info.generation, info.arrived), (2, 0));
    // The late participant begins the next generation, together with all others.
    let late = join_all(["r", "p", "q"].map(|name| barrier.arrive_and_wait(name, PATIENCE)));
    for waited in late.await {
        let (arrival, outcome) = waited.unwrap();
        assert_eq!((arrival.generation(), outcome), (2, BarrierOutcome::Opened));
    }
}

async fn double_barrier(connection: &Connection, table: &TestTable) -> DoubleBarrier {
    let latches = latch_manager(connection, &table.name, "svc", "fra").await;
    latches.double_barrier("double").unwrap()
}

#[tokio::test]
async fn parties_of_a_double_barrier_begin_and_end_together() {
    const PARTIES: usize = 4;
    const GENERATIONS: u64 = 6;
    let connection = connect().await;
    let table = latch_table(&connection, "barrier_double", 1, true).await;
    let double = double_barrier(&connection, &table).await;
    double.create(4, HOUR).await.unwrap();
    // The calls of `enter` and of `leave` that have begun.
    let begun: Arc<Mutex<[u64; 2]>> = Arc::default();
    let party = async |number: usize| {
        let double = double_barrier(&connection, &table).await;
        for generation in 1..=GENERATIONS {
            let all = generation * PARTIES as u64;
            begun.lock().unwrap()[0] += 1;
            let entered = double.enter(&format!("p{number}"), PATIENCE).await.unwrap();
            let (entry, outcome) = entered;
            assert_eq!(
                (entry.generation(), outcome),
                (generation, BarrierOutcome::Opened)
            );
            assert_eq!(begun.lock().unwrap()[0], all, "{generation}");
            begun.lock().unwrap()[1] += 1;
            let outcome = double.leave(&entry, PATIENCE).await.unwrap();
            assert_eq!(outcome, BarrierOutcome::Opened, "{generation}");
            assert!(begun.lock().unwrap()[1] >= all, "{generation}");
        }
    };
    within(PATIENCE * 2, join_all((0..PARTIES).map(party))).await;
    let info = double.show().await.unwrap().unwrap();
    assert_eq!((info.generation, info.arrived), (GENERATIONS + 1, 0));
}

#[tokio::test]
async fn double_barrier_can_be_entered_after_a_party_died_inside() {
    const TIME: Duration = Duration::from_secs(2);
    let connection = connect().await;
    let table = latch_table(&connection, "barrier_died", 1, true).await;
    let double = double_barrier(&connection, &table).await;
    double.create(2, TIME).await.unwrap();
    for generation in [1, 2] {
        let entered = join_all(["p", "q"].map(|name| double.enter(name, PATIENCE))).await;
        let entries = entered.into_iter().map(|entered| {
            let (entry, outcome) = entered.unwrap();
            assert_eq!(
                (entry.generation(), outcome),
                (generation, BarrierOutcome::Opened)
            );
            entry
        });
        let entries: Vec<_> = entries.collect();
        let began = Instant::now();
        let outcome = double.leave(&entries[0], PATIENCE).await.unwrap();
        assert_eq!(outcome, BarrierOutcome::Broken);
        let took = began.elapsed();
        assert!(took > TIME - Duration::from_millis(200), "{took:?}");
        assert_eq!(double.leave(&entries[1], PATIENCE).await.unwrap(), outcome);
    }
}

#[tokio::test]
async fn names_of_a_clock_ahead_hide_no_leave() {
    let connection = connect().await;
    let table = latch_table(&connection, "barrier_inside", 1, true).await;
    let double = double_barrier(&connection, &table).await;
    double.create(2, HOUR).await.unwrap();
    for generation in [1, 2] {
        join_all(["p", "q"].map(|name| double.enter(name, PATIENCE))).await;
        let (raw, row) = (table.of(&connection), latch_row("svc", "double"));
        let found = raw.get(Get::new(row.clone()).column("S", "g")).await.unwrap();
        let cell = found.unwrap().cells()[0].clone();
        let late = cell.timestamp + 600_000;
        raw.put(Put::new(row).cell_at("S", "g", late, cell.value))
            .await
            .unwrap();
        let left = join_all(["p", "q"].map(|name| double.leave_in(name, generation, PATIENCE))).await;
        for outcome in left {
            assert_eq!(outcome.unwrap(), BarrierOutcome::Opened);
        }
    }
}

#[tokio::test]
async fn arrivals_whose_answers_are_lost_count_once() {
    let proxy = Proxy::new();
    let connection = connect_by(proxy.clone(), standalone().config()).await;
    let table = latch_table(&connection, "barrier_lost", 1, true).await;
    let barrier = barrier(&connection, &table, "b").await;
    barrier.create(2, HOUR).await.unwrap();
    let mut generation = 0;
    for action in [
        Action::Duplicate,
        Action::CutBeforeRequest,
        Action::CutInRequest,
        Action::CutAfterRequest,
    ] {
        for who in ["first", "last"] {
            generation += 1;
            if who == "last" {
                barrier.arrive("other").await.unwrap();
            }
            // The first `Multi` only reads.
            let mut calls = 0;
            proxy.rule(move |request| {
                calls += usize::from(request.method == "Multi");
                if calls == 2 && request.method == "Multi" {
                    action
                } else {
                    Action::Pass
                }
            });
            let arrival = barrier.arrive("p").await.unwrap();
            proxy.pass_all();
            assert_eq!(arrival.generation(), generation, "{action:?}, {who}");
            if who == "first" {
                assert_eq!(barrier.arrive("other").await.unwrap(), arrival);
            }
            assert_eq!(
                barrier.wait(&arrival, PATIENCE).await.unwrap(),
                BarrierOutcome::Opened
            );
        }
    }
}

#[tokio::test]
async fn cells_of_a_clock_ahead_hide_no_later_generation() {
    const AHEAD: Duration = Duration::from_secs(600);
    let connection = connect().await;
    let table = latch_table(&connection, "barrier_clock", 1, true).await;
    let barrier = barrier(&connection, &table, "b").await;
    barrier.create(2, HOUR).await.unwrap();
    let row = latch_row("svc", "b");
    for generation in 1..4 {
        let first = barrier.arrive("p").await.unwrap();
        let info = barrier.show().await.unwrap().unwrap();
        assert_eq!((info.generation, info.arrived), (generation, 1));
        assert_eq!(
            barrier.wait(&first, Duration::ZERO).await.unwrap(),
            BarrierOutcome::TimedOut
        );
        // Rewrites the cell of the arrived participants as if its first writer's clock had been
        // ahead.
        let raw = table.of(&connection);
        let found = raw.get(Get::new(row.clone()).column("S", "g")).await.unwrap();
        let cell = found.unwrap().cells()[0].clone();
        let late = cell.timestamp + u64::try_from(AHEAD.as_millis()).unwrap();
        let put = Put::new(row.clone())
            .cell_at("S", "g", late, cell.value)
            .ttl(HOUR);
        raw.put(put).await.unwrap();
        let last = barrier.arrive("q").await.unwrap();
        assert_eq!((last.generation(), &last), (generation, &first));
        assert_eq!(
            barrier.wait(&first, PATIENCE).await.unwrap(),
            BarrierOutcome::Opened
        );
    }
}

#[rstest]
#[case::nobody(0, HOUR, "from 1 to 1000")]
#[case::too_many(MAX_PARTIES + 1, HOUR, "from 1 to 1000")]
#[case::too_short(2, Duration::from_millis(99), "is out of range: from 100ms")]
#[tokio::test]
async fn invalid_barriers_are_refused(#[case] parties: u32, #[case] time: Duration, #[case] why: &str) {
    let connection = connect().await;
    let table = latch_table(&connection, "barrier_bad", 1, true).await;
    let barrier = barrier(&connection, &table, "b").await;
    let error = barrier.create(parties, time).await.unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::InvalidInput);
    says(&error, &[why, "barrier svc_b"]);
    assert_eq!(
        barrier.arrive("").await.unwrap_err().kind(),
        ClientErrorKind::InvalidInput
    );
    let java = latch_table(&connection, "barrier_java", 1, false).await;
    let latches = latch_manager(&connection, &java.name, "svc", "fra").await;
    let error = latches.barrier("b").unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::FamilyNotFound);
    says(&error, &["no family S", "add the family"]);
}

/// How many generations open one after the other; 100,000 take minutes.
fn generations() -> u64 {
    std::env::var("HBASE_TXN_TEST_GENERATIONS").map_or(200, |text| text.parse().unwrap())
}

#[tokio::test]
async fn generations_that_opened_leave_nothing_behind() {
    const TIME: Duration = Duration::from_secs(1);
    const LOOKS: u32 = 20;
    let connection = connect().await;
    let table = latch_table(&connection, "barrier_many", 1, true).await;
    let rounds = barrier(&connection, &table, "rounds").await;
    rounds.create(2, TIME).await.unwrap();
    let cells = async || -> usize {
        let rows = rows(&table.of(&connection), Scan::new().raw()).await;
        rows.iter().map(|row| row.cells().len()).sum()
    };
    let look = async || {
        let began = Instant::now();
        for _ in 0..LOOKS {
            rounds.show().await.unwrap().unwrap();
        }
        began.elapsed() / LOOKS
    };
    let (began, first) = (Instant::now(), look().await);
    let mut opened = 0;
    while opened < generations() {
        let one = rounds.arrive("one").await.unwrap();
        let other = rounds.arrive("other").await.unwrap();
        // A busy machine may take longer than a generation lasts.
        opened += u64::from(one == other);
    }
    let (took, stored, fresh) = (began.elapsed(), cells().await, look().await);
    tokio::time::sleep(TIME).await;
    let idle = look().await;
    Admin::new(&connection).flush_table(&table.name).await.unwrap();
    let (kept, flushed) = (cells().await, look().await);
    println!(
        "{opened} generations in {took:?}: {stored} cells, {kept} after a flush; a look takes {first:?} at first, {fresh:?} then, \
         {idle:?} when the last is over, {flushed:?} after the flush"
    );
    assert!(kept <= 4, "{kept} cells of {opened} generations after a flush");
}
