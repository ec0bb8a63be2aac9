//! Every metric of the page is emitted, and no other.

use std::{collections::BTreeSet, time::Duration};

use futures::future::join_all;
use hbase_fake::{Call, FakeHBase};
use hbase_txn::{
    Level, PartitionedTable, TransactionId,
    client::{Connection, Get, Put, Scan, Table},
    lock::LockManagerOptions,
};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle, PrometheusRecorder};
use tokio::time::Instant;

use crate::page;

const MOVED: &str = "org.apache.hadoop.hbase.NotServingRegionException";
const SECOND: Duration = Duration::from_secs(1);

/// Runs a test with a recorder, and passes what it would export.
fn recorded(test: impl AsyncFnOnce(&FakeHBase, &PrometheusHandle)) {
    let _turn = crate::turn();
    let recorder: PrometheusRecorder = PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    metrics::with_local_recorder(&recorder, || {
        FakeHBase::run(async |hbase| {
            hbase.create_table("plain", &["f"], &["m"]);
            hbase.create_partitioned_table("orders", &["f", "_txn"], 3);
            hbase.create_table("dlm_locks", &["D"], &[]);
            test(hbase, &handle).await;
            Ok(())
        });
    });
}

/// Returns the value of a series, 0 if there is none.
fn value(handle: &PrometheusHandle, series: &str) -> f64 {
    let text = handle.render();
    let mut lines = text.lines().filter_map(|line| line.rsplit_once(' '));
    let found = lines.find(|(name, _)| *name == series);
    found.map_or(0.0, |(_, value)| value.parse().unwrap())
}

fn put(row: impl Into<String>) -> Put {
    Put::new(row.into()).cell("f", "q", "v")
}

async fn read_and_write(hbase: &FakeHBase, connection: &Connection) -> Table {
    let plain = connection.table("plain").unwrap();
    plain.put(put("secret-row")).await.unwrap();
    assert!(plain.get(Get::new("secret-row")).await.unwrap().is_some());
    join_all((0..8).map(|number| plain.put(put(format!("a{number}"))))).await;
    let mut scanner = plain.scan(Scan::new()).unwrap();
    while scanner.next().await.unwrap().is_some() {}
    hbase.fault(Call::Get.on("plain").fail_before(MOVED, "moved").times(1));
    plain.get(Get::new("a")).await.unwrap();
    plain
}

/// Writes three calls of mutations to one region, and returns how long that takes.
async fn write_in_bulk(hbase: &FakeHBase, backpressure: bool) -> Duration {
    let config = hbase.config().with_backpressure(backpressure);
    let connection = Connection::builder(config).connector(hbase.connector());
    let connection = connection.connect().await.unwrap();
    let began = Instant::now();
    let puts = (0..6_000).map(|number| put(format!("a{number}")));
    let plain = connection.table("plain").unwrap();
    assert!(plain.mutate_many(puts).await.iter().all(Result::is_ok));
    began.elapsed()
}

async fn commit(connection: &Connection) {
    let orders = PartitionedTable::open(connection, "orders").await.unwrap();
    let commits = (0..8).map(|number| {
        let transaction = orders.transaction("xxx").put(put(format!("xxx{number}")));
        transaction.commit()
    });
    assert!(
        join_all(commits)
            .await
            .iter()
            .all(|outcome| outcome.is_committed())
    );
    let id = TransactionId::new("request-1").unwrap();
    orders.settle("xxx", &id).await.unwrap();
}

async fn lock(connection: &Connection) {
    let locks = LockManagerOptions::new("billing").farm("fra");
    let locks = locks.open(connection, "dlm_locks").await.unwrap();
    let request = || locks.lock(Level::Dc, "secret-lock").unwrap().ttl(SECOND);
    let guard = request().acquire().await.unwrap();
    assert!(request().try_acquire().await.unwrap().is_none());
    guard.renew().await.unwrap();
    guard.lost().await;
}

#[test]
fn all_metrics_of_the_page_are_emitted_and_no_others() {
    recorded(async |hbase, handle| {
        let connection = hbase.connect().await.unwrap();
        read_and_write(hbase, &connection).await;
        commit(&connection).await;
        lock(&connection).await;
        hbase.set_memstore_load(Some(100));
        write_in_bulk(hbase, true).await;
        let text = handle.render();
        let emitted = |line: &str| line.strip_prefix("# TYPE ")?.split(' ').next().map(str::to_owned);
        let emitted: BTreeSet<String> = text.lines().filter_map(emitted).collect();
        let explained: BTreeSet<String> = page::metrics().into_keys().collect();
        assert_eq!(emitted, explained);
        for line in text.lines().filter(|line| line.starts_with("# TYPE ")) {
            let (name, kind) = line.trim_start_matches("# TYPE ").split_once(' ').unwrap();
            // Without bounds of buckets a histogram is exported as a summary.
            let kind = if kind == "summary" { "histogram" } else { kind };
            assert_eq!(page::metrics()[name], kind, "{name}");
            assert!(
                text.contains(&format!("# HELP {name} ")),
                "{name} has no description"
            );
        }
        assert!(!text.contains("secret"), "{text}");
    });
}

#[test]
fn calls_are_counted_by_method_and_outcome() {
    recorded(async |hbase, handle| {
        let connection = hbase.connect().await.unwrap();
        let plain = read_and_write(hbase, &connection).await;
        let calls = |method: &str, outcome: &str| {
            let labels = format!("{{method=\"{method}\",outcome=\"{outcome}\"}}");
            value(handle, &format!("hbase_client_calls_total{labels}"))
        };
        // One of them reads the state of the table.
        assert_eq!(
            (calls("Get", "ok"), calls("Get", "region_unavailable")),
            (3.0, 1.0)
        );
        let retries = "hbase_client_retries_total{reason=\"region_unavailable\"}";
        let evictions = "hbase_client_region_cache_evictions_total{reason=\"region\"}";
        assert_eq!((value(handle, retries), value(handle, evictions)), (1.0, 1.0));
        let operations = |outcome: &str| {
            let labels = format!("{{operation=\"get\",outcome=\"{outcome}\"}}");
            value(handle, &format!("hbase_client_operations_total{labels}"))
        };
        assert_eq!((operations("ok"), operations("failed")), (2.0, 0.0));
        let missing = connection.table("missing").unwrap();
        missing.get(Get::new("a")).await.unwrap_err();
        assert_eq!(operations("failed"), 1.0);
        hbase.fault(Call::Mutate.on("plain").lose_answer().times(1));
        plain.put(put("b")).await.unwrap_err();
        let unknown = "hbase_client_operations_total{operation=\"put\",outcome=\"unknown\"}";
        assert_eq!(value(handle, unknown), 1.0);
    });
}

#[test]
fn bulk_writes_pause_as_the_reported_load_requires() {
    recorded(async |hbase, handle| {
        let pauses = || value(handle, "hbase_client_pushback_duration_seconds_count");
        let seconds = || value(handle, "hbase_client_pushback_duration_seconds_sum");
        let brief = Duration::from_millis(10);
        for (load, backpressure) in [
            (None, true),
            (Some(80), true),
            (Some(101), true),
            (Some(-1), true),
            (Some(100), false),
        ] {
            hbase.set_memstore_load(load);
            assert!(write_in_bulk(hbase, backpressure).await < brief, "{load:?}");
            assert_eq!(pauses(), 0.0, "{load:?}");
        }
        // Each call but the last one is followed by a pause, of half of 100 ms, or of all.
        hbase.set_memstore_load(Some(90));
        assert!(write_in_bulk(hbase, true).await < Duration::from_millis(110));
        assert_eq!((pauses(), (seconds() * 1e3).round()), (2.0, 100.0));
        hbase.set_memstore_load(Some(100));
        assert!(write_in_bulk(hbase, true).await < Duration::from_millis(210));
        assert_eq!((pauses(), (seconds() * 1e3).round()), (4.0, 300.0));
    });
}

#[test]
fn gauges_return_to_zero() {
    recorded(async |hbase, handle| {
        let connection = hbase.connect().await.unwrap();
        let plain = connection.table("plain").unwrap();
        let gauges = [
            "hbase_client_connections",
            "hbase_client_calls_in_flight",
            "hbase_client_operations_waiting",
        ];
        plain.put(put("a")).await.unwrap();
        let held = hbase.fault(Call::Any.on("plain").hold_request());
        let writes = tokio::spawn({
            let plain = plain.clone();
            async move { join_all((0..8).map(|number| plain.put(put(format!("a{number}"))))).await }
        });
        held.wait_for(2).await;
        for gauge in gauges {
            assert!(value(handle, gauge) >= 1.0, "{gauge}: {}", handle.render());
        }
        held.release();
        assert!(writes.await.unwrap().iter().all(Result::is_ok));
        connection.close().await;
        tokio::time::sleep(SECOND).await;
        for gauge in gauges {
            assert_eq!(value(handle, gauge), 0.0, "{gauge}");
        }
    });
}

#[test]
fn commits_and_locks_are_counted_by_outcome() {
    recorded(async |hbase, handle| {
        let connection = hbase.connect().await.unwrap();
        commit(&connection).await;
        lock(&connection).await;
        for (series, expected) in [
            ("hbase_txn_commits_total{outcome=\"committed\"}", 8.0),
            ("hbase_txn_records_settled_total{outcome=\"not_applied\"}", 1.0),
            (
                "hbase_txn_lock_acquisitions_total{kind=\"lock\",outcome=\"acquired\"}",
                1.0,
            ),
            (
                "hbase_txn_lock_acquisitions_total{kind=\"lock\",outcome=\"unavailable\"}",
                1.0,
            ),
            ("hbase_txn_lock_renewals_total{outcome=\"renewed\"}", 1.0),
            ("hbase_txn_lock_losses_total{reason=\"expired\"}", 1.0),
        ] {
            assert_eq!(value(handle, series), expected, "{series}: {}", handle.render());
        }
        // Fewer calls than transactions: some have shared one.
        let calls = value(handle, "hbase_txn_coalesced_transactions_count");
        assert_eq!(value(handle, "hbase_txn_coalesced_transactions_sum"), 8.0);
        assert!(calls < 8.0, "{calls}");
    });
}
