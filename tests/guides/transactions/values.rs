use hbase_txn::{
    PartitionedTable,
    client::{Condition, Put},
};

async fn values(orders: &PartitionedTable) -> hbase_txn::Result<Option<i64>> {
    let outcome = orders
        .transaction("xxx")
        .put(
            Put::new("xxxabc")
                .cell("f", "total", 1250i64)
                .cell("f", "paid", false),
        )
        .condition(Condition::equal("xxxabc", "f", "items", 3i64))
        .commit()
        .await;
    outcome.into_result()?;
    orders.snapshot("xxx").await?.get::<i64>("xxxabc", "f", "total")
}

#[test]
fn value_is_read_as_it_was_written() {
    hbase_fake::FakeHBase::run(async |hbase| {
        let orders = crate::open_orders(hbase).await?;
        orders
            .table()
            .put(Put::new("xxxabc").cell("f", "items", 3i64))
            .await?;
        assert_eq!(values(&orders).await?, Some(1250));
        Ok(())
    });
}
