//! Latches beside the data of a partition, counted down by transactions: the result and the count are one.

use std::time::Duration;

use futures::future::join_all;
use hbase_txn::{
    Condition, Connection, Error, ErrorKind, Get, Latch, LatchState, Level, Outcome, PartitionLatches,
    PartitionedTable, Put, Settled, TableDescriptor, TableName, Transaction, TransactionId, UpdateView,
    WaitOutcome,
};

use crate::{
    proxy::{Action, Proxy},
    support::{
        connect, connect_by, eventually,
        latch_rows::{latch_manager, latch_table},
        put, says, standalone,
        table::{SharedTable, TestTable, by_three},
        value, within,
    },
};

static SHARED: SharedTable = SharedTable::new("partition-latches", with_latches, &["mmm"]);

const HOUR: Duration = Duration::from_secs(3_600);
const PATIENCE: Duration = Duration::from_secs(60);
const SOON: Duration = Duration::from_secs(2);
const COMMIT: &str = "ExecService";

fn with_latches(name: TableName) -> TableDescriptor {
    by_three(name).with_record_family().with_lock_family()
}

/// A client of the table, and its latches.
async fn client(connection: &Connection, table: &TestTable) -> (PartitionedTable, PartitionLatches) {
    let table = table.open(connection).await;
    let latches = PartitionLatches::open(&table).await.unwrap();
    (table, latches)
}

/// A latch with so much to count down.
async fn latch(latches: &PartitionLatches, prefix: &'static str, id: &str, count: u64) -> Latch {
    let latch = latches.latch(prefix, id).unwrap();
    latch.init(count, HOUR).await.unwrap();
    latch
}

/// A transaction that puts this row, in the partition that its first three bytes name.
fn writes(table: &PartitionedTable, row: &str) -> Transaction {
    let mut transaction = table.at(row[..3].to_owned()).unwrap();
    transaction.put(put(row.to_owned(), "v")).unwrap();
    transaction
}

async fn is_written(table: &PartitionedTable, row: &str) -> bool {
    value(table.table(), row.to_owned()).await.is_some()
}

async fn left(latch: &Latch) -> Option<u64> {
    latch.show().await.unwrap().count
}

/// What a rejection says did not hold.
fn refused_by(outcome: Outcome) -> Vec<String> {
    match outcome {
        Outcome::Rejected(rejection) => rejection.failed.into_iter().map(|failed| failed.label).collect(),
        other => panic!("not rejected, but {other}"),
    }
}

#[tokio::test]
async fn a_latch_in_a_partition_is_one_like_others() {
    let connection = connect().await;
    let shared = &SHARED.get().await;
    let (_, latches) = client(&connection, shared).await;
    let parts = latches.latch("one", "parts").unwrap();
    assert_eq!(parts.show().await.unwrap().state, LatchState::Absent);
    parts.init(3, HOUR).await.unwrap();
    assert_eq!(
        parts.init(3, HOUR).await.unwrap_err().kind(),
        ErrorKind::LatchExists
    );
    assert_eq!(parts.count_down(1).await.unwrap().left, 2);
    assert!(parts.arrive("w").await.unwrap().counted);
    assert!(!parts.arrive("w").await.unwrap().counted);
    let info = parts.show().await.unwrap();
    assert_eq!(
        (info.key.as_str(), info.state, info.count),
        ("one#parts", LatchState::Open, Some(1))
    );
    assert_eq!((info.farms.len(), info.arrived), (0, Some(1)));
    // Another id, and another partition, are other latches.
    for (prefix, id) in [("one", "part"), ("onf", "parts")] {
        let other = latches.latch(prefix, id).unwrap();
        assert_eq!(other.show().await.unwrap().state, LatchState::Absent);
    }
    assert_eq!(parts.count_down(1).await.unwrap().left, 0);
    assert_eq!(parts.wait(PATIENCE).await.unwrap(), WaitOutcome::Reached);
    assert!(parts.delete().await.unwrap());
    assert!(!parts.delete().await.unwrap());
    parts.init(1, HOUR).await.unwrap();
    assert!(parts.arrive("w").await.unwrap().counted, "of a new latch");
}

#[tokio::test]
async fn the_result_is_written_and_the_latch_counted_down_or_neither() {
    let connection = connect().await;
    let shared = &SHARED.get().await;
    let (table, latches) = client(&connection, shared).await;
    let parts = latches.latch("two", "parts").unwrap();
    let with = async |row: &str, by: u64| {
        let mut transaction = writes(&table, row);
        transaction.count_down(&parts, by).unwrap();
        transaction.commit().await
    };
    assert_eq!(
        refused_by(with("two0", 1).await),
        ["latch two#parts has 1 to count down"]
    );
    parts.init(3, HOUR).await.unwrap();
    with("two1", 2).await.into_result().unwrap();
    assert_eq!(left(&parts).await, Some(1));
    assert_eq!(
        refused_by(with("two2", 2).await),
        ["latch two#parts has 2 to count down"]
    );
    assert_eq!(left(&parts).await, Some(1));
    with("two3", 1).await.into_result().unwrap();
    assert_eq!(parts.show().await.unwrap().state, LatchState::Reached);
    assert_eq!(
        refused_by(with("two4", 1).await),
        ["latch two#parts has 1 to count down"]
    );
    assert!(parts.delete().await.unwrap());
    refused_by(with("two5", 1).await);
    for (row, expected) in [
        ("two0", false),
        ("two1", true),
        ("two2", false),
        ("two3", true),
        ("two4", false),
        ("two5", false),
    ] {
        assert_eq!(is_written(&table, row).await, expected, "{row}");
    }
    // A condition of the transaction that does not hold lets nothing be counted.
    parts.init(1, HOUR).await.unwrap();
    let mut transaction = writes(&table, "two6");
    transaction.count_down(&parts, 1).unwrap();
    transaction
        .condition(Condition::absent("two1", "f", "q").label("nothing there"))
        .unwrap();
    assert_eq!(refused_by(transaction.commit().await), ["nothing there"]);
    assert_eq!(left(&parts).await, Some(1));
}

#[tokio::test]
async fn an_update_counts_down_and_arrives_with_what_it_writes_or_does_neither() {
    let connection = connect().await;
    let shared = &SHARED.get().await;
    let (table, latches) = client(&connection, shared).await;
    let parts = latch(&latches, "upd", "parts", 3).await;
    let write = |view: &mut UpdateView<'_>| {
        let seen = view.value("upd1", "f", "q")?.map_or(0, |value| value.len());
        view.put(Put::new("upd1").cell("f", "q", vec![b'x'; seen + 1]))?;
        Ok::<_, Error>(())
    };
    let down = async |by: u64| {
        let change =
            |view: &mut UpdateView<'_>| write(view).and_then(|()| view.count_down(&parts, by).map(drop));
        table.update("upd", change).await.map(drop)
    };
    let arrive = async |participant: &str| {
        let change =
            |view: &mut UpdateView<'_>| write(view).and_then(|()| view.arrive(&parts, participant).map(drop));
        table.update("upd", change).await.map(drop)
    };
    down(1).await.unwrap();
    arrive("w").await.unwrap();
    arrive("w").await.unwrap();
    assert_eq!(left(&parts).await, Some(1), "an arrival counts once");
    let error = down(2).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConditionNotMet);
    says(&error, &["latch upd#parts has 2 to count down"]);
    assert_eq!(left(&parts).await, Some(1));
    arrive("v").await.unwrap();
    assert_eq!(parts.show().await.unwrap().state, LatchState::Reached);
    let row = table.table().get(Get::new("upd1")).await.unwrap().unwrap();
    assert_eq!(
        row.value("f", "q").unwrap(),
        "xxxx",
        "all but the one that was refused"
    );
    // Without anything else, too.
    parts.count_up(1).await.unwrap();
    let alone = |view: &mut UpdateView<'_>| view.count_down(&parts, 1).map(drop);
    table.update("upd", alone).await.unwrap();
    assert_eq!(left(&parts).await, Some(0));

    let other = latch(&latches, "oth", "parts", 1).await;
    let misplaced = |view: &mut UpdateView<'_>| view.arrive(&other, "w").map(drop);
    let error = table.update("upd", misplaced).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OtherPartition);
}

#[tokio::test]
async fn a_participant_of_transactions_counts_once_and_the_rest_is_applied() {
    let connection = connect().await;
    let shared = &SHARED.get().await;
    let (table, latches) = client(&connection, shared).await;
    let parts = latch(&latches, "arr", "parts", 2).await;
    let with = async |row: &str, participant: &str| {
        let mut transaction = writes(&table, row);
        transaction.arrive(&parts, participant).unwrap();
        transaction.commit().await
    };
    for row in ["arr1", "arr2"] {
        with(row, "w1").await.into_result().unwrap();
        assert!(is_written(&table, row).await);
        assert_eq!(left(&parts).await, Some(1));
    }
    // It counts alone as in transactions.
    assert!(!parts.arrive("w1").await.unwrap().counted);
    assert!(parts.arrive("w2").await.unwrap().counted);
    with("arr3", "w2").await.into_result().unwrap();
    assert_eq!(
        refused_by(with("arr4", "w3").await),
        ["latch arr#parts open, or w3 arrived"]
    );
    assert!(!is_written(&table, "arr4").await);
    assert_eq!(parts.show().await.unwrap().arrived, Some(2));
    assert!(parts.delete().await.unwrap());
    refused_by(with("arr5", "w1").await);
}

#[tokio::test]
async fn many_that_write_and_count_down_are_all_counted_and_waiters_find_all_results() {
    const MANY: usize = 24;
    let connection = connect().await;
    let shared = &SHARED.get().await;
    let (table, latches) = client(&connection, shared).await;
    let (other_table, other_latches) = client(&connection, shared).await;
    let parts = latch(&latches, "mny", "parts", MANY as u64).await;
    let theirs = other_latches.latch("mny", "parts").unwrap();
    let waiting = {
        let (theirs, table) = (theirs.clone(), table.clone());
        tokio::spawn(async move {
            assert_eq!(theirs.wait(PATIENCE).await.unwrap(), WaitOutcome::Reached);
            for number in 0..MANY {
                assert!(is_written(&table, &format!("mny{number}")).await, "{number}");
            }
        })
    };
    let commits = (0..MANY).map(|number| {
        let (table, latch) = match number % 2 {
            0 => (&table, &parts),
            _ => (&other_table, &theirs),
        };
        let mut transaction = writes(table, &format!("mny{number}"));
        if number % 3 == 0 {
            transaction.count_down(latch, 1).unwrap();
        } else {
            transaction.arrive(latch, &format!("w{number}")).unwrap();
        }
        transaction.commit()
    });
    for outcome in within(PATIENCE, join_all(commits)).await {
        outcome.into_result().unwrap();
    }
    within(PATIENCE, waiting).await.unwrap();
    assert_eq!(left(&parts).await, Some(0));
}

#[tokio::test]
async fn a_transaction_with_an_id_counts_once_and_an_id_stands_for_what_is_counted() {
    let connection = connect().await;
    let shared = &SHARED.get().await;
    let (table, latches) = client(&connection, shared).await;
    let parts = latch(&latches, "ids", "parts", 3).await;
    let commit = async |count: &dyn Fn(&mut Transaction)| {
        let mut transaction = writes(&table, "ids1");
        transaction.id(TransactionId::new("request-1").unwrap());
        count(&mut transaction);
        transaction.commit().await
    };
    let by_one = |transaction: &mut Transaction| {
        transaction.count_down(&parts, 1).unwrap();
    };
    for replayed in [false, true, true] {
        assert_eq!(commit(&by_one).await.into_result().unwrap().replayed, replayed);
        assert_eq!(left(&parts).await, Some(2));
    }
    let by_two = |transaction: &mut Transaction| {
        transaction.count_down(&parts, 2).unwrap();
    };
    let arrives = |transaction: &mut Transaction| {
        transaction.arrive(&parts, "w").unwrap();
    };
    for other in [commit(&by_two).await, commit(&arrives).await] {
        assert_eq!(other.into_result().unwrap_err().kind(), ErrorKind::IdReused);
    }
    assert_eq!(left(&parts).await, Some(2));
    // Replayed whatever became of the latch.
    assert!(parts.delete().await.unwrap());
    assert!(commit(&by_one).await.into_result().unwrap().replayed);
}

#[tokio::test]
async fn a_latch_that_has_expired_refuses_the_transaction() {
    let connection = connect().await;
    let shared = &SHARED.get().await;
    let (table, latches) = client(&connection, shared).await;
    let parts = latches.latch("exp", "parts").unwrap();
    parts.init(10, Duration::from_millis(1_500)).await.unwrap();
    let mut transaction = writes(&table, "exp1");
    transaction.arrive(&parts, "w1").unwrap();
    transaction.commit().await.into_result().unwrap();
    assert_eq!(parts.wait(PATIENCE).await.unwrap(), WaitOutcome::Expired);
    for participant in ["w1", "w2"] {
        let mut transaction = writes(&table, "exp2");
        transaction.arrive(&parts, participant).unwrap();
        refused_by(transaction.commit().await);
    }
    assert!(!is_written(&table, "exp2").await);
}

#[tokio::test]
async fn lost_answers_are_unknown_or_found_out_and_count_once() {
    let proxy = Proxy::new();
    let connection = connect_by(proxy.clone(), standalone().config()).await;
    let shared = &SHARED.get().await;
    let (table, latches) = client(&connection, shared).await;
    let parts = latch(&latches, "los", "parts", 100).await;
    // The first transactions of a client try what the server can do, by calls of their own.
    let mut first = table.at("los").unwrap();
    first.recorded();
    first.condition(Condition::absent("losx", "f", "q")).unwrap();
    first.commit().await.into_result().unwrap();

    let mut expected = 100;
    // Recorded, it is sent again, and is applied once.
    for (number, action) in [
        Action::Duplicate,
        Action::CutBeforeRequest,
        Action::CutInRequest,
        Action::CutAfterRequest,
    ]
    .into_iter()
    .enumerate()
    {
        let row = format!("losr{number}");
        let mut transaction = writes(&table, &row);
        transaction.recorded().count_down(&parts, 1).unwrap();
        proxy.once(COMMIT, action);
        transaction.commit().await.into_result().unwrap();
        expected -= 1;
        assert_eq!(left(&parts).await, Some(expected), "{action:?}");
        assert!(is_written(&table, &row).await);
    }

    for (action, applied) in [(Action::DropAnswer, true), (Action::DropRequest, false)] {
        // As long as nothing gets through nobody knows, and then it is settled.
        let table = table.clone().with_operation_timeout(SOON);
        for recorded in [false, true] {
            let row = format!("los{recorded}{applied}");
            let mut transaction = writes(&table, &row);
            if recorded {
                transaction.recorded();
            }
            transaction.count_down(&parts, 1).unwrap();
            proxy.rule(move |request| match request.method == COMMIT {
                true => action,
                false => Action::Pass,
            });
            let outcome = transaction.commit().await;
            proxy.pass_all();
            let Outcome::Unknown(unsettled) = outcome else {
                panic!("{row}: {outcome}");
            };
            if recorded {
                let settled = unsettled.settle().await.unwrap();
                assert_eq!(settled == Settled::Committed, applied, "{row}");
            }
            expected -= u64::from(applied);
            assert_eq!(left(&parts).await, Some(expected), "{row}");
            assert_eq!(is_written(&table, &row).await, applied, "{row}");
        }
    }
}

#[tokio::test]
async fn a_commit_that_arrives_late_does_not_count_on_what_has_changed_since() {
    let proxy = Proxy::new();
    let connection = connect_by(proxy.clone(), standalone().config()).await;
    let shared = &SHARED.get().await;
    let (table, latches) = client(&connection, shared).await;
    let parts = latch(&latches, "lat", "parts", 5).await;
    let mut first = table.at("lat").unwrap();
    first.condition(Condition::absent("latx", "f", "q")).unwrap();
    first.commit().await.into_result().unwrap();
    let table = table.with_operation_timeout(SOON);
    let mut transaction = writes(&table, "lat1");
    transaction.count_down(&parts, 1).unwrap();
    proxy.once(COMMIT, Action::Hold);
    let outcome = transaction.commit().await;
    assert!(matches!(outcome, Outcome::Unknown(_)), "{outcome}");
    assert_eq!(parts.count_down(1).await.unwrap().left, 4);
    assert_eq!(proxy.release().await, 1);
    // Whatever the server does with it, it does not count, and then it does not write either.
    let mut behind = writes(&table, "lat2");
    behind.count_down(&parts, 1).unwrap();
    behind.commit().await.into_result().unwrap();
    eventually("the late commit is through", async || {
        (left(&parts).await == Some(3)).then_some(())
    })
    .await;
    assert!(!is_written(&table, "lat1").await);
}

#[tokio::test]
async fn latches_that_the_server_of_the_transaction_can_t_change_are_refused() {
    let connection = connect().await;
    let shared = &SHARED.get().await;
    let (table, latches) = client(&connection, shared).await;
    let mut transaction = writes(&table, "bad1");
    let elsewhere = latches.latch("bae", "l").unwrap();
    let error = transaction.count_down(&elsewhere, 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OtherPartition, "{error}");
    let error = transaction.arrive(&elsewhere, "w").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OtherPartition, "{error}");

    let other = TestTable::create("other-latches", with_latches, &[]).await;
    let (_, others) = client(&connection, &other).await;
    let error = transaction
        .count_down(&others.latch("bad", "l").unwrap(), 1)
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    says(&error, &["latch bad#l", "lives in table", "PartitionLatches"]);
    let latch_table = latch_table(&connection, "not-in-partitions", 1, true).await;
    let manager = latch_manager(&connection, &latch_table.name, "c", "f").await;
    let error = transaction
        .arrive(&manager.latch(Level::Dc, "l").unwrap(), "w")
        .unwrap_err();
    says(&error, &["latch c_l", "table of latches", "PartitionLatches"]);

    let here = latches.latch("bad", "l").unwrap();
    let invalid = [
        transaction.count_down(&here, 0).unwrap_err(),
        transaction.count_down(&here, u64::MAX).unwrap_err(),
        transaction.arrive(&here, "").unwrap_err(),
        transaction.arrive(&here, &"w".repeat(257)).unwrap_err(),
        latches.latch("ba", "l").unwrap_err(),
        latches.latch("bad", "").unwrap_err(),
        latches.latch("bad", &"l".repeat(32_760)).unwrap_err(),
    ];
    for error in invalid {
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    }
    transaction.count_down(&here, 1).unwrap();
    let twice = transaction.arrive(&here, "w").unwrap_err();
    says(
        &twice,
        &["latch bad#l", "twice in one transaction: count down by 1"],
    );
    // It is as it was before what was refused.
    refused_by(transaction.commit().await);

    let without = TestTable::create("without-latches", by_three, &[]).await;
    let error = PartitionLatches::open(&without.open(&connection).await)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::FamilyNotFound);
    says(&error, &["no family _lock", "latches", "--lock-family"]);
}
