//! Records whose rows other clients delete.

use std::time::Duration;

use futures::future::join_all;
use hbase_txn::{
    Recorded, Settled, TableDescriptorExt, TransactionId,
    client::{Delete, TableDescriptor},
};
use tokio::time::sleep;

use super::{
    BRIEF, COMMIT, LONG, PARTITIONS, Rig, id, is_replayed, record_row, settled, times, transaction, unknown,
};
use crate::proxy::Action;

const AT_ONCE: usize = 50;

/// Deletes a record's row, as a whole or by its family.
async fn delete(rig: &Rig, partition: &str, id: &TransactionId, whole: bool) {
    let row = record_row(partition, id);
    let delete = if whole {
        Delete::new(row)
    } else {
        Delete::new(row).family(TableDescriptor::RECORD_FAMILY)
    };
    // The library's own table refuses a reserved row.
    let connection = rig.other.table().connection();
    let rows = connection.table(rig.other.name().clone()).unwrap();
    rows.delete(delete).await.unwrap();
}

fn ids(what: &str, count: usize) -> Vec<(&'static str, TransactionId)> {
    (0..count)
        .map(|number| (PARTITIONS[number % 3], id(format!("{what}-{number}"))))
        .collect()
}

#[tokio::test]
async fn deleted_record_row_does_not_hide_a_record() {
    let rig = Rig::new("records_deleted_before").await;
    let mut rng = rig.settings.rng(1);
    rig.proxy.rule(move |request| {
        if request.method == COMMIT && rng.u8(..5) == 0 {
            Action::DropAnswer
        } else {
            Action::Pass
        }
    });
    let ids = ids("before", times(200, 1_500));
    for (number, some) in ids.chunks(AT_ONCE).enumerate() {
        let commits = some.iter().zip(0..).map(async |((partition, id), at)| {
            // While the request is in flight, or before its answer is missed.
            let pause = Duration::from_millis(at);
            let deleted = async {
                if number % 2 == 1 {
                    sleep(pause).await;
                }
                delete(&rig, partition, id, true).await;
            };
            let commit = transaction(&rig.table, LONG, partition, id).commit();
            if number % 2 == 0 {
                deleted.await;
                commit.await
            } else {
                tokio::join!(deleted, commit).1
            }
        });
        for ((partition, id), outcome) in some.iter().zip(join_all(commits).await) {
            assert!(outcome.is_committed() && !is_replayed(&outcome), "{outcome}");
            assert_eq!(rig.applied(partition, id).await, 1, "{id}");
        }
    }
    rig.end().await;
}

#[tokio::test]
async fn committed_id_is_a_replay_after_a_delete_of_its_record_row() {
    let rig = Rig::new("records_deleted_after").await;
    let ids = ids("after", times(200, 1_500));
    for (number, some) in ids.chunks(AT_ONCE).enumerate() {
        let replays = some.iter().map(async |(partition, id)| {
            let first = transaction(&rig.table, LONG, partition, id).commit().await;
            assert!(first.is_committed(), "{first}");
            delete(&rig, partition, id, number % 2 == 0).await;
            transaction(&rig.table, LONG, partition, id).commit().await
        });
        for ((partition, id), outcome) in some.iter().zip(join_all(replays).await) {
            assert!(is_replayed(&outcome), "{outcome}");
            assert_eq!(rig.applied(partition, id).await, 1, "{id}");
        }
    }
    rig.end().await;
}

#[tokio::test]
async fn late_request_is_fenced_after_a_delete_of_the_fence_row() {
    let rig = Rig::new("records_deleted_between").await;
    let ids = ids("between", times(100, 1_000));
    for (number, some) in ids.chunks(AT_ONCE).enumerate() {
        rig.proxy.rule(|request| {
            if request.method == COMMIT {
                Action::Hold
            } else {
                Action::Pass
            }
        });
        let fenced = some.iter().map(async |(partition, id)| {
            let unsettled = unknown(transaction(&rig.table, BRIEF, partition, id).commit().await);
            assert_eq!(settled(&unsettled).await, Settled::NotApplied);
            delete(&rig, partition, id, number % 2 == 0).await;
        });
        join_all(fenced).await;
        rig.proxy.pass_all();
        assert_eq!(rig.proxy.release().await, some.len());
        for (partition, id) in some {
            assert_eq!(rig.applied(partition, id).await, 0, "{id}");
            let recorded = rig.other.outcome(*partition, id).await.unwrap();
            assert_eq!(recorded, Recorded::Aborted);
        }
    }
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fence_stands_right_after_and_while_its_row_is_deleted() {
    let rig = Rig::new("records_deleted_fence").await;
    for (number, some) in ids("fence", times(200, 1_000)).chunks(AT_ONCE).enumerate() {
        let fences = some.iter().map(async |(partition, id)| {
            let table = rig.other.clone();
            let deleted = delete(&rig, partition, id, true);
            // A fence that is not read back would be an error.
            let settled = if number % 2 == 0 {
                deleted.await;
                table.settle(*partition, id).await
            } else {
                tokio::join!(deleted, table.settle(*partition, id)).1
            };
            assert_eq!(settled.unwrap(), Settled::NotApplied, "{id}");
            assert_eq!(table.outcome(*partition, id).await.unwrap(), Recorded::Aborted);
        });
        join_all(fences).await;
    }
    rig.end().await;
}
