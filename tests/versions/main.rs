//! One smoke suite on every supported release. `HBASE_TXN_TEST_VERSIONS` names a local cluster of
//! each, separated by commas; a missing release is a failure.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use hbase_test_support as support;

use hbase_test_support::proxy;

mod across;
mod administered;
mod administration;
mod attributes;
mod batch;
mod broken_tables;
mod bulk;
mod column_families;
mod compression;
mod conditional;
mod differential;
mod filters;
mod latches;
mod locks;
mod maintenance;
mod partition_versions;
mod provision;
mod query_metrics;
mod reads;
mod records;
mod regions;
mod replicas;
mod replication_peers;
mod sequences;
mod shared_calls;
mod store_file_trackers;
mod truth_table;
mod without_endpoint;

use std::collections::BTreeSet;

use hbase_local::HBaseVersion;
use hbase_txn::{
    ClientErrorKind, ErrorKind, PartitionedTable,
    admin::Admin,
    client::{Compression, Connection, Delete, Get, Mutation, Put, Scan, TableName, TimeRange},
};

use support::{
    Cluster, collect, forge, key, keys, on_all, put, says,
    table::{TestTable, by_three, by_three_of_old, by_three_without_endpoint, plain, unique_name},
    value, versions,
};

/// Runs a part of the smoke suite on all releases concurrently.
#[allow(clippy::future_not_send, reason = "a test runs on one thread")]
async fn on_each(part: impl AsyncFn(&Cluster)) {
    on_all(&versions(), part).await;
}

#[test]
fn every_release_is_there() {
    let found: BTreeSet<String> = versions()
        .iter()
        .map(|cluster| cluster.status.version.unwrap().to_string())
        .collect();
    let expected: BTreeSet<String> = HBaseVersion::ALL.iter().map(HBaseVersion::to_string).collect();
    assert_eq!(found, expected, "run make test");
}

#[tokio::test]
async fn the_cluster_is_the_release_that_it_says() {
    on_each(async |cluster| {
        let info = Admin::new(&cluster.connect().await).cluster_info().await.unwrap();
        assert_eq!(info.version, cluster.status.version.unwrap().to_string());
    })
    .await;
}

#[tokio::test]
async fn transactions_batches_and_refusals() {
    on_each(async |cluster| {
        let connection = cluster.connect().await;
        let table = TestTable::create_on(cluster, "smoke", by_three, &["mmm"]).await;
        let opened = table.open(&connection).await;
        let mut transaction = opened
            .transaction("xxx")
            .put(put("xxxabc", "1"))
            .put(put("xxx123", "2"))
            .delete(Delete::new("xxxzzz"));
        let error = transaction.try_add(put("yyy1", "v")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OtherPartition);
        let committed = transaction.commit().await.into_result().unwrap();
        assert_eq!((committed.rows, committed.mutations), (3, 3));

        let mut batch = opened.batch();
        for row in ["aaa1", "aaa2", "nnn1", "xxx9"] {
            batch = batch.put(put(row, "v"));
        }
        batch = batch.put(Put::new("bbb1").cell("nope", "q", "v"));
        let outcomes = batch.commit().await;
        let names: Vec<_> = outcomes.iter().map(|group| group.outcome.name()).collect();
        assert_eq!(names, ["committed", "committed", "committed", "invalid"]);
        let expected = ["aaa1", "aaa2", "nnn1", "xxx123", "xxx9", "xxxabc"];
        assert_eq!(keys(opened.table(), Scan::new()).await, expected);

        // A forged call that the library would not send is not applied partially either.
        let forged = forge::transaction("aaa3", &[("aaa3", "f"), ("aaa4", "nope")]);
        opened.table().call_endpoint(&forged).await.unwrap_err();
        let forged = forge::transaction("aaa3", &[("aaa3", "f"), ("zzz1", "f")]);
        let patient = opened.table().clone();
        let hasty = patient.with_operation_timeout(std::time::Duration::from_secs(5));
        hasty.call_endpoint(&forged).await.unwrap_err();
        assert_eq!(keys(opened.table(), Scan::new()).await, expected);
    })
    .await;
}

#[tokio::test]
async fn tables_that_transactions_are_not_possible_on() {
    on_each(async |cluster| {
        let connection = cluster.connect().await;
        let refused = async |name: &TableName| {
            PartitionedTable::open(&connection, name.clone())
                .await
                .unwrap_err()
                .kind()
        };
        assert_eq!(
            refused(&unique_name("none")).await,
            ClientErrorKind::TableNotFound
        );
        let table = TestTable::create_on(cluster, "norule", plain, &[]).await;
        assert_eq!(refused(&table.name).await, ErrorKind::NoPartitionRule);
        let table = TestTable::create_on(cluster, "noendpoint", by_three_without_endpoint, &[]).await;
        assert_eq!(refused(&table.name).await, ClientErrorKind::EndpointMissing);
        let table = TestTable::create_on(cluster, "cut", by_three, &["xxxm"]).await;
        assert_eq!(refused(&table.name).await, ErrorKind::PartitionCut);
        Admin::new(&connection).disable_table(&table.name).await.unwrap();
        assert_eq!(refused(&table.name).await, ClientErrorKind::TableDisabled);
        Admin::new(&connection).disable_table(&table.name).await.unwrap();
        Admin::new(&connection).enable_table(&table.name).await.unwrap();
        Admin::new(&connection).enable_table(&table.name).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn single_rows_and_scans() {
    on_each(async |cluster| {
        let connection = cluster.connect().await;
        let table = TestTable::create_on(cluster, "rows", plain, &["b", "c"]).await;
        let rows = table.of(&connection);
        for row in ["a1", "b1", "b2", "c1"] {
            rows.put(put(row, row).timestamp(5)).await.unwrap();
        }
        assert_eq!(value(&rows, "b2").await.as_deref(), Some("b2"));
        let early = Get::new("b2").time_range(TimeRange { from: 0, to: 5 });
        assert_eq!(rows.get(early).await.unwrap(), None);
        rows.delete(Delete::new("b1").column("f", "q")).await.unwrap();
        assert_eq!(keys(&rows, Scan::new()).await, ["a1", "b2", "c1"]);
        assert_eq!(keys(&rows, Scan::new().limit(2).caching(1)).await, ["a1", "b2"]);
        assert_eq!(keys(&rows, Scan::prefix("b")).await, ["b2"]);

        // A row larger than a batch arrives in parts and is returned whole.
        for cell in 0..8_u8 {
            rows.put(Put::new("big").cell("f", vec![cell], vec![cell; 300 << 10]))
                .await
                .unwrap();
        }
        let scan = Scan::new().start_row("b2").stop_row("c").max_result_size(1 << 20);
        let found = collect(rows.scan(scan).unwrap()).await;
        assert_eq!(found.iter().map(key).collect::<Vec<_>>(), ["b2", "big"]);
        assert_eq!(found[1].cells().len(), 8);

        let error = rows.get(Get::new("a1").family("nope")).await.unwrap_err();
        assert_eq!(error.kind(), ClientErrorKind::FamilyNotFound, "{error}");
    })
    .await;
}

#[tokio::test]
async fn splits_behind_an_open_clients_back() {
    on_each(async |cluster| {
        let (connection, elsewhere) = (cluster.connect().await, cluster.connect().await);
        for (at, then) in [("xxx", "committed"), ("xxxm", "invalid")] {
            let table = TestTable::create_on(cluster, "split", by_three_of_old, &[]).await;
            let opened = table.open(&connection).await;
            let commit = async |value: &'static str| {
                let mut batch = opened.batch();
                for row in ["aaa1", "xxxa", "xxxz"] {
                    batch = batch.put(put(row, value));
                }
                let outcomes = batch.commit().await;
                assert_eq!(outcomes[0].outcome.name(), "committed", "{}", outcomes[0].outcome);
                outcomes[1].outcome.name()
            };
            assert_eq!(commit("1").await, "committed");
            table.split_at(&elsewhere, at).await;
            assert_eq!(commit("2").await, then);
            let expected = if then == "committed" { "2" } else { "1" };
            for row in ["xxxa", "xxxz"] {
                assert_eq!(value(opened.table(), row).await.as_deref(), Some(expected));
            }
            if then == "invalid" {
                let error = PartitionedTable::open(&connection, table.name.clone())
                    .await
                    .unwrap_err();
                says(&error, &["partition xxx by the boundary xxxm"]);
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_merge_behind_an_open_clients_back() {
    on_each(async |cluster| {
        let (connection, elsewhere) = (cluster.connect().await, cluster.connect().await);
        let table = TestTable::create_on(cluster, "merge", by_three, &["mmm"]).await;
        let opened = table.open(&connection).await;
        let rows = opened.table();
        for row in ["aaa1", "xxx1"] {
            rows.put(put(row, "1")).await.unwrap();
        }
        table.merge_both(&elsewhere).await;
        rows.put(put("xxx1", "2")).await.unwrap();
        assert_eq!(keys(rows, Scan::new()).await, ["aaa1", "xxx1"]);
        assert_eq!(table.regions(&connection).await.len(), 1);
    })
    .await;
}

/// Masters answer the RPC registry on all releases, region servers from 2.5 on.
#[tokio::test]
async fn both_registries_lead_to_the_cluster() {
    on_each(async |cluster| {
        let table = TestTable::create_on(cluster, "registry", by_three, &[]).await;
        let region_server = cluster.status.ports["region-server"];
        let mut uris = vec![cluster.uri.clone(), cluster.rpc_uri.clone()];
        if cluster.status.version != Some(HBaseVersion::V2_4) {
            uris.push(format!("hbase+rpc://127.0.0.1:{region_server}"));
        }
        for uri in uris {
            let connection = Connection::connect(&uri).await.unwrap();
            let opened = table.open(&connection).await;
            let transaction = opened.transaction("xxx").put(put("xxx1", uri));
            assert!(transaction.commit().await.is_committed());
            assert_eq!(keys(opened.table(), Scan::new()).await, ["xxx1"]);
            connection.close().await;
        }
    })
    .await;
}
