//! Replication peers. Their endpoint is one of HBase that only reads the writes, so there is no other
//! cluster.

use hbase_txn::admin::{Admin, ReplicationPeerConfig};

use super::*;

const READS_ONLY: &str = "org.apache.hadoop.hbase.replication.VerifyWALEntriesReplicationEndpoint";

#[tokio::test]
async fn peers_are_added_switched_and_removed() {
    on_each(async |cluster| {
        let connection = cluster.connect().await;
        let admin = Admin::new(&connection);
        let shared = TestTable::create_on(cluster, "replicated", plain, &[]).await;
        let id = format!("peer_{:08x}", fastrand::u32(..));
        let config = ReplicationPeerConfig::new("127.0.0.1:1:/none")
            .with_endpoint(READS_ONLY)
            .with_table(shared.name.clone())
            .with_namespace("elsewhere");
        let found = async || {
            let peers = admin.replication_peers().await.unwrap();
            peers.into_iter().find(|peer| peer.id == id)
        };
        for _ in 0..2 {
            admin.add_replication_peer(&id, &config, false).await.unwrap();
        }
        let peer = found().await.unwrap();
        assert_eq!((peer.enabled, &peer.config), (false, &config));
        let other = ReplicationPeerConfig::new("127.0.0.1:1:/none").with_endpoint(READS_ONLY);
        let error = admin.add_replication_peer(&id, &other, false).await.unwrap_err();
        assert_eq!(error.kind(), ClientErrorKind::ReplicationPeerExists, "{error}");
        says(&error, &[&id]);
        assert_eq!(found().await.unwrap().config, config);

        for _ in 0..2 {
            admin.enable_replication_peer(&id).await.unwrap();
            assert!(found().await.unwrap().enabled);
        }
        shared.of(&connection).put(put("r", "v")).await.unwrap();
        for _ in 0..2 {
            admin.disable_replication_peer(&id).await.unwrap();
            assert!(!found().await.unwrap().enabled);
        }
        // Not while it is enabled: if the server has just begun a log file, a source that ships to a peer
        // whose configuration changes finds no queue for that file, and the server aborts.
        let mut changed = config.clone().with_namespace("further");
        changed.bandwidth = Some(1 << 20);
        for _ in 0..2 {
            admin.update_replication_peer_config(&id, &changed).await.unwrap();
            let peer = found().await.unwrap();
            assert_eq!((peer.enabled, &peer.config), (false, &changed));
        }
        let moved = ReplicationPeerConfig::new("127.0.0.1:2:/none").with_endpoint(READS_ONLY);
        let error = admin
            .update_replication_peer_config(&id, &moved)
            .await
            .unwrap_err();
        says(&error, &[&id, "updating"]);
        assert_eq!(found().await.unwrap().config, changed);
        admin.remove_replication_peer(&id).await.unwrap();
        assert_eq!(found().await, None);
        for result in [
            admin.remove_replication_peer(&id).await,
            admin.enable_replication_peer(&id).await,
            admin.disable_replication_peer(&id).await,
            admin.update_replication_peer_config(&id, &config).await,
        ] {
            let error = result.unwrap_err();
            assert_eq!(error.kind(), ClientErrorKind::ReplicationPeerNotFound, "{error}");
            says(&error, &[&id]);
        }
        let broken = ReplicationPeerConfig::new("not a cluster");
        let error = admin.add_replication_peer(&id, &broken, false).await.unwrap_err();
        says(&error, &[&id, "not a cluster"]);
        assert_eq!(found().await, None);
    })
    .await;
}
