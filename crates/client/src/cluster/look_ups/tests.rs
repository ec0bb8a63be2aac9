use std::pin::Pin;

use futures::{FutureExt, future::BoxFuture, poll};

use crate::cluster::look_ups::*;

type Call<'a> = BoxFuture<'a, Turn<usize>>;

fn call<'a>(look_ups: &'a Arc<LookUps<usize>>, table: &'a TableName, row: &'static str) -> Call<'a> {
    async move { look_ups.wait(table, &row.into()).await }.boxed()
}

/// Starts calls that wait, in this order.
async fn start<'a, const N: usize>(
    look_ups: &'a Arc<LookUps<usize>>,
    table: &'a TableName,
    rows: [&'static str; N],
) -> [Call<'a>; N] {
    let mut calls = rows.map(|row| call(look_ups, table, row));
    for call in &mut calls {
        assert!(poll!(call).is_pending());
    }
    calls
}

fn leader(turn: Turn<usize>) -> Leader<usize> {
    match turn {
        Turn::Lead(leader) => leader,
        Turn::Answered(answer) => panic!("answered {answer}"),
    }
}

fn answer(turn: Turn<usize>) -> usize {
    match turn {
        Turn::Answered(answer) => answer,
        Turn::Lead(_) => panic!("leads"),
    }
}

async fn is_waiting(call: &mut Call<'_>) -> bool {
    poll!(Pin::new(call)).is_pending()
}

#[tokio::test]
async fn calls_that_waited_for_its_rows_share_an_answer() {
    let (look_ups, table) = (LookUps::new(), "t".parse().unwrap());
    let first = leader(call(&look_ups, &table, "m").await);
    let [one, other, next, mut above] = start(&look_ups, &table, ["c", "c", "f", "z"]).await;
    drop(first);
    let mut next = leader(next.await);
    assert_eq!(next.calls(), 4);
    next.answer(Bytes::from("b")..="f".into(), |row| row.len());
    assert_eq!((answer(one.await), answer(other.await)), (1, 1));
    assert!(is_waiting(&mut above).await);
    drop(next);
    leader(above.await);
}

#[tokio::test]
async fn call_that_arrived_during_a_read_is_not_answered_by_it() {
    let (look_ups, table) = (LookUps::new(), "t".parse().unwrap());
    let mut first = leader(call(&look_ups, &table, "m").await);
    let [mut late] = start(&look_ups, &table, ["m"]).await;
    first.answer(.., |_| 1);
    assert!(is_waiting(&mut late).await);
    drop(first);
    leader(late.await);
}

#[tokio::test]
async fn of_calls_for_one_row_the_first_leads_next() {
    let (look_ups, table) = (LookUps::new(), "t".parse().unwrap());
    let first = leader(call(&look_ups, &table, "m").await);
    let [one, mut other] = start(&look_ups, &table, ["m", "m"]).await;
    drop(first);
    let one = leader(one.await);
    assert!(is_waiting(&mut other).await);
    drop(one);
    leader(other.await);
}

#[tokio::test]
async fn tables_do_not_wait_for_each_other() {
    let (look_ups, table, other) = (LookUps::new(), "t".parse().unwrap(), "u".parse().unwrap());
    let _first = leader(call(&look_ups, &table, "m").await);
    leader(call(&look_ups, &other, "m").await);
}

#[tokio::test]
async fn walk_goes_down_and_starts_again_at_the_last_row() {
    let (look_ups, table) = (LookUps::new(), "t".parse().unwrap());
    let first = leader(call(&look_ups, &table, "m").await);
    let [above, low, middle, high] = start(&look_ups, &table, ["x", "b", "d", "k"]).await;
    drop(first);
    let mut high = leader(high.await);
    high.answer(Bytes::from("c")..="k".into(), |_| 1);
    assert_eq!(answer(middle.await), 1);
    drop(high);
    drop(leader(low.await));
    leader(above.await);
}

#[tokio::test]
async fn dropped_leader_passes_the_turn_on() {
    let (look_ups, table) = (LookUps::new(), "t".parse().unwrap());
    let first = leader(call(&look_ups, &table, "m").await);
    let [low, high] = start(&look_ups, &table, ["a", "b"]).await;
    drop(first);
    // It has the turn, and is never polled again.
    drop(high);
    leader(low.await);
}

#[tokio::test]
async fn call_that_gives_up_leaves_nothing_behind() {
    let (look_ups, table) = (LookUps::new(), "t".parse().unwrap());
    let first = leader(call(&look_ups, &table, "m").await);
    let [call] = start(&look_ups, &table, ["a"]).await;
    assert_eq!(first.calls(), 2);
    drop(call);
    assert_eq!(first.calls(), 1);
    drop(first);
    assert!(look_ups.queues().tables.is_empty());
}

#[tokio::test(start_paused = true)]
async fn turn_that_is_kept_expires_and_is_taken_over_by_one_call() {
    let (look_ups, table) = (LookUps::new(), "t".parse().unwrap());
    let mut kept = leader(call(&look_ups, &table, "m").await);
    let [first, mut other] = start(&look_ups, &table, ["a", "b"]).await;
    let began = Instant::now();
    let mut next = leader(first.await);
    assert_eq!(began.elapsed(), TURN);
    assert!(is_waiting(&mut other).await);
    // It answers no call that arrived after it, and has no turn to pass on.
    kept.answer(.., |_| 1);
    drop(kept);
    assert!(is_waiting(&mut other).await);
    next.answer(.., |_| 2);
    assert_eq!(answer(other.await), 2);
    drop(next);
    assert!(look_ups.queues().tables.is_empty());
}

#[tokio::test(start_paused = true)]
async fn turn_given_to_a_call_that_is_not_polled_is_taken_over() {
    let (look_ups, table) = (LookUps::new(), "t".parse().unwrap());
    let first = leader(call(&look_ups, &table, "m").await);
    let [low, idle] = start(&look_ups, &table, ["a", "b"]).await;
    drop(first);
    let next = leader(low.await);
    drop(idle);
    assert_eq!(next.calls(), 1);
    drop(next);
    assert!(look_ups.queues().tables.is_empty());
}
