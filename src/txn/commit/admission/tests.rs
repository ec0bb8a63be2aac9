use std::{
    pin::pin,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use futures::{FutureExt, future::join_all, poll};

use crate::{error::ClientErrorKind, partition::PartitionRule, txn::commit::admission::*};

fn admission() -> Arc<Admission> {
    Admission::new(ShareLimits::within(usize::MAX, usize::MAX))
}

fn partition(prefix: &'static str) -> Partition {
    PartitionRule::prefix_length(3)
        .unwrap()
        .partition(prefix)
        .unwrap()
}

fn in_seconds(seconds: u64) -> Instant {
    Instant::now() + Duration::from_secs(seconds)
}

#[tokio::test(start_paused = true)]
async fn turns_are_given_in_the_order_of_arrival() {
    let (admission, partition) = (admission(), partition("aaa"));
    let first = admission
        .enter(&partition, Sharing::Alone, in_seconds(9))
        .await
        .unwrap();
    let order = Mutex::new(Vec::new());
    let wait = |number: usize| {
        let (admission, partition, order) = (&admission, &partition, &order);
        async move {
            let _turn = admission
                .enter(partition, Sharing::Alone, in_seconds(9))
                .await
                .unwrap();
            order.lock().unwrap().push(number);
            tokio::task::yield_now().await;
        }
    };
    let waiters = join_all((0..5).map(wait));
    let release = async {
        tokio::task::yield_now().await;
        drop(first);
    };
    futures::join!(waiters, release);
    assert_eq!(*order.lock().unwrap(), [0, 1, 2, 3, 4]);
    assert_eq!(admission.queue_count(), 0);
}

#[tokio::test]
async fn partitions_do_not_wait_for_each_other() {
    let admission = admission();
    let a = admission
        .enter(&partition("aaa"), Sharing::Alone, in_seconds(9))
        .now_or_never()
        .unwrap()
        .unwrap();
    let b = admission
        .enter(&partition("bbb"), Sharing::Alone, in_seconds(9))
        .now_or_never()
        .unwrap()
        .unwrap();
    assert_eq!(admission.queue_count(), 2);
    drop((a, b));
    assert_eq!(admission.queue_count(), 0);
}

#[tokio::test]
async fn shared_turns_exclude_only_the_other_ones_in_order_of_arrival() {
    let (admission, partition) = (admission(), partition("aaa"));
    let enter = |sharing| Box::pin(admission.enter(&partition, sharing, in_seconds(9)));
    let shared = [
        enter(Sharing::Shared).await.unwrap(),
        enter(Sharing::Shared).await.unwrap(),
    ];
    let mut alone = enter(Sharing::Alone);
    assert!(poll!(&mut alone).is_pending());
    let mut late = enter(Sharing::Shared);
    assert!(poll!(&mut late).is_pending());
    drop(shared);
    let turn = alone.now_or_never().unwrap().unwrap();
    assert!(poll!(&mut late).is_pending());
    drop(turn);
    drop(late.now_or_never().unwrap().unwrap());
    assert_eq!(admission.queue_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn turn_that_times_out_was_not_sent_and_the_next_one_waits() {
    let (admission, partition) = (admission(), partition("aaa"));
    let turn = admission
        .enter(&partition, Sharing::Alone, in_seconds(9))
        .await
        .unwrap();
    let mut patient = pin!(admission.enter(&partition, Sharing::Alone, in_seconds(9)));
    assert!(poll!(&mut patient).is_pending());
    let error = admission
        .enter(&partition, Sharing::Alone, in_seconds(1))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::DeadlineExceeded);
    assert!(error.is_retryable() && !error.is_outcome_unknown());
    let text = error.to_string();
    assert!(text.starts_with("not sent: its turn did not come"), "{text}");
    drop(turn);
    drop(patient.await.unwrap());
    assert_eq!(admission.queue_count(), 0);
}

#[tokio::test]
async fn one_who_is_dropped_while_waiting_leaves_without_a_trace() {
    let (admission, partition) = (admission(), partition("aaa"));
    let turn = admission
        .enter(&partition, Sharing::Alone, in_seconds(9))
        .await
        .unwrap();
    let mut last = Box::pin(admission.enter(&partition, Sharing::Alone, in_seconds(9)));
    {
        let mut dropped = pin!(admission.enter(&partition, Sharing::Alone, in_seconds(9)));
        assert!(poll!(&mut dropped).is_pending());
        assert!(poll!(&mut last).is_pending());
    }
    assert_eq!(admission.queue_count(), 1);
    drop(turn);
    drop(last.now_or_never().unwrap().unwrap());
    assert_eq!(admission.queue_count(), 0);
}

#[tokio::test]
async fn turn_of_a_dropped_waiter_goes_to_the_next() {
    let (admission, partition) = (admission(), partition("aaa"));
    let turn = admission
        .enter(&partition, Sharing::Alone, in_seconds(9))
        .await
        .unwrap();
    let mut dropped: Vec<_> = (0..3)
        .map(|_| Box::pin(admission.enter(&partition, Sharing::Alone, in_seconds(9))))
        .collect();
    let mut last = Box::pin(admission.enter(&partition, Sharing::Alone, in_seconds(9)));
    for waiting in &mut dropped {
        assert!(poll!(waiting).is_pending());
    }
    assert!(poll!(&mut last).is_pending());
    drop(turn);
    drop(dropped);
    drop(last.now_or_never().unwrap().unwrap());
    assert_eq!(admission.queue_count(), 0);
}

#[tokio::test]
async fn a_panic_with_the_turn_in_hand_passes_it_on() {
    let (admission, partition) = (admission(), partition("aaa"));
    let turn = admission
        .enter(&partition, Sharing::Alone, in_seconds(9))
        .await
        .unwrap();
    let mut waiting = Box::pin(admission.enter(&partition, Sharing::Alone, in_seconds(9)));
    assert!(poll!(&mut waiting).is_pending());
    let panicking = tokio::spawn(async move {
        let _turn = turn;
        panic!("as the test wants it");
    });
    assert!(panicking.await.is_err());
    drop(waiting.await.unwrap());
    assert_eq!(admission.queue_count(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn turns_are_exclusive_and_leave_nothing_behind() {
    let admission = admission();
    let inside: Arc<[AtomicUsize; 3]> = Arc::default();
    let came: Arc<AtomicUsize> = Arc::default();
    let tasks = (0..3_000_usize).map(|number| {
        let (admission, inside, came) = (Arc::clone(&admission), Arc::clone(&inside), Arc::clone(&came));
        tokio::spawn(async move {
            let at = number % 3;
            let partition = partition(["aaa", "bbb", "ccc"][at]);
            let send = async {
                let patience = Duration::from_micros(fastrand::u64(0..60_000));
                let Ok(_turn) = admission
                    .enter(&partition, Sharing::Alone, Instant::now() + patience)
                    .await
                else {
                    return;
                };
                assert_eq!(inside[at].fetch_add(1, Ordering::SeqCst), 0);
                tokio::task::yield_now().await;
                inside[at].fetch_sub(1, Ordering::SeqCst);
                came.fetch_add(1, Ordering::SeqCst);
            };
            match number % 4 {
                // Tickets are dropped while waiting, never with the turn: the counts stay right.
                0 => drop(
                    tokio::time::timeout(Duration::from_micros(fastrand::u64(0..9_000)), async {
                        admission.enter(&partition, Sharing::Alone, in_seconds(9)).await
                    })
                    .await,
                ),
                _ => send.await,
            }
        })
    });
    for ended in join_all(tasks).await {
        ended.unwrap();
    }
    assert!(came.load(Ordering::SeqCst) > 0);
    assert_eq!(admission.queue_count(), 0);
}
