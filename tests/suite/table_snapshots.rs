//! Snapshots of tables.

use std::time::{Duration, SystemTime};

use hbase_txn::{
    ClientErrorKind,
    admin::{Admin, SnapshotKind},
    client::Scan,
};

use crate::support::{
    connect, keys, put, says,
    table::{TestTable, plain, unique_name},
};

#[tokio::test]
#[ignore = "needs snapshots"]
async fn snapshot_is_taken_cloned_restored_and_deleted() {
    let connection = connect().await;
    let admin = Admin::new(&connection);
    let owned = TestTable::create("snapped", plain, &["m"]).await;
    let table = owned.of(&connection);
    for row in ["a", "z"] {
        table.put(put(row, "v")).await.unwrap();
    }
    let name = format!("suite_{:x}", fastrand::u64(..));
    let before = SystemTime::now();
    admin.snapshot(&name, &owned.name).await.unwrap();
    let all = admin.snapshots().await.unwrap();
    let found = all.iter().find(|snapshot| snapshot.name == name).unwrap();
    assert_eq!(found.table.as_ref(), Some(&owned.name));
    assert_eq!(found.kind, SnapshotKind::Flush);
    let second = Duration::from_secs(1);
    assert!(
        found.created > before - second && found.created < SystemTime::now() + second,
        "{found:?}"
    );

    let error = admin.snapshot(&name, &owned.name).await.unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::SnapshotExists, "{error}");
    says(&error, &[&name]);

    table.put(put("later", "v")).await.unwrap();
    let copy = unique_name("snapped-copy");
    admin.clone_snapshot(&name, &copy).await.unwrap();
    assert_eq!(
        keys(&connection.table(&copy).unwrap(), Scan::new()).await,
        ["a", "z"]
    );
    assert_eq!(admin.regions(&copy).await.unwrap().len(), 2);
    let error = admin.clone_snapshot(&name, &copy).await.unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::TableExists);
    admin.delete_table(&copy).await.unwrap();

    let online = admin.restore_snapshot(&name).await.unwrap_err();
    says(&online, &["disabled", &name]);
    admin.disable_table(&owned.name).await.unwrap();
    admin.restore_snapshot(&name).await.unwrap();
    admin.enable_table(&owned.name).await.unwrap();
    assert_eq!(keys(&table, Scan::new()).await, ["a", "z"]);

    admin.delete_snapshot(&name).await.unwrap();
    let all = admin.snapshots().await.unwrap();
    assert!(all.iter().all(|snapshot| snapshot.name != name));
}

#[tokio::test]
#[ignore = "needs snapshots"]
async fn missing_snapshots_and_tables_are_named() {
    let admin = Admin::new(&connect().await);
    for error in [
        admin.delete_snapshot("suite_none").await.unwrap_err(),
        admin.restore_snapshot("suite_none").await.unwrap_err(),
        admin
            .clone_snapshot("suite_none", "suite_copy")
            .await
            .unwrap_err(),
    ] {
        assert_eq!(error.kind(), ClientErrorKind::SnapshotNotFound, "{error}");
        says(&error, &["suite_none"]);
    }
    let error = admin.snapshot("suite_one", "suite_none").await.unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::TableNotFound, "{error}");
    let error = admin.snapshot("", "suite_none").await.unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::InvalidInput);
}
