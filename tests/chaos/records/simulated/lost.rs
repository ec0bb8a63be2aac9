//! Lost answers and late requests.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use hbase_txn::{
    Outcome, PartitionedTable, Recorded, Settled, Transaction, TransactionId,
    client::{Condition, Put},
};

use crate::records::{
    ATTEMPT, BRIEF, COMMIT, LONG, PARTITIONS, Rig, bare, id, is_replayed, settled, transaction, unknown,
};
use crate::{
    cluster::{FAMILY, PATIENCE, QUALIFIER, until},
    proxy::Action,
};

#[tokio::test]
async fn a_lost_answer_is_sent_again_and_applied_once() {
    let rig = Rig::new("records_again").await;
    for (number, action) in [
        Action::DropAnswer,
        Action::DropRequest,
        Action::DelayAnswer(2 * ATTEMPT),
        Action::DelayRequest(2 * ATTEMPT),
        Action::Detour(2 * ATTEMPT),
        Action::Again(ATTEMPT),
        Action::Duplicate,
        Action::CutBeforeRequest,
        Action::CutInRequest,
        Action::CutAfterRequest,
        Action::CutBeforeAnswer,
        Action::CutInAnswer,
        Action::Blackhole,
    ]
    .into_iter()
    .enumerate()
    {
        let partition = PARTITIONS[number % 3];
        // The record of a caller's id is read beside the attempt, that of a generated id is not.
        for is_generated in [true, false] {
            let id = id(format!("again-{number}-{is_generated}"));
            let transaction = if is_generated {
                bare(&rig.table, LONG, partition, &id).recorded()
            } else {
                transaction(&rig.table, LONG, partition, &id)
            };
            rig.proxy.once(COMMIT, action);
            let outcome = transaction.commit().await;
            assert!(
                outcome.is_committed() && !is_replayed(&outcome),
                "{action:?}: {outcome}"
            );
            rig.all_arrived().await;
            assert_eq!(rig.applied(partition, &id).await, 1, "{action:?}");
        }
    }
    // The same without a record: the caller can only send it again.
    let twice = id("bare");
    rig.proxy.once(COMMIT, Action::DropAnswer);
    let first = bare(&rig.table, BRIEF, "iii", &twice).commit().await;
    assert!(matches!(first, Outcome::Unknown(_)), "{first}");
    let second = bare(&rig.table, LONG, "iii", &twice).commit().await;
    assert!(second.is_committed(), "{second}");
    assert_eq!(rig.applied("iii", &twice).await, 2);
    rig.end().await;
}

#[tokio::test]
async fn lost_answer_is_settled_by_the_handle_and_by_the_id() {
    let rig = Rig::new("records_fenced").await;
    for (name, action, expected) in [
        ("drop-answer", Action::DropAnswer, Settled::Committed),
        ("cut-answer", Action::CutBeforeAnswer, Settled::Committed),
        ("drop-request", Action::DropRequest, Settled::NotApplied),
        ("cut-request", Action::CutInRequest, Settled::NotApplied),
    ] {
        for partition in PARTITIONS {
            let id = id(name);
            rig.lose(action);
            let unsettled = unknown(transaction(&rig.table, BRIEF, partition, &id).commit().await);
            rig.proxy.pass_all();
            assert_eq!(unsettled.id(), Some(&id));
            assert_eq!(settled(&unsettled).await, expected, "{name}");
            // The outcome stays the same.
            assert_eq!(settled(&unsettled).await, expected, "{name}");
            assert_eq!(
                rig.other.settle(partition, &id).await.unwrap(),
                expected,
                "{name}"
            );
            let applied = i64::from(expected == Settled::Committed);
            assert_eq!(rig.applied(partition, &id).await, applied, "{name}");
        }
    }
    rig.end().await;
}

/// Commits it while the proxy holds its request, so its outcome is unknown.
async fn held_back(rig: &Rig, partition: &'static str, id: &TransactionId) -> hbase_txn::Unsettled {
    rig.proxy.once(COMMIT, Action::Hold);
    let unsettled = unknown(transaction(&rig.table, BRIEF, partition, id).commit().await);
    rig.proxy.pass_all();
    unsettled
}

#[tokio::test]
async fn a_request_that_arrives_after_the_fence_is_never_applied() {
    let rig = Rig::new("records_late").await;
    for partition in PARTITIONS {
        let id = id("late");
        let unsettled = held_back(&rig, partition, &id).await;
        assert_eq!(settled(&unsettled).await, Settled::NotApplied);
        assert_eq!(rig.proxy.release().await, 1);
        assert_eq!(rig.applied(partition, &id).await, 0);
        assert_eq!(
            rig.table.outcome(partition, &id).await.unwrap(),
            Recorded::Aborted
        );
        // A transaction that was settled as not applied may be tried again.
        let again = transaction(&rig.table, LONG, partition, &id).commit().await;
        assert!(again.is_committed() && !is_replayed(&again), "{again}");
        assert_eq!(rig.applied(partition, &id).await, 1);
        assert_eq!(settled(&unsettled).await, Settled::Committed);
    }
    rig.end().await;
}

#[tokio::test]
async fn lost_request_with_a_reused_id_is_settled_as_not_applied() {
    let rig = Rig::new("records_taken").await;
    for partition in PARTITIONS {
        let id = id("taken");
        let unsettled = held_back(&rig, partition, &id).await;
        let mut other = rig.other.transaction(partition);
        let put = Put::new(format!("{partition}other")).cell(FAMILY, QUALIFIER, "v");
        other = other.id(id.clone()).put(put);
        let outcome = other.commit().await;
        assert!(outcome.is_committed() && !is_replayed(&outcome), "{outcome}");
        assert_eq!(settled(&unsettled).await, Settled::NotApplied);
        assert_eq!(rig.proxy.release().await, 1);
        assert_eq!(rig.applied(partition, &id).await, 0);
    }
    rig.end().await;
}

#[tokio::test]
async fn reading_without_a_fence_lets_the_late_request_apply() {
    let rig = Rig::new("records_read").await;
    for partition in PARTITIONS {
        let id = id("read");
        let unsettled = held_back(&rig, partition, &id).await;
        assert_eq!(
            rig.other.outcome(partition, &id).await.unwrap(),
            Recorded::Nothing
        );
        assert_eq!(rig.proxy.release().await, 1);
        assert_eq!(rig.applied(partition, &id).await, 1);
        assert_eq!(
            rig.other.outcome(partition, &id).await.unwrap(),
            Recorded::Committed
        );
        assert_eq!(settled(&unsettled).await, Settled::Committed);
    }
    rig.end().await;
}

#[tokio::test]
async fn new_process_learns_a_replay_by_the_record_alone() {
    let rig = Rig::new("records_replay").await;
    let claim = |table: &PartitionedTable, time: Duration, partition, id: &TransactionId| -> Transaction {
        let mut transaction = transaction(table, time, partition, id);
        let row = format!("{partition}claim");
        transaction = transaction
            .condition(Condition::absent(row.clone(), FAMILY, QUALIFIER))
            .put(Put::new(row).cell(FAMILY, QUALIFIER, "taken"));
        transaction
    };
    for partition in PARTITIONS {
        let (first, second) = (id("first"), id("second"));
        rig.lose(Action::DropAnswer);
        let _ = unknown(claim(&rig.table, BRIEF, partition, &first).commit().await);
        let connection = rig.cluster.connect().await;
        let table = PartitionedTable::open(&connection, rig.table.name().clone())
            .await
            .unwrap();
        let replay = claim(&table, LONG, partition, &first).commit().await;
        assert!(is_replayed(&replay), "{replay}");
        // The server can't distinguish the two: the claim is taken.
        let late = claim(&table, LONG, partition, &second).commit().await;
        assert!(matches!(late, Outcome::Rejected(_)), "{late}");
        assert_eq!(rig.applied(partition, &first).await, 1);
        assert_eq!(rig.applied(partition, &second).await, 0);
        connection.close().await;
    }
    rig.end().await;
}

/// Adds the condition that the gate is open.
fn gated(mut transaction: Transaction, gate: &str) -> Transaction {
    transaction = transaction.condition(Condition::present(gate.to_owned(), FAMILY, QUALIFIER));
    transaction
}

#[tokio::test]
async fn rejection_stays_true_when_a_late_copy_finds_the_conditions() {
    let rig = Rig::new("records_rejected").await;
    for (number, copy) in [Action::Hold, Action::Again(2 * ATTEMPT)].into_iter().enumerate() {
        for partition in PARTITIONS {
            let (id, gate) = (
                id(format!("rejected-{number}")),
                format!("{partition}gate{number}"),
            );
            rig.proxy.once(COMMIT, copy);
            let outcome = gated(transaction(&rig.table, LONG, partition, &id), &gate)
                .commit()
                .await;
            assert!(matches!(outcome, Outcome::Rejected(_)), "{copy:?}: {outcome}");
            let open = Put::new(gate).cell(FAMILY, QUALIFIER, "open");
            rig.other.table().put(open).await.unwrap();
            rig.proxy.release().await;
            rig.all_arrived().await;
            assert_eq!(rig.applied(partition, &id).await, 0, "{copy:?}");
        }
    }
    // Without a record the answer was true when it was sent.
    let lucky = id("bare");
    rig.proxy.once(COMMIT, Action::Again(2 * ATTEMPT));
    let outcome = gated(bare(&rig.table, LONG, "iii", &lucky), "iiigate")
        .commit()
        .await;
    assert!(matches!(outcome, Outcome::Rejected(_)), "{outcome}");
    let open = Put::new("iiigate").cell(FAMILY, QUALIFIER, "open");
    rig.other.table().put(open).await.unwrap();
    rig.all_arrived().await;
    assert_eq!(rig.applied("iii", &lucky).await, 1);
    rig.end().await;
}

#[tokio::test]
async fn attempt_after_an_own_fence_is_fenced_like_the_first() {
    let rig = Rig::new("records_refenced").await;
    for partition in PARTITIONS {
        let (id, gate) = (id("refenced"), format!("{partition}gate"));
        let is_open = Arc::new(AtomicBool::new(false));
        let (seen, mut attempts) = (Arc::clone(&is_open), 0);
        // The first attempt is rejected and fenced. Its conditions are read when the cause is gone,
        // so there is a second attempt, which the proxy holds.
        rig.proxy.rule(move |request| match request.method.as_str() {
            COMMIT => {
                attempts += 1;
                if attempts == 1 { Action::Pass } else { Action::Hold }
            }
            "Scan" if !seen.load(Ordering::Acquire) => Action::DropRequest,
            _ => Action::Pass,
        });
        let opening = async {
            until("the first fence", PATIENCE, async || {
                (rig.other.outcome(partition, &id).await.unwrap() == Recorded::Aborted).then_some(())
            })
            .await;
            let open = Put::new(gate.clone()).cell(FAMILY, QUALIFIER, "open");
            rig.other.table().put(open).await.unwrap();
            is_open.store(true, Ordering::Release);
        };
        let commit = gated(transaction(&rig.table, 6 * ATTEMPT, partition, &id), &gate).commit();
        let (outcome, ()) = tokio::join!(commit, opening);
        rig.proxy.pass_all();
        assert_eq!(settled(&unknown(outcome)).await, Settled::NotApplied);
        assert!(rig.proxy.release().await > 0);
        assert_eq!(rig.applied(partition, &id).await, 0);
    }
    rig.end().await;
}
