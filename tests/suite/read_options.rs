//! What reads request besides rows and columns, and what scans report.

use std::sync::Arc;

use hbase_txn::{
    ClientErrorKind,
    admin::Admin,
    client::{
        FamilyDescriptor, Get, IsolationLevel, Put, ReadType, Row, Scan, Table, TableDescriptor, TableName,
        TimeRange,
    },
};
use rstest::rstest;

use crate::{
    proxy::Proxy,
    support::{
        collect, connect, connect_by, eventually, key, keys, put, standalone,
        table::{SharedTable, TestTable, plain},
    },
};

static TABLE: SharedTable = SharedTable::new("read-options", versioned, &["m"]);

fn versioned(name: TableName) -> TableDescriptor {
    let versions = |family| FamilyDescriptor::new(family).with_attribute("VERSIONS", "9");
    TableDescriptor::from(name)
        .with_family(versions("f"))
        .with_family(versions("g"))
}

async fn table() -> (Table, Arc<TestTable>) {
    let shared = TABLE.get().await;
    let table = shared.of(&connect().await);
    for timestamp in [10, 20, 30] {
        let value = timestamp.to_string();
        let put = Put::new("r")
            .cell_at("f", "q", timestamp, value.clone())
            .cell_at("g", "q", timestamp, value);
        table.put(put).await.unwrap();
    }
    (table, shared)
}

/// Returns the families and timestamps of the cells.
fn stamps<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Vec<String> {
    let cells = rows.into_iter().flat_map(Row::cells);
    cells
        .map(|cell| format!("{}{}", String::from_utf8_lossy(&cell.family), cell.timestamp))
        .collect()
}

#[rstest]
#[case::one_family(&[("f", 10, 30)], &["f20", "f10", "g30", "g20", "g10"])]
#[case::both(&[("f", 10, 11), ("g", 30, 31)], &["f10", "g30"])]
#[case::the_last_counts(&[("f", 30, 31), ("f", 10, 11), ("g", 1, 2)], &["f10"])]
#[tokio::test]
async fn families_have_ranges_of_time_of_their_own(
    #[case] ranges: &[(&'static str, u64, u64)],
    #[case] expected: &[&str],
) {
    let (table, _shared) = table().await;
    let range = |from, to| TimeRange { from, to };
    let get = ranges
        .iter()
        .fold(Get::new("r").versions(9), |get, (family, from, to)| {
            get.column_family_time_range(*family, range(*from, *to))
        });
    assert_eq!(stamps(&table.get(get).await.unwrap()), expected);
    let scan = ranges
        .iter()
        .fold(Scan::new().versions(9), |scan, (family, from, to)| {
            scan.column_family_time_range(*family, range(*from, *to))
        });
    assert_eq!(stamps(&collect(table.scan(scan).unwrap()).await), expected);
}

#[tokio::test]
async fn invalid_ranges_of_families_are_refused() {
    let (table, _shared) = table().await;
    for (family, from, to) in [("f", 5, 5), ("", 1, 2)] {
        let get = Get::new("r").column_family_time_range(family, TimeRange { from, to });
        let error = table.get(get).await.unwrap_err();
        assert_eq!(error.kind(), ClientErrorKind::InvalidInput);
    }
    let none = table.get(Get::new("r").max_results_per_column_family(0)).await;
    assert_eq!(none.unwrap_err().kind(), ClientErrorKind::InvalidInput);
}

#[tokio::test]
async fn options_that_change_no_answer_are_taken() {
    let (table, _shared) = table().await;
    let expected = stamps(&table.get(Get::new("r")).await.unwrap());
    for get in [
        Get::new("r").isolation_level(IsolationLevel::ReadUncommitted),
        Get::new("r").isolation_level(IsolationLevel::ReadCommitted),
        Get::new("r").cache_blocks(false),
        Get::new("r").load_column_families_on_demand(false),
        Get::new("r").attribute("mine", "value"),
    ] {
        assert_eq!(
            stamps(&table.get(get.clone()).await.unwrap()),
            expected,
            "{get:?}"
        );
    }
    for scan in [
        Scan::new().isolation_level(IsolationLevel::ReadUncommitted),
        Scan::new().read_type(ReadType::Pread),
        Scan::new().read_type(ReadType::Stream),
        Scan::new().load_column_families_on_demand(true),
        Scan::new().attribute("mine", "value").cache_blocks(false),
    ] {
        let rows = collect(table.scan(scan.clone()).unwrap()).await;
        assert_eq!(stamps(&rows), expected, "{scan:?}");
    }
}

#[tokio::test]
async fn existence_is_told_without_cells() {
    let (table, _shared) = table().await;
    let exists = async |get: Get| table.exists(get).await.unwrap();
    assert!(exists(Get::new("r")).await);
    assert!(exists(Get::new("r").column("g", "q")).await);
    assert!(!exists(Get::new("r").column("g", "p")).await);
    assert!(!exists(Get::new("r").time_range(TimeRange { from: 31, to: 40 })).await);
    assert!(!exists(Get::new("absent")).await);
    let error = table.exists(Get::new("r").family("x")).await.unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::FamilyNotFound);
    let error = table.exists(Get::new("")).await.unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::InvalidInput);
}

async fn twenty_rows(what: &str) -> (TestTable, Table, Proxy) {
    let owned = TestTable::create(what, plain, &["10"]).await;
    let proxy = Proxy::new();
    let connection = connect_by(proxy.clone(), standalone().config()).await;
    let table = owned.of(&connection);
    for row in 0..20 {
        table.put(put(format!("{row:02}"), "v")).await.unwrap();
    }
    (owned, table, proxy)
}

#[tokio::test]
async fn scan_reports_what_it_has_cost() {
    let (_owned, table, _proxy) = twenty_rows("scan-metrics").await;
    let mut scanner = table.scan(Scan::new().caching(5)).unwrap();
    assert_eq!(scanner.metrics().calls, 0);
    while scanner.next().await.unwrap().is_some() {}
    let metrics = scanner.metrics();
    assert_eq!(metrics.regions, 2, "{metrics:?}");
    assert!(metrics.calls >= 4, "{metrics:?}");
    // A cell has two lengths, its key and its value.
    assert_eq!(
        metrics.bytes,
        20 * (12 + 2 + 2 + 1 + 1 + 1 + 8 + 1 + 1),
        "{metrics:?}"
    );
    assert_eq!((metrics.failed_calls, metrics.heartbeats), (0, 0));
    assert!(metrics.by_servers.is_empty());
}

#[tokio::test]
#[ignore = "needs the scan metrics of servers"]
async fn servers_count_the_rows_of_a_scan() {
    let (_owned, table, _proxy) = twenty_rows("server-metrics").await;
    let filter = hbase_txn::client::Filter::value(
        hbase_txn::client::Comparison::Equal,
        hbase_txn::client::Comparator::binary("w"),
    );
    let scan = Scan::new().scan_metrics().filter(filter);
    let mut scanner = table.scan(scan).unwrap();
    assert_eq!(scanner.next().await.unwrap(), None);
    let counted = &scanner.metrics().by_servers;
    assert_eq!(counted.get("ROWS_SCANNED"), Some(&20), "{counted:?}");
    assert_eq!(counted.get("ROWS_FILTERED"), Some(&20), "{counted:?}");
}

#[tokio::test]
async fn read_point_hides_later_writes() {
    let owned = TestTable::create("read-point", plain, &[]).await;
    let table = owned.of(&connect().await);
    for row in ["a", "b", "c"] {
        table.put(put(row, "v")).await.unwrap();
    }
    let mut early = table.scan(Scan::new().caching(1)).unwrap();
    assert_eq!(early.mvcc_read_point(), None);
    assert_eq!(key(&early.next().await.unwrap().unwrap()), "a");
    let point = early.mvcc_read_point().unwrap();
    table.put(put("d", "v")).await.unwrap();
    assert_eq!(
        keys(&table, Scan::new().mvcc_read_point(point)).await,
        ["a", "b", "c"]
    );
    assert_eq!(keys(&table, Scan::new()).await, ["a", "b", "c", "d"]);
}

#[tokio::test]
async fn uncommitted_scan_sees_what_is_written_meanwhile() {
    let owned = TestTable::create("uncommitted", plain, &[]).await;
    let table = owned.of(&connect().await);
    for row in ["a", "b", "c"] {
        table.put(put(row, "v")).await.unwrap();
    }
    for (level, later, expected) in [
        (IsolationLevel::ReadCommitted, "d", &["b", "c"][..]),
        (IsolationLevel::ReadUncommitted, "e", &["b", "c", "d", "e"]),
    ] {
        let scan = Scan::new().isolation_level(level).caching(1);
        let mut scanner = table.scan(scan).unwrap();
        assert_eq!(key(&scanner.next().await.unwrap().unwrap()), "a");
        table.put(put(later, "v")).await.unwrap();
        let rest: Vec<String> = collect(scanner).await.iter().map(key).collect();
        assert_eq!(rest, expected);
    }
}

#[tokio::test]
async fn renewed_scanner_goes_on_and_sends_no_open() {
    let (_owned, table, proxy) = twenty_rows("renewed").await;
    let mut scanner = table.scan(Scan::new().caching(3).stop_row("10")).unwrap();
    assert!(!scanner.renew_lease().await.unwrap(), "nothing is open");
    let mut found = vec![key(&scanner.next().await.unwrap().unwrap())];
    // The call ahead has been sent, and then a renewal is.
    eventually("renewal after the call ahead", async || {
        assert!(scanner.renew_lease().await.unwrap());
        (proxy.requests("Scan") > 2).then_some(())
    })
    .await;
    assert!(scanner.renew_lease().await.unwrap());
    while let Some(row) = scanner.next().await.unwrap() {
        found.push(key(&row));
    }
    assert!(!scanner.renew_lease().await.unwrap(), "the scan is over");
    assert_eq!(found.len(), 10);
    assert_eq!(scanner.metrics().regions, 1);
    assert_eq!(scanner.metrics().failed_calls, 0);
}

#[tokio::test]
async fn scan_goes_on_after_a_renewal_that_came_too_late() {
    let (owned, table, _proxy) = twenty_rows("late-renewal").await;
    let mut scanner = table.scan(Scan::new().caching(3)).unwrap();
    let mut found = vec![key(&scanner.next().await.unwrap().unwrap())];
    let admin = Admin::new(table.connection());
    let descriptor = admin.descriptor(&owned.name).await.unwrap();
    let descriptor = descriptor.with_attribute("MAX_FILESIZE", "10737418240");
    admin.modify_table(&descriptor).await.unwrap();
    eventually("the server has forgotten the scanner", async || {
        (!scanner.renew_lease().await.unwrap()).then_some(())
    })
    .await;
    while let Some(row) = scanner.next().await.unwrap() {
        found.push(key(&row));
    }
    let expected: Vec<String> = (0..20).map(|row| format!("{row:02}")).collect();
    assert_eq!(found, expected);
}
