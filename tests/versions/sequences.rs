//! Operations on the same cells, and timestamps that keep them visible, on every release.

use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use hbase_txn::{
    PartitionedTable, Transaction,
    client::{Append, Cell, Condition, Delete, Get, Increment, Put},
};

use crate::{
    on_each,
    support::{
        put,
        table::{TestTable, by_three},
        value,
    },
};

/// The offset of cells and delete markers in the future, in milliseconds.
const AHEAD: u64 = 3_600_000;

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(since.as_millis()).unwrap()
}

async fn commit(table: &PartitionedTable, guarded: bool, fill: impl FnOnce(Transaction) -> Transaction) {
    let mut transaction = fill(table.transaction("xxx"));
    if guarded {
        transaction = transaction.guard_timestamps();
    }
    transaction.commit().await.into_result().unwrap();
}

async fn cell(table: &PartitionedTable, row: &'static str, qualifier: &'static str) -> Option<Cell> {
    let found = table.table().get(Get::new(row)).await.unwrap()?;
    found.cell("f", qualifier).cloned()
}

async fn values(table: &PartitionedTable, row: &'static str) -> Vec<Bytes> {
    let found = table.table().get(Get::new(row).versions(10)).await.unwrap();
    let cells = found.map(|row| row.into_cells()).unwrap_or_default();
    cells.into_iter().map(|cell| cell.value).collect()
}

#[tokio::test]
async fn operations_of_one_cell_are_applied_one_after_the_other() {
    on_each(async |cluster| {
        let connection = cluster.connect().await;
        let owned = TestTable::create_on(cluster, "sequence", by_three, &[]).await;
        let table = owned.open(&connection).await;
        for row in ["xxxreplaced", "xxxgone", "xxxcolumn"] {
            table
                .table()
                .put(put(row, "old").cell("f", "other", "old"))
                .await
                .unwrap();
        }
        commit(&table, false, |transaction| {
            let mut transaction = transaction
                .delete(Delete::new("xxxreplaced"))
                .put(put("xxxreplaced", "new"))
                .append(Append::new("xxxreplaced").cell("f", "q", "er"))
                .put(put("xxxgone", "new"))
                .delete(Delete::new("xxxgone"))
                .delete(Delete::new("xxxcolumn").column("f", "q"))
                .put(put("xxxcolumn", "new"));
            for amount in [5, -2, 4] {
                transaction = transaction.increment(Increment::new("xxxsum").column("f", "n", amount));
            }
            for text in ["a", "b", "c"] {
                transaction = transaction.append(Append::new("xxxtext").cell("f", "q", text));
            }
            transaction
        })
        .await;
        assert_eq!(values(&table, "xxxreplaced").await, ["newer"]);
        assert_eq!(values(&table, "xxxgone").await, [""; 0]);
        assert_eq!(values(&table, "xxxcolumn").await, ["old", "new"]);
        assert_eq!(values(&table, "xxxsum").await, [&7_i64.to_be_bytes()[..]]);
        assert_eq!(values(&table, "xxxtext").await, ["abc"]);
    })
    .await;
}

#[tokio::test]
async fn guarded_put_is_visible_over_a_future_cell() {
    on_each(async |cluster| {
        let connection = cluster.connect().await;
        let owned = TestTable::create_on(cluster, "guard", by_three, &[]).await;
        let table = owned.open(&connection).await;
        let future = now() + AHEAD;
        let old = Put::new("xxx1").cell_at("f", "q", future, "old");
        table.table().put(old).await.unwrap();
        for (guarded, seen) in [(false, "old"), (true, "new")] {
            commit(&table, guarded, |transaction| transaction.put(put("xxx1", "new"))).await;
            assert_eq!(value(table.table(), "xxx1").await.as_deref(), Some(seen));
        }
        assert_eq!(cell(&table, "xxx1", "q").await.unwrap().timestamp, future + 1);
        commit(&table, true, |transaction| {
            transaction.delete(Delete::new("xxx1").column("f", "q"))
        })
        .await;
        assert_eq!(value(table.table(), "xxx1").await, None);
    })
    .await;
}

#[tokio::test]
async fn write_under_a_condition_on_its_cell_shows_over_a_cell_ahead() {
    on_each(async |cluster| {
        let connection = cluster.connect().await;
        let owned = TestTable::create_on(cluster, "checked", by_three, &[]).await;
        let table = owned.open(&connection).await;
        let old = Put::new("xxx1").cell_at("f", "q", now() + AHEAD, "old");
        table.table().put(old).await.unwrap();
        let equal = |value: &'static str| Condition::equal("xxx1", "f", "q", value);
        commit(&table, false, |transaction| {
            transaction.condition(equal("old")).put(put("xxx1", "new"))
        })
        .await;
        assert_eq!(value(table.table(), "xxx1").await.as_deref(), Some("new"));
        commit(&table, false, |transaction| {
            transaction.condition(equal("new")).delete(Delete::new("xxx1"))
        })
        .await;
        assert_eq!(value(table.table(), "xxx1").await, None);
        // After the marker, which is ahead too.
        commit(&table, false, |transaction| {
            let absent = Condition::absent("xxx1", "f", "q");
            transaction.condition(absent).put(put("xxx1", "again"))
        })
        .await;
        assert_eq!(value(table.table(), "xxx1").await.as_deref(), Some("again"));
    })
    .await;
}

/// Increments and appends depend on this: the server uses their timestamp if the column has no
/// cell, and otherwise a timestamp after the old cell, whatever theirs is.
#[tokio::test]
async fn guarded_increments_and_appends_show_over_future_deletes() {
    on_each(async |cluster| {
        let connection = cluster.connect().await;
        let owned = TestTable::create_on(cluster, "stamps", by_three, &[]).await;
        let table = owned.open(&connection).await;
        let future = now() + AHEAD;
        let (marker, old) = (future + 1_000, future);
        for row in ["xxxcount", "xxxtext"] {
            let delete = Delete::new(row).column("f", "absent").timestamp(marker);
            table.table().delete(delete).await.unwrap();
        }
        let one = 1_i64.to_be_bytes().to_vec();
        for (row, value) in [("xxxcount", one), ("xxxtext", "a".into())] {
            let put = Put::new(row).cell_at("f", "old", old, value);
            table.table().put(put).await.unwrap();
        }
        for guarded in [false, true] {
            let before = now();
            commit(&table, guarded, |transaction| {
                let increment = Increment::new("xxxcount").column("f", "absent", 1);
                let append = Append::new("xxxtext").cell("f", "absent", "b");
                transaction
                    .increment(increment.column("f", "old", 1))
                    .append(append.cell("f", "old", "b"))
            })
            .await;
            for row in ["xxxcount", "xxxtext"] {
                let absent = cell(&table, row, "absent").await;
                // Unguarded, it has the server's time, and the marker hides it.
                let stamped = absent.map(|cell| cell.timestamp);
                assert_eq!(stamped, guarded.then_some(marker + 1), "{row}, at {before}");
                let behind = old + 1 + u64::from(guarded);
                assert_eq!(cell(&table, row, "old").await.unwrap().timestamp, behind);
            }
        }
        assert_eq!(
            cell(&table, "xxxcount", "absent").await.unwrap().value,
            1_i64.to_be_bytes()[..]
        );
        assert_eq!(
            cell(&table, "xxxcount", "old").await.unwrap().value,
            3_i64.to_be_bytes()[..]
        );
        assert_eq!(cell(&table, "xxxtext", "absent").await.unwrap().value, "b");
        assert_eq!(cell(&table, "xxxtext", "old").await.unwrap().value, "abb");
    })
    .await;
}
