use hbase_fake::{Call, FakeHBase};
use hbase_txn::client::{Get, Put};

#[test]
fn put_without_an_answer_may_be_applied() {
    FakeHBase::run(async |hbase| {
        hbase.create_table("orders", &["f"], &["m"]);
        let orders = hbase.connect().await?.table("orders")?;
        hbase.fault(Call::Mutate.on("orders").lose_answer().times(1));
        let error = orders.put(Put::new("a").cell("f", "q", "1")).await.unwrap_err();
        assert!(error.is_outcome_unknown());
        assert!(orders.get(Get::new("a")).await?.is_some());
        Ok(())
    });
}
