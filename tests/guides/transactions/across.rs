use hbase_txn::{
    CrossPartitions, CrossTransaction, Error, Outcome, PartitionedTable,
    client::{Condition, Put},
};

async fn claim_name(users: &PartitionedTable, names: &PartitionedTable) -> Outcome {
    let user = users
        .transaction("u17")
        .put(Put::new("u17profile").cell("f", "name", "anna"));
    let name = names
        .transaction("ann")
        .condition(Condition::absent("anna", "f", "user").label("the name is free"))
        .put(Put::new("anna").cell("f", "user", "u17"));
    CrossTransaction::new(user)
        .and(name)
        .id("request-4711")
        .commit()
        .await
}

async fn transfer(accounts: &PartitionedTable, cents: i64) -> hbase_txn::Result<bool> {
    let both = CrossPartitions::new([(accounts, "ali"), (accounts, "bob")])?;
    let moved = both.update(|[from, to]| {
        let left = from.get::<i64>("alibalance", "f", "cents")?.unwrap_or(0) - cents;
        let there = to.get::<i64>("bobbalance", "f", "cents")?.unwrap_or(0) + cents;
        if left < 0 {
            return Ok(false);
        }
        from.put(Put::new("alibalance").cell("f", "cents", left))?;
        to.put(Put::new("bobbalance").cell("f", "cents", there))?;
        Ok::<_, Error>(true)
    });
    Ok(moved.await?.into_value().unwrap_or(false))
}

#[test]
fn name_and_money_have_one_owner() {
    hbase_fake::FakeHBase::run(async |hbase| {
        let [users, names] = crate::open_crossing(hbase).await?;
        assert!(claim_name(&users, &names).await.is_committed());
        let request = claim_name(&users, &names).await.into_result()?;
        assert!(request.replayed);
        let deposit = Put::new("alibalance").cell("f", "cents", 300i64);
        users
            .transaction("ali")
            .put(deposit)
            .commit()
            .await
            .into_result()?;
        assert!(transfer(&users, 200).await?);
        assert!(!transfer(&users, 200).await?);
        let both = CrossPartitions::new([(&users, "ali"), (&users, "bob")])?;
        let [ali, bob] = both.snapshot().await?;
        assert_eq!(ali.get("alibalance", "f", "cents")?, Some(100i64));
        assert_eq!(bob.get("bobbalance", "f", "cents")?, Some(200i64));
        Ok(())
    });
}
