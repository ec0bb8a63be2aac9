//! Raw scans: what is stored, readable or not.

use std::time::{Duration, SystemTime};

use hbase_txn::{
    admin::Admin,
    client::{
        CellKind, Delete, FamilyDescriptor, Get, Put, Row, Scan, Table, TableDescriptor, TableName, TimeRange,
    },
};

use crate::support::{
    connect, put, rows,
    table::{Storage, TestTable},
};

const ALL: u32 = i32::MAX as u32;

fn versioned(name: TableName) -> TableDescriptor {
    TableDescriptor::from(name)
        .with_family(FamilyDescriptor::new("f").with_attribute("VERSIONS", "3"))
        .with_family(FamilyDescriptor::new("g"))
}

/// Returns the stored cells, each by its kind, column and timestamp.
async fn stored(table: &Table, scan: Scan) -> String {
    let cells = rows(table, scan).await;
    let cells = cells.into_iter().flat_map(Row::into_cells).map(|cell| {
        let kind = match cell.kind {
            CellKind::Put => "",
            CellKind::Delete => "version-",
            CellKind::DeleteColumn => "column-",
            CellKind::DeleteFamily => "family-",
            CellKind::DeleteFamilyVersion => "family-version-",
            other => panic!("{other:?}"),
        };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (family, qualifier) = (text(&cell.family), text(&cell.qualifier));
        format!("{kind}{family}:{qualifier}{}", cell.timestamp)
    });
    cells.collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn markers_and_hidden_cells_are_returned_within_versions_and_ranges() {
    let connection = connect().await;
    let owned = TestTable::create("raw", versioned, &[]).await;
    let table = owned.of(&connection);
    for timestamp in 1..=5 {
        let put = Put::new("r")
            .cell_at("f", "a", timestamp, "v")
            .cell_at("f", "b", timestamp, "v");
        table.put(put).await.unwrap();
    }
    table.put(Put::new("r").cell_at("g", "a", 1, "v")).await.unwrap();
    for delete in [
        Delete::new("r").version("f", "a", 5),
        Delete::new("r").column("f", "b").timestamp(4),
        Delete::new("r").family("g").timestamp(9),
        Delete::new("r").family_version("g", 3),
    ] {
        table.delete(delete).await.unwrap();
    }
    let newest = table.get(Get::new("r")).await.unwrap().unwrap();
    let newest = newest.into_cells().into_iter().map(|cell| cell.timestamp);
    assert_eq!(newest.collect::<Vec<_>>(), [4, 5]);

    let number = |versions| Scan::new().raw().versions(versions);
    let family = |versions| number(versions).family("f");
    assert_eq!(
        stored(&table, family(2)).await,
        "version-f:a5 f:a5 f:a4 f:b5 column-f:b4 f:b4"
    );
    assert_eq!(
        stored(&table, number(ALL)).await,
        "version-f:a5 f:a5 f:a4 f:a3 f:a2 f:a1 f:b5 column-f:b4 f:b4 f:b3 f:b2 f:b1 family-g:9 family-version-g:3 g:a1"
    );
    assert_eq!(
        stored(&table, family(ALL).time_range(TimeRange { from: 2, to: 5 })).await,
        "f:a4 f:a3 f:a2 column-f:b4 f:b4 f:b3 f:b2"
    );
    owned.store_in(&connection, Storage::MajorCompacted).await;
    assert_eq!(stored(&table, number(ALL)).await, "f:a4 f:a3 f:a2 f:b5");
}

#[tokio::test]
async fn cells_that_expired_by_the_ttl_of_their_family_are_returned() {
    let connection = connect().await;
    let owned = TestTable::create("raw-expired", versioned, &[]).await;
    let table = owned.of(&connection);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let before = (now - Duration::from_secs(100)).as_millis() as u64;
    table.put(put("r", "v").timestamp(before)).await.unwrap();
    // A cell with a TTL of its own is gone once that is over.
    let short = put("short", "v").timestamp(before).ttl(Duration::from_secs(50));
    table.put(short).await.unwrap();
    assert_eq!(rows(&table, Scan::new()).await.len(), 1);

    let admin = Admin::new(&connection);
    let mut descriptor = admin.descriptor(&owned.name).await.unwrap();
    let family = descriptor.families.iter_mut().find(|family| family.name == "f");
    let family = family.unwrap();
    *family = family.clone().with_attribute("TTL", "50");
    admin.modify_table(&descriptor).await.unwrap();
    assert_eq!(rows(&table, Scan::new()).await, []);
    assert_eq!(table.get(Get::new("r")).await.unwrap(), None);
    assert_eq!(stored(&table, Scan::new().raw()).await, format!("f:q{before}"));
}
