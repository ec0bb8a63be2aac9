use hbase_txn::{
    Outcome, PartitionedTable,
    client::{Condition, Put},
};

async fn reserve(shop: &PartitionedTable, buyer: &str) -> hbase_txn::Result<&'static str> {
    let outcome = shop
        .transaction("xxx")
        .put(Put::new("xxxlamp").cell("f", "buyer", buyer))
        .condition(Condition::present("xxxlamp", "f", "price").label("on sale"))
        .condition(Condition::absent("xxxlamp", "f", "buyer").label("not reserved"))
        .commit()
        .await;
    let Outcome::Rejected(rejection) = outcome else {
        return outcome.into_result().map(|_| "reserved");
    };
    // Never empty, in the order of the transaction.
    match rejection.failed[0].label.as_str() {
        "on sale" => Ok("not for sale"),
        _ => Ok("reserved by another buyer"),
    }
}

#[test]
fn lamp_is_reserved_once() {
    hbase_fake::FakeHBase::run(async |hbase| {
        let orders = crate::open_orders(hbase).await?;
        assert_eq!(reserve(&orders, "anna").await?, "not for sale");
        let price = Put::new("xxxlamp").cell("f", "price", 1250i64);
        orders.table().put(price).await?;
        assert_eq!(reserve(&orders, "anna").await?, "reserved");
        assert_eq!(reserve(&orders, "bert").await?, "reserved by another buyer");
        Ok(())
    });
}
