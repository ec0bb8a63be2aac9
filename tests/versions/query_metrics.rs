//! What servers report of the blocks that they read: 2.6.4 does, the other releases do not.

use hbase_txn::{
    admin::Admin,
    client::{Condition, QueryMetrics, Row, RowOperation, Table},
};

use super::*;

/// Calls the check with whether the release reports, and a table whose rows are in a file.
#[allow(clippy::future_not_send, reason = "a test runs on one thread")]
async fn on_rows_in_a_file(check: impl AsyncFn(bool, &Table)) {
    on_each(async |cluster| {
        let connection = cluster.connect().await;
        let shared = TestTable::create_on(cluster, "query_metrics", plain, &["m"]).await;
        let table = shared.of(&connection);
        for row in ["a", "b", "c", "x", "y"] {
            table.put(put(row, "v")).await.unwrap();
        }
        Admin::new(&connection).flush_table(&shared.name).await.unwrap();
        check(cluster.status.version == Some(HBaseVersion::V2_6), &table).await;
        connection.close().await;
    })
    .await;
}

/// Asserts that a release which reports has read a block, and that another one reports nothing.
fn assert_reported(reports: bool, metrics: Option<QueryMetrics>) {
    let bytes = metrics.map(|metrics| metrics.block_bytes_scanned);
    if reports {
        assert!(bytes.is_some_and(|bytes| bytes > 0), "{bytes:?}");
    } else {
        assert_eq!(bytes, None);
    }
}

fn assert_all_reported(reports: bool, rows: &[Row], count: usize) {
    assert_eq!(rows.len(), count);
    for row in rows {
        assert_reported(reports, row.query_metrics());
    }
}

#[tokio::test]
async fn gets_report_what_servers_have_read() {
    on_rows_in_a_file(async |reports, table| {
        let row = table.get(Get::new("a")).await.unwrap().unwrap();
        assert_eq!(row.query_metrics(), None);
        let get = |row: &'static str| Get::new(row).query_metrics();
        let row = table.get(get("a")).await.unwrap().unwrap();
        assert_reported(reports, row.query_metrics());
        // In a memstore there are no blocks.
        table.put(put("m", "v")).await.unwrap();
        let metrics = table.get(get("m").column("f", "q")).await.unwrap().unwrap();
        assert_eq!(metrics.query_metrics().is_some(), reports);

        let found = table.get_many(["a", "x", "y"].map(get)).await.unwrap();
        let found: Vec<Row> = found.into_iter().flatten().collect();
        assert_all_reported(reports, &found, 3);
        // Several gets that share a call, one of which asks for nothing.
        let gets = [get("a"), Get::new("b"), get("c"), get("x"), get("y")];
        let found = futures::future::join_all(gets.map(|get| table.get(get))).await;
        for (at, found) in found.into_iter().enumerate() {
            let metrics = found.unwrap().unwrap().query_metrics();
            assert_reported(reports && at != 1, metrics);
        }
        for done in table.batch([RowOperation::from(get("a"))]).await {
            assert_reported(reports, done.unwrap().unwrap().query_metrics());
        }
    })
    .await;
}

#[tokio::test]
async fn scans_report_what_servers_have_read() {
    on_rows_in_a_file(async |reports, table| {
        let scan = || Scan::new().query_metrics();
        let rows = async |scan| collect(table.scan(scan).unwrap()).await;
        assert_all_reported(false, &rows(Scan::new()).await, 5);
        // In one answer the first row has the block that the others are in.
        let found = rows(scan()).await;
        assert!(found.iter().all(|row| row.query_metrics().is_some() == reports));
        assert_reported(reports, found[0].query_metrics());
        // The second and later calls of a scanner do not open it.
        let found = rows(scan().caching(1)).await;
        assert_eq!(found.len(), 5);
        assert!(found.iter().all(|row| row.query_metrics().is_some() == reports));

        // A row that arrives in several answers has the sum, and a part of one its own.
        let (cells, value) = (8_u8, vec![b'v'; 300 << 10]);
        for cell in 0..cells {
            let put = Put::new("big").cell("f", vec![cell], value.clone());
            table.put(put).await.unwrap();
        }
        let admin = Admin::new(table.connection());
        admin.flush_table(table.name()).await.unwrap();
        let big = || Scan::prefix("big").query_metrics().max_result_size(1 << 20);
        let least = if reports {
            value.len() as u64 * u64::from(cells)
        } else {
            0
        };
        let sum = |rows: &[Row]| -> u64 {
            let metrics = rows.iter().filter_map(Row::query_metrics);
            metrics.map(|metrics| metrics.block_bytes_scanned).sum()
        };
        for (scan, parts) in [(big(), 1), (big().batch(2), 4)] {
            let found = rows(scan).await;
            assert_eq!(found.len(), parts);
            let sum = sum(&found);
            assert!(sum >= least && (sum > 0) == reports, "{sum} of {least}");
        }
    })
    .await;
}

#[tokio::test]
async fn conditional_changes_report_what_their_conditions_have_read() {
    on_rows_in_a_file(async |reports, table| {
        for (value, success) in [("v", true), ("other", false)] {
            let condition = || Condition::equal("a", "f", "q", value);
            let change = || [Put::new("a").cell("f", "other", "w").into()];
            let quiet = table.check_and_mutate(condition(), change()).await.unwrap();
            assert_eq!((quiet.success, quiet.metrics), (success, None));
            let condition = condition().query_metrics();
            let result = table.check_and_mutate(condition.clone(), change()).await;
            let result = result.unwrap();
            assert_eq!(result.success, success);
            assert_reported(reports, result.metrics);
            let results = table
                .check_and_mutate_many([(condition, change().to_vec())])
                .await;
            for result in results {
                assert_reported(reports, result.unwrap().metrics);
            }
        }
    })
    .await;
}
