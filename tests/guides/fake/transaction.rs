use hbase_fake::FakeHBase;
use hbase_txn::{PartitionedTable, client::Put};

#[test]
fn both_rows_are_written() {
    FakeHBase::run(async |hbase| {
        hbase.create_partitioned_table("orders", &["f", "_txn"], 3);
        let orders = PartitionedTable::open(&hbase.connect().await?, "orders").await?;
        let transaction = orders
            .transaction("xxx")
            .put(Put::new("xxxabc").cell("f", "state", "new"))
            .put(Put::new("xxxsum").cell("f", "orders", 1i64));
        assert!(transaction.commit().await.is_committed());
        assert_eq!(orders.snapshot("xxx").await?.len(), 2);
        Ok(())
    });
}
