//! Flushes and major compactions: the answers of a region server.

use hbase_txn::{Delete, Scan};

use crate::{
    on_each,
    support::{
        put, rows,
        table::{TestTable, plain},
    },
};

#[tokio::test]
async fn a_major_compaction_drops_what_was_flushed_and_deleted() {
    on_each(async |cluster| {
        let connection = cluster.connect().await;
        let admin = connection.admin();
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
