use hbase_client::{CellKind, Put};
use hbase_fake::FakeHBase;
use proptest::prelude::*;
use rstest::rstest;

use crate::{
    error::ErrorKind,
    partition::PartitionRule,
    txn::{OpenOptions, PartitionedTable, UpdateOptions, snapshot::*},
};

fn cell(row: &Bytes, family: &str, qualifier: &str, value: &str) -> Cell {
    let copy = |text: &str| Bytes::copy_from_slice(text.as_bytes());
    Cell::new(
        row.clone(),
        copy(family),
        copy(qualifier),
        1,
        CellKind::Put,
        copy(value),
    )
}

/// Returns a snapshot of the partition `xxx` with these cells of family `f`, in row order.
pub(in crate::txn) fn snapshot(cells: &[(&str, &str, &str)], version: Option<&'static [u8]>) -> Snapshot {
    let partition = PartitionRule::prefix_length(3).unwrap().partition("xxx").unwrap();
    let rows = cells.chunk_by(|(row, ..), (next, ..)| row == next).map(|cells| {
        let row = Bytes::copy_from_slice(cells[0].0.as_bytes());
        let cells = cells
            .iter()
            .map(|(_, qualifier, value)| cell(&row, "f", qualifier, value));
        Row::new(row.clone(), cells.collect())
    });
    let rows = rows.collect();
    let version = version.map(|value| {
        let row = partition_version::row(&partition).unwrap();
        let mut cell = cell(
            &row,
            TableDescriptor::VERSION_FAMILY,
            partition_version::QUALIFIER,
            "",
        );
        cell.value = value.into();
        Row::new(row, vec![cell])
    });
    Snapshot {
        partition,
        rows,
        state: PartitionState::of(version.as_ref()).unwrap(),
        is_laid_over: false,
    }
}

#[rstest]
#[case("", "", Some(("xxx", "xxy")))]
#[case("xxxb", "", Some(("xxxb", "xxy")))]
#[case("", "xxxb", Some(("xxx", "xxxb")))]
#[case("a", "z", Some(("xxx", "xxy")))]
#[case("xxxb", "xxxb", None)]
#[case("xxxc", "xxxb", None)]
#[case("", "xxx", None)]
#[case("xxy", "", None)]
fn a_range_never_reaches_beyond_the_partition(
    #[case] start: &'static str,
    #[case] stop: &'static str,
    #[case] expected: Option<(&str, &str)>,
) {
    let partition = PartitionRule::prefix_length(3).unwrap().partition("xxx").unwrap();
    let scan = SnapshotOptions::new()
        .start_row(start)
        .stop_row(stop)
        .scan(&partition);
    let bounds = scan.map(|scan| (scan.range_start().clone(), scan.range_end().clone()));
    let expected = expected.map(|(start, stop)| (start.to_owned().into(), stop.to_owned().into()));
    assert_eq!(bounds, expected);
}

#[rstest]
#[case("", Some(("xxx", "xxy")))]
#[case("xxx", Some(("xxx", "xxy")))]
#[case("xxxb", Some(("xxxb", "xxxc")))]
#[case("x", Some(("xxx", "xxy")))]
#[case("xxy", None)]
fn rows_with_a_prefix_are_within_the_partition(#[case] prefix: &str, #[case] expected: Option<(&str, &str)>) {
    let partition = PartitionRule::prefix_length(3).unwrap().partition("xxx").unwrap();
    let other = SnapshotOptions::new().start_row("xxxa").stop_row("xxxz");
    let scan = other.rows_with_prefix(prefix).scan(&partition);
    let bounds = scan.map(|scan| (scan.range_start().clone(), scan.range_end().clone()));
    let expected = expected.map(|(start, stop)| (start.to_owned().into(), stop.to_owned().into()));
    assert_eq!(bounds, expected);
}

#[rstest]
#[case("", "", true)]
#[case("xx", "xxx", true)]
#[case("xx\0", "", false)]
#[case("", "xx", false)]
fn a_row_of_its_own_is_read_or_it_is_not(
    #[case] start: &'static str,
    #[case] stop: &'static str,
    #[case] read: bool,
) {
    let partition = PartitionRule::prefix_length(3).unwrap().partition("xx").unwrap();
    let scan = SnapshotOptions::new()
        .start_row(start)
        .stop_row(stop)
        .scan(&partition);
    let bounds = scan.map(|scan| {
        (
            scan.range_start().clone(),
            scan.range_end().clone(),
            scan.includes_range_end(),
        )
    });
    assert_eq!(bounds, read.then(|| ("xx".into(), "xx".into(), true)));
}

#[test]
fn the_last_partition_of_all_ends_with_the_table() {
    let rule = PartitionRule::prefix_length(1).unwrap();
    let partition = rule.partition(&b"\xff"[..]).unwrap();
    let scan = SnapshotOptions::new().stop_row(&b"\xff\x01"[..]).scan(&partition);
    assert_eq!(scan.unwrap().range_end(), &b"\xff\x01"[..]);
    assert_eq!(SnapshotOptions::new().scan(&partition).unwrap().range_end(), "");
}

#[test]
fn the_version_is_no_row() {
    let partition = snapshot(&[], None).partition;
    let key = partition_version::row(&partition).unwrap();
    let version = cell(&key, "_version", "v", "1");
    let other = Bytes::from_static(b"xxxa");
    let mut rows = vec![
        Row::new(other.clone(), vec![cell(&other, "f", "q", "v")]),
        Row::new(key.clone(), vec![version]),
    ];
    let mut value = || {
        let state = take_state(Some(&key), &mut rows).unwrap();
        state.version().map(|cell| cell.value.clone())
    };
    assert_eq!([value(), value()], [Some(Bytes::from_static(b"1")), None]);
    assert_eq!(rows.len(), 1);
}

#[test]
fn foreign_cells_in_the_version_row_stay() {
    let partition = snapshot(&[], None).partition;
    let key = partition_version::row(&partition).unwrap();
    let (version, other) = (cell(&key, "_version", "v", "1"), cell(&key, "f", "q", "v"));
    let mut rows = vec![Row::new(key.clone(), vec![other.clone(), version])];
    assert!(take_state(Some(&key), &mut rows).unwrap().version().is_some());
    assert_eq!(rows, [Row::new(key, vec![other])]);
}

#[test]
fn rows_of_a_test_of_a_server_are_not_read() {
    FakeHBase::run(async |hbase| {
        hbase.create_partitioned_table("orders", &["f"], 3);
        let options = OpenOptions::new().without_endpoint();
        let orders = options.open(&hbase.connect().await?, "orders").await?;
        let puts = ["xxxa", "xxx\u{fffff}"].map(|row| Put::new(row).cell("f", "q", "v"));
        let [first, last] = puts;
        assert!(
            orders
                .transaction("xxx")
                .put(first)
                .put(last)
                .commit()
                .await
                .is_committed()
        );
        assert!(hbase.dump("orders").contains("trial-1"), "the server was tested");
        assert_eq!(orders.snapshot("xxx").await?.len(), 2);
        let two = SnapshotOptions::new().max_rows(2);
        assert_eq!(orders.snapshot_with("xxx", two).await?.len(), 2);
        let one = SnapshotOptions::new().max_rows(1);
        let error = orders.snapshot_with("xxx", one).await.unwrap_err();
        assert_eq!(error.kind(), ClientErrorKind::LimitExceeded);
        Ok(())
    });
}

#[rstest]
#[case("xxy", "", true)]
#[case("", "xxx", true)]
#[case("xxya", "xxyb", true)]
#[case("a", "b", true)]
#[case("a", "z", false)]
#[case("xxxb", "xxxb", false)]
#[case("xxx", "xxy", false)]
fn range_outside_of_the_partition_is_refused(
    #[case] start: &'static str,
    #[case] stop: &'static str,
    #[case] refused: bool,
) {
    FakeHBase::run(async |hbase| {
        hbase.create_partitioned_table("orders", &["f", "_txn"], 3);
        let orders = PartitionedTable::open(&hbase.connect().await?, "orders").await?;
        let range = SnapshotOptions::new().start_row(start).stop_row(stop);
        let read = orders.snapshot_with("xxx", range).await;
        assert_eq!(read.is_err(), refused, "{read:?}");
        let range = UpdateOptions::new().start_row(start).stop_row(stop);
        let updated = orders.update_with("xxx", range, |_| Ok::<_, Error>(())).await;
        for error in [read.err(), updated.err()].into_iter().flatten() {
            assert_eq!(error.kind(), ErrorKind::OtherPartition, "{error}");
        }
        Ok(())
    });
}

proptest! {
    #[test]
    fn rows_and_ranges_are_what_a_walk_over_all_rows_finds(
        keys in prop::collection::btree_set("xxx[ab]{0,3}", 0..12),
        start in "(xxx)?[ab]{0,3}",
        stop in "(xxx)?[ab]{0,3}",
    ) {
        let cells: Vec<_> = keys.iter().map(|key| (key.as_str(), "q", "v")).collect();
        let snapshot = snapshot(&cells, None);
        let inside = |row: &&Row| row.key()[..] >= *start.as_bytes()
            && (stop.is_empty() || row.key()[..] < *stop.as_bytes());
        let walked: Vec<&Row> = snapshot.rows().iter().filter(inside).collect();
        prop_assert_eq!(snapshot.range(&start, &stop).iter().collect::<Vec<_>>(), walked);
        let begins: Vec<&Row> = snapshot.rows().iter().filter(|row| row.key().starts_with(start.as_bytes())).collect();
        prop_assert_eq!(snapshot.rows_with_prefix(&start).iter().collect::<Vec<_>>(), begins);
        prop_assert_eq!(snapshot.row(&start).is_some(), keys.contains(&start));
        prop_assert_eq!(snapshot.value(&start, "f", "q").is_some(), keys.contains(&start));
    }
}
