//! Records on every release: an id is applied once, and its outcome can be determined.

use hbase_txn::{
    ErrorKind, Outcome, PartitionedTable, Recorded, Settled, TransactionId,
    client::{Condition, Get, Increment},
};

use crate::{
    on_each,
    support::{
        put,
        table::{TestTable, recorded},
    },
};

fn id(text: &'static str) -> TransactionId {
    TransactionId::new(text).unwrap()
}

/// Adds to a counter and puts a second row, if a third one is absent.
async fn add(table: &PartitionedTable, id: &TransactionId, amount: i64) -> Outcome {
    let transaction = table
        .transaction("xxx")
        .id(id.clone())
        .condition(Condition::absent("xxxstop", "f", "q").label("goes on"))
        .increment(Increment::new("xxxsum").column("f", "n", amount))
        .put(put("xxxlast", id.to_string()));
    transaction.commit().await
}

async fn sum(table: &PartitionedTable) -> i64 {
    let row = table.table().get(Get::new("xxxsum")).await.unwrap();
    let value = row.and_then(|row| row.value("f", "n").cloned());
    value.map_or(0, |value| i64::from_be_bytes(value[..].try_into().unwrap()))
}

#[tokio::test]
async fn recorded_transaction_is_applied_once_and_known_elsewhere() {
    on_each(async |cluster| {
        let (connection, elsewhere) = (cluster.connect().await, cluster.connect().await);
        let owned = TestTable::create_on(cluster, "records", recorded, &["m"]).await;
        let (table, other) = (owned.open(&connection).await, owned.open(&elsewhere).await);
        for (nth, table) in [&table, &other, &table].into_iter().enumerate() {
            let committed = add(table, &id("a"), 5).await.into_result().unwrap();
            assert_eq!(committed.replayed, nth > 0);
        }
        assert_eq!(sum(&other).await, 5);
        assert_eq!(other.outcome("xxx", &id("a")).await.unwrap(), Recorded::Committed);
        assert_eq!(other.settle("xxx", &id("a")).await.unwrap(), Settled::Committed);
        let reused = add(&other, &id("a"), 6).await;
        assert_eq!(reused.error().unwrap().kind(), ErrorKind::IdReused, "{reused}");
        assert_eq!(sum(&other).await, 5);
    })
    .await;
}

#[tokio::test]
async fn settled_or_rejected_id_is_not_applied_until_committed_again() {
    on_each(async |cluster| {
        let connection = cluster.connect().await;
        let owned = TestTable::create_on(cluster, "settle", recorded, &[]).await;
        let table = owned.open(&connection).await;
        let outcome = async |id| table.outcome("xxx", id).await.unwrap();

        let settled = id("settled");
        assert_eq!(outcome(&settled).await, Recorded::Nothing);
        // Settling again returns the same outcome.
        for _ in 0..2 {
            assert_eq!(table.settle("xxx", &settled).await.unwrap(), Settled::NotApplied);
            assert_eq!(outcome(&settled).await, Recorded::Aborted);
        }

        let rejected = id("rejected");
        table.table().put(put("xxxstop", "v")).await.unwrap();
        assert_eq!(add(&table, &rejected, 1).await.name(), "rejected");
        assert_eq!(outcome(&rejected).await, Recorded::Aborted);
        assert_eq!(sum(&table).await, 0);

        table
            .table()
            .delete(hbase_txn::client::Delete::new("xxxstop"))
            .await
            .unwrap();
        for id in [&settled, &rejected] {
            let committed = add(&table, id, 1).await.into_result().unwrap();
            assert!(!committed.replayed);
            assert_eq!(outcome(id).await, Recorded::Committed);
        }
        assert_eq!(sum(&table).await, 2);
    })
    .await;
}
