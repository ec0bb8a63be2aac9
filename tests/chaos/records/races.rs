//! Concurrent requests, fences and clients.

use std::time::Duration;

use futures::future::join_all;
use hbase_txn::{ErrorKind, Outcome, Recorded, Settled, client::Put};
use tokio::time::sleep;

use super::{BRIEF, COMMIT, LONG, PARTITIONS, Rig, id, is_replayed, settled, times, transaction, unknown};
use crate::{
    cluster::{FAMILY, QUALIFIER},
    proxy::Action,
};

const AT_ONCE: usize = 25;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exactly_one_of_fence_and_late_request_wins() {
    let rig = Rig::new("records_fence_race").await;
    let mut rng = rig.settings.rng(1);
    // The requests arrive before, between and after the fences.
    rig.proxy.rule(move |request| {
        if request.method == COMMIT {
            Action::Detour(BRIEF.mul_f64(0.8) + Duration::from_millis(rng.u64(..160)))
        } else {
            Action::Pass
        }
    });
    let (mut committed, mut fenced) = (0, 0);
    for round in 0..times(200, 3_000).div_ceil(AT_ONCE) {
        let races = (0..AT_ONCE).map(async |number| {
            let (partition, id) = (PARTITIONS[number % 3], id(format!("race-{round}-{number}")));
            let outcome = transaction(&rig.table, BRIEF, partition, &id).commit().await;
            (partition, id, settled(&unknown(outcome)).await)
        });
        let ended = join_all(races).await;
        rig.all_arrived().await;
        for (partition, id, settled) in ended {
            let applied = rig.applied(partition, &id).await;
            let expected = match settled {
                Settled::Committed => 1,
                _ => 0,
            };
            assert_eq!(applied, expected, "{id} was settled as {settled:?}");
            committed += applied;
            fenced += 1 - applied;
        }
    }
    println!("records_fence_race: {committed} were applied first, {fenced} fenced first");
    assert!(committed > 0 && fenced > 0, "there was no race");
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settling_during_a_commit_gives_both_the_truth() {
    let rig = Rig::new("records_settle_race").await;
    let (mut committed, mut aborted) = (0, 0);
    let mut rng = rig.settings.rng(1);
    for round in 0..times(200, 3_000).div_ceil(AT_ONCE) {
        // A commit is slow to arrive, and reads the record meanwhile; the fence comes before, between or after.
        rig.proxy.rule(|request| match request.method.as_str() {
            COMMIT => Action::DelayRequest(Duration::from_millis(60)),
            _ => Action::Pass,
        });
        let head_starts: Vec<_> = (0..AT_ONCE)
            .map(|_| Duration::from_millis(rng.u64(..90)))
            .collect();
        let races = (0..AT_ONCE).map(async |number| {
            let (partition, id) = (PARTITIONS[number % 3], id(format!("race-{round}-{number}")));
            let (outcome, settled) =
                tokio::join!(transaction(&rig.table, LONG, partition, &id).commit(), async {
                    sleep(head_starts[number]).await;
                    rig.other.settle(partition, &id).await.unwrap()
                },);
            (partition, id, outcome, settled)
        });
        let ended = join_all(races).await;
        for (partition, id, outcome, settled) in ended {
            let applied = rig.applied(partition, &id).await;
            let recorded = rig.other.outcome(partition, &id).await.unwrap();
            match outcome {
                // If the fence came first, the commit has read it, and was sent again after it.
                Outcome::Committed(_) => assert_eq!((applied, recorded), (1, Recorded::Committed)),
                Outcome::Aborted(error) => {
                    assert_eq!((applied, recorded), (0, Recorded::Aborted), "{error}");
                    assert_eq!(settled, Settled::NotApplied);
                }
                outcome => panic!("{outcome}"),
            }
            committed += applied;
            aborted += 1 - applied;
        }
    }
    println!("records_settle_race: {committed} committed, {aborted} aborted");
    assert!(committed > 0 && aborted > 0, "there was no race");
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exactly_one_of_two_concurrent_commits_of_an_id_applies() {
    let rig = Rig::new("records_two_clients").await;
    for round in 0..times(200, 2_000).div_ceil(AT_ONCE) {
        let races = (0..AT_ONCE).map(async |number| {
            let (partition, id) = (PARTITIONS[number % 3], id(format!("two-{round}-{number}")));
            let (one, other) = tokio::join!(
                transaction(&rig.table, LONG, partition, &id).commit(),
                transaction(&rig.other, LONG, partition, &id).commit(),
            );
            (partition, id, [one, other])
        });
        for (partition, id, outcomes) in join_all(races).await {
            assert!(outcomes.iter().all(Outcome::is_committed), "{id}: {outcomes:?}");
            let replays = outcomes.iter().filter(|outcome| is_replayed(outcome)).count();
            assert_eq!(replays, 1, "{id}: {outcomes:?}");
            assert_eq!(rig.applied(partition, &id).await, 1, "{id}");
        }
    }
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_two_contents_under_an_id_applies_and_one_is_refused() {
    let rig = Rig::new("records_two_contents").await;
    for round in 0..times(200, 2_000).div_ceil(AT_ONCE) {
        let races = (0..AT_ONCE).map(async |number| {
            let (partition, id) = (PARTITIONS[number % 3], id(format!("contents-{round}-{number}")));
            let other = format!("{partition}other");
            let second = rig
                .other
                .transaction(partition)
                .id(id.clone())
                .put(Put::new(other).cell(FAMILY, QUALIFIER, id.as_bytes().to_vec()));
            let (one, other) = tokio::join!(
                transaction(&rig.table, LONG, partition, &id).commit(),
                second.commit()
            );
            let (winner, loser) = if one.is_committed() {
                (&one, &other)
            } else {
                (&other, &one)
            };
            assert!(winner.is_committed() && !is_replayed(winner), "{winner}");
            assert!(matches!(loser, Outcome::Invalid(_)), "{loser}");
            assert_eq!(loser.error().unwrap().kind(), ErrorKind::IdReused);
            assert_eq!(rig.applied(partition, &id).await, i64::from(one.is_committed()));
        });
        join_all(races).await;
    }
    rig.end().await;
}
