//! The atomic `Multi` over several rows, on every release. HBase does not guarantee it; these tests
//! check it.

use bytes::Bytes;
use hbase_txn::{
    ClientErrorKind, OpenOptions,
    admin::Admin,
    client::{Append, Delete, FamilyDescriptor, Increment, Put, Scan, TableName},
};

use crate::{
    on_each,
    support::{
        keys, put,
        table::{TestTable, by_three_without_endpoint},
        value,
    },
};

fn two_families(name: TableName) -> hbase_txn::client::TableDescriptor {
    by_three_without_endpoint(name).with_family(FamilyDescriptor::new("g"))
}

#[tokio::test]
async fn several_rows_change_together_and_tell_their_results() {
    on_each(async |cluster| {
        let connection = cluster.connect().await;
        let owned = TestTable::create_on(cluster, "multi", by_three_without_endpoint, &["m"]).await;
        let table = owned
            .open_with(&connection, OpenOptions::new().without_endpoint())
            .await;
        table.table().put(put("xxxold", "v")).await.unwrap();
        for round in 1..=2_i64 {
            let transaction = table
                .transaction("xxx")
                .append(Append::new("xxxtext").cell("f", "q", "ab"))
                .delete(Delete::new("xxxold"))
                .increment(Increment::new("xxxsum").column("f", "n", 5))
                .put(put("xxxnew", "v"));
            let committed = transaction.commit().await.into_result().unwrap();
            assert_eq!((committed.rows, committed.mutations), (4, 4));
            let results: Vec<_> = committed
                .results
                .iter()
                .map(|row| (row.key().clone(), row.cells()[0].value.clone()))
                .collect();
            let sum = Bytes::copy_from_slice(&(5 * round).to_be_bytes());
            let text = "ab".repeat(usize::try_from(round).unwrap());
            assert_eq!(results, [("xxxsum".into(), sum), ("xxxtext".into(), text.into())]);
        }
        assert_eq!(value(table.table(), "xxxold").await, None);
        assert_eq!(value(table.table(), "xxxnew").await.as_deref(), Some("v"));
    })
    .await;
}

#[tokio::test]
async fn of_rows_that_can_not_all_be_changed_none_is() {
    on_each(async |cluster| {
        let connection = cluster.connect().await;
        let owned = TestTable::create_on(cluster, "half", two_families, &[]).await;
        let table = owned
            .open_with(&connection, OpenOptions::new().without_endpoint())
            .await;
        // Changed by another client, so that the open table sends a change that the server must
        // refuse.
        let admin = cluster.connect().await;
        let admin = Admin::new(&admin);
        admin
            .modify_table(&by_three_without_endpoint(owned.name.clone()))
            .await
            .unwrap();
        for last in ["xxxa", "xxxz"] {
            let transaction = table
                .transaction("xxx")
                .put(put("xxxm", "v"))
                .increment(Increment::new("xxxn").column("f", "q", 1))
                .put(Put::new(last).cell("g", "q", "v"));
            let outcome = transaction.commit().await;
            assert!(outcome.is_not_applied(), "{outcome}");
            assert_eq!(
                outcome.error().unwrap().kind(),
                ClientErrorKind::FamilyNotFound,
                "{outcome}"
            );
        }
        // The scan ends before the reserved rows of the server test.
        let scan = Scan::new().start_row("xxx").stop_row("xxx~");
        assert_eq!(keys(table.table(), scan).await, [""; 0]);
    })
    .await;
}
