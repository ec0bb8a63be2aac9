//! Flushes and major compactions: the answers of a region server.

use std::time::{Duration, SystemTime};

use hbase_txn::{
    ClientErrorKind,
    admin::Admin,
    client::{Connection, Delete, FamilyDescriptor, Put, Scan, TableName},
};

use crate::{
    on_each,
    support::{
        eventually, put, rows, says,
        table::{TestTable, plain},
    },
};

#[tokio::test]
async fn a_major_compaction_drops_what_was_flushed_and_deleted() {
    on_each(async |cluster| {
        let connection = cluster.connect().await;
        let admin = Admin::new(&connection);
        let table = TestTable::create_on(cluster, "maintenance", plain, &["m"]).await;
        let (name, data) = (&table.name, table.of(&connection));
        // There is nothing to flush or to compact.
        admin.flush_table(name).await.unwrap();
        admin.major_compact_table(name).await.unwrap();
        for row in ["a", "x"] {
            data.put(put(row, "covered")).await.unwrap();
            admin.flush_table(name).await.unwrap();
            data.delete(Delete::new(row)).await.unwrap();
            admin.flush_table(name).await.unwrap();
        }
        let stored = async || -> usize {
            let rows = rows(&data, Scan::new().raw()).await;
            rows.iter().map(|row| row.cells().len()).sum()
        };
        assert_eq!(stored().await, 4);
        admin.major_compact_table(name).await.unwrap();
        assert_eq!(stored().await, 0);
    })
    .await;
}

/// Waits until the regions of a table have this many store files, by the reports of their servers.
async fn await_store_files(connection: &Connection, table: &TableName, files: u32) {
    let admin = Admin::new(connection);
    let regions = admin.regions(table).await.unwrap();
    let is_of_table = |name| regions.iter().any(|found| found.region.name == name);
    eventually("the store files are reported", async || {
        let loads = admin.server_loads().await.unwrap();
        let loads = loads.into_iter().flat_map(|load| load.regions);
        let counts = loads.filter(|load| is_of_table(load.name.clone()));
        (counts.map(|load| load.store_files).sum::<u32>() == files).then_some(())
    })
    .await;
}

#[tokio::test]
async fn one_family_is_flushed_and_compacted() {
    on_each(async |cluster| {
        let connection = cluster.connect().await;
        let admin = Admin::new(&connection);
        let two = |name: TableName| plain(name).with_family(FamilyDescriptor::new("g"));
        let shared = TestTable::create_on(cluster, "one-family", two, &[]).await;
        let (name, table) = (&shared.name, shared.of(&connection));
        for round in ["1", "2"] {
            let both = Put::new("a").cell("f", "q", round).cell("g", "q", round);
            table.put(both).await.unwrap();
            admin.flush_column_family(name, "f").await.unwrap();
        }
        await_store_files(&connection, name, 2).await;
        admin.flush_table(name).await.unwrap();
        table.put(Put::new("b").cell("g", "q", "v")).await.unwrap();
        admin.flush_column_family(name, "g").await.unwrap();
        await_store_files(&connection, name, 4).await;
        admin.major_compact_column_family(name, "f").await.unwrap();
        await_store_files(&connection, name, 3).await;
        for result in [
            admin.flush_column_family(name, "none").await,
            admin.major_compact_column_family(name, "none").await,
        ] {
            let error = result.unwrap_err();
            assert_eq!(error.kind(), ClientErrorKind::FamilyNotFound, "{error}");
            says(&error, &["none", &name.to_string()]);
        }
    })
    .await;
}

/// Large values of such a family are in files of their own, to which its store files refer.
#[tokio::test]
async fn a_mob_family_is_compacted_like_others() {
    on_each(async |cluster| {
        let connection = cluster.connect().await;
        let admin = Admin::new(&connection);
        let mob = |name: TableName| {
            let family = FamilyDescriptor::new("m").with_attribute("IS_MOB", "true");
            plain(name).with_family(family.with_attribute("MOB_THRESHOLD", "100"))
        };
        let shared = TestTable::create_on(cluster, "mob", mob, &[]).await;
        let (name, table) = (&shared.name, shared.of(&connection));
        let value = |round: u8| vec![round; 10_000];
        // Three files would be compacted at once.
        for round in 0..2 {
            for row in ["a", "b"] {
                table
                    .put(Put::new(row).cell("m", "q", value(round)))
                    .await
                    .unwrap();
            }
            table.delete(Delete::new("b")).await.unwrap();
            admin.flush_column_family(name, "m").await.unwrap();
        }
        await_store_files(&connection, name, 2).await;
        admin.major_compact_column_family(name, "m").await.unwrap();
        await_store_files(&connection, name, 1).await;
        let found = rows(&table, Scan::new().raw()).await;
        let cells = found.iter().flat_map(|row| row.cells());
        // HBase 2.4 keeps markers of such a family.
        let values: Vec<_> = cells
            .map(|cell| &cell.value)
            .filter(|value| !value.is_empty())
            .collect();
        assert_eq!(values, [&value(1)]);
    })
    .await;
}

#[tokio::test]
async fn time_of_the_last_major_compaction_is_known() {
    on_each(async |cluster| {
        let connection = cluster.connect().await;
        let admin = Admin::new(&connection);
        let shared = TestTable::create_on(cluster, "compacted", plain, &[]).await;
        let name = &shared.name;
        assert_eq!(admin.last_major_compaction_timestamp(name).await.unwrap(), None);
        shared.of(&connection).put(put("a", "v")).await.unwrap();
        admin.flush_table(name).await.unwrap();
        admin.major_compact_table(name).await.unwrap();
        let of_table = eventually("the compaction is reported", async || {
            admin.last_major_compaction_timestamp(name).await.unwrap()
        });
        let of_table = of_table.await;
        let age = SystemTime::now().duration_since(of_table).unwrap_or_default();
        assert!(age < Duration::from_mins(5), "{age:?}");
        let region = &admin.regions(name).await.unwrap()[0].region;
        let of_region = admin.last_major_compaction_timestamp_for_region(region);
        assert_eq!(of_region.await.unwrap(), Some(of_table));
    })
    .await;
}
