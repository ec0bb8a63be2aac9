//! Snapshots of many calls, while the rows change and their region moves between servers, is
//! flushed and split.

use std::{
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    time::Duration,
};

use hbase_txn::{PartitionedTable, SnapshotOptions, client::Put};

use crate::{
    cluster::{FAMILY, PATIENCE, QUALIFIER, TestCluster, create_table, drop_table, until},
    regions::Shuffler,
    settings::Settings,
};

const ROWS: usize = 400;
const DEADLINE: Duration = Duration::from_secs(60);

/// Writes one new value into all rows.
async fn write_all(table: &PartitionedTable, value: usize) {
    let mut transaction = table.transaction("mmm");
    for row in 0..ROWS {
        let put = Put::new(format!("mmm{row:03}")).cell(FAMILY, QUALIFIER, value.to_string());
        transaction = transaction.put(put);
    }
    let outcome = transaction.commit().await;
    assert!(outcome.is_committed(), "{outcome}");
}

/// Reads the rows in forty calls, and asserts that all have one value.
async fn read_all(table: &PartitionedTable) {
    let ten_a_call = SnapshotOptions::new().caching(10);
    let snapshot = table.snapshot_with("mmm", ten_a_call).await.unwrap();
    assert_eq!(snapshot.len(), ROWS, "a short snapshot");
    let first = snapshot.rows()[0].value(FAMILY, QUALIFIER);
    for row in &snapshot {
        assert_eq!(row.value(FAMILY, QUALIFIER), first, "a torn snapshot: {row:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn snapshot_is_whole_while_its_region_moves_and_splits() {
    const TEST: &str = "snapshots";
    let cluster = TestCluster::take().await;
    let settings = Settings::of(TEST);
    let connection = cluster.connect().await;
    let table = create_table(&connection, &settings, TEST, &[]).await.unwrap();
    let table = table.with_operation_timeout(DEADLINE);
    write_all(&table, 0).await;
    let (done, snapshots) = (AtomicBool::new(false), AtomicUsize::new(0));
    let writer = async {
        for number in 1.. {
            if done.load(Ordering::Relaxed) {
                break;
            }
            write_all(&table, number).await;
        }
    };
    let reader_connection = cluster.connect().await;
    let reader = async {
        let table = PartitionedTable::open(&reader_connection, table.name().clone());
        let table = table.await.unwrap().with_operation_timeout(DEADLINE);
        while !done.load(Ordering::Relaxed) {
            read_all(&table).await;
            snapshots.fetch_add(1, Ordering::Relaxed);
        }
    };
    let shuffler_connection = cluster.connect().await;
    let mut shuffler = Shuffler::new(&shuffler_connection, table.name(), settings.rng(1));
    let changes = async {
        let further = async |count: usize| {
            let goal = snapshots.load(Ordering::Relaxed) + count;
            until("further snapshots", PATIENCE, async || {
                (snapshots.load(Ordering::Relaxed) >= goal).then_some(())
            })
            .await;
        };
        for round in 0..3 * settings.rounds {
            shuffler.move_one().await;
            further(3).await;
            // One boundary before the partition, and one after it; there can't be more.
            if let Some(row) = ["mmm", "nnn"].get(round as usize) {
                shuffler.split_at(row, PATIENCE).await;
                further(3).await;
            }
        }
        done.store(true, Ordering::Relaxed);
    };
    tokio::join!(writer, reader, changes);
    println!(
        "{TEST}: {} snapshots, {:?}",
        snapshots.into_inner(),
        shuffler.done
    );
    assert!(
        shuffler.done.moved > 0 && shuffler.done.split > 0,
        "{:?}",
        shuffler.done
    );
    drop_table(&connection, &table).await;
    connection.close().await;
}
