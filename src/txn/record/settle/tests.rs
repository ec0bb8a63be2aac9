use std::sync::{Arc, Mutex};

use hbase_client::{Condition, Connection, Increment};
use hbase_fake::{Call, FakeHBase};
use tokio::time::sleep;

use crate::txn::{Outcome, PartitionedTable, Transaction, UpdateOptions, Updated, record::settle::*};

const TABLE: &str = "orders";

/// Opens the table as a client of its own, which has proven the server.
async fn client(hbase: &FakeHBase, number: u64) -> PartitionedTable {
    let connection = Connection::builder(hbase.config())
        .connector(hbase.connector())
        .environment(hbase.environment().seed(number))
        .connect()
        .await
        .unwrap();
    let table = PartitionedTable::open(&connection, TABLE).await.unwrap();
    let proof = table
        .transaction("xxx")
        .put(Put::new("xxxproof").cell("f", "q", "v"));
    assert!(proof.recorded().commit().await.is_committed());
    table
}

async fn two_clients(hbase: &FakeHBase) -> [PartitionedTable; 2] {
    hbase.create_partitioned_table(TABLE, &["f", "_txn"], 3);
    [client(hbase, 1).await, client(hbase, 2).await]
}

fn id(text: &'static str) -> TransactionId {
    TransactionId::new(text).unwrap()
}

fn add(table: &PartitionedTable, id: &'static str) -> Transaction {
    let increment = Increment::new("xxxsum").column("f", "n", 1);
    table.transaction("xxx").increment(increment).id(id)
}

/// A transaction that is rejected until the row `xxxopen` is there.
fn add_if_open(table: &PartitionedTable, id: &'static str) -> Transaction {
    add(table, id).condition(Condition::present("xxxopen", "f", "q"))
}

async fn sum(table: &PartitionedTable) -> Result<i64> {
    let rows = table.snapshot("xxx").await?;
    Ok(rows.get("xxxsum", "f", "n")?.unwrap_or(0))
}

fn is_aborted(outcome: &Outcome) -> bool {
    let kind = outcome.error().map(Error::kind);
    matches!(outcome, Outcome::Aborted(_)) && kind == Some(ErrorKind::Aborted)
}

#[test]
fn commit_that_began_before_a_settlement_is_not_applied() {
    FakeHBase::run(async |hbase| {
        let [one, other] = two_clients(hbase).await;
        let attempt = hbase.fault(Call::MutateRows.on(TABLE).hold_request().times(1));
        let read = hbase.fault(Call::Get.on(TABLE).hold_request().times(1));
        let commit = tokio::spawn(add(&one, "a").commit());
        sleep(Duration::from_secs(2)).await;
        assert_eq!((attempt.happened(), read.happened()), (1, 1));
        assert_eq!(other.settle("xxx", &id("a")).await?, Settled::NotApplied);
        read.release();
        sleep(Duration::from_millis(50)).await;
        attempt.release();
        let outcome = commit.await?;
        assert!(is_aborted(&outcome), "{outcome}");
        assert_eq!(sum(&other).await?, 0);
        // It is known now, so that the next commit is a later one.
        assert!(add(&one, "a").commit().await.is_committed());
        Ok(())
    });
}

#[test]
fn attempt_that_meets_a_settlement_at_once_is_not_repeated() {
    FakeHBase::run(async |hbase| {
        let [one, other] = two_clients(hbase).await;
        let attempt = hbase.fault(Call::MutateRows.on(TABLE).hold_request().times(1));
        let commit = tokio::spawn(add(&one, "a").commit());
        sleep(Duration::from_millis(5)).await;
        assert_eq!(other.settle("xxx", &id("a")).await?, Settled::NotApplied);
        attempt.release();
        let outcome = commit.await?;
        assert!(is_aborted(&outcome), "{outcome}");
        assert_eq!(sum(&other).await?, 0);
        Ok(())
    });
}

#[test]
fn settlement_outlasts_the_fences_of_later_commits() {
    FakeHBase::run(async |hbase| {
        let [one, other] = two_clients(hbase).await;
        let attempt = hbase.fault(Call::MutateRows.on(TABLE).hold_request().times(1));
        let read = hbase.fault(Call::Get.on(TABLE).hold_request().times(1));
        let commit = tokio::spawn(add_if_open(&one, "a").commit());
        sleep(Duration::from_secs(2)).await;
        assert_eq!(other.settle("xxx", &id("a")).await?, Settled::NotApplied);
        let later = add_if_open(&other, "a").commit().await;
        assert_eq!(later.name(), "rejected", "{later}");
        other.table().put(Put::new("xxxopen").cell("f", "q", "v")).await?;
        read.release();
        attempt.release();
        let outcome = commit.await?;
        assert!(is_aborted(&outcome), "{outcome}");
        assert_eq!(sum(&other).await?, 0);
        Ok(())
    });
}

#[test]
fn commit_may_follow_a_settlement_that_its_client_has_seen_or_that_is_old() {
    FakeHBase::run(async |hbase| {
        let [one, other] = two_clients(hbase).await;
        for name in ["settled", "read", "neither", "old"] {
            assert_eq!(one.settle("xxx", &id(name)).await?, Settled::NotApplied);
        }
        assert!(add(&one, "settled").commit().await.is_committed());
        assert_eq!(other.outcome("xxx", &id("read")).await?, Recorded::Aborted);
        assert!(add(&other, "read").commit().await.is_committed());
        let outcome = add(&other, "neither").commit().await;
        assert!(is_aborted(&outcome), "{outcome}");
        assert!(add(&other, "neither").commit().await.is_committed());
        sleep(SURELY_BEFORE + Duration::from_secs(1)).await;
        assert!(add(&other, "old").commit().await.is_committed());
        assert_eq!(sum(&one).await?, 4);
        Ok(())
    });
}

#[test]
fn commit_may_follow_a_rejection_elsewhere() {
    FakeHBase::run(async |hbase| {
        let [one, other] = two_clients(hbase).await;
        assert_eq!(add_if_open(&one, "a").commit().await.name(), "rejected");
        other.table().put(Put::new("xxxopen").cell("f", "q", "v")).await?;
        assert!(add_if_open(&other, "a").commit().await.is_committed());
        Ok(())
    });
}

#[test]
fn commit_with_an_id_that_is_applied_at_once_takes_one_call() {
    FakeHBase::run(async |hbase| {
        let [one, _] = two_clients(hbase).await;
        let calls = || ["MutateRows", "Get", "Multi"].map(|method| hbase.calls(method));
        let before = calls();
        assert!(add(&one, "a").commit().await.is_committed());
        let [attempts, reads, fences] = before;
        assert_eq!(calls(), [attempts + 1, reads, fences]);
        Ok(())
    });
}

#[test]
fn update_that_was_settled_between_its_attempts_ends() {
    FakeHBase::run(async |hbase| {
        let [one, other] = two_clients(hbase).await;
        let settled = Arc::new(Mutex::new(Vec::new()));
        let mut runs = 0;
        let updated = one
            .update_async("xxx", UpdateOptions::new().id("a"), |view| {
                runs += 1;
                let (other, settled, is_first) = (other.clone(), Arc::clone(&settled), runs == 1);
                Box::pin(async move {
                    let n = view.get::<i64>("xxxsum", "f", "n")?.unwrap_or(0);
                    if is_first {
                        // Another writer: this attempt conflicts.
                        other
                            .table()
                            .put(Put::new("xxxsum").cell("f", "n", 41_i64))
                            .await?;
                    } else {
                        let ended = other.settle("xxx", &id("a")).await?;
                        settled.lock().unwrap().push(ended);
                    }
                    view.put(Put::new("xxxsum").cell("f", "n", n + 1))?;
                    Ok::<_, Error>(n)
                })
            })
            .await;
        assert_eq!(*settled.lock().unwrap(), [Settled::NotApplied]);
        assert_eq!(updated.unwrap_err().kind(), ErrorKind::Aborted);
        assert_eq!(sum(&other).await?, 41);
        assert_eq!(other.outcome("xxx", &id("a")).await?, Recorded::Aborted);
        Ok(())
    });
}

#[test]
fn update_whose_lost_attempt_was_settled_elsewhere_ends() {
    FakeHBase::run(async |hbase| {
        let [one, other] = two_clients(hbase).await;
        let one = one.with_operation_timeout(Duration::from_secs(10));
        hbase.fault(Call::MutateRows.on(TABLE).lose_request().times(1));
        let update = tokio::spawn(async move {
            let options = UpdateOptions::new().id("a");
            let updated = one.update_with("xxx", options, |view| {
                view.put(Put::new("xxxsum").cell("f", "n", 1_i64))?;
                Ok::<_, Error>(())
            });
            updated.await
        });
        sleep(Duration::from_secs(1)).await;
        assert_eq!(other.settle("xxx", &id("a")).await?, Settled::NotApplied);
        assert_eq!(update.await?.unwrap_err().kind(), ErrorKind::Aborted);
        assert_eq!(sum(&other).await?, 0);
        Ok(())
    });
}

#[test]
fn conflicts_of_an_update_with_an_id_do_not_end_it() {
    FakeHBase::run(async |hbase| {
        let [one, other] = two_clients(hbase).await;
        let mut runs = 0;
        let updated = one
            .update_async("xxx", UpdateOptions::new().id("a"), |view| {
                runs += 1;
                let (other, run) = (other.clone(), runs);
                Box::pin(async move {
                    let n = view.get::<i64>("xxxsum", "f", "n")?.unwrap_or(0);
                    if run < 4 {
                        other
                            .table()
                            .put(Put::new("xxxsum").cell("f", "n", n + 10))
                            .await?;
                    }
                    view.put(Put::new("xxxsum").cell("f", "n", n + 1))?;
                    Ok::<_, Error>(())
                })
            })
            .await?;
        assert_eq!(
            updated,
            Updated::Done {
                value: (),
                attempts: 4
            }
        );
        assert_eq!(sum(&other).await?, 31);
        Ok(())
    });
}

#[test]
fn settling_by_id_keeps_what_the_id_stands_for() {
    FakeHBase::run(async |hbase| {
        let [one, other] = two_clients(hbase).await;
        let put = |row: &'static str| {
            one.transaction("xxx")
                .put(Put::new(row).cell("f", "q", "v"))
                .id("a")
        };
        assert_eq!(add_if_open(&one, "a").commit().await.name(), "rejected");
        for _ in 0..2 {
            assert_eq!(other.settle("xxx", &id("a")).await?, Settled::NotApplied);
            let outcome = put("xxxb").commit().await;
            assert_eq!(
                outcome.error().map(Error::kind),
                Some(ErrorKind::IdReused),
                "{outcome}"
            );
        }
        Ok(())
    });
}

#[test]
fn id_that_was_settled_without_a_record_stands_for_what_is_committed_next() {
    FakeHBase::run(async |hbase| {
        let [one, _] = two_clients(hbase).await;
        assert_eq!(one.settle("xxx", &id("a")).await?, Settled::NotApplied);
        assert_eq!(add_if_open(&one, "a").commit().await.name(), "rejected");
        let outcome = add(&one, "a").commit().await;
        assert_eq!(
            outcome.error().map(Error::kind),
            Some(ErrorKind::IdReused),
            "{outcome}"
        );
        Ok(())
    });
}
