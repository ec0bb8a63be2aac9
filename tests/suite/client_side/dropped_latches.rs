//! Latches whose futures are dropped at each of their wait points: a dropped call is applied once
//! or not at all, and leaves nothing behind.

use std::time::Duration;

use hbase_txn::{
    ErrorKind, Level,
    latch::{Latch, LatchManager, LatchState, WaitOutcome},
};

use crate::{
    client_side::dropped::{at_every_wait, polled},
    support::{
        connect,
        latch_rows::{latch_manager, latch_table},
        leftovers::Leftovers,
        table::TestTable,
    },
};

const HOUR: Duration = Duration::from_secs(3_600);
const LEVEL: Level = Level::Xdc;

/// Creates a table of each kind, each with a manager whose futures are not dropped.
async fn tables() -> Vec<(TestTable, LatchManager)> {
    let connection = connect().await;
    let mut tables = Vec::new();
    for has_state in [true, false] {
        let table = latch_table(&connection, "dropped-latches", 1, has_state).await;
        let latches = latch_manager(&connection, &table.name, "dropped", "fra").await;
        tables.push((table, latches));
    }
    tables
}

fn latch(latches: &LatchManager, id: &str) -> Latch {
    latches.latch(LEVEL, id).unwrap()
}

async fn left(latch: &Latch) -> u64 {
    latch.show().await.unwrap().count.unwrap()
}

#[tokio::test]
async fn a_dropped_count_down_counts_once_or_not_at_all() {
    for (table, others) in &tables().await {
        at_every_wait(async |times, connection| {
            let id = format!("count-{times}");
            let other = latch(others, &id);
            other.init(10, HOUR).await.unwrap();
            let latches = latch_manager(&connection, &table.name, "dropped", "fra").await;
            let ours = latch(&latches, &id);
            let done = polled(ours.count_down(1), times).await;
            match &done {
                Some(counted) => assert_eq!(counted.as_ref().unwrap().left, 9),
                None => assert!([9, 10].contains(&left(&other).await)),
            }
            // The queue of the process's tasks is free as well.
            let counted = ours.count_down(3).await.unwrap().left;
            assert!([6, 7].contains(&counted), "{counted}");
            assert_eq!(left(&other).await, counted, "what was on its way is too late");
            done.is_some()
        })
        .await;
    }
}

#[tokio::test]
async fn a_dropped_arrival_may_be_made_again_and_counts_once() {
    let (table, others) = tables().await.into_iter().next().unwrap();
    at_every_wait(async |times, connection| {
        let id = format!("arrive-{times}");
        let other = latch(&others, &id);
        other.init(10, HOUR).await.unwrap();
        let latches = latch_manager(&connection, &table.name, "dropped", "fra").await;
        let ours = latch(&latches, &id);
        let done = polled(ours.arrive("worker"), times).await;
        assert_eq!(ours.arrive("worker").await.unwrap().left, 9);
        assert_eq!(left(&other).await, 9);
        assert_eq!(other.show().await.unwrap().arrived, Some(1));
        done.is_some()
    })
    .await;
}

#[tokio::test]
async fn dropped_init_and_delete_of_a_latch_are_done_or_not() {
    for (table, others) in &tables().await {
        at_every_wait(async |times, connection| {
            let id = format!("init-{times}");
            let other = latch(others, &id);
            let latches = latch_manager(&connection, &table.name, "dropped", "fra").await;
            let ours = latch(&latches, &id);
            let made = polled(ours.init(3, HOUR), times).await;
            match other.init(3, HOUR).await {
                Ok(()) => assert!(made.is_none()),
                Err(error) => assert_eq!(error.kind(), ErrorKind::LatchExists),
            }
            assert_eq!(left(&other).await, 3);
            let deleted = polled(ours.delete(), times).await;
            other.delete().await.unwrap();
            let state = other.show().await.unwrap().state;
            assert_eq!(state, LatchState::Absent);
            made.is_some() && deleted.is_some()
        })
        .await;
    }
}

#[test]
fn a_dropped_wait_leaves_no_task_and_no_thread() {
    Leftovers::of(async |mut leftovers| {
        for (table, others) in &tables().await {
            latch(others, "waited").init(1, HOUR).await.unwrap();
            at_every_wait(async |times, connection| {
                let latches = latch_manager(&connection, &table.name, "dropped", "fra").await;
                let ours = latch(&latches, "waited");
                // Opens all connections that the wait needs.
                ours.show().await.unwrap();
                leftovers.begin();
                let done = polled(ours.wait(Duration::from_millis(200)), times).await;
                leftovers.none().await;
                let over = done.is_some();
                assert!(done.is_none_or(|told| told.unwrap() == WaitOutcome::TimedOut));
                over
            })
            .await;
        }
    });
}
