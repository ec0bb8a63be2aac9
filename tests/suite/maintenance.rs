//! Flushes and major compactions.

use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use hbase_txn::{
    ClientErrorKind,
    admin::Admin,
    client::{
        Cell, CellKind, Connection, Delete, FamilyDescriptor, Scan, ServiceKind, Table, TableDescriptor,
        TableName,
    },
};

use crate::support::{
    connect, connect_by,
    forwarder::Forwarder,
    put, rows, says, spied,
    spy::Spy,
    standalone,
    table::{TestTable, plain, unique_name},
    value,
};

/// Returns the kind and the row of each stored cell of a table.
async fn stored(table: &Table) -> Vec<(CellKind, Bytes)> {
    let rows = rows(table, Scan::new().raw()).await;
    let cells = rows.iter().flat_map(|row| row.cells());
    cells.map(|cell: &Cell| (cell.kind, cell.row.clone())).collect()
}

fn rows_of(stored: &[(CellKind, Bytes)], row: &str) -> usize {
    stored.iter().filter(|(_, of)| of == row).count()
}

fn two_families(name: TableName) -> TableDescriptor {
    plain(name).with_family(FamilyDescriptor::new("g"))
}

/// Creates store files with a covered put, its delete marker, and an uncovered put. The covered put
/// and the marker are in both families.
async fn cover(connection: &Connection, table: &TestTable, row: &'static str) {
    let (rows, admin) = (table.of(connection), Admin::new(connection));
    rows.put(put(row, "covered").cell("g", "q", "covered"))
        .await
        .unwrap();
    rows.put(put(format!("{row}-stays"), "v")).await.unwrap();
    admin.flush_table(&table.name).await.unwrap();
    rows.delete(Delete::new(row)).await.unwrap();
    admin.flush_table(&table.name).await.unwrap();
}

#[tokio::test]
async fn major_compaction_after_a_flush_leaves_no_marker() {
    let connection = connect().await;
    let table = TestTable::create("compact", two_families, &["m"]).await;
    let rows = table.of(&connection);
    let regions = table.regions(&connection).await;
    for row in ["a", "x"] {
        cover(&connection, &table, row).await;
    }
    let kinds = |row: &'static str| {
        let of = |kind| (kind, Bytes::from(row));
        let family = [of(CellKind::DeleteFamily), of(CellKind::Put)];
        let stays = (CellKind::Put, Bytes::from(format!("{row}-stays")));
        [&family[..], &family[..], &[stays][..]].concat()
    };
    assert_eq!(stored(&rows).await, [kinds("a"), kinds("x")].concat());

    // Compacts one region while the other stays as it is.
    Admin::new(&connection)
        .major_compact_region(&regions[0])
        .await
        .unwrap();
    let left = [vec![(CellKind::Put, Bytes::from("a-stays"))], kinds("x")].concat();
    assert_eq!(stored(&rows).await, left);
    Admin::new(&connection)
        .major_compact_table(&table.name)
        .await
        .unwrap();
    let left = ["a-stays", "x-stays"].map(|row| (CellKind::Put, Bytes::from(row)));
    assert_eq!(stored(&rows).await, left);

    // The marker is gone, and so hides no later put with an older timestamp.
    rows.put(put("a", "again").timestamp(1)).await.unwrap();
    assert_eq!(value(&rows, "a").await.as_deref(), Some("again"));
}

#[tokio::test]
async fn compaction_leaves_out_the_memstore() {
    let connection = connect().await;
    let table = TestTable::create("memory", plain, &[]).await;
    let rows = table.of(&connection);
    rows.put(put("a", "1")).await.unwrap();
    rows.delete(Delete::new("a")).await.unwrap();
    Admin::new(&connection)
        .major_compact_table(&table.name)
        .await
        .unwrap();
    assert_eq!(stored(&rows).await.len(), 2);
}

/// A region runs one flush at a time and rejects other requests meanwhile. A client that took a
/// rejection for the end of a flush would leave the marker in memory, where the compaction does not
/// see it.
#[tokio::test]
async fn flush_includes_writes_made_during_an_earlier_flush() {
    let connection = connect().await;
    let table = TestTable::create("abreast", plain, &[]).await;
    let (rows, admin) = (table.of(&connection), Admin::new(&connection));
    for _ in 0..10 {
        let others = async {
            loop {
                // The region has to be free now and then.
                for _ in 0..20 {
                    rows.put(put("other", "v")).await.unwrap();
                }
                admin.flush_table(&table.name).await.unwrap();
            }
        };
        let own = async {
            rows.put(put("own", "covered")).await.unwrap();
            admin.flush_table(&table.name).await.unwrap();
            rows.delete(Delete::new("own")).await.unwrap();
            admin.flush_table(&table.name).await.unwrap();
        };
        tokio::select! {
            () = others => {},
            () = own => {},
        }
        let ended = join_all((0..3).map(|_| admin.major_compact_table(&table.name))).await;
        ended.into_iter().for_each(Result::unwrap);
        let own = rows_of(&stored(&rows).await, "own");
        assert_eq!(own, 0);
    }
}

#[tokio::test]
async fn a_region_that_was_split_since_is_seen_to_in_both_halves() {
    let connection = connect().await;
    let table = TestTable::create("halves", two_families, &[]).await;
    let whole = table.regions(&connection).await;
    for row in ["a", "x"] {
        cover(&connection, &table, row).await;
    }
    table.split_at(&connect().await, "m").await;
    Admin::new(&connection)
        .major_compact_region(&whole[0])
        .await
        .unwrap();
    let stays = ["a-stays", "x-stays"].map(|row| (CellKind::Put, Bytes::from(row)));
    assert_eq!(stored(&table.of(&connection)).await, stays);
}

#[tokio::test]
async fn a_region_that_was_merged_since_is_seen_to_in_the_whole() {
    let connection = connect().await;
    let table = TestTable::create("whole", plain, &["m"]).await;
    let rows = table.of(&connection);
    let halves = table.regions(&connection).await;
    table.merge_both(&connect().await).await;
    for row in ["a", "x"] {
        rows.put(put(row, "covered")).await.unwrap();
        rows.delete(Delete::new(row)).await.unwrap();
    }
    Admin::new(&connection).flush_region(&halves[1]).await.unwrap();
    Admin::new(&connection)
        .major_compact_region(&halves[1])
        .await
        .unwrap();
    assert_eq!(stored(&rows).await, []);
}

#[tokio::test]
async fn missing_and_unserved_regions_are_reported() {
    let connection = connect().await;
    let admin = Admin::new(&connection);
    let none = unique_name("none");
    let error = admin.flush_table(&none).await.unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::TableNotFound, "{error}");
    says(&error, &[none.qualifier()]);

    let table = TestTable::create("offline", plain, &[]).await;
    let regions = table.regions(&connection).await;
    admin.disable_table(&table.name).await.unwrap();
    let error = admin.major_compact_region(&regions[0]).await.unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::TableDisabled, "{error}");
    says(&error, &["major compaction", table.name.qualifier()]);
}

/// Servers ignore compaction requests in this state, and answer as if they did not.
#[tokio::test]
async fn disabled_compaction_ends_at_the_deadline_with_a_reason() {
    let connection = connect().await;
    let never = |name| plain(name).with_attribute("COMPACTION_ENABLED", "false");
    let table = TestTable::create("never", never, &[]).await;
    table.of(&connection).put(put("a", "v")).await.unwrap();
    Admin::new(&connection).flush_table(&table.name).await.unwrap();
    let admin = Admin::new(&connection).with_operation_timeout(Duration::from_secs(5));
    let error = admin.major_compact_table(&table.name).await.unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::DeadlineExceeded, "{error}");
    assert!(error.is_outcome_unknown());
    says(&error.hint().unwrap(), &["COMPACTION_ENABLED"]);
}

/// The unanswered call may only have read.
#[tokio::test]
async fn compaction_at_its_deadline_is_unknown() {
    // The client reads the state and the files, requests the compaction, and reads the state again.
    for (answered, was_asked_for) in [(0, false), (1, false), (3, true)] {
        // A table of its own: a server compacts several files even without a request.
        let table = TestTable::create("asked", plain, &[]).await;
        let forwarder = Forwarder::to(standalone().status.ports["region-server"]).await;
        let connection = connect_by(
            Spy::with_detour_for(ServiceKind::Admin, forwarder.port),
            standalone().config(),
        )
        .await;
        table.of(&connection).put(put("a", "v")).await.unwrap();
        let region = table.regions(&connection).await.remove(0);
        Admin::new(&connection).flush_region(&region).await.unwrap();
        let admin = Admin::new(&connection).with_operation_timeout(Duration::from_secs(3));
        forwarder.stop_behind(answered);
        let error = admin.major_compact_region(&region).await.unwrap_err();
        assert!(forwarder.has_stopped(), "{answered}: {error}");
        assert_eq!(
            error.kind(),
            ClientErrorKind::DeadlineExceeded,
            "{answered}: {error}"
        );
        assert_eq!(error.is_outcome_unknown(), was_asked_for, "{answered}: {error}");
        says(&error, &["major compaction", table.name.qualifier()]);
        if was_asked_for {
            says(&error.hint().unwrap(), &["goes on by itself"]);
        }
    }
}

/// A connection serves one service; a server would reject a call for another one.
#[tokio::test]
async fn server_administration_has_its_own_connection() {
    let (connection, spy) = spied().await;
    let table = TestTable::create("service", plain, &["m"]).await;
    for _ in 0..2 {
        Admin::new(&connection).flush_table(&table.name).await.unwrap();
    }
    assert_eq!(spy.dials(ServiceKind::Admin), 1);
}
