//! Look-ups of regions in replicas of `hbase:meta`, of which the clusters of this suite have one.

use std::time::Duration;

use hbase_txn::{
    ClientErrorKind,
    admin::Admin,
    client::{Config, Connection, Consistency, Get, MetaReplicaMode, Row, Scan},
};

use crate::support::{connect_by, eventually, spy::Spy};
use crate::{Cluster, TestTable, keys, on_each, plain, put};

const META: &str = "hbase:meta";

/// A new client, which knows no region, and the calls that it makes.
async fn connect(config: Config, mode: MetaReplicaMode) -> (Connection, Spy) {
    let spy = Spy::default();
    let config = config.with_meta_replicas(mode);
    (connect_by(spy.clone(), config).await, spy)
}

/// The configurations of both registries.
fn configs(cluster: &Cluster) -> [Config; 2] {
    [cluster.config(), cluster.rpc_config()]
}

#[tokio::test(flavor = "multi_thread")]
async fn replica_of_meta_answers_lookups() {
    on_each(async |cluster| {
        let name = TestTable::create_on(cluster, "meta_replicas", plain, &["m"]).await;
        let client = cluster.connect().await;
        for row in ["a", "z"] {
            name.of(&client).put(put(row, "v")).await.unwrap();
        }
        // A replica reads what is in files.
        Admin::new(&client).flush_table(META).await.unwrap();
        for config in configs(cluster) {
            // One call for both regions, because the look-up brings the neighbours.
            eventually("the replica knows the table", async || {
                let (client, spy) = connect(config.clone(), MetaReplicaMode::LoadBalance).await;
                let table = name.of(&client);
                let before = spy.scan_calls();
                for row in ["z", "a"] {
                    assert!(table.get(Get::new(row)).await.unwrap().is_some());
                }
                (spy.meta_replica_calls() == 1 && spy.scan_calls() - before == 1).then_some(())
            })
            .await;
            // The primary answers in time, and alone by default.
            let patient = config.clone().with_meta_replica_timeout(Duration::from_secs(30));
            for mode in [MetaReplicaMode::HedgedRead, MetaReplicaMode::None] {
                let (client, spy) = connect(patient.clone(), mode).await;
                assert_eq!(keys(&name.of(&client), Scan::new()).await, ["a", "z"]);
                assert_eq!(spy.meta_replica_calls(), 0);
            }
            // The catalog itself can be read from the replica.
            let hasty = config.with_primary_call_timeouts(Duration::ZERO, Duration::ZERO);
            let (client, _) = connect(hasty, MetaReplicaMode::HedgedRead).await;
            let catalog = client.table(META).unwrap();
            eventually("a replica answers", async || {
                let get = Get::new(name.name.to_string()).column("table", "state");
                let found = catalog.get(get.consistency(Consistency::Timeline)).await.unwrap();
                found.filter(Row::is_stale)
            })
            .await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn replica_that_is_behind_leads_to_the_primary() {
    on_each(async |cluster| {
        for config in configs(cluster) {
            let (client, spy) = connect(config, MetaReplicaMode::LoadBalance).await;
            // Nothing of these tables is in files yet.
            let name = TestTable::create_on(cluster, "meta_behind", plain, &["m"]).await;
            let table = name.of(&client);
            for row in ["a", "c", "z"] {
                table.put(put(row, "v")).await.unwrap();
            }
            assert!(spy.meta_replica_calls() > 0);
            let missing = client.table("none:such").unwrap();
            let error = missing.get(Get::new("a")).await.unwrap_err();
            assert_eq!(error.kind(), ClientErrorKind::TableNotFound, "{error}");

            // The replica knows the region, but not its split.
            let admin = Admin::new(&client);
            admin.flush_table(META).await.unwrap();
            eventually("the replica knows the table", async || {
                let (other, spy) = connect(cluster.config(), MetaReplicaMode::LoadBalance).await;
                let before = spy.scan_calls();
                name.of(&other).get(Get::new("a")).await.unwrap();
                (spy.scan_calls() - before == 1).then_some(())
            })
            .await;
            let regions = admin.regions(&name.name).await.unwrap();
            admin
                .split_region(&regions[0].region, Some("b".into()))
                .await
                .unwrap();
            for _ in 0..3 {
                let (other, spy) = connect(cluster.config(), MetaReplicaMode::LoadBalance).await;
                let table = name.of(&other);
                assert_eq!(keys(&table, Scan::new()).await, ["a", "c", "z"]);
                for row in ["a", "c", "z"] {
                    assert!(table.get(Get::new(row)).await.unwrap().is_some());
                }
                assert!(spy.meta_replica_calls() > 0);
            }
            admin.delete_table(&name.name).await.unwrap();
            let error = table.get(Get::new("a")).await.unwrap_err();
            assert_eq!(error.kind(), ClientErrorKind::TableNotFound, "{error}");
        }
    })
    .await;
}
