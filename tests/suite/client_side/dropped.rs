//! Futures that are dropped at each of their wait points: nothing is lost or half done, and the
//! client keeps working.

use std::{
    future::poll_fn,
    pin::pin,
    task::{Context, Poll},
};

use hbase_txn::{
    Outcome, PartitionedTable, Recorded, Settled, Transaction, TransactionId,
    client::{Connection, Get, Increment, Scan},
};

use crate::support::{
    collect, connect, key, keys, put,
    table::{SharedTable, by_three, recorded},
    value,
};

static TABLE: SharedTable = SharedTable::new("dropped", by_three, &["m"]);
static RECORDED: SharedTable = SharedTable::new("dropped_records", recorded, &["m"]);
/// More than the number of wait points of any call.
const WAITS: usize = 200;

/// Polls a future this many times, and drops it if it is still pending.
pub(crate) async fn polled<F: Future>(future: F, times: usize) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut left = times;
    poll_fn(|cx: &mut Context<'_>| {
        let polled = future.as_mut().poll(cx);
        left -= 1;
        match polled {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// Repeats the attempt with a fresh client for each number of polls, until the future completes: by
/// then it was dropped at each of its wait points, from the first lookup and the first dial on.
pub(crate) async fn at_every_wait(mut attempt: impl AsyncFnMut(usize, Connection) -> bool) {
    for times in 1..WAITS {
        if attempt(times, connect().await).await {
            assert!(times > 1, "it never waited");
            return;
        }
    }
    panic!("not over after {WAITS} polls");
}

#[tokio::test]
async fn a_dropped_next_loses_no_row() {
    let shared = TABLE.get().await;
    let written: Vec<String> = (0..10)
        .flat_map(|row| [format!("dn{row}"), format!("zn{row}")])
        .collect();
    let table = shared.of(&connect().await);
    for row in &written {
        table.put(put(row.clone(), "v")).await.unwrap();
    }
    let mut expected = written.clone();
    expected.sort_unstable();
    let scan = || Scan::new().start_row("dn").stop_row("zo").caching(3);
    at_every_wait(async |times, connection| {
        let mut scanner = shared.of(&connection).scan(scan()).unwrap();
        let mut read = Vec::new();
        let mut whole = true;
        // Each `next` is dropped once and then called again.
        for _ in 0..expected.len() {
            match polled(scanner.next(), times).await {
                Some(row) => read.push(key(&row.unwrap().unwrap())),
                None => {
                    whole = false;
                    read.push(key(&scanner.next().await.unwrap().unwrap()));
                }
            }
        }
        read.extend(collect(scanner).await.iter().map(key));
        let mine: Vec<_> = read
            .into_iter()
            .filter(|row| row.starts_with("dn") || row.starts_with("zn"))
            .collect();
        assert_eq!(mine, expected, "dropped after {times} polls");
        whole
    })
    .await;
}

#[tokio::test]
async fn a_dropped_put_is_applied_or_not_and_the_client_still_works() {
    let shared = TABLE.get().await;
    at_every_wait(async |times, connection| {
        let table = shared.of(&connection);
        let row = format!("dp{times}");
        let done = polled(table.put(put(row.clone(), "new")), times).await;
        let found = value(&table, row.clone()).await;
        assert!(matches!(found.as_deref(), None | Some("new")), "{found:?}");
        if let Some(result) = &done {
            assert!(result.is_ok());
            assert_eq!(found.as_deref(), Some("new"));
        }
        table.put(put(format!("{row}-next"), "v")).await.unwrap();
        assert_eq!(value(&table, format!("{row}-next")).await.as_deref(), Some("v"));
        done.is_some()
    })
    .await;
}

#[tokio::test]
async fn dropped_commit_is_whole_or_absent_and_the_client_works() {
    let shared = TABLE.get().await;
    at_every_wait(async |times, connection| {
        let table = shared.open(&connection).await;
        // A client with an empty cache, so that the commit has to look everything up.
        let fresh = connect().await;
        let prefix = format!("c{times:02}");
        let rows = [format!("{prefix}a"), format!("{prefix}b")];
        let opened = shared.open(&fresh).await;
        let mut transaction = opened.transaction(prefix.clone());
        for row in &rows {
            transaction = transaction.put(put(row.clone(), "v"));
        }
        let done = polled(transaction.commit(), times).await;
        let found = keys(table.table(), Scan::prefix(prefix.clone())).await;
        assert!(found.is_empty() || found == rows, "{found:?}");
        if let Some(outcome) = &done {
            assert!(outcome.is_committed(), "{outcome}");
            assert_eq!(found, rows);
        }
        let transaction = opened.transaction("cok").put(put("cok1", "v"));
        assert!(transaction.commit().await.is_committed());
        done.is_some()
    })
    .await;
}

#[tokio::test]
async fn a_dropped_batch_leaves_each_group_whole_or_absent() {
    let shared = TABLE.get().await;
    let groups = 8;
    at_every_wait(async |times, connection| {
        let table = shared.open(&connection).await;
        let mut batch = table.batch();
        let prefixes: Vec<String> = (0..groups).map(|group| format!("{group}{times:02}")).collect();
        for prefix in &prefixes {
            for row in ["a", "b", "c"] {
                batch = batch.put(put(format!("{prefix}{row}"), "v"));
            }
        }
        let done = polled(batch.commit(), times).await;
        for prefix in &prefixes {
            let found = keys(table.table(), Scan::prefix(prefix.clone())).await;
            assert!(matches!(found.len(), 0 | 3), "{found:?}");
            assert!(done.is_none() || found.len() == 3, "{found:?}");
        }
        done.is_some()
    })
    .await;
}

/// Adds one to the partition's count, once for each id.
fn count_once(table: &PartitionedTable, prefix: &str, id: &TransactionId) -> Transaction {
    let mut transaction = table.transaction(prefix.to_owned());
    let increment = Increment::new(format!("{prefix}n")).column("f", "n", 1);
    transaction = transaction.id(id.clone()).increment(increment);
    transaction
}

async fn counted(table: &PartitionedTable, prefix: &str) -> i64 {
    let row = table.table().get(Get::new(format!("{prefix}n"))).await.unwrap();
    row.map_or(0, |row| {
        let value = row.value("f", "n").unwrap();
        i64::from_be_bytes(value[..].try_into().unwrap())
    })
}

#[tokio::test]
async fn dropped_recorded_commit_applies_once_or_never_and_settles() {
    let shared = RECORDED.get().await;
    let observer = connect().await;
    let observed = shared.open(&observer).await;
    let (mut applied, mut settled) = (Vec::new(), Vec::new());
    at_every_wait(async |times, connection| {
        let table = shared.open(&connection).await;
        let (prefix, id) = (format!("r{times:02}"), TransactionId::new("id").unwrap());
        let done = polled(count_once(&table, &prefix, &id).commit(), times).await;
        // The request may still be in flight; the settled outcome must not change.
        let told = observed.settle(prefix.clone(), &id).await.unwrap();
        let (count, recorded) = match told {
            Settled::Committed => (1, Recorded::Committed),
            _ => (0, Recorded::Aborted),
        };
        assert_eq!(
            counted(&observed, &prefix).await,
            count,
            "dropped after {times} polls"
        );
        assert_eq!(observed.outcome(prefix.clone(), &id).await.unwrap(), recorded);
        if let Some(outcome) = &done {
            assert!(outcome.is_committed(), "{outcome}");
            assert_eq!(told, Settled::Committed);
        }
        applied.push(prefix.clone());
        settled.push(count);
        // The same client commits again: the result is replayed, or the commit is applied now. A
        // client that has not seen the settlement yet can't tell whether it came first.
        let again = match count_once(&table, &prefix, &id).commit().await {
            Outcome::Aborted(_) if count == 0 => count_once(&table, &prefix, &id).commit().await,
            again => again,
        };
        let Outcome::Committed(again) = again else {
            panic!("{again}");
        };
        assert_eq!(i64::from(again.replayed), count);
        done.is_some()
    })
    .await;
    assert!(settled.contains(&0) && settled.contains(&1), "{settled:?}");
    for prefix in applied {
        assert_eq!(counted(&observed, &prefix).await, 1, "{prefix}");
    }
}

#[tokio::test]
async fn dropped_settlement_is_done_or_not_and_the_next_is_right() {
    let shared = RECORDED.get().await;
    let observer = connect().await;
    let observed = shared.open(&observer).await;
    for (letter, committed) in [("s", false), ("t", true)] {
        at_every_wait(async |times, connection| {
            let table = shared.open(&connection).await;
            let (prefix, id) = (format!("{letter}{times:02}"), TransactionId::new("id").unwrap());
            if committed {
                let outcome = count_once(&observed, &prefix, &id).commit().await;
                assert!(outcome.is_committed(), "{outcome}");
            }
            let expected = if committed {
                Settled::Committed
            } else {
                Settled::NotApplied
            };
            let done = polled(table.settle(prefix.clone(), &id), times).await;
            let settled = done.map(|settled| assert_eq!(settled.unwrap(), expected));
            let recorded = observed.outcome(prefix.clone(), &id).await.unwrap();
            match (committed, settled) {
                (true, _) => assert_eq!(recorded, Recorded::Committed),
                (false, Some(())) => assert_eq!(recorded, Recorded::Aborted),
                // The fence may still be in flight.
                (false, None) => assert_ne!(recorded, Recorded::Committed),
            }
            assert_eq!(table.settle(prefix.clone(), &id).await.unwrap(), expected);
            assert_eq!(counted(&observed, &prefix).await, i64::from(committed));
            settled.is_some()
        })
        .await;
    }
}
