use hbase_txn::{
    Outcome, PartitionedTable, Settled,
    client::{Condition, Increment, Put},
};

async fn place_order(orders: &PartitionedTable) -> hbase_txn::Result<()> {
    let outcome = orders
        .transaction("xxx")
        .put(
            Put::new("xxxabc")
                .cell("f", "state", "new")
                .cell("f", "total", 1250i64),
        )
        .increment(Increment::new("xxxsum").column("f", "orders", 1))
        .condition(Condition::absent("xxxabc", "f", "state").label("not ordered yet"))
        .id("request-4711")
        .commit()
        .await;
    match outcome {
        Outcome::Committed(done) => println!("{} rows, replayed: {}", done.rows, done.replayed),
        Outcome::Rejected(rejection) => println!("{rejection}"),
        Outcome::Unknown(unsettled) => match unsettled.settle().await? {
            Settled::Committed => println!("ordered, although the answer was lost"),
            Settled::NotApplied => println!("not ordered, and no request in flight can change that"),
        },
        // An error: invalid or aborted, and nothing was applied.
        failed => _ = failed.into_result()?,
    }
    Ok(())
}

#[test]
fn order_is_placed_once() {
    hbase_fake::FakeHBase::run(async |hbase| {
        let orders = crate::open_orders(hbase).await?;
        place_order(&orders).await?;
        place_order(&orders).await?;
        assert_eq!(
            orders.snapshot("xxx").await?.get("xxxsum", "f", "orders")?,
            Some(1i64)
        );
        Ok(())
    });
}
