//! Records: the entries by which a transaction's outcome can be looked up.

use std::time::Duration;

use hbase_txn::{
    ErrorKind, Outcome, PartitionedTable, Recorded, Settled, TableDescriptorExt, TransactionId,
    client::{Append, Condition, Delete, Get, Increment, Put, TableDescriptor},
};

use crate::{
    proxy::{Action, Proxy},
    support::{
        connect, connect_by, eventually, put, says, standalone,
        table::{SharedTable, TestTable, by_three, recorded},
        within,
    },
};

static TABLE: SharedTable = SharedTable::new("records", recorded, &["m"]);
static BARE: SharedTable = SharedTable::new("recordless", by_three, &[]);

fn id(text: &'static str) -> TransactionId {
    TransactionId::new(text).unwrap()
}

async fn add(table: &PartitionedTable, prefix: &'static str, id: &TransactionId, amount: i64) -> Outcome {
    let transaction = table
        .transaction(prefix)
        .id(id.clone())
        .increment(Increment::new(format!("{prefix}sum")).column("f", "n", amount));
    transaction.commit().await
}

async fn sum(table: &PartitionedTable, prefix: &'static str) -> i64 {
    let row = table.table().get(Get::new(format!("{prefix}sum"))).await.unwrap();
    let value = row
        .and_then(|row| row.value("f", "n").cloned())
        .unwrap_or_default();
    value
        .first_chunk::<8>()
        .map_or(0, |bytes| i64::from_be_bytes(*bytes))
}

fn is_replayed(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Committed(committed) if committed.replayed)
}

#[tokio::test]
async fn id_is_applied_once_by_any_number_of_committers() {
    let (one, other) = (connect().await, connect().await);
    let shared = TABLE.get().await;
    let tables = [shared.open(&one).await, shared.open(&other).await];
    assert!(!is_replayed(&add(&tables[0], "onc", &id("a"), 5).await));
    for table in &tables {
        assert!(is_replayed(&add(table, "onc", &id("a"), 5).await));
    }
    assert_eq!(sum(&tables[0], "onc").await, 5);
    // The same id in another partition is another transaction.
    assert!(!is_replayed(&add(&tables[0], "ond", &id("a"), 5).await));
}

#[tokio::test]
async fn one_of_many_concurrent_commits_of_an_id_is_applied() {
    let connection = connect().await;
    let shared = TABLE.get().await;
    let table = shared.open(&connection).await;
    let request = id("race");
    let outcomes = futures::future::join_all((0..16).map(|_| add(&table, "rac", &request, 1))).await;
    assert!(outcomes.iter().all(Outcome::is_committed), "{outcomes:?}");
    assert_eq!(outcomes.iter().filter(|outcome| !is_replayed(outcome)).count(), 1);
    assert_eq!(sum(&table, "rac").await, 1);
}

#[tokio::test]
async fn a_replay_is_recognized_when_its_conditions_no_longer_hold() {
    let connection = connect().await;
    let shared = TABLE.get().await;
    let table = shared.open(&connection).await;
    let place = async || {
        let transaction = table
            .transaction("rep")
            .id(id("order"))
            .condition(Condition::absent("repo", "f", "q"))
            .put(put("repo", "placed"));
        transaction.commit().await
    };
    assert!(!is_replayed(&place().await));
    assert!(is_replayed(&place().await));
}

#[tokio::test]
async fn a_rejected_id_can_be_committed_when_its_conditions_hold() {
    let connection = connect().await;
    let shared = TABLE.get().await;
    let table = shared.open(&connection).await;
    let request = id("later");
    let commit = async || {
        let transaction = table
            .transaction("lat")
            .id(request.clone())
            .condition(Condition::present("latx", "f", "q"))
            .put(put("laty", "v"));
        transaction.commit().await
    };
    assert_eq!(commit().await.name(), "rejected");
    assert_eq!(table.outcome("lat", &request).await.unwrap(), Recorded::Aborted);
    table.table().put(put("latx", "v")).await.unwrap();
    assert!(commit().await.is_committed());
    assert_eq!(table.outcome("lat", &request).await.unwrap(), Recorded::Committed);
}

#[tokio::test]
async fn an_id_with_other_contents_is_refused() {
    let connection = connect().await;
    let shared = TABLE.get().await;
    let table = shared.open(&connection).await;
    assert!(add(&table, "oth", &id("x"), 1).await.is_committed());
    let outcome = add(&table, "oth", &id("x"), 2).await;
    assert_eq!(outcome.name(), "invalid");
    assert_eq!(outcome.error().unwrap().kind(), ErrorKind::IdReused, "{outcome}");
    assert_eq!(sum(&table, "oth").await, 1);
}

#[tokio::test]
async fn settling_stops_late_attempts_but_allows_a_new_commit() {
    let connection = connect().await;
    let shared = TABLE.get().await;
    let table = shared.open(&connection).await;
    let request = id("gone");
    assert_eq!(table.outcome("set", &request).await.unwrap(), Recorded::Nothing);
    assert_eq!(table.settle("set", &request).await.unwrap(), Settled::NotApplied);
    assert_eq!(table.outcome("set", &request).await.unwrap(), Recorded::Aborted);
    assert!(add(&table, "set", &request, 3).await.is_committed());
    assert_eq!(table.settle("set", &request).await.unwrap(), Settled::Committed);
    assert_eq!(sum(&table, "set").await, 3);
}

/// Opens the table behind a proxy. The servers' abilities are proven then, so that the next endpoint
/// call is that of a transaction.
async fn behind(proxy: &Proxy, shared: &TestTable, prefix: &'static str) -> PartitionedTable {
    let connection = connect_by(proxy.clone(), standalone().config()).await;
    let table = shared.open(&connection).await;
    assert!(add(&table, prefix, &id("proof"), 0).await.is_committed());
    table
}

#[tokio::test]
async fn record_is_read_beside_an_attempt_that_is_not_answered_at_once() {
    let (proxy, shared) = (Proxy::new(), TABLE.get().await);
    let table = behind(&proxy, &shared, "par").await;
    let reads = || proxy.requests("Get");
    // On a busy machine, some attempts are not answered at once.
    eventually("a commit without a read", async || {
        let before = reads();
        assert!(
            add(&table, "par", &TransactionId::unique(), 0)
                .await
                .is_committed()
        );
        (reads() == before).then_some(())
    })
    .await;
    let soon = Duration::from_secs(5);
    // The attempt takes a while, and the answer to the read comes too late.
    proxy.rule(move |request| match request.method.as_str() {
        "ExecService" => Action::DelayRequest(soon / 5),
        "Get" => Action::DelayAnswer(4 * soon),
        _ => Action::Pass,
    });
    let before = reads();
    let outcome = within(soon, add(&table, "par", &id("a"), 1)).await;
    assert!(outcome.is_committed() && !is_replayed(&outcome), "{outcome}");
    assert_eq!(reads(), before + 1);
    // The attempt comes too late.
    proxy.once("ExecService", Action::DelayRequest(4 * soon));
    let outcome = within(soon, add(&table, "par", &id("a"), 1)).await;
    assert!(is_replayed(&outcome), "{outcome}");
    proxy.pass_all();
    assert_eq!(sum(&table, "par").await, 1);
}

#[tokio::test]
async fn abort_during_the_first_attempt_ends_the_commit_and_an_earlier_one_does_not() {
    let (proxy, shared) = (Proxy::new(), TABLE.get().await);
    let table = behind(&proxy, &shared, "dur").await;
    let other = shared.open(&connect().await).await;
    let request = id("a");
    proxy.once("ExecService", Action::DelayRequest(Duration::from_secs(3)));
    let sent = |method| proxy.requests(method);
    let (reads, attempts) = (sent("Get"), sent("ExecService"));
    let (outcome, ()) = tokio::join!(add(&table, "dur", &request, 1), async {
        eventually("both requests are on their way", async || {
            (sent("Get") > reads && sent("ExecService") > attempts).then_some(())
        })
        .await;
        // Behind the read on its connection.
        for _ in 0..3 {
            assert_eq!(sum(&table, "dur").await, 0);
        }
        assert_eq!(other.settle("dur", &request).await.unwrap(), Settled::NotApplied);
    });
    let error = outcome.error().expect("it was settled as not applied");
    assert_eq!(error.kind(), ErrorKind::Aborted, "{error}");
    assert_eq!(sum(&table, "dur").await, 0);
    // Now the abort is an earlier one, whichever answer comes first.
    proxy.once("Get", Action::DelayAnswer(Duration::from_secs(1)));
    assert!(add(&table, "dur", &request, 1).await.is_committed());
    assert_eq!(sum(&table, "dur").await, 1);
}

#[tokio::test]
async fn deletes_of_other_clients_do_not_reach_a_record() {
    let connection = connect().await;
    let shared = TABLE.get().await;
    let table = shared.open(&connection).await;
    let request = id("kept");
    assert!(add(&table, "del", &request, 1).await.is_committed());
    // The library's own table refuses reserved rows.
    let plain = connection.table(table.name().clone()).unwrap();
    let mut scanner = plain.scan(hbase_txn::client::Scan::prefix("del")).unwrap();
    let mut rows = 0;
    while let Some(row) = scanner.next().await.unwrap() {
        rows += 1;
        plain.delete(Delete::new(row.key().clone())).await.unwrap();
    }
    assert!(rows >= 2, "the sum and the record were seen");
    assert!(is_replayed(&add(&table, "del", &request, 1).await));
}

#[tokio::test]
async fn unrecordable_transactions_name_the_fix() {
    let connection = connect().await;
    let bare = BARE.get().await;
    let table = bare.open(&connection).await;
    let outcome = add(&table, "bar", &id("x"), 1).await;
    let error = outcome.error().unwrap();
    assert_eq!(error.kind(), ErrorKind::RecordFamilyMissing);
    assert_eq!(error.missing_family(), Some("_txn"), "{error}");
    let error = table.outcome("bar", &id("x")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::RecordFamilyMissing);

    let shared = TABLE.get().await;
    let table = shared.open(&connection).await;
    // A row that is shorter than the prefix is its own partition.
    let lone = table.transaction_for_row("xx").recorded().put(put("xx", "v"));
    assert_eq!(lone.commit().await.name(), "invalid");
    let patient = table
        .clone()
        .with_operation_timeout(Duration::from_secs(30 * 3_600));
    let outcome = add(&patient, "pat", &id("x"), 1).await;
    assert!(outcome.to_string().contains("replay window"), "{outcome}");
}

#[tokio::test]
async fn family_that_would_lose_records_is_refused_on_open() {
    let descriptor = recorded("t".parse().unwrap());
    let mut short = descriptor.clone();
    let family = short
        .family(TableDescriptor::RECORD_FAMILY)
        .unwrap()
        .clone()
        .with_attribute("TTL", "60");
    short = short.with_family(family);
    assert_eq!(
        short.replay_window().unwrap_err().kind(),
        ErrorKind::RecordFamilyMissing
    );
    let odd = descriptor
        .clone()
        .with_attribute(TableDescriptor::REPLAY_WINDOW, "a day");
    assert!(odd.replay_window().is_err());
    let short = descriptor
        .clone()
        .with_attribute(TableDescriptor::REPLAY_WINDOW, "299");
    assert!(short.replay_window().is_err());
    let hour = descriptor.with_attribute(TableDescriptor::REPLAY_WINDOW, "3600");
    assert_eq!(hour.replay_window().unwrap(), Some(Duration::from_secs(3_600)));
}

#[tokio::test]
async fn operations_on_one_cell_act_in_sequence() {
    let connection = connect().await;
    let shared = TABLE.get().await;
    let table = shared.open(&connection).await;
    table.table().put(put("seqa", "old")).await.unwrap();
    let mut transaction = table
        .transaction("seq")
        .delete(Delete::new("seqa"))
        .put(put("seqa", "new"))
        .append(Append::new("seqa").cell("f", "q", "er"));
    for _ in 0..3 {
        transaction = transaction.increment(Increment::new("seqsum").column("f", "n", 5));
    }
    let outcome = transaction.commit().await;
    assert!(outcome.is_committed(), "{outcome}");
    let row = table
        .table()
        .get(Get::new("seqa").versions(10))
        .await
        .unwrap()
        .unwrap();
    let values: Vec<_> = row.cells().iter().map(|cell| cell.value.clone()).collect();
    assert_eq!(values, ["newer"]);
    assert_eq!(sum(&table, "seq").await, 15);
}

#[tokio::test]
async fn lost_comparison_of_clocks_leaves_no_outcome_unknown() {
    let (proxy, shared) = (Proxy::new(), TABLE.get().await);
    let connection = connect_by(proxy.clone(), standalone().config()).await;
    let table = shared.open(&connection).await;
    // The deletion and the put need timestamps of the server's clock.
    let commit = async |table: &PartitionedTable| {
        let transaction = table.transaction("clo").delete(Delete::new("cloa"));
        transaction.put(put("cloa", "new")).commit().await
    };
    proxy.rule(|request| {
        if request.method == "Multi" {
            Action::DropAnswer
        } else {
            Action::Pass
        }
    });
    let attempts = proxy.requests("ExecService");
    let brief = table.clone().with_operation_timeout(Duration::from_secs(3));
    let outcome = commit(&brief).await;
    assert_eq!(outcome.name(), "aborted");
    says(outcome.error().unwrap(), &["comparing clocks", "no answer"]);
    assert_eq!(proxy.requests("ExecService"), attempts);
    proxy.pass_all();
    assert!(commit(&table).await.is_committed());
}

#[tokio::test]
async fn id_older_than_the_replay_window_is_not_called_unapplied() {
    let connection = connect().await;
    let shared = TABLE.get().await;
    let table = shared.open(&connection).await;
    let old = TransactionId::new(format!("txn-{:012x}-{}", 1_000, "0".repeat(32))).unwrap();
    for error in [
        table.outcome("old", &old).await.unwrap_err(),
        table.settle("old", &old).await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::OutcomeForgotten, "{error}");
    }
    let fresh = TransactionId::unique();
    assert_eq!(table.outcome("old", &fresh).await.unwrap(), Recorded::Nothing);
}

#[tokio::test]
async fn reserved_rows_cannot_be_changed_in_a_transaction() {
    let connection = connect().await;
    let shared = TABLE.get().await;
    let table = shared.open(&connection).await;
    let row = b"res\xff_txn\xffversion";
    let mut transaction = table.transaction("res");
    let error = transaction.try_add(Delete::new(&row[..])).unwrap_err();
    assert!(error.to_string().contains("reserved for"), "{error}");
    let batch = table.batch().delete(Delete::new(&row[..]));
    assert_eq!(batch.commit().await[0].outcome.name(), "invalid");
}

#[tokio::test]
async fn dropped_commit_is_settled_by_the_id_read_before() {
    let (proxy, shared) = (Proxy::new(), TABLE.get().await);
    let table = behind(&proxy, &shared, "drp").await;
    for (action, settled, applied) in [
        (Action::DropAnswer, Settled::Committed, 1),
        (Action::DropRequest, Settled::NotApplied, 1),
    ] {
        let mut transaction = table.transaction("drp");
        assert_eq!(transaction.transaction_id(), None);
        let sum_row = Increment::new("drpsum").column("f", "n", 1);
        transaction = transaction.increment(sum_row).recorded();
        let id = transaction.transaction_id().unwrap().clone();
        proxy.once("ExecService", action);
        let sent = proxy.requests("ExecService");
        let commit = tokio::spawn(transaction.commit());
        eventually("the commit is on its way", async || {
            (proxy.requests("ExecService") > sent).then_some(())
        })
        .await;
        if settled == Settled::Committed {
            eventually("it is applied", async || {
                (sum(&table, "drp").await == applied).then_some(())
            })
            .await;
        }
        commit.abort();
        assert!(commit.await.unwrap_err().is_cancelled());
        assert_eq!(connect_and_settle(&id).await, settled);
        assert_eq!(sum(&table, "drp").await, applied);
    }
}

/// Settles the transaction from another process.
async fn connect_and_settle(id: &TransactionId) -> Settled {
    let connection = connect().await;
    let table = TABLE.get().await.open(&connection).await;
    table.settle("drp", id).await.unwrap()
}

#[tokio::test]
async fn record_at_the_maximum_timestamp_is_an_error() {
    let connection = connect().await;
    let shared = TABLE.get().await;
    let table = shared.open(&connection).await;
    let request = id("late");
    assert_eq!(table.settle("lat", &request).await.unwrap(), Settled::NotApplied);
    let row = b"lat\xff_txn\xffrlate";
    let seen = table.table().get(Get::new(&row[..])).await.unwrap().unwrap();
    let record = seen.value("_txn", "r").unwrap().clone();
    let latest = i64::MAX as u64 - 1;
    let late = Put::new(&row[..]).cell("_txn", "r", record).timestamp(latest);
    // The library's own table refuses a reserved row.
    let rows = connection.table(table.name().clone()).unwrap();
    rows.put(late).await.unwrap();
    for _ in 0..2 {
        let outcome = add(&table, "lat", &request, 1).await;
        let error = outcome.error().expect("nothing can be put over the record");
        assert!(!error.is_outcome_unknown(), "{error}");
        says(error, &["no timestamp is left behind", &latest.to_string()]);
    }
    assert_eq!(sum(&table, "lat").await, 0);
    let error = table.settle("lat", &request).await.unwrap_err();
    says(&error, &["no timestamp is left behind"]);
}

#[tokio::test]
async fn id_of_the_caller_is_the_one_that_is_read() {
    let connection = connect().await;
    let shared = TABLE.get().await;
    let table = shared.open(&connection).await;
    let transaction = table.transaction("own").recorded().id(id("mine"));
    assert_eq!(transaction.transaction_id(), Some(&id("mine")));
}
