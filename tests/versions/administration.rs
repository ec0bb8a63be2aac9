//! Namespaces, truncated tables, snapshots, switches, decommissioned servers.

use hbase_txn::{NamespaceDescriptor, ServerName};

use super::*;
use crate::{proxy::Proxy, support::connect_by};

#[tokio::test]
async fn namespaces_come_and_go() {
    on_each(async |cluster| {
        let admin = cluster.connect().await.admin();
        let name = format!("versions_{:x}", fastrand::u64(..));
        let namespace = NamespaceDescriptor::new(&name).with_configuration("owner", "billing");
        admin.create_namespace(namespace.clone()).await.unwrap();
        assert!(admin.namespaces().await.unwrap().contains(&namespace));
        let table: TableName = format!("{name}:orders").parse().unwrap();
        admin.create_table(&plain(table.clone()), &[]).await.unwrap();
        assert_eq!(
            admin.tables_of_namespace(&name).await.unwrap(),
            std::slice::from_ref(&table)
        );
        let error = admin.delete_namespace(&name).await.unwrap_err();
        assert_eq!(error.kind(), ClientErrorKind::NamespaceNotEmpty, "{error}");
        admin.delete_table(table).await.unwrap();
        admin.delete_namespace(&name).await.unwrap();
        assert!(!admin.namespace_exists(&name).await.unwrap());
    })
    .await;
}

#[tokio::test]
async fn tables_are_snapped_cloned_restored_and_truncated() {
    on_each(async |cluster| {
        let connection = cluster.connect().await;
        let admin = connection.admin();
        let shared = TestTable::create_on(cluster, "snapped", plain, &["m"]).await;
        let table = shared.of(&connection);
        for row in ["a", "z"] {
            table.put(put(row, "v")).await.unwrap();
        }
        let name = format!("versions_{:x}", fastrand::u64(..));
        admin.snapshot(&name, &shared.name).await.unwrap();
        let error = admin.snapshot(&name, &shared.name).await.unwrap_err();
        assert_eq!(error.kind(), ClientErrorKind::SnapshotExists, "{error}");

        let copy = unique_name("copy");
        admin.clone_snapshot(&name, &copy).await.unwrap();
        assert_eq!(
            keys(&connection.table(&copy).unwrap(), Scan::new()).await,
            ["a", "z"]
        );
        admin.delete_table(&copy).await.unwrap();

        admin.truncate_table(&shared.name, true).await.unwrap();
        assert!(keys(&table, Scan::new()).await.is_empty());
        assert_eq!(admin.regions(&shared.name).await.unwrap().len(), 2);
        admin.disable_table(&shared.name).await.unwrap();
        admin.restore_snapshot(&name).await.unwrap();
        admin.enable_table(&shared.name).await.unwrap();
        assert_eq!(keys(&table, Scan::new()).await, ["a", "z"]);

        admin.delete_snapshot(&name).await.unwrap();
        let error = admin.delete_snapshot(&name).await.unwrap_err();
        assert_eq!(error.kind(), ClientErrorKind::SnapshotNotFound, "{error}");
    })
    .await;
}

#[tokio::test]
async fn balancer_and_normalizer_are_switched() {
    on_each(async |cluster| {
        let admin = cluster.connect().await.admin();
        let before = admin.balancer_switch(false).await.unwrap();
        assert!(!admin.is_balancer_enabled().await.unwrap());
        assert!(!admin.balance().await.unwrap());
        assert!(!admin.balancer_switch(before).await.unwrap());
        let before = admin.normalizer_switch(false).await.unwrap();
        assert!(!admin.is_normalizer_enabled().await.unwrap());
        assert!(!admin.normalize().await.unwrap());
        assert!(!admin.normalizer_switch(before).await.unwrap());
    })
    .await;
}

#[tokio::test]
async fn unknown_region_server_is_not_decommissioned() {
    on_each(async |cluster| {
        let admin = cluster.connect().await.admin();
        assert_eq!(admin.decommissioned_region_servers().await.unwrap(), []);
        let unknown = ServerName {
            host: "nowhere.invalid".to_owned(),
            port: 16020,
            start_code: 1,
        };
        let error = admin
            .decommission_region_servers(&[unknown], true)
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ClientErrorKind::InvalidInput, "{error}");
        says(&error, &["nowhere.invalid"]);
        assert_eq!(admin.decommissioned_region_servers().await.unwrap(), []);
    })
    .await;
}

#[tokio::test]
async fn new_table_has_the_schema_of_another() {
    on_each(async |cluster| {
        let connection = cluster.connect().await;
        let admin = connection.admin();
        let described = |name: TableName| plain(name).with_attribute("MAX_FILESIZE", "10737418240");
        let shared = TestTable::create_on(cluster, "schema", described, &["g", "p"]).await;
        shared.of(&connection).put(put("a", "v")).await.unwrap();
        for (preserve_splits, regions) in [(true, 3), (false, 1)] {
            let new = unique_name("cloned");
            admin
                .clone_table_schema(&shared.name, &new, preserve_splits)
                .await
                .unwrap();
            let mut descriptor = admin.descriptor(&new).await.unwrap();
            descriptor.name = shared.name.clone();
            assert_eq!(descriptor, admin.descriptor(&shared.name).await.unwrap());
            assert_eq!(admin.regions(&new).await.unwrap().len(), regions);
            assert!(
                keys(&connection.table(&new).unwrap(), Scan::new())
                    .await
                    .is_empty()
            );
            let error = admin
                .clone_table_schema(&shared.name, &new, false)
                .await
                .unwrap_err();
            assert_eq!(error.kind(), ClientErrorKind::TableExists, "{error}");
            admin.delete_table(&new).await.unwrap();
            let error = admin
                .clone_table_schema(&new, &shared.name, false)
                .await
                .unwrap_err();
            assert_eq!(error.kind(), ClientErrorKind::TableNotFound, "{error}");
        }
    })
    .await;
}

#[tokio::test]
async fn regions_that_were_listed_need_no_lookup() {
    on_each(async |cluster| {
        let shared = TestTable::create_on(cluster, "listed", plain, &["g", "p"]).await;
        let proxy = Proxy::new();
        let connection = connect_by(proxy.clone(), cluster.config()).await;
        assert_eq!(connection.admin().regions(&shared.name).await.unwrap().len(), 3);
        let before = proxy.requests("Scan");
        let table = shared.of(&connection);
        for row in ["a", "g", "z"] {
            assert_eq!(table.get(Get::new(row)).await.unwrap(), None);
        }
        assert_eq!((proxy.requests("Get"), proxy.requests("Scan")), (3, before));
    })
    .await;
}
