//! Store file trackers of tables, families and clones of snapshots.

use hbase_txn::{
    admin::{Admin, CloneSnapshotOptions},
    client::FamilyDescriptor,
};

use super::*;

/// The attribute of a table, and the setting of a family, that names the tracker.
const TRACKER: &str = "hbase.store.file-tracker.impl";

#[tokio::test]
async fn trackers_of_a_table_and_a_family_are_changed() {
    on_each(async |cluster| {
        let connection = cluster.connect().await;
        let admin = Admin::new(&connection);
        let two = |name: TableName| plain(name).with_family(FamilyDescriptor::new("g"));
        let shared = TestTable::create_on(cluster, "tracked", two, &["m"]).await;
        let (name, table) = (&shared.name, shared.of(&connection));
        for row in ["a", "z"] {
            let both = Put::new(row).cell("f", "q", "v").cell("g", "q", "v");
            table.put(both).await.unwrap();
        }
        admin.flush_table(name).await.unwrap();
        let of_family = async |tracker| {
            admin
                .modify_column_family_store_file_tracker(name, "f", tracker)
                .await
        };
        let of_table = async |tracker| admin.modify_table_store_file_tracker(name, tracker).await;
        if cluster.status.version == Some(HBaseVersion::V2_4) {
            for result in [of_table("FILE").await, of_family("FILE").await] {
                let error = result.unwrap_err();
                assert_eq!(error.kind(), ClientErrorKind::Unsupported, "{error}");
                says(&error, &["FILE", &name.to_string()]);
            }
            return;
        }
        let trackers = async || {
            let descriptor = admin.descriptor(name).await.unwrap();
            let family = descriptor.family("f").unwrap();
            let of_family = family.configuration.get(TRACKER).cloned();
            (descriptor.attribute(TRACKER).map(str::to_owned), of_family)
        };
        let file = || Some("FILE".to_owned());
        of_family("FILE").await.unwrap();
        // The master writes its default into new tables.
        assert_eq!(trackers().await, (Some("DEFAULT".to_owned()), file()));
        for _ in 0..2 {
            of_table("FILE").await.unwrap();
            assert_eq!(trackers().await, (file(), file()));
        }
        for row in ["a", "z"] {
            let found = table.get(Get::new(row)).await.unwrap().unwrap();
            assert_eq!(found.cells().len(), 2, "{row}");
        }

        for tracker in ["NONE", ""] {
            for result in [of_table(tracker).await, of_family(tracker).await] {
                let error = result.unwrap_err();
                assert_eq!(error.kind(), ClientErrorKind::InvalidInput, "{error}");
                assert!(!error.is_outcome_unknown(), "{error}");
            }
        }
        let missing = unique_name("untracked");
        let error = admin
            .modify_table_store_file_tracker(&missing, "FILE")
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ClientErrorKind::TableNotFound, "{error}");
        let error = admin
            .modify_column_family_store_file_tracker(name, "none", "FILE")
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ClientErrorKind::FamilyNotFound, "{error}");
        says(&error, &["none", &name.to_string()]);
    })
    .await;
}

#[tokio::test]
async fn clone_of_a_snapshot_has_another_tracker() {
    on_each(async |cluster| {
        let connection = cluster.connect().await;
        let admin = Admin::new(&connection);
        let shared = TestTable::create_on(cluster, "cloned", plain, &["m"]).await;
        for row in ["a", "z"] {
            shared.of(&connection).put(put(row, "v")).await.unwrap();
        }
        let snapshot = format!("versions_{:x}", fastrand::u64(..));
        admin.snapshot(&snapshot, &shared.name).await.unwrap();
        let copy = unique_name("copy");
        let options = CloneSnapshotOptions::new().with_store_file_tracker("FILE");
        let cloned = admin.clone_snapshot_with(&snapshot, &copy, &options).await;
        if cluster.status.version == Some(HBaseVersion::V2_4) {
            let error = cloned.unwrap_err();
            assert_eq!(error.kind(), ClientErrorKind::Unsupported, "{error}");
            assert!(!admin.exists(&copy).await.unwrap());
            admin.delete_snapshot(&snapshot).await.unwrap();
            return;
        }
        cloned.unwrap();
        let descriptor = admin.descriptor(&copy).await.unwrap();
        assert_eq!(descriptor.attribute(TRACKER), Some("FILE"));
        assert_eq!(
            keys(&connection.table(&copy).unwrap(), Scan::new()).await,
            ["a", "z"]
        );
        for tracker in ["NONE", ""] {
            let options = CloneSnapshotOptions::new().with_store_file_tracker(tracker);
            let another = unique_name("copy");
            let cloned = admin.clone_snapshot_with(&snapshot, &another, &options).await;
            let error = cloned.unwrap_err();
            assert_eq!(error.kind(), ClientErrorKind::InvalidInput, "{error}");
            says(&error, &[&snapshot, &another.to_string()]);
            assert!(!admin.exists(&another).await.unwrap());
        }
        admin.delete_table(&copy).await.unwrap();
        admin.delete_snapshot(&snapshot).await.unwrap();
    })
    .await;
}
