//! Latches alongside the data of a partition, counted down by transactions: the result and the
//! count are written atomically.

use std::time::Duration;

use futures::future::join_all;
use hbase_txn::{
    ClientErrorKind, Error, ErrorKind, Level, Outcome, PartitionedTable, Settled, TableDescriptorExt,
    Transaction, UpdateView,
    client::{Condition, Connection, Get, Put, TableDescriptor, TableName},
    latch::{Latch, LatchState, PartitionLatches, WaitOutcome},
};

use crate::{
    proxy::{Action, Proxy},
    support::{
        connect, connect_by, eventually, invalid,
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

/// Opens the table and its latches.
async fn client(connection: &Connection, table: &TestTable) -> (PartitionedTable, PartitionLatches) {
    let table = table.open(connection).await;
    let latches = PartitionLatches::open(&table).await.unwrap();
    (table, latches)
}

/// Creates a latch with this count.
async fn latch(latches: &PartitionLatches, prefix: &'static str, id: &str, count: u64) -> Latch {
    let latch = latches.latch(prefix, id).unwrap();
    latch.init(count, HOUR).await.unwrap();
    latch
}

/// A transaction that puts this row into the partition of its first three bytes.
fn writes(table: &PartitionedTable, row: &str) -> Transaction {
    table
        .transaction(row[..3].to_owned())
        .put(put(row.to_owned(), "v"))
}

async fn is_written(table: &PartitionedTable, row: &str) -> bool {
    value(table.table(), row.to_owned()).await.is_some()
}

async fn left(latch: &Latch) -> Option<u64> {
    latch.show().await.unwrap().count
}

/// Returns the conditions that did not hold.
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
    // The same id in another partition is another latch, and so is another id.
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
        let transaction = writes(&table, row).count_down(&parts, by);
        transaction.commit().await
    };
    assert_eq!(
        refused_by(with("two0", 1).await),
        ["latch two#parts has fewer than 1 to count down"]
    );
    parts.init(3, HOUR).await.unwrap();
    with("two1", 2).await.into_result().unwrap();
    assert_eq!(left(&parts).await, Some(1));
    assert_eq!(
        refused_by(with("two2", 2).await),
        ["latch two#parts has fewer than 2 to count down"]
    );
    assert_eq!(left(&parts).await, Some(1));
    with("two3", 1).await.into_result().unwrap();
    assert_eq!(parts.show().await.unwrap().state, LatchState::Reached);
    assert_eq!(
        refused_by(with("two4", 1).await),
        ["latch two#parts has fewer than 1 to count down"]
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
    // Nothing is counted if a condition of the transaction does not hold.
    parts.init(1, HOUR).await.unwrap();
    let transaction = writes(&table, "two6")
        .count_down(&parts, 1)
        .condition(Condition::absent("two1", "f", "q").label("nothing there"));
    assert_eq!(refused_by(transaction.commit().await), ["nothing there"]);
    assert_eq!(left(&parts).await, Some(1));
}

#[tokio::test]
async fn update_writes_and_counts_down_together_or_not_at_all() {
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
    says(
        &error,
        &["latch upd#parts has fewer than 2 to count down; nothing was written"],
    );
    assert_eq!(left(&parts).await, Some(1));
    arrive("v").await.unwrap();
    assert_eq!(parts.show().await.unwrap().state, LatchState::Reached);
    let row = table.table().get(Get::new("upd1")).await.unwrap().unwrap();
    assert_eq!(
        row.value("f", "q").unwrap(),
        "xxxx",
        "all but the one that was refused"
    );
    // An update may consist of a count-down alone.
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
async fn repeated_participant_counts_once_and_the_rest_is_applied() {
    let connection = connect().await;
    let shared = &SHARED.get().await;
    let (table, latches) = client(&connection, shared).await;
    let parts = latch(&latches, "arr", "parts", 2).await;
    let with = async |row: &str, participant: &str| {
        let transaction = writes(&table, row).arrive(&parts, participant);
        transaction.commit().await
    };
    for row in ["arr1", "arr2"] {
        with(row, "w1").await.into_result().unwrap();
        assert!(is_written(&table, row).await);
        assert_eq!(left(&parts).await, Some(1));
    }
    // Arrivals outside transactions share the participants with those in transactions.
    assert!(!parts.arrive("w1").await.unwrap().counted);
    assert!(parts.arrive("w2").await.unwrap().counted);
    with("arr3", "w2").await.into_result().unwrap();
    assert_eq!(
        refused_by(with("arr4", "w3").await),
        ["latch arr#parts is not open for the arrival of w3"]
    );
    assert!(!is_written(&table, "arr4").await);
    assert_eq!(parts.show().await.unwrap().arrived, Some(2));
    assert!(parts.delete().await.unwrap());
    refused_by(with("arr5", "w1").await);
}

#[tokio::test]
async fn concurrent_count_downs_all_count_and_waiters_see_results() {
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
            transaction = transaction.count_down(latch, 1);
        } else {
            transaction = transaction.arrive(latch, &format!("w{number}"));
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
async fn transaction_with_an_id_counts_once_for_its_latch() {
    let connection = connect().await;
    let shared = &SHARED.get().await;
    let (table, latches) = client(&connection, shared).await;
    let parts = latch(&latches, "ids", "parts", 3).await;
    let commit = async |count: &dyn Fn(Transaction) -> Transaction| {
        count(writes(&table, "ids1").id("request-1")).commit().await
    };
    let by_one = |transaction: Transaction| transaction.count_down(&parts, 1);
    for replayed in [false, true, true] {
        assert_eq!(commit(&by_one).await.into_result().unwrap().replayed, replayed);
        assert_eq!(left(&parts).await, Some(2));
    }
    let by_two = |transaction: Transaction| transaction.count_down(&parts, 2);
    let arrives = |transaction: Transaction| transaction.arrive(&parts, "w");
    for other in [commit(&by_two).await, commit(&arrives).await] {
        assert_eq!(other.into_result().unwrap_err().kind(), ErrorKind::IdReused);
    }
    assert_eq!(left(&parts).await, Some(2));
    // The commit is replayed even though the latch is gone.
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
    let transaction = writes(&table, "exp1").arrive(&parts, "w1");
    transaction.commit().await.into_result().unwrap();
    assert_eq!(parts.wait(PATIENCE).await.unwrap(), WaitOutcome::Expired);
    for participant in ["w1", "w2"] {
        let transaction = writes(&table, "exp2").arrive(&parts, participant);
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
    // A client's first transactions prove the server's abilities, with calls of their own.
    let first = table
        .transaction("los")
        .recorded()
        .condition(Condition::absent("losx", "f", "q"));
    first.commit().await.into_result().unwrap();

    let mut expected = 100;
    // A recorded transaction is sent again and applied once.
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
        let transaction = writes(&table, &row).recorded().count_down(&parts, 1);
        proxy.once(COMMIT, action);
        transaction.commit().await.into_result().unwrap();
        expected -= 1;
        assert_eq!(left(&parts).await, Some(expected), "{action:?}");
        assert!(is_written(&table, &row).await);
    }

    for (action, applied) in [(Action::DropAnswer, true), (Action::DropRequest, false)] {
        // The outcome is unknown while nothing gets through, and can be settled afterwards.
        let table = table.clone().with_operation_timeout(SOON);
        for recorded in [false, true] {
            let row = format!("los{recorded}{applied}");
            let mut transaction = writes(&table, &row);
            if recorded {
                transaction = transaction.recorded();
            }
            transaction = transaction.count_down(&parts, 1);
            proxy.rule(move |request| {
                if request.method == COMMIT {
                    action
                } else {
                    Action::Pass
                }
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
async fn late_commit_does_not_count_on_a_changed_latch() {
    let proxy = Proxy::new();
    let connection = connect_by(proxy.clone(), standalone().config()).await;
    let shared = &SHARED.get().await;
    let (table, latches) = client(&connection, shared).await;
    let parts = latch(&latches, "lat", "parts", 5).await;
    let first = table
        .transaction("lat")
        .condition(Condition::absent("latx", "f", "q"));
    first.commit().await.into_result().unwrap();
    let table = table.with_operation_timeout(SOON);
    let transaction = writes(&table, "lat1").count_down(&parts, 1);
    proxy.once(COMMIT, Action::Hold);
    let outcome = transaction.commit().await;
    assert!(matches!(outcome, Outcome::Unknown(_)), "{outcome}");
    assert_eq!(parts.count_down(1).await.unwrap().left, 4);
    assert_eq!(proxy.release().await, 1);
    // When the held request arrives, it must not count, and so must not write either.
    let behind = writes(&table, "lat2").count_down(&parts, 1);
    behind.commit().await.into_result().unwrap();
    eventually("the late commit is through", async || {
        (left(&parts).await == Some(3)).then_some(())
    })
    .await;
    assert!(!is_written(&table, "lat1").await);
}

#[tokio::test]
async fn latches_out_of_the_servers_reach_are_refused() {
    let connection = connect().await;
    let shared = &SHARED.get().await;
    let (table, latches) = client(&connection, shared).await;
    let begin = || writes(&table, "bad1");
    let elsewhere = latches.latch("bae", "l").unwrap();
    let error = invalid(begin().count_down(&elsewhere, 1)).await;
    assert_eq!(error.kind(), ErrorKind::OtherPartition, "{error}");
    let error = invalid(begin().arrive(&elsewhere, "w")).await;
    assert_eq!(error.kind(), ErrorKind::OtherPartition, "{error}");

    let other = TestTable::create("other-latches", with_latches, &[]).await;
    let (_, others) = client(&connection, &other).await;
    let error = invalid(begin().count_down(&others.latch("bad", "l").unwrap(), 1)).await;
    assert_eq!(error.kind(), ClientErrorKind::InvalidInput);
    says(&error, &["latch bad#l", "is in table", "PartitionLatches"]);
    let latch_table = latch_table(&connection, "not-in-partitions", 1, true).await;
    let manager = latch_manager(&connection, &latch_table.name, "c", "f").await;
    let error = invalid(begin().arrive(&manager.latch(Level::Dc, "l").unwrap(), "w")).await;
    says(&error, &["latch c_l", "latch table", "PartitionLatches"]);

    let here = latches.latch("bad", "l").unwrap();
    let refused = [
        invalid(begin().count_down(&here, 0)).await,
        invalid(begin().count_down(&here, u64::MAX)).await,
        invalid(begin().arrive(&here, "")).await,
        invalid(begin().arrive(&here, &"w".repeat(257))).await,
        latches.latch("ba", "l").unwrap_err(),
        latches.latch("bad", "").unwrap_err(),
        latches.latch("bad", &"l".repeat(32_760)).unwrap_err(),
    ];
    for error in refused {
        assert_eq!(error.kind(), ClientErrorKind::InvalidInput, "{error}");
    }
    let twice = invalid(begin().count_down(&here, 1).arrive(&here, "w")).await;
    says(
        &twice,
        &[
            "operation 3: latch bad#l",
            "twice in one transaction: count down by 1",
        ],
    );
    // There is no such latch.
    refused_by(begin().count_down(&here, 1).commit().await);

    let without = TestTable::create("without-latches", by_three, &[]).await;
    let error = PartitionLatches::open(&without.open(&connection).await)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::FamilyNotFound);
    says(&error, &["no family _lock", "latches", "add the family"]);
}
