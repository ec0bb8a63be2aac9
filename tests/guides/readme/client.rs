use hbase_client::{Connection, Get, Put, Result};

#[tokio::main]
async fn main() -> Result<()> {
    let connection = Connection::connect("hbase+zk://127.0.0.1:2181/hbase").await?;
    place_order(&connection).await?;
    connection.close().await;
    Ok(())
}

async fn place_order(connection: &Connection) -> Result<()> {
    let orders = connection.table("orders")?;
    orders.put(Put::new("xxxabc").cell("f", "state", "new")).await?;
    if let Some(row) = orders.get(Get::new("xxxabc")).await? {
        println!("{:?}", row.get::<&str>("f", "state")?);
    }
    Ok(())
}

#[test]
fn order_is_placed() {
    hbase_fake::FakeHBase::run(async |hbase| {
        hbase.create_table("orders", &["f"], &[]);
        let connection = hbase.connect().await?;
        place_order(&connection).await?;
        let row = connection.table("orders")?.get(Get::new("xxxabc")).await?;
        assert!(row.is_some());
        Ok(())
    });
}
