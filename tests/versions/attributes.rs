//! Attributes of requests and connections, as servers receive them.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use futures::future::join_all;
use hbase_local::LocalCluster;
use hbase_txn::{admin::Admin, client::Increment};

use super::*;
use crate::{
    proxy::{Action, Proxy},
    support::connect_by,
};

/// Local clusters, and those set up by the guides, have `CoprocessorWhitelistMasterObserver`.
#[tokio::test]
async fn a_table_that_names_a_jar_is_refused() {
    on_each(async |cluster| {
        let admin = Admin::new(&cluster.connect().await);
        // A jar that servers can read, because the master looks for the class in it first.
        let folder = match LocalCluster::new(&cluster.status.name) {
            Ok(local) => local.status().unwrap().folders["jars"].clone(),
            // The container of `make test-docker`.
            Err(_) => "/opt/hbase/lib".into(),
        };
        let class = "org.apache.hadoop.hbase.coprocessor.MultiRowMutationEndpoint";
        let jar = format!(
            "file://{}/hbase-server-{}.jar|{class}|1001|",
            folder.display(),
            cluster.status.version.unwrap()
        );
        let refused = |error: hbase_client::Error| {
            says(&error, &["DENIED in hbase.coprocessor.region.whitelist.paths"]);
        };
        let new = by_three(unique_name("jar")).with_attribute("coprocessor$9", jar.clone());
        refused(admin.create_table(&new, &[]).await.unwrap_err());
        assert!(!admin.tables().await.unwrap().contains(&new.name));

        let shared = TestTable::create_on(cluster, "jar", by_three, &[]).await;
        let stored = admin.descriptor(&shared.name).await.unwrap();
        let altered = stored.clone().with_attribute("coprocessor$9", jar);
        refused(admin.modify_table(&altered).await.unwrap_err());
        assert_eq!(admin.descriptor(&shared.name).await.unwrap(), stored);
        // The table's endpoint is of the servers' class path.
        let opened = shared.open(admin.connection()).await;
        let transaction = opened.transaction("xxx").put(put("xxx1", "v"));
        assert!(transaction.commit().await.is_committed());
    })
    .await;
}

#[tokio::test]
async fn attributes_are_sent_and_every_release_accepts_them() {
    on_each(async |cluster| {
        let shared = TestTable::create_on(cluster, "attributes", plain, &["m"]).await;
        let proxy = Proxy::new();
        let pair = |value: &'static str| vec![("id".to_owned(), Bytes::from(value))];
        let found: Arc<Mutex<BTreeSet<_>>> = Arc::default();
        let recorded = Arc::clone(&found);
        proxy.rule(move |request| {
            assert_eq!(request.connection_attributes(), pair("connection"));
            let call = (request.method.clone(), request.attributes());
            recorded.lock().unwrap().insert(call);
            Action::Pass
        });
        let config = cluster
            .config()
            .with_connection_attribute("id", "replaced")
            .with_connection_attribute("id", "connection");
        let connection = connect_by(proxy.clone(), config).await;
        for id in ["first", "second"] {
            let table = shared.of(&connection).with_request_attribute("id", id);
            for row in ["a", "z"] {
                table.put(put(row, id)).await.unwrap();
            }
            assert_eq!(value(&table, "a").await.as_deref(), Some(id));
            assert_eq!(keys(&table, Scan::new()).await, ["a", "z"]);
            let increment = Increment::new("a").column("f", id, 1);
            table.increment(increment).await.unwrap();
            for done in table.mutate_many([put("a", id), put("z", id)]).await {
                done.unwrap();
            }
        }
        let found = std::mem::take(&mut *found.lock().unwrap());
        for id in ["first", "second"] {
            for method in ["Get", "Mutate", "Multi", "Scan"] {
                assert!(
                    found.contains(&(method.to_owned(), pair(id))),
                    "{method} {id}: {found:?}"
                );
            }
        }
        connection.close().await;
    })
    .await;
}

#[tokio::test]
async fn operations_with_other_attributes_share_no_call() {
    on_each(async |cluster| {
        let shared = TestTable::create_on(cluster, "unshared", plain, &[]).await;
        let proxy = Proxy::new();
        let rows: Arc<Mutex<Vec<_>>> = Arc::default();
        let recorded = Arc::clone(&rows);
        proxy.rule(move |request| {
            let sent = request.mutations().into_iter().map(|mutation| mutation.row);
            let call = (request.attributes(), sent.collect::<Vec<_>>());
            recorded.lock().unwrap().push(call);
            Action::Pass
        });
        let connection = connect_by(proxy.clone(), cluster.config()).await;
        let plain = shared.of(&connection);
        let mut shared_calls = 0;
        let mut calls = Vec::new();
        // A busy server takes longer for a call than puts wait for it; then each has a call of its own.
        for _ in 0..5 {
            let puts = (0..200).map(async |number: usize| {
                let id = ["even", "odd"][number % 2];
                let table = plain.clone().with_request_attribute("id", id);
                table.put(put(format!("{id} {number}"), "v")).await.unwrap();
            });
            join_all(puts).await;
            calls.append(&mut *rows.lock().unwrap());
            shared_calls = calls.iter().filter(|(_, rows)| rows.len() > 1).count();
            if shared_calls > 0 {
                break;
            }
        }
        assert!(shared_calls > 0, "{} calls of one put", calls.len());
        for (attributes, rows) in &calls {
            let id = attributes.first().map_or(&b""[..], |(_, value)| value);
            assert!(rows.iter().all(|row| row.starts_with(id)), "{id:?}: {rows:?}");
        }
        connection.close().await;
    })
    .await;
}
