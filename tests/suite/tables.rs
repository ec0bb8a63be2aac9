//! Tables: created, listed, described, deleted; and their regions.

use bytes::Bytes;
use hbase_txn::{
    ClientErrorKind,
    admin::Admin,
    client::{FamilyDescriptor, Get, Put, Scan, ServerName, TableDescriptor, TableName, TableState},
};

use crate::support::{
    connect, keys, put, says,
    table::{TestTable, plain, unique_name},
    value,
};

fn described(name: TableName) -> TableDescriptor {
    let family = FamilyDescriptor::new("f")
        .with_attribute("VERSIONS", "7")
        .with_attribute("BLOOMFILTER", "ROWCOL")
        .with_attribute("TTL", "86400");
    TableDescriptor::from(name)
        .with_family(family)
        .with_family(FamilyDescriptor::new("g"))
        .with_attribute("MAX_FILESIZE", "1073741824")
        .with_attribute("owner", "billing")
}

#[tokio::test]
async fn tables_are_created_listed_described_and_deleted() {
    let connection = connect().await;
    let admin = Admin::new(&connection);
    let owned = TestTable::unmade("described");
    assert!(!admin.exists(&owned.name).await.unwrap());
    assert!(!admin.tables().await.unwrap().contains(&owned.name));

    admin
        .create_table(&described(owned.name.clone()), &[])
        .await
        .unwrap();
    assert!(admin.exists(&owned.name).await.unwrap());
    assert!(admin.tables().await.unwrap().contains(&owned.name));
    assert_eq!(admin.state(&owned.name).await.unwrap(), TableState::Enabled);
    let found = admin.descriptor(&owned.name).await.unwrap();
    assert_eq!(found.name, owned.name);
    assert_eq!(found.attribute("MAX_FILESIZE"), Some("1073741824"));
    assert_eq!(found.attribute("owner"), Some("billing"));
    let names: Vec<_> = found.families.iter().map(|family| family.name.clone()).collect();
    assert_eq!(names, ["f", "g"]);
    let family = found.family("f").unwrap();
    for (key, value) in [("VERSIONS", "7"), ("BLOOMFILTER", "ROWCOL"), ("TTL", "86400")] {
        assert_eq!(family.attribute(key), Some(value), "{key}");
    }

    admin.disable_table(&owned.name).await.unwrap();
    assert_eq!(admin.state(&owned.name).await.unwrap(), TableState::Disabled);
    assert!(admin.tables().await.unwrap().contains(&owned.name));
    assert_eq!(admin.descriptor(&owned.name).await.unwrap(), found);
    admin.enable_table(&owned.name).await.unwrap();
    assert_eq!(admin.state(&owned.name).await.unwrap(), TableState::Enabled);
    owned.of(&connection).put(put("r", "v")).await.unwrap();

    // An enabled table is deleted, too.
    admin.delete_table(&owned.name).await.unwrap();
    assert!(!admin.exists(&owned.name).await.unwrap());
    assert!(!admin.tables().await.unwrap().contains(&owned.name));
    // The name is free again.
    admin.create_table(&plain(owned.name.clone()), &[]).await.unwrap();
    assert_eq!(value(&owned.of(&connection), "r").await, None);
}

#[tokio::test]
async fn a_missing_table_is_named_by_every_call() {
    let connection = connect().await;
    let admin = Admin::new(&connection);
    let name = unique_name("nowhere");
    for error in [
        admin.descriptor(&name).await.unwrap_err(),
        admin.state(&name).await.unwrap_err(),
        admin.regions(&name).await.unwrap_err(),
        admin.modify_table(&plain(name.clone())).await.unwrap_err(),
        admin.disable_table(&name).await.unwrap_err(),
        admin.enable_table(&name).await.unwrap_err(),
        admin.delete_table(&name).await.unwrap_err(),
        admin.flush_table(&name).await.unwrap_err(),
        admin.major_compact_table(&name).await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ClientErrorKind::TableNotFound, "{error}");
        assert!(!error.is_retryable(), "{error}");
        says(&error, &[name.qualifier()]);
    }
}

/// Returns the boundaries of a table's regions, and asserts that they cover all keys and have a live server.
async fn boundaries(admin: &Admin, name: &TableName) -> Vec<Bytes> {
    let regions = admin.regions(name).await.unwrap();
    let servers: Vec<ServerName> = admin.cluster_info().await.unwrap().live_servers;
    let mut end = Some(Bytes::new());
    for found in &regions {
        assert_eq!(
            Some(&found.region.start_key),
            end.as_ref(),
            "{}",
            found.region.range_text()
        );
        assert_eq!(&found.region.table, name);
        assert!(servers.contains(found.server.as_ref().unwrap()), "{servers:?}");
        end = Some(found.region.end_key.clone()).filter(|end| !end.is_empty());
    }
    assert_eq!(end, None);
    regions[1..]
        .iter()
        .map(|found| found.region.start_key.clone())
        .collect()
}

#[tokio::test]
async fn regions_begin_at_the_split_keys() {
    let connection = connect().await;
    let admin = Admin::new(&connection);
    let whole = TestTable::create("whole", plain, &[]).await;
    assert_eq!(boundaries(&admin, &whole.name).await, [""; 0]);

    let cut = TestTable::unmade("cut");
    let mut keys_of_regions: Vec<Bytes> = [&b"m"[..], b"b", b"\xff\x00", b"m\0", b"\x01", b"t"]
        .into_iter()
        .map(Bytes::from_static)
        .collect();
    admin
        .create_table(&plain(cut.name.clone()), &keys_of_regions)
        .await
        .unwrap();
    keys_of_regions.sort_unstable();
    assert_eq!(boundaries(&admin, &cut.name).await, keys_of_regions);
    let table = cut.of(&connection);
    for key in &keys_of_regions {
        table.put(put(key.clone(), "v")).await.unwrap();
        let regions = admin.regions(&cut.name).await.unwrap();
        let holding: Vec<_> = regions
            .iter()
            .filter(|found| found.region.contains(key))
            .collect();
        assert_eq!(holding.len(), 1);
        assert_eq!(holding[0].region.start_key, key);
        assert!(
            holding[0]
                .region
                .name
                .starts_with(cut.name.to_string().as_bytes())
        );
    }
    let found = crate::support::rows(&table, Scan::new()).await;
    let found: Vec<_> = found.iter().map(|row| row.key().clone()).collect();
    assert_eq!(found, keys_of_regions);
}

#[tokio::test]
async fn empty_and_doubled_split_keys_are_refused() {
    let admin = Admin::new(&connect().await);
    for (keys, word) in [
        (&[""][..], "empty split key"),
        (&["", "m"], "empty split key"),
        (&["b", "", "m"], "empty split key"),
        (&["m", "b", "m"], "split key m is given twice"),
    ] {
        let name = unique_name("badkeys");
        let keys: Vec<_> = keys.iter().copied().map(Bytes::from).collect();
        let error = admin.create_table(&plain(name.clone()), &keys).await.unwrap_err();
        assert_eq!(error.kind(), ClientErrorKind::InvalidInput, "{error}");
        says(&error, &[word, name.qualifier()]);
        assert!(!admin.exists(&name).await.unwrap());
    }
}

#[tokio::test]
async fn the_catalog_is_a_table() {
    let connection = connect().await;
    let admin = Admin::new(&connection);
    assert!(admin.exists("hbase:meta").await.unwrap());
    assert_eq!(admin.state("hbase:meta").await.unwrap(), TableState::Enabled);
    let regions = admin.regions("hbase:meta").await.unwrap();
    assert_eq!(regions.len(), 1);
    let live = admin.cluster_info().await.unwrap().live_servers;
    assert!(live.contains(regions[0].server.as_ref().unwrap()));
    assert!(regions[0].region.contains("any"));
    admin.flush_table("hbase:meta").await.unwrap();
    let owned = TestTable::create("catalogued", plain, &["m"]).await;
    let meta = connection.table("hbase:meta").unwrap();
    // Its rows are in the order of tables, start keys and numbers, so a prefix is no range.
    let scan = Scan::new()
        .start_row(format!("{},,", owned.name))
        .stop_row(format!("{} ,,", owned.name))
        .family("info");
    assert_eq!(keys(&meta, scan.clone()).await.len(), 2);
    let mut scanner = meta.scan_regions(scan, 2).unwrap();
    let mut found = 0;
    while scanner.next().await.unwrap().is_some() {
        found += 1;
    }
    assert_eq!(found, 2);
}

#[tokio::test]
#[ignore = "needs changes of namespaces"]
async fn tables_of_two_namespaces_may_have_one_name() {
    let connection = connect().await;
    let admin = Admin::new(&connection);
    let space = format!("suite_{:x}", fastrand::u32(..));
    admin.create_namespace(space.as_str()).await.unwrap();
    let owned = TestTable::create("twins", plain, &[]).await;
    let other = TableName::new(&space, owned.name.qualifier()).unwrap();
    admin.create_table(&plain(other.clone()), &[]).await.unwrap();
    let (table, twin) = (owned.of(&connection), connection.table(&other).unwrap());
    table.put(put("r", "default")).await.unwrap();
    assert_eq!(value(&twin, "r").await, None);
    twin.put(put("r", "other")).await.unwrap();
    twin.put(Put::new("s").cell("f", "q", "other")).await.unwrap();
    assert_eq!(value(&table, "r").await.as_deref(), Some("default"));
    assert_eq!(value(&twin, "r").await.as_deref(), Some("other"));
    assert_eq!(table.get(Get::new("s")).await.unwrap(), None);
    assert_eq!(keys(&twin, Scan::new()).await, ["r", "s"]);
    admin.delete_table(&other).await.unwrap();
    admin.delete_namespace(&space).await.unwrap();
    assert_eq!(value(&table, "r").await.as_deref(), Some("default"));
}
