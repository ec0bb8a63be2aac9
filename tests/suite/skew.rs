//! Skew of rows among partitions: the report shows the known contents of a table, through splits
//! and moves of its regions.

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use futures::StreamExt;
use hbase_provision::{Amount, NextSplit, Sampling, Skew, SkewReport};
use hbase_txn::{
    ClientErrorKind, ErrorKind,
    admin::Admin,
    client::{BytesBinary, Connection, FamilyDescriptor, Put, ReadFilter, Scan, TableName},
};

use crate::support::{
    connect, put,
    table::{TestTable, by_three, plain, recorded},
};

/// The bytes of a cell besides row, family, qualifier and value.
const CELL: u64 = 20;

/// The size of rows such as `aaa0001` with a value of this many bytes in `f:q`.
fn bytes_of(rows: u64, value: u64) -> Amount {
    Amount {
        rows,
        bytes: rows * (CELL + 7 + 2 + value),
    }
}

/// Writes this many rows of a partition, each with a value of this many bytes.
async fn fill(connection: &Connection, table: &TestTable, prefix: &str, rows: u64, value: usize) {
    let table = table.open(connection).await;
    let numbers: Vec<u64> = (0..rows).collect();
    for some in numbers.chunks(2_000) {
        let mut batch = table.batch();
        for number in some {
            batch = batch.put(Put::new(format!("{prefix}{number:04}")).cell("f", "q", vec![b'v'; value]));
        }
        for group in batch.commit().await {
            group.outcome.into_result().unwrap();
        }
    }
}

/// Measures in a spawned task, which requires a `Send` future.
async fn measure(connection: &Connection, name: &TableName) -> SkewReport {
    let skew = Skew::new(connection, name.clone()).unwrap();
    let measured = tokio::spawn(async move { skew.run(|_| {}).await });
    measured.await.unwrap().unwrap()
}

/// `prefix=rows/bytes`, the largest first.
fn largest(report: &SkewReport) -> Vec<(String, Amount)> {
    let sizes = report.largest.iter();
    sizes
        .map(|size| (size.partition.to_string(), size.users))
        .collect()
}

#[tokio::test]
async fn a_scan_tells_the_lengths_of_values_in_their_place() {
    let connection = connect().await;
    let lengths = TestTable::create("lengths", plain, &[]).await;
    let table = lengths.of(&connection);
    for (row, length) in [("empty", 0), ("short", 3), ("long", 70_000)] {
        let value = vec![b'v'; length];
        table.put(Put::new(row).cell("f", "q", value)).await.unwrap();
    }
    let mut rows = table
        .scan(Scan::new().filter(ReadFilter::value_lengths()))
        .unwrap();
    let mut lengths = Vec::new();
    while let Some(row) = rows.next().await.unwrap() {
        let value = &row.cells()[0].value;
        lengths.push(u32::from_be_bytes(value[..].try_into().unwrap()));
    }
    assert_eq!(lengths, [0, 70_000, 3]);
}

#[tokio::test]
async fn known_sizes_come_out_exactly() {
    let connection = connect().await;
    let table = TestTable::create("skew", by_three, &["bbb", "mmm"]).await;
    for (prefix, rows, value) in [("aaa", 100, 10), ("bbb", 300, 50), ("ccc", 10, 0), ("ccd", 10, 1)] {
        fill(&connection, &table, prefix, rows, value).await;
    }
    // A row that is too short for the rule.
    table.of(&connection).put(put("zz", "v")).await.unwrap();
    let progress = AtomicU64::new(0);
    let report = Skew::new(&connection, table.name.clone())
        .unwrap()
        .largest(3)
        .run(|now| progress.store(now.rows + now.regions_done as u64, Ordering::Relaxed))
        .await
        .unwrap();
    assert_eq!(progress.into_inner(), 421 + 3);
    let expected = [("bbb", 300, 50), ("aaa", 100, 10), ("ccd", 10, 1)];
    let expected = expected.map(|(prefix, rows, value)| (prefix.to_owned(), bytes_of(rows, value)));
    assert_eq!(largest(&report), expected);
    assert_eq!((report.users.rows, report.partitions), (421, 5));
    assert_eq!((report.is_sampled(), report.margin_bytes), (false, 0));
    assert_eq!(report.reserved, Amount::default());
    let in_buckets: u64 = report.histogram.iter().map(|bucket| bucket.bytes).sum();
    assert_eq!(in_buckets, report.total_bytes());
    let regions: Vec<_> = report
        .regions
        .iter()
        .map(|region| (region.users.rows, region.partitions, region.server.is_some()))
        .collect();
    assert_eq!(regions, [(100, 1, true), (320, 3, true), (1, 1, true)]);
    let [alone, first, _] = &report.regions[..] else {
        panic!("{report:?}")
    };
    assert_eq!(
        (&alone.next_split, &alone.best_split),
        (&NextSplit::OnePartition, &None)
    );
    // The middle lies in `bbb`, and `ccc` begins after it.
    assert_eq!(first.next_split, NextSplit::FirstPartition);
    let best = first.best_split.as_ref().unwrap();
    assert_eq!(
        (&best.key[..], best.before),
        (&b"ccc"[..], bytes_of(300, 50).bytes)
    );
    assert_eq!(best.before + best.after, first.total_bytes());
}

#[tokio::test]
async fn all_versions_count_and_a_cut_partition_is_one() {
    let connection = connect().await;
    let versions = |name| {
        let family = FamilyDescriptor::new("versions").with_attribute("VERSIONS", "3");
        by_three(name).with_family(family)
    };
    let table = TestTable::create("skew_cut", versions, &["aaa5"]).await;
    let rows = table.of(&connection);
    for timestamp in 1..=3 {
        let put = Put::new("aaa0001").cell_at("versions", "q", timestamp, "12345");
        rows.put(put).await.unwrap();
    }
    rows.put(put("aaa9", "v")).await.unwrap();
    let report = measure(&connection, &table.name).await;
    assert_eq!((report.partitions, report.users.rows), (1, 2));
    let size = &report.largest[0];
    let stored = 3 * (CELL + 7 + 8 + 1 + 5) + (CELL + 4 + 2 + 1);
    assert!(size.cut);
    assert_eq!((size.users.bytes, size.region), (stored, 0), "{size:?}");
}

#[tokio::test]
async fn records_of_transactions_are_told_apart() {
    let connection = connect().await;
    let table = TestTable::create("skew_records", recorded, &[]).await;
    let opened = table.open(&connection).await;
    for number in 0..5 {
        let transaction = opened
            .transaction("aaa")
            .recorded()
            .put(put(format!("aaa{number}"), "v"));
        transaction.commit().await.into_result().unwrap();
    }
    let report = measure(&connection, &table.name).await;
    let scan = table.of(&connection).scan(Scan::new()).unwrap();
    let stored = scan.into_stream().count().await as u64;
    assert_eq!((report.users.rows, report.reserved.rows), (5, stored - 5));
    assert!(report.reserved.rows >= 5 && report.reserved.bytes > 0);
    assert_eq!(report.largest[0].reserved, report.reserved);
    assert_eq!(report.partitions, 1);
}

#[tokio::test]
async fn a_sample_is_within_what_it_says() {
    let connection = connect().await;
    let table = TestTable::create("skew_sample", by_three, &["mmm"]).await;
    for (prefix, rows, value) in [("aaa", 8_000, 20), ("mmm", 4_000, 100)] {
        fill(&connection, &table, prefix, rows, value).await;
    }
    let expected = bytes_of(8_000, 20).bytes + bytes_of(4_000, 100).bytes;
    let (mut within, runs) = (0, 12);
    for _ in 0..runs {
        let skew = Skew::new(&connection, table.name.clone())
            .unwrap()
            .sampling(Sampling::Fraction(0.2));
        let report = skew.run(|_| {}).await.unwrap();
        assert!(report.is_sampled());
        assert!((1..expected / 10).contains(&report.margin_bytes), "{report:?}");
        within += usize::from(report.total_bytes().abs_diff(expected) <= report.margin_bytes);
        // Three margins of 95 % are about six standard deviations.
        assert!(
            report.total_bytes().abs_diff(expected) <= 3 * report.margin_bytes,
            "{report:?}"
        );
        assert_eq!(report.largest[0].partition.prefix(), "mmm");
        let size = &report.largest[0];
        assert!(size.total_bytes().abs_diff(bytes_of(4_000, 100).bytes) <= 3 * size.margin_bytes);
    }
    // Each run is within its margin with a probability of 95 %. Fewer than 7 of 12 mean a wrong
    // margin.
    assert!(within >= 7, "{within} of {runs}");
}

#[tokio::test(flavor = "multi_thread")]
async fn region_reopened_and_split_during_skew_loses_no_row() {
    let connection = connect().await;
    let table = TestTable::create("skew_moves", by_three, &["ccc"]).await;
    for (prefix, rows) in [("aaa", 9_000), ("bbb", 9_000), ("ccc", 500)] {
        fill(&connection, &table, prefix, rows, 400).await;
    }
    let admin = Admin::new(&connection);
    let regions = admin.regions(&table.name).await.unwrap();
    let (region, server) = (&regions[0].region, regions[0].server.as_ref().unwrap());
    // Small calls, so that many of them run while the region changes.
    let config = crate::support::standalone()
        .config()
        .with_scan_batch_bytes(4 << 10);
    let slow = Connection::builder(config).connect().await.unwrap();
    let skew = Skew::new(&slow, table.name.clone()).unwrap();
    let (began, begins) = tokio::sync::oneshot::channel();
    let mut began = Some(began);
    let measuring = skew.run(|now| {
        if now.rows > 0
            && let Some(began) = began.take()
        {
            let _ = began.send(());
        }
    });
    let changing = async {
        begins.await.unwrap();
        admin.move_region(region, server).await.unwrap();
        table.split_at(&connection, "bbb").await;
    };
    let (report, ()) = tokio::join!(measuring, changing);
    let report = report.unwrap();
    let expected = [("aaa", 9_000), ("bbb", 9_000), ("ccc", 500)];
    let expected = expected.map(|(prefix, rows)| (prefix.to_owned(), bytes_of(rows, 400)));
    assert_eq!(largest(&report), expected);
    assert_eq!(report.regions.len(), 2);
}

#[tokio::test]
async fn unmeasured_parts_are_reported() {
    let connection = connect().await;
    let table = TestTable::create("skew_refused", plain, &[]).await;
    let kind = async |skew: Skew| skew.run(|_| {}).await.unwrap_err();
    let skew = |name: &TableName| Skew::new(&connection, name.clone()).unwrap();
    let error = kind(skew(&table.name)).await;
    assert_eq!(error.kind(), ErrorKind::NoPartitionRule);
    assert_eq!(error.table(), Some(table.name.to_string().as_str()));
    for (wrong, named) in [
        (skew(&table.name).sampling(Sampling::Fraction(0.0)), "sample of 0"),
        (
            skew(&table.name).sampling(Sampling::Fraction(f64::NAN)),
            "sample of NaN",
        ),
        (skew(&table.name).largest(1_001), "1001 largest"),
        (skew(&table.name).regions_at_once(0), "0 regions"),
    ] {
        let error = kind(wrong).await;
        assert_eq!(error.kind(), ClientErrorKind::InvalidInput, "{error}");
        assert!(error.to_string().contains(named), "{error}");
    }
    let missing = kind(skew(&TestTable::unmade("skew_missing").name)).await;
    assert_eq!(missing.kind(), ClientErrorKind::TableNotFound);
}

#[tokio::test]
async fn time_that_is_too_short_is_an_error_that_says_how_far_it_came() {
    let connection = connect().await;
    let table = TestTable::create("skew_late", by_three, &[]).await;
    let skew = Skew::new(&connection, table.name.clone())
        .unwrap()
        .patience(std::time::Duration::from_millis(1));
    let error = skew.run(|_| {}).await.unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::DeadlineExceeded);
    assert!(
        error.to_string().contains("regions") && error.hint().is_some(),
        "{error}"
    );
}

#[tokio::test]
async fn an_empty_table_has_nothing() {
    let connection = connect().await;
    let table = TestTable::create("skew_empty", by_three, &["mmm"]).await;
    let report = measure(&connection, &table.name).await;
    assert_eq!((report.partitions, report.total_bytes()), (0, 0));
    assert!(report.largest.is_empty() && report.histogram.is_empty());
    for region in &report.regions {
        assert_eq!(region.next_split, NextSplit::NoRows);
    }
    let keys: Vec<Bytes> = report
        .regions
        .into_iter()
        .map(|region| region.region.start_key)
        .collect();
    assert_eq!(
        keys.iter()
            .map(|key| BytesBinary(key).to_string())
            .collect::<Vec<_>>(),
        ["", "mmm"]
    );
}
