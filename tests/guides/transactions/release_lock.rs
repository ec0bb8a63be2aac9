use hbase_txn::{Outcome, PartitionedTable, client::Put, lock::PartitionLocks};

async fn finish(orders: &PartitionedTable) -> hbase_txn::Result<()> {
    let locks = PartitionLocks::open(orders).await?;
    let guard = locks.lock("xxx", "order-4711")?.auto_renew().acquire().await?;
    let outcome = orders
        .transaction("xxx")
        .put(Put::new("xxxabc").cell("f", "state", "done"))
        .release_lock(&guard)
        .commit()
        .await;
    match outcome {
        Outcome::Committed(_) => println!("written, and the lock is free"),
        Outcome::Rejected(rejection) => println!("the lock was lost, nothing was written: {rejection}"),
        other => println!("{other}"),
    }
    Ok(())
}

#[test]
fn lock_is_free_after_the_commit() {
    hbase_fake::FakeHBase::run(async |hbase| {
        let orders = crate::open_orders(hbase).await?;
        finish(&orders).await?;
        let locks = PartitionLocks::open(&orders).await?;
        assert!(locks.lock("xxx", "order-4711")?.try_acquire().await?.is_some());
        assert!(orders.snapshot("xxx").await?.row("xxxabc").is_some());
        Ok(())
    });
}
