use hbase_txn::{PartitionedTable, Settled};

async fn was_ordered(orders: &PartitionedTable, request: &str) -> hbase_txn::Result<bool> {
    match orders.settle("xxx", request).await? {
        Settled::Committed => Ok(true),
        // It may be committed again.
        Settled::NotApplied => Ok(false),
    }
}

#[test]
fn only_what_was_committed_was_ordered() {
    hbase_fake::FakeHBase::run(async |hbase| {
        let orders = crate::open_orders(hbase).await?;
        let order = orders
            .transaction("xxx")
            .put(hbase_txn::client::Put::new("xxxabc").cell("f", "state", "new"))
            .id("request-1");
        assert!(order.commit().await.is_committed());
        assert!(was_ordered(&orders, "request-1").await?);
        assert!(!was_ordered(&orders, "request-2").await?);
        Ok(())
    });
}
