//! Namespaces, truncated tables, snapshots, switches, servers, procedures.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use hbase_txn::{
    admin::{Admin, LockedResource, NamespaceDescriptor, ProcedureState},
    client::ServerName,
};

use super::*;
use crate::{
    proxy::Proxy,
    support::{connect_by, eventually},
};

#[tokio::test]
async fn namespaces_come_and_go() {
    on_each(async |cluster| {
        let admin = Admin::new(&cluster.connect().await);
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
        let admin = Admin::new(&connection);
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
        let admin = Admin::new(&cluster.connect().await);
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
        let admin = Admin::new(&cluster.connect().await);
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
        let admin = Admin::new(&connection);
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
        assert_eq!(
            Admin::new(&connection).regions(&shared.name).await.unwrap().len(),
            3
        );
        let before = proxy.requests("Scan");
        let table = shared.of(&connection);
        for row in ["a", "g", "z"] {
            assert_eq!(table.get(Get::new(row)).await.unwrap(), None);
        }
        assert_eq!((proxy.requests("Get"), proxy.requests("Scan")), (3, before));
    })
    .await;
}

#[tokio::test]
async fn region_is_closed_and_opened_again() {
    on_each(async |cluster| {
        let connection = cluster.connect().await;
        let admin = Admin::new(&connection);
        let shared = TestTable::create_on(cluster, "assigned", plain, &["m"]).await;
        let table = shared.of(&connection);
        for row in ["a", "z"] {
            table.put(put(row, "v")).await.unwrap();
        }
        let region = admin.regions(&shared.name).await.unwrap().remove(1).region;
        for _ in 0..2 {
            admin.unassign_region(&region).await.unwrap();
        }
        let hasty = table.clone().with_operation_timeout(Duration::from_millis(500));
        hasty.get(Get::new("z")).await.unwrap_err();
        assert_eq!(value(&table, "a").await.as_deref(), Some("v"));
        for _ in 0..2 {
            admin.assign_region(&region).await.unwrap();
        }
        assert_eq!(value(&table, "z").await.as_deref(), Some("v"));
        admin.disable_table(&shared.name).await.unwrap();
        let error = admin.assign_region(&region).await.unwrap_err();
        says(&error, &[&shared.name.to_string(), "disabled"]);
        let mut unknown = region.clone();
        unknown.name = format!("{},m,1.0123456789abcdef0123456789abcdef.", shared.name).into();
        for result in [
            admin.assign_region(&unknown).await,
            admin.unassign_region(&unknown).await,
        ] {
            let error = result.unwrap_err();
            assert_eq!(error.kind(), ClientErrorKind::RegionNotFound, "{error}");
            says(&error, &[&shared.name.to_string(), "assigning a region"]);
        }
    })
    .await;
}

#[tokio::test]
async fn procedures_and_their_locks_are_listed() {
    on_each(async |cluster| {
        let admin = Admin::new(&cluster.connect().await);
        let name = unique_name("procedures");
        let split_keys: Vec<_> = (b'a'..=b'y').map(|key| Bytes::copy_from_slice(&[key])).collect();
        let descriptor = plain(name.clone());
        let locked = eventually("the new table is locked", async || {
            let locks = admin.procedure_locks().await.unwrap();
            locks.into_iter().find(|lock| lock.name == name.to_string())
        });
        let (created, lock) = tokio::join!(admin.create_table(&descriptor, &split_keys), locked);
        created.unwrap();
        assert_eq!(lock.resource, LockedResource::Table);
        let owner = lock.exclusive_owner.unwrap();
        assert!(owner.class.ends_with(".CreateTableProcedure"), "{owner:?}");
        assert!(!owner.state.is_final() && owner.failure.is_none(), "{owner:?}");
        let procedures = admin.procedures().await.unwrap();
        let done = procedures.iter().find(|found| found.id == owner.id).unwrap();
        assert_eq!((done.state, done.parent), (ProcedureState::Success, None));
        assert_eq!((&done.owner, done.submitted), (&owner.owner, owner.submitted));
        assert!(done.updated >= done.submitted && done.submitted > SystemTime::UNIX_EPOCH);
        admin.create_table(&descriptor, &[]).await.unwrap_err();
        admin.delete_table(&name).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn servers_read_their_configuration_and_begin_logs() {
    on_each(async |cluster| {
        let admin = Admin::new(&cluster.connect().await);
        let servers = admin.cluster_info().await.unwrap().live_servers;
        admin.update_configuration_of_all().await.unwrap();
        for server in &servers {
            admin.update_configuration(server).await.unwrap();
            admin.roll_wal_writer(server).await.unwrap();
            assert!(admin.compaction_switch(server, true).await.unwrap());
        }
        let nowhere = ServerName {
            host: "127.0.0.1".to_owned(),
            port: 1,
            start_code: 1,
        };
        for result in [
            admin.update_configuration(&nowhere).await,
            admin.roll_wal_writer(&nowhere).await,
            admin.compaction_switch(&nowhere, true).await.map(drop),
        ] {
            let error = result.unwrap_err();
            assert_eq!(error.kind(), ClientErrorKind::Unreachable, "{error}");
            says(&error, &["127.0.0.1:1"]);
        }
    })
    .await;
}

#[tokio::test]
async fn chores_of_the_master_run_and_are_switched() {
    on_each(async |cluster| {
        let admin = Admin::new(&cluster.connect().await);
        admin.cleaner_chore_switch(true).await.unwrap();
        assert!(admin.cleaner_chore_switch(false).await.unwrap());
        assert!(!admin.is_cleaner_chore_enabled().await.unwrap());
        // It depends on files of other tests whether all can be deleted.
        admin.run_cleaner_chore().await.unwrap();
        assert!(!admin.cleaner_chore_switch(true).await.unwrap());
        assert!(admin.is_cleaner_chore_enabled().await.unwrap());
        admin.catalog_janitor_switch(true).await.unwrap();
        assert!(admin.catalog_janitor_switch(false).await.unwrap());
        assert!(!admin.is_catalog_janitor_enabled().await.unwrap());
        assert!(!admin.catalog_janitor_switch(true).await.unwrap());
        assert!(admin.is_catalog_janitor_enabled().await.unwrap());
        eventually("no other scan runs", async || {
            admin.run_catalog_janitor().await.unwrap()
        })
        .await;
    })
    .await;
}

/// The local clusters have no unknown servers, and no pages: unit tests of the client have both.
#[tokio::test]
async fn unknown_servers_and_the_port_of_the_page_are_reported() {
    on_each(async |cluster| {
        let admin = Admin::new(&cluster.connect().await);
        assert_eq!(admin.master_info_port().await.unwrap(), None);
        let unknown = admin.unknown_servers().await;
        match cluster.status.version {
            Some(HBaseVersion::V2_4) => {
                let error = unknown.unwrap_err();
                assert_eq!(error.kind(), ClientErrorKind::Unsupported, "{error}");
                says(&error, &["unknown servers"]);
            }
            _ => assert_eq!(unknown.unwrap(), []),
        }
    })
    .await;
}
