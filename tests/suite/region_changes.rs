//! Splits, merges and loads of regions.

use hbase_txn::{
    ClientErrorKind,
    admin::Admin,
    client::{RegionInfo, Scan, TableDescriptor, TableName},
};

use crate::support::{
    connect, eventually, keys, put, says,
    table::{TestTable, plain, unique_name},
};

/// A table that refuses splits and merges.
fn fixed(name: TableName) -> TableDescriptor {
    plain(name)
        .with_attribute("SPLIT_ENABLED", "false")
        .with_attribute("MERGE_ENABLED", "false")
}

async fn fill(table: &hbase_txn::client::Table) -> Vec<String> {
    let rows: Vec<_> = (0..20).map(|row| format!("{row:02}")).collect();
    for row in &rows {
        table.put(put(row.clone(), "v")).await.unwrap();
    }
    rows
}

#[tokio::test]
#[ignore = "needs SPLIT_ENABLED and MERGE_ENABLED"]
async fn a_table_refuses_splits_and_merges_until_it_allows_them() {
    let connection = connect().await;
    let admin = Admin::new(&connection);
    let owned = TestTable::create("fixed", fixed, &["05", "10"]).await;
    let rows = fill(&owned.of(&connection)).await;
    admin.flush_table(&owned.name).await.unwrap();
    let regions = owned.regions(&connection).await;
    let split = admin
        .split_region(&regions[0], Some("05".into()))
        .await
        .unwrap_err();
    let merge = admin.merge_regions(&regions[..2]).await.unwrap_err();
    for error in [split, merge] {
        assert!(!error.is_outcome_unknown(), "{error:?}");
        says(&error, &[owned.name.qualifier()]);
    }
    assert_eq!(owned.regions(&connection).await, regions);

    let descriptor = admin.descriptor(&owned.name).await.unwrap();
    let free = descriptor
        .with_attribute("SPLIT_ENABLED", "true")
        .with_attribute("MERGE_ENABLED", "true");
    admin.modify_table(&free).await.unwrap();
    admin.merge_regions(&regions[..2]).await.unwrap();
    owned.split_at(&connection, "15").await;
    eventually("two regions are one and another is two", async || {
        let regions = owned.regions(&connection).await;
        let starts: Vec<_> = regions.iter().map(|region| region.start_key.clone()).collect();
        (starts == ["", "10", "15"]).then_some(())
    })
    .await;
    assert_eq!(keys(&owned.of(&connection), Scan::new()).await, rows);
}

#[tokio::test]
async fn merges_and_splits_that_make_no_sense_are_refused() {
    let connection = connect().await;
    let admin = Admin::new(&connection);
    let owned = TestTable::create("senseless", plain, &["b", "c"]).await;
    let regions = owned.regions(&connection).await;
    let none = admin.merge_regions(&[]).await.unwrap_err();
    assert_eq!(none.kind(), ClientErrorKind::InvalidInput, "{none}");
    let other = TestTable::create("senseless-other", plain, &[]).await;
    let others = other.regions(&connection).await;
    for (what, error) in [
        ("one region", admin.merge_regions(&regions[..1]).await),
        (
            "a region twice",
            admin
                .merge_regions(&[regions[0].clone(), regions[0].clone()])
                .await,
        ),
        (
            "regions apart",
            admin
                .merge_regions(&[regions[0].clone(), regions[2].clone()])
                .await,
        ),
        (
            "two tables",
            admin
                .merge_regions(&[regions[2].clone(), others[0].clone()])
                .await,
        ),
        ("outside", admin.split_region(&regions[0], Some("x".into())).await),
        (
            "at its start",
            admin.split_region(&regions[1], Some("b".into())).await,
        ),
    ] {
        let error = error.expect_err(what);
        assert!(
            !error.is_outcome_unknown() && !error.is_retryable(),
            "{what}: {error:?}"
        );
    }
    assert_eq!(owned.regions(&connection).await, regions);
    let gone = RegionInfo {
        table: unique_name("gone"),
        ..regions[0].clone()
    };
    assert!(admin.split_region(&gone, Some("a".into())).await.is_err());
}

#[tokio::test]
async fn a_table_is_changed_right_after_a_split_and_a_merge() {
    let connection = connect().await;
    let admin = Admin::new(&connection);
    let owned = TestTable::create("splitchanged", plain, &[]).await;
    let table = owned.of(&connection);
    let rows = fill(&table).await;
    let change = async |owner: &'static str| {
        let descriptor = admin.descriptor(&owned.name).await.unwrap();
        admin
            .modify_table(&descriptor.with_attribute("owner", owner))
            .await
            .unwrap();
        let found = admin.descriptor(&owned.name).await.unwrap();
        assert_eq!(found.attribute("owner"), Some(owner));
        assert_eq!(keys(&table, Scan::new()).await, rows);
    };
    owned.split_at(&connection, "07").await;
    change("split").await;
    assert_eq!(owned.regions(&connection).await.len(), 2);
    admin.major_compact_table(&owned.name).await.unwrap();
    owned.merge_both(&connection).await;
    change("merged").await;
    assert_eq!(owned.regions(&connection).await.len(), 1);
}

#[tokio::test]
#[ignore = "needs the load that servers report"]
async fn servers_report_the_load_of_their_regions() {
    let connection = connect().await;
    let admin = Admin::new(&connection);
    let owned = TestTable::create("loads", plain, &["10"]).await;
    let table = owned.of(&connection);
    fill(&table).await;
    let regions = owned.regions(&connection).await;
    let live = admin.cluster_info().await.unwrap().live_servers;
    eventually("the writes are reported", async || {
        let loads = admin.server_loads().await.unwrap();
        assert!(loads.iter().all(|load| live.contains(&load.server)));
        let found: Vec<_> = loads.iter().flat_map(|load| &load.regions).collect();
        let of = |region: &RegionInfo| found.iter().find(|load| load.name == region.name);
        let loads: Option<Vec<_>> = regions.iter().map(of).collect();
        loads?.iter().all(|load| load.writes >= 10).then_some(())
    })
    .await;
}
