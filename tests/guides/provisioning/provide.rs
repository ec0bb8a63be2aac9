use hbase_provision::{Plan, TableFile};
use hbase_txn::client::Connection;

async fn provide(connection: &Connection) -> hbase_txn::Result<()> {
    let file = TableFile::read("schemas/tables/by_prefix_length.toml".as_ref())?;
    let plan = Plan::read(connection, &file).await?;
    plan.apply(connection, &()).await?;
    Ok(())
}

#[test]
fn table_is_as_the_file_describes_it() {
    hbase_fake::FakeHBase::run(async |hbase| {
        let connection = hbase.connect().await?;
        provide(&connection).await?;
        assert_eq!(
            hbase_txn::admin::Admin::new(&connection)
                .regions("orders")
                .await?
                .len(),
            16
        );
        Ok(())
    });
}
