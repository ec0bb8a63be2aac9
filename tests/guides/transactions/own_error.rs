use hbase_txn::{
    ClientError, Error, PartitionedTable,
    client::{Connection, Put},
};

#[derive(Debug)]
enum OrderError {
    HBase(Error),
    SoldOut,
}

impl From<Error> for OrderError {
    fn from(error: Error) -> Self {
        Self::HBase(error)
    }
}

impl From<ClientError> for OrderError {
    fn from(error: ClientError) -> Self {
        Self::HBase(error.into())
    }
}

async fn order_lamp(connection: &Connection) -> Result<i64, OrderError> {
    // Needs `From<Error>`, as `update` does.
    let shop = PartitionedTable::open(connection, "shop").await?;
    let updated = shop
        .update("xxx", |view| {
            let left = view.get::<i64>("xxxlamp", "f", "left")?.unwrap_or(0);
            if left == 0 {
                return Err(OrderError::SoldOut);
            }
            view.put(Put::new("xxxlamp").cell("f", "left", left - 1))?;
            Ok(left - 1)
        })
        .await?;
    let left = updated.into_value().unwrap_or(0);
    // Needs `From<ClientError>`.
    let log = connection.table("log")?;
    log.put(Put::new("lamp").cell("f", "left", left)).await?;
    Ok(left)
}

#[test]
fn both_errors_become_that_of_the_application() {
    hbase_fake::FakeHBase::run(async |hbase| {
        let connection = hbase.connect().await?;
        let error = order_lamp(&connection).await.unwrap_err();
        assert!(
            matches!(&error, OrderError::HBase(error) if error.table() == Some("shop")),
            "{error:?}"
        );
        hbase.create_partitioned_table("shop", &["f", "_txn"], 3);
        assert!(matches!(order_lamp(&connection).await, Err(OrderError::SoldOut)));
        let shop = connection.table("shop")?;
        shop.put(Put::new("xxxlamp").cell("f", "left", 2i64)).await?;
        let error = order_lamp(&connection).await.unwrap_err();
        assert!(
            matches!(&error, OrderError::HBase(error) if error.table() == Some("log")),
            "{error:?}"
        );
        hbase.create_table("log", &["f"], &[]);
        assert_eq!(order_lamp(&connection).await.unwrap(), 0);
        Ok(())
    });
}
