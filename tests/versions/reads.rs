//! Scans in both directions, rows in parts, and what reads request besides columns.

use std::time::Duration;

use hbase_txn::client::{Comparison, IsolationLevel, ReadComparator, ReadFilter, ReadType, Regex, Row};

use super::*;

const CELLS: u8 = 9;

#[tokio::test]
async fn scans_in_both_directions_return_whole_rows_and_parts() {
    on_each(async |cluster| {
        let connection = cluster.connect().await;
        let shared = TestTable::create_on(cluster, "reads", plain, &["b", "c"]).await;
        let table = shared.of(&connection);
        for row in ["a1", "b1", "b2", "c1"] {
            let cells = (0..CELLS).fold(Put::new(row), |put, at| put.cell("f", vec![at], vec![at; 100]));
            table.put(cells).await.unwrap();
        }
        assert_eq!(
            keys(&table, Scan::new().reversed()).await,
            ["c1", "b2", "b1", "a1"]
        );
        assert_eq!(
            keys(&table, Scan::prefix("b").reversed().caching(1)).await,
            ["b2", "b1"]
        );
        let range = Scan::new()
            .start_row_exclusive("c1")
            .stop_row_inclusive("b1")
            .reversed();
        assert_eq!(keys(&table, range).await, ["b2", "b1"]);
        for scan in [
            Scan::new().batch(4),
            Scan::new().batch(4).reversed(),
            Scan::new().allow_partial_results().max_result_size(300),
        ] {
            let parts = collect(table.scan(scan.clone()).unwrap()).await;
            assert!(parts.len() > 8, "{scan:?}: {parts:?}");
            let mut rows: Vec<Vec<u8>> = Vec::new();
            for part in &parts {
                if rows.last().is_none_or(|row| row.len() == usize::from(CELLS)) {
                    rows.push(Vec::new());
                }
                let row = rows.last_mut().unwrap();
                row.extend(part.cells().iter().map(|cell| cell.qualifier[0]));
            }
            let whole: Vec<u8> = (0..CELLS).collect();
            assert_eq!(rows, vec![whole; 4], "{scan:?}");
        }
        let page = Get::new("b1")
            .max_results_per_column_family(2)
            .row_offset_per_column_family(3);
        let page = table.get(page).await.unwrap();
        let qualifiers = page.iter().flat_map(Row::cells).map(|cell| cell.qualifier[0]);
        assert_eq!(qualifiers.collect::<Vec<_>>(), [3, 4]);
    })
    .await;
}

#[tokio::test]
async fn read_options_are_taken() {
    on_each(async |cluster| {
        let connection = cluster.connect().await;
        let shared = TestTable::create_on(cluster, "options", plain, &[]).await;
        let table = shared.of(&connection);
        for row in ["a", "b", "c"] {
            table.put(put(row, "v").timestamp(5)).await.unwrap();
        }
        assert!(table.exists(Get::new("a")).await.unwrap());
        assert!(!table.exists(Get::new("d")).await.unwrap());
        let range = TimeRange { from: 6, to: 9 };
        let later = Scan::new().column_family_time_range("f", range);
        assert!(keys(&table, later).await.is_empty());
        let options = Scan::new()
            .read_type(ReadType::Pread)
            .load_column_families_on_demand(true)
            .attribute("mine", "value")
            .scan_metrics();
        let mut scanner = table.scan(options.caching(1)).unwrap();
        let first = scanner.next().await.unwrap().unwrap();
        let uncommitted = Scan::new().isolation_level(IsolationLevel::ReadUncommitted);
        let mut present = table.scan(uncommitted.caching(1)).unwrap();
        assert_eq!(key(&present.next().await.unwrap().unwrap()), "a");
        assert!(scanner.renew_lease().await.unwrap());
        let point = scanner.mvcc_read_point().unwrap();
        table.put(put("d", "v")).await.unwrap();
        assert_eq!(
            keys(&table, Scan::new().mvcc_read_point(point)).await,
            ["a", "b", "c"]
        );
        let mut rows = vec![key(&first)];
        while let Some(row) = scanner.next().await.unwrap() {
            rows.push(key(&row));
        }
        assert_eq!(rows, ["a", "b", "c"]);
        assert!(
            scanner.metrics().by_servers["ROWS_SCANNED"] >= 3,
            "{:?}",
            scanner.metrics()
        );
    })
    .await;
}

#[tokio::test]
async fn scan_metrics_of_regions_add_up_to_those_of_the_scan() {
    on_each(async |cluster| {
        let connection = cluster.connect().await;
        let shared = TestTable::create_on(cluster, "region-metrics", plain, &["m"]).await;
        let table = shared.of(&connection);
        for row in ["a", "b", "c", "x"] {
            table.put(put(row, "v")).await.unwrap();
        }
        for (scan, counts) in [
            (Scan::new(), [3, 1]),
            (Scan::new().reversed(), [1, 3]),
            (Scan::new().caching(1), [3, 1]),
        ] {
            let mut scanner = table.scan(scan.scan_metrics_by_region()).unwrap();
            while scanner.next().await.unwrap().is_some() {}
            let metrics = scanner.metrics();
            let of_regions = || metrics.by_region.iter().map(|region| &region.metrics);
            let scanned = of_regions().map(|metrics| metrics.by_servers["ROWS_SCANNED"]);
            assert_eq!(scanned.collect::<Vec<_>>(), counts, "{metrics:?}");
            assert_eq!(
                of_regions().map(|metrics| metrics.calls).sum::<u64>(),
                metrics.calls
            );
            assert_eq!(
                of_regions().map(|metrics| metrics.bytes).sum::<u64>(),
                metrics.bytes
            );
            assert!(of_regions().all(|metrics| metrics.regions == 1 && metrics.by_region.is_empty()));
        }
        let mut scanner = table.scan(Scan::new().scan_metrics()).unwrap();
        while scanner.next().await.unwrap().is_some() {}
        assert!(scanner.metrics().by_region.is_empty());
    })
    .await;
}

/// A filter that takes the server long and finds nothing, because the expression backtracks.
fn slow_filter() -> ReadFilter {
    let slow = Regex::new("(x*x*)*y");
    ReadFilter::value(Comparison::Equal, ReadComparator::from(slow))
}

#[tokio::test]
async fn server_that_finds_nothing_reports_its_cursor() {
    const ROWS: u32 = 100_000;
    on_each(async |cluster| {
        // Servers report their cursors after half of the timeout.
        let config = cluster.config().with_read_timeout(Duration::from_secs(1));
        let connection = Connection::builder(config).connect().await.unwrap();
        let shared = TestTable::create_on(cluster, "cursor", plain, &[]).await;
        let table = shared.of(&connection);
        let row = |number: u32| format!("{number:06}");
        let puts = (0..ROWS).map(|number| put(row(number), "xxxxxx"));
        for done in table.mutate_many(puts).await {
            done.unwrap();
        }
        let mut scanner = table.scan(Scan::new().filter(slow_filter())).unwrap();
        assert_eq!(scanner.cursor(), None);
        let mut cursors = Vec::new();
        loop {
            match tokio::time::timeout(Duration::from_millis(50), scanner.next()).await {
                Ok(found) => {
                    assert_eq!(found.unwrap(), None);
                    break;
                }
                Err(_) => cursors.extend(scanner.cursor().cloned()),
            }
        }
        assert!(cursors.is_sorted());
        cursors.retain(|cursor| *cursor > row(0));
        cursors.dedup();
        let metrics = scanner.metrics();
        let last = cursors.last().expect("the cursor moves before the scan ends");
        assert!(*last < row(ROWS) && metrics.heartbeats > 0, "{metrics:?}");
        // Another scan continues there.
        let first = Scan::new().start_row(last.clone()).limit(1);
        assert_eq!(keys(&table, first).await[0].as_bytes(), &last[..]);
    })
    .await;
}
