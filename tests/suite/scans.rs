//! Scans: complete and in order over all regions, through splits, moves and lost connections.

use std::{sync::Arc, time::Duration};

use futures::TryStreamExt;
use hbase_txn::{
    admin::Admin,
    client::{Connection, Put, Scan, Table},
};
use rstest::rstest;
use tokio::time::timeout;

use crate::{
    proxy::{Action, Proxy},
    support::{
        collect, connect, connect_by, eventually, key, keys, put, rows, standalone,
        table::{SharedTable, TestTable, by_three, plain},
    },
};

static SIX: SharedTable = SharedTable::new("scans", plain, &["b", "c", "d", "e", "f"]);

async fn six() -> (Table, Arc<TestTable>) {
    let shared = SIX.get().await;
    let table = shared.of(&connect().await);
    for row in ["a1", "a2", "b", "c1", "e1", "e2", "f9"] {
        table.put(put(row, "v")).await.unwrap();
    }
    (table, shared)
}

#[rstest]
#[case::all(Scan::new(), &["a1", "a2", "b", "c1", "e1", "e2", "f9"])]
#[case::a_row_at_a_time(Scan::new().caching(1), &["a1", "a2", "b", "c1", "e1", "e2", "f9"])]
#[case::a_byte_at_a_time(Scan::new().max_result_size(1), &["a1", "a2", "b", "c1", "e1", "e2", "f9"])]
#[case::from(Scan::new().start_row("a2"), &["a2", "b", "c1", "e1", "e2", "f9"])]
#[case::stop_excluded(Scan::new().stop_row("b"), &["a1", "a2"])]
#[case::stop_included(Scan::new().stop_row_inclusive("b"), &["a1", "a2", "b"])]
#[case::stop_included_where_no_row_is(Scan::new().stop_row_inclusive("d"), &["a1", "a2", "b", "c1"])]
#[case::between(Scan::new().start_row("b").stop_row("e2"), &["b", "c1", "e1"])]
#[case::prefix(Scan::prefix("e"), &["e1", "e2"])]
#[case::prefix_of_nothing(Scan::prefix("d"), &[])]
#[case::one(Scan::new().limit(1), &["a1"])]
#[case::over_regions(Scan::new().limit(4), &["a1", "a2", "b", "c1"])]
#[case::limit_at_a_regions_end(Scan::new().limit(2), &["a1", "a2"])]
#[case::more_than_there_are(Scan::new().limit(100), &["a1", "a2", "b", "c1", "e1", "e2", "f9"])]
#[case::limit_row_by_row(Scan::new().limit(3).caching(1), &["a1", "a2", "b"])]
#[case::none(Scan::new().limit(0), &[])]
#[case::one_row(Scan::new().start_row("b").stop_row_inclusive("b"), &["b"])]
#[case::equal_bounds(Scan::new().start_row("b").stop_row("b"), &[])]
#[case::equal_bounds_inside_out(Scan::new().start_row_exclusive("b").stop_row_inclusive("b"), &[])]
#[case::equal_bounds_excluded(Scan::new().start_row_exclusive("b").stop_row("b"), &[])]
#[case::start_excluded(Scan::new().start_row_exclusive("b"), &["c1", "e1", "e2", "f9"])]
#[case::down(Scan::new().reversed(), &["f9", "e2", "e1", "c1", "b", "a2", "a1"])]
#[case::down_a_row_at_a_time(Scan::new().reversed().caching(1), &["f9", "e2", "e1", "c1", "b", "a2", "a1"])]
#[case::down_from(Scan::new().start_row("e1").reversed(), &["e1", "c1", "b", "a2", "a1"])]
#[case::down_from_where_no_row_is(Scan::new().start_row("e").reversed(), &["c1", "b", "a2", "a1"])]
#[case::down_from_before(Scan::new().start_row_exclusive("b").reversed(), &["a2", "a1"])]
#[case::down_to(Scan::new().stop_row("b").reversed(), &["f9", "e2", "e1", "c1"])]
#[case::down_to_included(Scan::new().stop_row_inclusive("b").reversed(), &["f9", "e2", "e1", "c1", "b"])]
#[case::down_between(Scan::new().start_row("e2").stop_row("a1").reversed(), &["e2", "e1", "c1", "b", "a2"])]
#[case::down_one_row(Scan::new().start_row("b").stop_row_inclusive("b").reversed(), &["b"])]
#[case::down_equal_bounds(Scan::new().start_row("b").stop_row("b").reversed(), &[])]
#[case::down_equal_bounds_excluded(Scan::new().start_row_exclusive("b").stop_row("b").reversed(), &[])]
#[case::prefix_down(Scan::prefix("e").reversed(), &["e2", "e1"])]
#[case::prefix_of_nothing_down(Scan::prefix("d").reversed(), &[])]
#[case::last_of_a_prefix(Scan::prefix("e").reversed().limit(1), &["e2"])]
#[case::down_over_regions(Scan::new().reversed().limit(4), &["f9", "e2", "e1", "c1"])]
#[tokio::test]
async fn a_scan_finds_what_it_asks_for_in_order(#[case] scan: Scan, #[case] expected: &[&str]) {
    let (table, _shared) = six().await;
    assert_eq!(keys(&table, scan).await, expected);
}

#[rstest]
#[case::all(Scan::new(), &["a1", "a2", "b", "c1", "e1", "e2", "f9"])]
#[case::part_of_a_region(Scan::new().start_row("a2").stop_row("b"), &["a2"])]
#[case::stop_included(Scan::new().stop_row_inclusive("b"), &["a1", "a2", "b"])]
#[case::a_row_at_a_time(Scan::new().caching(1), &["a1", "a2", "b", "c1", "e1", "e2", "f9"])]
#[case::nothing(Scan::prefix("d"), &[])]
#[case::down(Scan::new().reversed(), &["f9", "e2", "e1", "c1", "b", "a2", "a1"])]
#[case::down_between(Scan::new().start_row("e1").stop_row("a2").reversed(), &["e1", "c1", "b"])]
#[tokio::test]
async fn regions_are_scanned_at_once(
    #[case] scan: Scan,
    #[case] expected: &[&str],
    #[values(1, 2, 9)] regions: usize,
) {
    let (table, _shared) = six().await;
    let scanner = table.scan_regions(scan.clone(), regions).unwrap();
    let rows: Vec<_> = scanner.into_stream().try_collect().await.unwrap();
    let sorted = |mut keys: Vec<String>| {
        keys.sort();
        keys
    };
    let expected_rows: Vec<_> = expected.iter().copied().map(str::to_owned).collect();
    assert_eq!(sorted(rows.iter().map(key).collect()), sorted(expected_rows));

    let in_order = table.scan_regions(scan.clone(), regions).unwrap().in_order();
    let rows: Vec<_> = in_order.into_stream().try_collect().await.unwrap();
    assert_eq!(rows.iter().map(key).collect::<Vec<_>>(), expected);
    let in_order = table
        .scan_regions(scan.clone().limit(2), regions)
        .unwrap()
        .in_order();
    let rows: Vec<_> = in_order.into_stream().try_collect().await.unwrap();
    let first = &expected[..expected.len().min(2)];
    assert_eq!(rows.iter().map(key).collect::<Vec<_>>(), first);

    let mut limited = table.scan_regions(scan.limit(2), regions).unwrap();
    let mut count = 0;
    while limited.next().await.unwrap().is_some() {
        count += 1;
    }
    assert_eq!(count, expected.len().min(2));
    assert_eq!(limited.next().await.unwrap(), None);
}

#[tokio::test]
async fn an_empty_table_has_no_rows_and_the_end_is_told_again() {
    let table = TestTable::create("empty", plain, &["m"]).await;
    let rows = table.of(&connect().await);
    let mut scanner = rows.scan(Scan::new()).unwrap();
    for _ in 0..3 {
        assert_eq!(scanner.next().await.unwrap(), None);
    }
}

#[tokio::test]
async fn a_row_larger_than_a_batch_comes_glued_whole() {
    let owned = TestTable::create("glued", plain, &["e"]).await;
    let table = owned.of(&connect().await);
    let big = "d-big";
    for cell in 0..20_u8 {
        let put = Put::new(big).cell("f", vec![cell], vec![cell; 300 << 10]);
        table.put(put).await.unwrap();
    }
    table.put(put("d-after", "v")).await.unwrap();
    table.put(put("d-zlast", "v")).await.unwrap();
    let rows = rows(&table, Scan::prefix("d-").max_result_size(1 << 20)).await;
    assert_eq!(
        rows.iter().map(key).collect::<Vec<_>>(),
        ["d-after", big, "d-zlast"]
    );
    let cells = rows[1].cells();
    assert_eq!(cells.len(), 20);
    for (at, cell) in cells.iter().enumerate() {
        assert_eq!(cell.qualifier, [at as u8][..]);
        assert!(cell.value == vec![at as u8; 300 << 10]);
    }
}

/// Writes many rows and starts a scan that has read some of them.
async fn begun(
    what: &str,
) -> (
    TestTable,
    Connection,
    hbase_txn::client::ResultScanner,
    Vec<String>,
) {
    begun_in(what, false).await
}

/// The same in either order, in which it returns the rows.
async fn begun_in(
    what: &str,
    is_reversed: bool,
) -> (
    TestTable,
    Connection,
    hbase_txn::client::ResultScanner,
    Vec<String>,
) {
    let table = TestTable::create(what, by_three, &[]).await;
    let connection = connect().await;
    let opened = table.open(&connection).await;
    let mut batch = opened.batch();
    let written: Vec<String> = (0..600).map(|row| format!("{row:03}row")).collect();
    for row in &written {
        batch = batch.put(put(row.clone(), vec![0; 100]));
    }
    for group in batch.commit().await {
        assert!(group.outcome.is_committed(), "{}", group.outcome);
    }
    let mut order = written;
    if is_reversed {
        order.reverse();
    }
    let scan = if is_reversed {
        Scan::new().reversed()
    } else {
        Scan::new()
    };
    let mut scanner = opened.table().scan(scan.caching(50)).unwrap();
    for expected in &order[..120] {
        assert_eq!(key(&scanner.next().await.unwrap().unwrap()), *expected);
    }
    (table, connection, scanner, order)
}

async fn ends_complete(scanner: hbase_txn::client::ResultScanner, written: &[String]) {
    let rest: Vec<String> = collect(scanner).await.iter().map(key).collect();
    assert_eq!(rest, written[120..]);
}

#[rstest]
#[tokio::test]
async fn region_reopened_during_a_scan_costs_no_row(#[values(false, true)] is_reversed: bool) {
    let (table, connection, scanner, written) = begun_in("reopened", is_reversed).await;
    let admin = Admin::new(&connection);
    let descriptor = admin.descriptor(&table.name).await.unwrap();
    let descriptor = descriptor.with_attribute("MAX_FILESIZE", "10737418240");
    admin.modify_table(&descriptor).await.unwrap();
    ends_complete(scanner, &written).await;
}

#[rstest]
#[case::before_what_was_read("050")]
#[case::at_the_last_row_that_was_handed_out("119")]
#[case::behind_it("400")]
#[case::at_the_last_row_from_above("480")]
#[tokio::test]
async fn a_region_that_is_split_in_the_middle_of_a_scan_costs_no_row(
    #[case] at: &'static str,
    #[values(false, true)] is_reversed: bool,
) {
    let (table, connection, scanner, written) = begun_in("split", is_reversed).await;
    table.split_at(&connection, at).await;
    ends_complete(scanner, &written).await;
}

#[tokio::test]
async fn regions_that_are_merged_in_the_middle_of_a_scan_cost_no_row() {
    let table = TestTable::create("merged", by_three, &["005"]).await;
    let connection = connect().await;
    let opened = table.of(&connection);
    let written: Vec<String> = (0..9).map(|row| format!("{row:03}row")).collect();
    for row in &written {
        opened.put(put(row.clone(), "v")).await.unwrap();
    }
    let mut scanner = opened.scan(Scan::new().caching(1)).unwrap();
    let mut read = Vec::new();
    for _ in 0..4 {
        read.push(key(&scanner.next().await.unwrap().unwrap()));
    }
    table.merge_both(&connection).await;
    read.extend(collect(scanner).await.iter().map(key));
    assert_eq!(read, written);
}

#[tokio::test]
async fn split_unknown_to_the_client_costs_no_row_of_a_new_scan() {
    let (table, connection, scanner, written) = begun("warm").await;
    ends_complete(scanner, &written).await;
    table.split_at(&connect().await, "300").await;
    let found = keys(&table.of(&connection), Scan::new()).await;
    assert_eq!(found, written);
    eventually("the client has both halves", async || {
        (table.regions(&connection).await.len() == 2).then_some(())
    })
    .await;
}

/// Writes 20 rows in one region, and connects through a proxy that counts calls.
async fn counted(what: &str) -> (TestTable, Table, Proxy) {
    let owned = TestTable::create(what, plain, &[]).await;
    let proxy = Proxy::new();
    let connection = connect_by(proxy.clone(), standalone().config()).await;
    let table = owned.of(&connection);
    for row in 0..20 {
        table.put(put(format!("{row:02}"), "v")).await.unwrap();
    }
    (owned, table, proxy)
}

fn numbered(rows: usize) -> Vec<String> {
    (0..rows).map(|row| format!("{row:02}")).collect()
}

#[tokio::test]
async fn next_rows_are_requested_while_rows_are_returned() {
    let (_owned, table, proxy) = counted("ahead").await;
    let before = proxy.requests("Scan");
    let mut scanner = table.scan(Scan::new().caching(5)).unwrap();
    assert_eq!(key(&scanner.next().await.unwrap().unwrap()), "00");
    eventually("the next rows are requested", async || {
        (proxy.requests("Scan") == before + 2).then_some(())
    })
    .await;
    let rest: Vec<_> = collect(scanner).await.iter().map(key).collect();
    assert_eq!(rest, numbered(20)[1..]);
}

#[rstest]
#[case::at_the_end_of_an_answer(10, 2)]
#[case::within_an_answer(12, 3)]
#[tokio::test]
async fn limited_scan_sends_no_needless_call(#[case] limit: usize, #[case] calls: usize) {
    let (_owned, table, proxy) = counted("limited").await;
    let before = proxy.requests("Scan");
    let found = keys(&table, Scan::new().caching(5).limit(limit as u64)).await;
    assert_eq!(found, numbered(limit));
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(proxy.requests("Scan"), before + calls);
}

#[tokio::test]
async fn dropped_next_loses_neither_a_row_nor_an_answer() {
    let (_owned, table, proxy) = counted("dropped-next").await;
    let before = proxy.requests("Scan");
    proxy.rule(|request| match request.method.as_str() {
        "Scan" => Action::DelayAnswer(Duration::from_millis(50)),
        _ => Action::Pass,
    });
    let mut scanner = table.scan(Scan::new().caching(5).limit(20)).unwrap();
    let (mut found, mut dropped) = (Vec::new(), 0);
    loop {
        match timeout(Duration::from_millis(5), scanner.next()).await {
            Ok(Ok(Some(row))) => found.push(key(&row)),
            Ok(end) => break assert_eq!(end.unwrap(), None),
            Err(_) if dropped < 1_000 => dropped += 1,
            Err(_) => panic!("only {found:?}"),
        }
    }
    assert_eq!(found, numbered(20));
    assert!(dropped >= 4, "{dropped}");
    assert_eq!(proxy.requests("Scan"), before + 4);
}
