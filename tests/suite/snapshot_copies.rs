//! Tables that come from snapshots: what they have of the original, and what they share with it.

use hbase_txn::{
    ClientErrorKind,
    admin::{Admin, SnapshotKind},
    client::{Connection, FamilyDescriptor, Get, Put, Scan, Table, TableDescriptor, TableName},
};

use crate::support::{
    connect, keys, put, rows, says,
    table::{TestTable, plain},
    value,
};

fn described(name: TableName) -> TableDescriptor {
    let family = FamilyDescriptor::new("f")
        .with_attribute("VERSIONS", "3")
        .with_attribute("BLOOMFILTER", "ROWCOL");
    TableDescriptor::from(name)
        .with_family(family)
        .with_family(FamilyDescriptor::new("g").with_attribute("TTL", "86400"))
        .with_attribute("MAX_FILESIZE", "1073741824")
        .with_attribute("owner", "billing")
}

/// Writes two versions of ten rows, and returns their keys.
async fn fill(table: &Table) -> Vec<String> {
    let rows: Vec<_> = (0..10).map(|row| format!("r{row}")).collect();
    for row in &rows {
        for timestamp in [1, 2] {
            let put = Put::new(row.clone()).cell_at("f", "q", timestamp, timestamp.to_string());
            table.put(put.cell_at("g", "q", timestamp, "v")).await.unwrap();
        }
    }
    rows
}

/// A snapshot that is deleted at the end of its test.
async fn snapshot(connection: &Connection, table: &TableName) -> String {
    let name = format!("suite_{:x}", fastrand::u64(..));
    Admin::new(connection).snapshot(&name, table).await.unwrap();
    name
}

/// Returns the descriptor under another name.
async fn named(connection: &Connection, table: &TableName, name: &TableName) -> TableDescriptor {
    let mut found = Admin::new(connection).descriptor(table).await.unwrap();
    found.name = name.clone();
    found
}

#[tokio::test]
#[ignore = "needs snapshots"]
async fn a_copy_has_rows_regions_and_settings_and_outlives_the_original() {
    let connection = connect().await;
    let admin = Admin::new(&connection);
    let owned = TestTable::create("original", described, &["r3", "r6"]).await;
    let table = owned.of(&connection);
    let written = fill(&table).await;
    let cells = rows(&table, Scan::new().versions(9)).await;
    let name = snapshot(&connection, &owned.name).await;
    let space = format!("suite_{:x}", fastrand::u32(..));
    let copy = TableName::new(&space, owned.name.qualifier()).unwrap();
    let error = admin.clone_snapshot(&name, &copy).await.unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::NamespaceNotFound, "{error}");
    says(&error, &[&space]);

    admin.create_namespace(space.as_str()).await.unwrap();
    admin.clone_snapshot(&name, &copy).await.unwrap();
    let of_copy = admin.descriptor(&copy).await.unwrap();
    assert_eq!(named(&connection, &owned.name, &copy).await, of_copy);
    let starts = |regions: Vec<hbase_txn::client::TableRegion>| -> Vec<_> {
        regions.into_iter().map(|found| found.region.start_key).collect()
    };
    assert_eq!(starts(admin.regions(&copy).await.unwrap()), ["", "r3", "r6"]);

    // The files of the copy are those of the original, until one of them is gone.
    admin.delete_table(&owned.name).await.unwrap();
    admin.delete_snapshot(&name).await.unwrap();
    let table = connection.table(&copy).unwrap();
    assert_eq!(rows(&table, Scan::new().versions(9)).await, cells);
    admin.major_compact_table(&copy).await.unwrap();
    assert_eq!(keys(&table, Scan::new()).await, written);
    assert_eq!(
        admin.tables_of_namespace(&space).await.unwrap(),
        std::slice::from_ref(&copy)
    );
    admin.delete_table(&copy).await.unwrap();
    admin.delete_namespace(&space).await.unwrap();
    // The end of this test deletes it.
    admin.create_table(&plain(owned.name.clone()), &[]).await.unwrap();
}

#[tokio::test]
#[ignore = "needs snapshots"]
async fn a_copy_and_its_original_and_copies_of_it_change_apart() {
    let connection = connect().await;
    let admin = Admin::new(&connection);
    let owned = TestTable::create("apart", described, &["r5"]).await;
    let table = owned.of(&connection);
    let written = fill(&table).await;
    let first = snapshot(&connection, &owned.name).await;
    let copied = TestTable::unmade("apart-copy");
    admin.clone_snapshot(&first, &copied.name).await.unwrap();
    let copy = copied.of(&connection);
    table.put(put("original", "v")).await.unwrap();
    copy.put(put("copy", "v")).await.unwrap();
    copy.delete(hbase_txn::client::Delete::new("r0")).await.unwrap();
    let of_original = [&["original".to_owned()][..], &written].concat();
    let of_copy = [&["copy".to_owned()][..], &written[1..]].concat();
    assert_eq!(keys(&table, Scan::new()).await, of_original);
    assert_eq!(keys(&copy, Scan::new()).await, of_copy);

    let second = snapshot(&connection, &copied.name).await;
    let again = TestTable::unmade("apart-copy-of-copy");
    admin.clone_snapshot(&second, &again.name).await.unwrap();
    let copy_of_copy = again.of(&connection);
    assert_eq!(keys(&copy_of_copy, Scan::new()).await, of_copy);

    // Settings, too, and each snapshot knows its table.
    let changed = admin
        .descriptor(&copied.name)
        .await
        .unwrap()
        .with_attribute("owner", "sales");
    admin.modify_table(&changed).await.unwrap();
    for (table, owner) in [(&owned, "billing"), (&copied, "sales"), (&again, "billing")] {
        let found = admin.descriptor(&table.name).await.unwrap();
        assert_eq!(found.attribute("owner"), Some(owner));
    }
    admin.truncate_table(&copied.name, true).await.unwrap();
    assert_eq!(keys(&copy, Scan::new()).await, [""; 0]);
    assert_eq!(keys(&table, Scan::new()).await, of_original);
    assert_eq!(keys(&copy_of_copy, Scan::new()).await, of_copy);
    for (name, table) in [(&first, &owned), (&second, &copied)] {
        let all = admin.snapshots().await.unwrap();
        let found = all.iter().find(|snapshot| snapshot.name == *name).unwrap();
        assert_eq!(found.table.as_ref(), Some(&table.name));
        admin.delete_snapshot(name).await.unwrap();
    }
}

#[tokio::test]
#[ignore = "needs snapshots"]
async fn a_restored_table_is_as_it_was_after_truncation_splits_and_changes() {
    let connection = connect().await;
    let admin = Admin::new(&connection);
    let owned = TestTable::create("restored", described, &["r5"]).await;
    let table = owned.of(&connection);
    fill(&table).await;
    let cells = rows(&table, Scan::new().versions(9)).await;
    let name = snapshot(&connection, &owned.name).await;
    let descriptor = admin.descriptor(&owned.name).await.unwrap();

    let restored = async |what: &str| {
        admin.disable_table(&owned.name).await.unwrap();
        admin.restore_snapshot(&name).await.unwrap();
        admin.enable_table(&owned.name).await.unwrap();
        assert_eq!(rows(&table, Scan::new().versions(9)).await, cells, "{what}");
        assert_eq!(admin.descriptor(&owned.name).await.unwrap(), descriptor, "{what}");
        assert_eq!(admin.regions(&owned.name).await.unwrap().len(), 2, "{what}");
    };
    // A family more, and one less.
    let mut changed = descriptor.clone().with_family(FamilyDescriptor::new("h"));
    changed.families.retain(|family| family.name != "g");
    let changed = changed.with_attribute("owner", "sales");
    admin.modify_table(&changed).await.unwrap();
    table.put(Put::new("r1").cell("h", "q", "v")).await.unwrap();
    restored("after a change").await;
    let error = table.put(Put::new("r1").cell("h", "q", "v")).await.unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::FamilyNotFound, "{error}");
    table.put(Put::new("later").cell("g", "q", "v")).await.unwrap();

    admin.truncate_table(&owned.name, false).await.unwrap();
    assert_eq!(table.get(Get::new("r1")).await.unwrap(), None);
    restored("after a truncation").await;

    owned.split_at(&connection, "r2").await;
    table.put(put("r2", "later")).await.unwrap();
    restored("after a split").await;

    // The snapshot of a split table has all rows, too.
    owned.split_at(&connection, "r7").await;
    let split = snapshot(&connection, &owned.name).await;
    let copied = TestTable::unmade("restored-copy");
    admin.clone_snapshot(&split, &copied.name).await.unwrap();
    let copy = copied.of(&connection);
    assert_eq!(rows(&copy, Scan::new().versions(9)).await, cells);
    assert_eq!(admin.regions(&copied.name).await.unwrap().len(), 3);
    admin.delete_snapshot(&split).await.unwrap();
    admin.delete_snapshot(&name).await.unwrap();
}

#[tokio::test]
#[ignore = "needs snapshots"]
async fn disabled_and_empty_tables_have_snapshots() {
    let connection = connect().await;
    let admin = Admin::new(&connection);
    let owned = TestTable::create("offline", described, &["r5"]).await;
    let table = owned.of(&connection);
    let empty = snapshot(&connection, &owned.name).await;
    table.put(put("r1", "v")).await.unwrap();
    admin.disable_table(&owned.name).await.unwrap();
    let offline = snapshot(&connection, &owned.name).await;
    let all = admin.snapshots().await.unwrap();
    let kind = |name: &String| all.iter().find(|snapshot| snapshot.name == *name).unwrap().kind;
    assert_eq!(
        (kind(&empty), kind(&offline)),
        (SnapshotKind::Flush, SnapshotKind::Disabled)
    );
    let copied = TestTable::unmade("offline-copy");
    admin.clone_snapshot(&offline, &copied.name).await.unwrap();
    assert_eq!(value(&copied.of(&connection), "r1").await.as_deref(), Some("v"));

    admin.restore_snapshot(&empty).await.unwrap();
    admin.enable_table(&owned.name).await.unwrap();
    assert_eq!(keys(&table, Scan::new()).await, [""; 0]);
    let none = TestTable::unmade("offline-none");
    admin.clone_snapshot(&empty, &none.name).await.unwrap();
    assert_eq!(keys(&none.of(&connection), Scan::new()).await, [""; 0]);
    assert_eq!(admin.regions(&none.name).await.unwrap().len(), 2);
    for name in [empty, offline] {
        admin.delete_snapshot(&name).await.unwrap();
    }
}
