//! A snapshot shows a partition at one moment, whatever changes meanwhile, or it fails.

use std::{
    collections::HashSet,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    time::Duration,
};

use hbase_txn::{
    ClientErrorKind, ErrorKind, OpenOptions, PartitionRule, PartitionedTable, SnapshotOptions,
    TableDescriptorExt,
    admin::Admin,
    client::{Config, Connection, Put},
};
use rstest::rstest;

use crate::support::{
    connect, key, put, says, standalone,
    table::{SharedTable, TestTable, by_three, by_three_of_old, ruled},
    within,
};

const ROWS: usize = 400;

static SHARED: SharedTable = SharedTable::new("snapshots", by_three, &["m"]);

async fn write_all(table: &PartitionedTable, value: usize) {
    let mut transaction = table.transaction("xxx");
    for row in 0..ROWS {
        transaction = transaction.put(put(format!("xxx{row:03}"), value.to_string()));
    }
    let outcome = transaction.commit().await;
    assert!(outcome.is_committed(), "{outcome}");
}

/// Reopens the table's regions, which flushes them. Versions that only an older reader needs are
/// gone then.
async fn reopen(table: &TestTable, connection: &Connection, round: usize) {
    let admin = Admin::new(connection);
    let descriptor = admin.descriptor(&table.name).await.unwrap();
    let descriptor = descriptor.with_attribute("MAX_FILESIZE", (10_737_418_240 + round).to_string());
    admin.modify_table(&descriptor).await.unwrap();
}

/// Each transaction gives all rows one new value. A snapshot of forty calls must have all rows, all
/// with the same value.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn snapshot_is_whole_while_its_rows_and_region_change() {
    let table = TestTable::create("snapshot", by_three, &[]).await;
    let connection = connect().await;
    let opened = table.open(&connection).await;
    write_all(&opened, 0).await;
    let (done, snapshots) = (AtomicBool::new(false), AtomicUsize::new(0));
    let writer = async {
        let mut number = 1;
        while !done.load(Ordering::SeqCst) {
            write_all(&opened, number).await;
            number += 1;
        }
    };
    let reader = async {
        let connection = connect().await;
        let opened = table.open(&connection).await;
        let mut states = HashSet::new();
        while !done.load(Ordering::SeqCst) {
            let options = SnapshotOptions::new().caching(10);
            let snapshot = opened.snapshot_with("xxx", options).await.unwrap();
            let values: HashSet<_> = snapshot
                .rows()
                .iter()
                .map(|row| row.value("f", "q").unwrap().clone())
                .collect();
            assert_eq!((snapshot.len(), values.len()), (ROWS, 1), "{values:?}");
            states.extend(values);
            snapshots.fetch_add(1, Ordering::SeqCst);
        }
        states.len()
    };
    let more_snapshots = async |count| {
        let goal = snapshots.load(Ordering::SeqCst) + count;
        while snapshots.load(Ordering::SeqCst) < goal {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let changes = async {
        let connection = connect().await;
        for round in 0..8 {
            more_snapshots(3).await;
            match round {
                3 => table.split_at(&connection, "yyy").await,
                5 => table.split_at(&connection, "xxx").await,
                _ => reopen(&table, &connection, round).await,
            }
        }
        more_snapshots(3).await;
        done.store(true, Ordering::SeqCst);
    };
    let all = async { tokio::join!(writer, reader, changes).1 };
    let states = within(Duration::from_secs(120), all).await;
    assert!(states >= 10, "the snapshots saw {states} states only");
}

#[tokio::test]
async fn a_snapshot_has_the_rows_of_its_partition_and_of_no_other() {
    let shared = SHARED.get().await;
    let connection = connect().await;
    let table = shared.open(&connection).await;
    for row in ["aab9", "aac", "aac1", "aac2", "aac\u{7f}", "aad", "aa"] {
        table.table().put(put(row, "v")).await.unwrap();
    }
    let keys = async |prefix: &'static str, options: SnapshotOptions| {
        let snapshot = table.snapshot_with(prefix, options).await.unwrap();
        assert_eq!(snapshot.partition().prefix(), prefix);
        (&snapshot).into_iter().map(key).collect::<Vec<_>>()
    };
    let all = SnapshotOptions::new;
    assert_eq!(keys("aac", all()).await, ["aac", "aac1", "aac2", "aac\u{7f}"]);
    assert_eq!(
        keys("aac", all().start_row("aac1").stop_row("aac2")).await,
        ["aac1"]
    );
    assert_eq!(
        keys("aac", all().start_row("aab").stop_row("aac1")).await,
        ["aac"]
    );
    assert_eq!(
        keys("aac", all().start_row("aac2").stop_row("aac1")).await,
        [""; 0]
    );
    // A row that is shorter than the prefix is its own partition.
    assert_eq!(keys("aa", all()).await, ["aa"]);
    assert_eq!(keys("ac", all()).await, [""; 0]);
    assert_eq!(keys("ace", all()).await, [""; 0]);
}

#[tokio::test]
async fn a_snapshot_hides_what_the_toolkit_keeps_for_itself() {
    let rule = PartitionRule::delimiter("/").unwrap();
    let descriptor = |name| ruled(name, &rule).with_record_family().with_partition_version();
    let owned = TestTable::create("hidden", descriptor, &[]).await;
    let connection = connect().await;
    let table = owned.open(&connection).await;
    let rows = [
        Put::new("a/1").cell("f", "q", "v"),
        Put::new("a/1").cell("_txn", "r", "record"),
        Put::new("a/2").cell("_version", "v", "version"),
        Put::new("a").cell("f", "q", "a row of its own"),
    ];
    for row in rows {
        table.table().put(row).await.unwrap();
    }
    let snapshot = table.snapshot("a").await.unwrap();
    assert_eq!(snapshot.rows().iter().map(key).collect::<Vec<_>>(), ["a/1"]);
    assert_eq!(snapshot.rows()[0].cells().len(), 1);
    assert_eq!(snapshot.value("a/1", "f", "q").unwrap(), "v");
    assert_eq!(snapshot.value("a/1", "_txn", "r"), None);
}

#[rstest]
#[case::rows(SnapshotOptions::new().max_rows(19), "more than 19 rows", "raise max_rows")]
#[case::no_rows(SnapshotOptions::new().max_rows(0), "more than 0 rows", "raise max_rows")]
#[case::bytes(SnapshotOptions::new().max_bytes(20 * 1_008), "more than 20160 bytes", "raise max_bytes")]
#[case::bytes_in_small_calls(SnapshotOptions::new().max_bytes(20 * 1_008).caching(1), "20160 bytes", "max_bytes")]
#[tokio::test]
async fn a_snapshot_beyond_its_bounds_is_refused_not_cut_short(
    #[case] options: SnapshotOptions,
    #[case] what: &str,
    #[case] hint: &str,
) {
    let shared = SHARED.get().await;
    let connection = connect().await;
    let table = shared.open(&connection).await;
    for row in 0..20 {
        let put = put(format!("bnd{row:04}"), vec![b'v'; 1_000]);
        table.table().put(put).await.unwrap();
    }
    let error = table.snapshot_with("bnd", options).await.unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::LimitExceeded);
    says(&error, &["snapshot, table", "partition bnd", what, hint]);
    let enough = SnapshotOptions::new().max_rows(20).max_bytes(20 * 1_009);
    assert_eq!(table.snapshot_with("bnd", enough).await.unwrap().len(), 20);
}

/// A snapshot contains whole rows. Of a row that exceeds the limit, the client fetches no more than
/// it takes to notice.
#[tokio::test]
async fn too_large_row_is_refused_before_it_is_fetched_whole() {
    let owned = TestTable::create("bigrow", by_three, &[]).await;
    let connection = connect().await;
    let table = owned.open(&connection).await;
    for cell in 0..30_u8 {
        let put = Put::new("bigrow").cell("f", vec![cell], vec![cell; 500 << 10]);
        table.table().put(put).await.unwrap();
    }
    let options = SnapshotOptions::new().max_bytes(5 << 20);
    let error = table.snapshot_with("big", options).await.unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::LimitExceeded);
    assert_eq!(table.snapshot("big").await.unwrap().rows()[0].cells().len(), 30);
}

#[tokio::test]
async fn a_partition_in_two_regions_has_no_snapshot() {
    let owned = TestTable::create("cutsnap", by_three_of_old, &["xxxm"]).await;
    let connection = connect().await;
    let table = owned
        .open_with(&connection, OpenOptions::new().allow_cut_partitions())
        .await;
    let error = table.snapshot("xxx").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PartitionCut);
    says(&error, &["partition xxx is cut in two", "merge its regions"]);
    assert!(table.snapshot("xxy").await.unwrap().is_empty());
    // A client with a region cache from before the merge looks the regions up again.
    owned.merge_both(&connect().await).await;
    assert!(table.snapshot("xxx").await.unwrap().is_empty());
}

#[rstest]
#[case("")]
#[case("xxxx")]
#[tokio::test]
async fn snapshot_of_an_invalid_prefix_is_refused(#[case] prefix: &'static str) {
    let shared = SHARED.get().await;
    let table = shared.open(&connect().await).await;
    let error = table.snapshot(prefix).await.unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::InvalidInput);
    says(&error, &["snapshot, table"]);
}

#[tokio::test]
async fn failed_snapshot_ends_within_its_deadline_with_a_reason() {
    let owned = TestTable::create("late", by_three, &[]).await;
    let limit = Duration::from_secs(2);
    let config: Config = standalone().config();
    let connection = Connection::builder(config).connect().await.unwrap();
    let table = owned.open(&connection).await.with_operation_timeout(limit);
    Admin::new(&connect().await)
        .disable_table(&owned.name)
        .await
        .unwrap();
    let error = within(limit, table.snapshot("xxx")).await.unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::TableDisabled);
    says(&error, &["snapshot, table", "partition xxx"]);
}
