use hbase_txn::{PartitionedTable, Result, Updated, client::Put};

async fn pay(accounts: &PartitionedTable, cents: i64) -> Result<Updated<bool>> {
    accounts
        .update("xxx", |view| -> Result<_> {
            let balance = view.get::<i64>("xxxacct", "f", "balance")?.unwrap_or(0);
            if balance < cents {
                return Ok(false);
            }
            view.put(Put::new("xxxacct").cell("f", "balance", balance - cents))?;
            Ok(true)
        })
        .await
}

#[test]
fn balance_is_never_negative() {
    hbase_fake::FakeHBase::run(async |hbase| {
        let accounts = crate::open_orders(hbase).await?;
        accounts
            .table()
            .put(Put::new("xxxacct").cell("f", "balance", 300i64))
            .await?;
        assert_eq!(pay(&accounts, 200).await?.into_value(), Some(true));
        assert_eq!(pay(&accounts, 200).await?.into_value(), Some(false));
        assert_eq!(
            accounts.snapshot("xxx").await?.get("xxxacct", "f", "balance")?,
            Some(100i64)
        );
        Ok(())
    });
}
