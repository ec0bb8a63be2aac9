use hbase_txn::{
    Outcome, PartitionedTable, Result, Settled,
    client::{Condition, Connection, Delete, Increment, Put},
};

#[tokio::main]
async fn main() -> Result<()> {
    let uri = std::env::var("HBASE_TXN_CONNECT").expect("HBASE_TXN_CONNECT is the URI of the cluster");
    let connection = Connection::connect(&uri).await?;
    place_order(&connection).await?;
    connection.close().await;
    Ok(())
}

async fn place_order(connection: &Connection) -> Result<()> {
    // Checks that transactions are possible: a rule that keeps prefixes together, the endpoint, whole partitions.
    let orders = PartitionedTable::open(connection, "orders").await?;

    // One partition. With an id it is applied once, however often it is committed.
    let outcome = orders
        .transaction("xxx")
        .put(
            Put::new("xxxabc")
                .cell("f", "state", "new")
                .cell("f", "total", 1250i64),
        )
        .increment(Increment::new("xxxsum").column("f", "orders", 1))
        .delete(Delete::new("xxxzzz"))
        .condition(Condition::absent("xxxabc", "f", "state"))
        .id("request-4711")
        .commit()
        .await;
    match outcome {
        Outcome::Committed(done) => println!("ordered, replayed: {}", done.replayed),
        Outcome::Rejected(rejection) => println!("{rejection}"),
        Outcome::Unknown(unsettled) => match unsettled.settle().await? {
            Settled::Committed => println!("ordered, although the answer was lost"),
            Settled::NotApplied => println!("not ordered, and no request in flight can change that"),
        },
        // An error: invalid or aborted, and nothing was applied.
        failed => _ = failed.into_result()?,
    }

    // The partition as it is at one moment.
    for row in &orders.snapshot("xxx").await? {
        println!("{row:?}");
    }
    Ok(())
}

#[test]
fn order_is_placed_once() {
    hbase_fake::FakeHBase::run(async |hbase| {
        hbase.create_partitioned_table("orders", &["f", "_txn"], 3);
        let connection = hbase.connect().await?;
        place_order(&connection).await?;
        place_order(&connection).await?;
        let orders = PartitionedTable::open(&connection, "orders").await?;
        assert_eq!(
            orders.snapshot("xxx").await?.get("xxxsum", "f", "orders")?,
            Some(1i64)
        );
        Ok(())
    });
}
