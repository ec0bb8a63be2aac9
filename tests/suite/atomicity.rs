//! Concurrent readers see all of a transaction or nothing of it.

use std::{
    env,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
};

use futures::future::join_all;
use hbase_txn::client::Scan;

use crate::support::{
    connect, put, rows,
    table::{TestTable, by_three},
};

/// The number of transactions; 2,000 if it is not set.
const COUNT: &str = "HBASE_TXN_TEST_TRANSACTIONS";
const WRITERS: usize = 16;
const READERS: usize = 2;

/// Every transaction writes its number into two rows of one partition, and all writers use the same
/// two rows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scanning_reader_never_sees_half_of_a_transaction() {
    let table = TestTable::create("atomicity", by_three, &[]).await;
    let connection = connect().await;
    let opened = table.open(&connection).await;
    let count = env::var(COUNT).map_or(2_000, |count| count.parse().unwrap());
    let next = AtomicUsize::new(0);
    let done = AtomicBool::new(false);
    let writer = async || {
        loop {
            let number = next.fetch_add(1, Ordering::SeqCst);
            if number >= count {
                return;
            }
            let mut transaction = opened.transaction("xxx");
            for row in ["xxxa", "xxxb"] {
                transaction = transaction.put(put(row, number.to_string()));
            }
            let outcome = transaction.commit().await;
            assert!(outcome.is_committed(), "{outcome}");
        }
    };
    let reader = async || {
        // On its own connection, so that its scans are not in step with the writers.
        let table = table.of(&connect().await);
        let (mut scans, mut states) = (0, std::collections::HashSet::new());
        while !done.load(Ordering::SeqCst) {
            let found = rows(&table, Scan::prefix("xxx")).await;
            let values: Vec<_> = found.iter().map(|row| row.value("f", "q").unwrap()).collect();
            match values[..] {
                // Nothing is committed yet. Once a scan has found a state, every later scan finds
                // one.
                [] if states.is_empty() => {}
                [a, b] => {
                    assert_eq!(a, b, "half of a transaction");
                    states.insert(a.clone());
                }
                _ => panic!("half of a transaction: {values:?}"),
            }
            scans += 1;
        }
        (scans, states.len())
    };
    let writers = async {
        join_all((0..WRITERS).map(|_| writer())).await;
        done.store(true, Ordering::SeqCst);
    };
    let (readers, ()) = tokio::join!(join_all((0..READERS).map(|_| reader())), writers);
    for (scans, states) in readers {
        // A reader that saw few states would prove little.
        assert!(scans >= 100 && states >= 50, "{scans} scans saw {states} states");
    }
}

/// The same with rows that are put and deleted: both rows exist, or neither.
#[tokio::test]
async fn rows_that_are_put_and_deleted_together_come_and_go_together() {
    let table = TestTable::create("comeandgo", by_three, &[]).await;
    let connection = connect().await;
    let opened = table.open(&connection).await;
    let done = AtomicBool::new(false);
    let writer = async {
        for number in 0..400_u64 {
            let mut transaction = opened.transaction("xxx");
            for row in ["xxxa", "xxxm", "xxxz"] {
                // Ascending timestamps: within one millisecond a delete would hide the later put.
                transaction = match number % 2 {
                    0 => transaction.put(put(row, "v").timestamp(number + 1)),
                    _ => transaction.delete(hbase_txn::client::Delete::new(row).timestamp(number + 1)),
                };
            }
            assert!(transaction.commit().await.is_committed());
        }
        done.store(true, Ordering::SeqCst);
    };
    let reader = async {
        let table = table.of(&connect().await);
        let mut seen = [0; 4];
        while !done.load(Ordering::SeqCst) {
            seen[rows(&table, Scan::prefix("xxx")).await.len()] += 1;
        }
        seen
    };
    let (seen, ()) = tokio::join!(reader, writer);
    assert_eq!((seen[1], seen[2]), (0, 0), "{seen:?}");
    assert!(seen[0] > 0 && seen[3] > 0, "{seen:?}");
}
