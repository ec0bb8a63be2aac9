//! Several families and columns of a row: each is read, changed and deleted apart from the others.

use hbase_txn::{
    ClientErrorKind,
    admin::Admin,
    client::{Delete, FamilyDescriptor, Get, Put, Row, Scan, Table, TableDescriptor, TableName},
};
use rstest::rstest;

use crate::support::{
    connect, put, rows,
    table::{
        Storage::{self, MajorCompacted, Memstore, StoreFiles},
        TestTable, plain,
    },
    value,
};

const FAMILIES: [&str; 5] = ["f0", "f1", "f2", "f3", "f4"];

fn five(name: TableName) -> TableDescriptor {
    FAMILIES
        .into_iter()
        .fold(TableDescriptor::from(name), |table, family| {
            table.with_family(FamilyDescriptor::new(family).with_attribute("VERSIONS", "3"))
        })
}

/// Returns the columns and values of a row.
fn cells(row: Option<Row>) -> Vec<String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    row.map(Row::into_cells)
        .unwrap_or_default()
        .iter()
        .map(|cell| {
            format!(
                "{}:{}={}",
                text(&cell.family),
                text(&cell.qualifier),
                text(&cell.value)
            )
        })
        .collect()
}

/// Asserts that a get and a scan find these cells and no others.
async fn find(table: &Table, get: Get, scan: Scan, expected: &[String]) {
    assert_eq!(cells(table.get(get.clone()).await.unwrap()), expected, "{get:?}");
    assert_eq!(
        table.exists(get.clone()).await.unwrap(),
        !expected.is_empty(),
        "{get:?}"
    );
    for scan in [scan.clone(), scan.reversed()] {
        let found: Vec<_> = rows(table, scan.clone()).await;
        assert_eq!(found.len(), usize::from(!expected.is_empty()), "{scan:?}");
        assert_eq!(cells(found.into_iter().next()), expected, "{scan:?}");
    }
}

#[rstest]
#[tokio::test]
async fn each_of_several_families_is_read_and_deleted_alone(
    #[values(Memstore, StoreFiles, MajorCompacted)] storage: Storage,
) {
    let connection = connect().await;
    let owned = TestTable::create("families", five, &[]).await;
    let table = owned.of(&connection);
    for family in FAMILIES {
        let put = Put::new("r")
            .cell_at(family, "a", 1, format!("{family}-old"))
            .cell_at(family, "a", 2, family.to_owned())
            .cell_at(family, "b", 1, family.to_owned());
        table.put(put).await.unwrap();
        owned.store_in(&connection, storage).await;
    }
    let of = |families: &[&str]| -> Vec<String> {
        let families = families.iter();
        families
            .flat_map(|family| [format!("{family}:a={family}"), format!("{family}:b={family}")])
            .collect()
    };
    find(&table, Get::new("r"), Scan::new(), &of(&FAMILIES)).await;
    for (number, family) in FAMILIES.into_iter().enumerate() {
        let (get, scan) = (Get::new("r").family(family), Scan::new().family(family));
        find(&table, get, scan, &of(&[family])).await;
        let other = FAMILIES[(number + 2) % 5];
        let mut expected = [of(&[family]), vec![format!("{other}:b={other}")]].concat();
        expected.sort_unstable();
        let get = Get::new("r").column(other, "b").family(family);
        let scan = Scan::new().family(family).column(other, "b");
        find(&table, get, scan, &expected).await;
    }

    // Deletes a family, a column, and the newest version of a column.
    let delete = Delete::new("r")
        .family("f1")
        .column("f2", "a")
        .version("f3", "a", 2);
    table.delete(delete).await.unwrap();
    owned.store_in(&connection, storage).await;
    let get = |family| Get::new("r").family(family);
    let scan = |family| Scan::new().family(family);
    find(&table, get("f0"), scan("f0"), &of(&["f0"])).await;
    find(&table, get("f1"), scan("f1"), &[]).await;
    find(&table, get("f2"), scan("f2"), &["f2:b=f2".to_owned()]).await;
    let left = ["f3:a=f3-old".to_owned(), "f3:b=f3".to_owned()];
    find(&table, get("f3"), scan("f3"), &left).await;
    find(&table, get("f4"), scan("f4"), &of(&["f4"])).await;
}

#[rstest]
#[tokio::test]
async fn a_cell_is_found_exactly_by_reads_that_select_it(#[values(Memstore, StoreFiles)] storage: Storage) {
    let connection = connect().await;
    let owned = TestTable::create("single", five, &["k"]).await;
    let table = owned.of(&connection);
    find(&table, Get::new("k"), Scan::new(), &[]).await;
    table.put(Put::new("k").cell("f2", "q", "v")).await.unwrap();
    owned.store_in(&connection, storage).await;
    let one = ["f2:q=v".to_owned()];
    let row = || Get::new("k");
    find(&table, row(), Scan::new(), &one).await;
    find(&table, row().family("f2"), Scan::new().family("f2"), &one).await;
    find(
        &table,
        row().column("f2", "p").column("f2", "q").column("f4", "q"),
        Scan::new().column("f2", "q").column("f2", "r").family("f3"),
        &one,
    )
    .await;
    find(&table, row().family("f1"), Scan::new().family("f3"), &[]).await;
    find(
        &table,
        row().column("f2", "p"),
        Scan::new().column("f2", "r"),
        &[],
    )
    .await;
    find(&table, Get::new("j"), Scan::new().stop_row("k"), &[]).await;
    find(
        &table,
        Get::new("k0"),
        Scan::new().start_row("k").stop_row("k"),
        &[],
    )
    .await;
    let last = Scan::new().start_row("k").stop_row("k0");
    assert_eq!(cells(rows(&table, last).await.into_iter().next()), one);
    assert_eq!(rows(&table, Scan::new().start_row("k\0")).await, []);
}

#[tokio::test]
async fn the_empty_qualifier_is_a_column_of_its_own() {
    let connection = connect().await;
    let owned = TestTable::create("unnamed", five, &[]).await;
    let table = owned.of(&connection);
    let put = Put::new("r").cell("f1", "", "unnamed").cell("f1", "a", "named");
    table.put(put).await.unwrap();
    let both = ["f1:=unnamed".to_owned(), "f1:a=named".to_owned()];
    find(
        &table,
        Get::new("r").family("f1"),
        Scan::new().family("f1"),
        &both,
    )
    .await;
    let (get, scan) = (Get::new("r").column("f1", ""), Scan::new().column("f1", ""));
    find(&table, get.clone(), scan.clone(), &both[..1]).await;
    let (two, scan_two) = (get.clone().column("f1", "a"), scan.clone().column("f1", "a"));
    find(&table, two, scan_two, &both).await;
    table.delete(Delete::new("r").column("f1", "")).await.unwrap();
    find(&table, get, scan, &[]).await;
    find(&table, Get::new("r"), Scan::new(), &both[1..]).await;
}

#[tokio::test]
async fn families_come_and_go_and_unflushed_rows_stay() {
    let connection = connect().await;
    let owned = TestTable::create("changing", plain, &[]).await;
    let (table, admin) = (owned.of(&connection), Admin::new(&connection));
    table.put(put("r", "v")).await.unwrap();
    let descriptor = admin.descriptor(&owned.name).await.unwrap();
    let wider = descriptor.clone().with_family(FamilyDescriptor::new("g"));
    admin.modify_table(&wider).await.unwrap();
    assert_eq!(value(&table, "r").await.as_deref(), Some("v"));
    table.put(put("r", "w").cell("g", "q", "v")).await.unwrap();

    let mut narrower = admin.descriptor(&owned.name).await.unwrap();
    narrower.families.retain(|family| family.name != "f");
    admin.modify_table(&narrower).await.unwrap();
    let row = table.get(Get::new("r")).await.unwrap();
    assert_eq!(cells(row), ["g:q=v"]);
    let error = table.put(put("r", "x")).await.unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::FamilyNotFound, "{error}");

    // The family comes back without its cells, and the last one stays.
    let again = narrower.clone().with_family(FamilyDescriptor::new("f"));
    admin.modify_table(&again).await.unwrap();
    assert_eq!(value(&table, "r").await, None);
    narrower.families.clear();
    let error = admin.modify_table(&narrower).await.unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::InvalidInput, "{error}");
    let missing = TableDescriptor::new("suite_none").unwrap();
    let missing = missing.with_family(FamilyDescriptor::new("f"));
    let error = admin.modify_table(&missing).await.unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::TableNotFound, "{error}");
}

#[rstest]
#[tokio::test]
async fn columns_of_a_family_with_new_version_behavior_are_selected(
    #[values(Memstore, StoreFiles, MajorCompacted)] storage: Storage,
) {
    let ordered = |name| {
        let family = FamilyDescriptor::new("f")
            .with_attribute("VERSIONS", "3")
            .with_attribute("NEW_VERSION_BEHAVIOR", "true");
        TableDescriptor::from(name).with_family(family)
    };
    let connection = connect().await;
    let owned = TestTable::create("newversions", ordered, &[]).await;
    let table = owned.of(&connection);
    let put = ["a", "b", "c", "d"]
        .into_iter()
        .fold(Put::new("r"), |put, column| put.cell_at("f", column, 1, column));
    table.put(put).await.unwrap();
    // The put comes after the delete, whatever its timestamp is.
    table
        .delete(Delete::new("r").column("f", "d").timestamp(9))
        .await
        .unwrap();
    table
        .put(Put::new("r").cell_at("f", "d", 5, "again"))
        .await
        .unwrap();
    owned.store_in(&connection, storage).await;
    let (get, scan) = (Get::new("r"), Scan::new());
    let expected = ["f:a=a", "f:b=b", "f:c=c", "f:d=again"].map(str::to_owned);
    find(&table, get.clone(), scan.clone(), &expected).await;
    let (get, scan) = (get.column("f", "b"), scan.column("f", "b"));
    find(&table, get.clone(), scan.clone(), &expected[1..2]).await;
    let (get, scan) = (get.column("f", "d"), scan.column("f", "d"));
    let expected = [expected[1].clone(), expected[3].clone()];
    find(&table, get, scan, &expected).await;
}
