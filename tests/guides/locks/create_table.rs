use hbase_txn::{
    client::Connection,
    lock::{LockManager, LockManagerOptions, LockTableOptions},
};

async fn open(connection: &Connection) -> hbase_txn::Result<LockManager> {
    LockManagerOptions::new("billing")
        .open_or_create(connection, LockTableOptions::new("dlm_locks")?)
        .await
}

#[test]
fn table_is_created_once() {
    hbase_fake::FakeHBase::run(async |hbase| {
        let connection = hbase.connect().await?;
        open(&connection).await?;
        open(&connection).await?;
        assert!(
            hbase_txn::admin::Admin::new(&connection)
                .exists("dlm_locks")
                .await?
        );
        Ok(())
    });
}
