use hbase_admin::Admin;
use hbase_client::{Connection, FamilyDescriptor, Result, TableDescriptor};

#[tokio::main]
async fn main() -> Result<()> {
    let connection = Connection::connect("hbase+zk://127.0.0.1:2181/hbase").await?;
    create_orders(&connection).await?;
    connection.close().await;
    Ok(())
}

async fn create_orders(connection: &Connection) -> Result<()> {
    let admin = Admin::new(connection);
    let orders = TableDescriptor::new("orders")?.with_family(FamilyDescriptor::new("f"));
    admin.create_table(&orders, &["m".into()]).await?;
    for found in admin.regions("orders").await? {
        println!("{} on {:?}", found.region.range_text(), found.server);
    }
    Ok(())
}

#[test]
fn table_is_created() {
    hbase_fake::FakeHBase::run(async |hbase| {
        let connection = hbase.connect().await?;
        create_orders(&connection).await?;
        assert_eq!(Admin::new(&connection).regions("orders").await?.len(), 2);
        Ok(())
    });
}
