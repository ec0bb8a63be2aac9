use hbase_fake::{Call, FakeHBase};
use hbase_txn::{Outcome, PartitionedTable, Settled, client::Put};

#[test]
fn order_without_an_answer_is_settled() {
    FakeHBase::run(async |hbase| {
        hbase.create_partitioned_table("shop", &["f", "_txn"], "/");
        let shop = PartitionedTable::open(&hbase.connect().await?, "shop").await?;
        hbase.fault(Call::MutateRows.on("shop").row("anna/order").lose_answer());
        let order = shop
            .transaction("anna")
            .put(Put::new("anna/order").cell("f", "state", "new"))
            .recorded();
        match order.commit().await {
            Outcome::Unknown(unsettled) => match unsettled.settle().await? {
                Settled::Committed => {}
                Settled::NotApplied => panic!("only answers were lost"),
            },
            other => panic!("{other}"),
        }
        assert!(shop.snapshot("anna").await?.row("anna/order").is_some());
        Ok(())
    });
}

#[test]
fn outcome_depends_on_the_record_and_on_what_is_lost() {
    FakeHBase::run(async |hbase| {
        hbase.create_partitioned_table("shop", &["f", "_txn"], "/");
        let shop = PartitionedTable::open(&hbase.connect().await?, "shop").await?;
        let order = |row: &'static str| {
            let put = Put::new(row).cell("f", "state", "new");
            (
                Call::MutateRows.on("shop").row(row),
                shop.transaction("anna").put(put),
            )
        };
        let (call, once) = order("anna/1");
        hbase.fault(call.lose_answer().times(1));
        assert!(once.recorded().commit().await.is_committed());

        let (call, with_id) = order("anna/2");
        hbase.fault(call.lose_answer());
        assert!(with_id.id("request-2").commit().await.is_committed());

        let (call, unsent) = order("anna/3");
        hbase.fault(call.lose_request());
        let Outcome::Unknown(unsettled) = unsent.recorded().commit().await else {
            panic!("the request was lost");
        };
        assert_eq!(unsettled.settle().await?, Settled::NotApplied);

        let (call, without_record) = order("anna/4");
        hbase.fault(call.lose_answer().times(1));
        let Outcome::Unknown(unsettled) = without_record.commit().await else {
            panic!("the answer was lost");
        };
        assert!(unsettled.settle().await.is_err());
        Ok(())
    });
}
