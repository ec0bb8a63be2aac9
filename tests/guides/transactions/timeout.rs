use std::time::Duration;

use hbase_txn::{PartitionedTable, client::Put};
use tokio::time::timeout;

async fn commit_within_a_second(orders: &PartitionedTable) -> hbase_txn::Result<()> {
    let transaction = orders
        .transaction("xxx")
        .put(Put::new("xxxabc").cell("f", "state", "placed"))
        .recorded();
    let id = transaction.transaction_id().cloned();
    if let (Err(_), Some(id)) = (timeout(Duration::from_secs(1), transaction.commit()).await, id) {
        println!("{:?}", orders.settle("xxx", &id).await?);
    }
    Ok(())
}

#[test]
fn lost_answer_is_settled() {
    hbase_fake::FakeHBase::run(async |hbase| {
        let orders = crate::open_orders(hbase).await?;
        let answers = hbase_fake::Call::MutateRows
            .on("orders")
            .row("xxxabc")
            .hold_answer()
            .times(1);
        let held = hbase.fault(answers);
        commit_within_a_second(&orders).await?;
        assert!(orders.snapshot("xxx").await?.row("xxxabc").is_some());
        held.release();
        Ok(())
    });
}
