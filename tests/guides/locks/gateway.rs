use std::time::Duration;

use hbase_txn::{
    Level,
    thrift::{ThriftConnection, ThriftLockManagerOptions},
};

async fn bill() -> hbase_txn::Result<()> {
    let gateway = ThriftConnection::connect("gateway.example:9090").await?;
    let locks = ThriftLockManagerOptions::new("billing")
        .farm("fra")
        .open(&gateway, "dlm_locks")
        .await?;
    let guard = locks
        .lock(Level::Dc, "invoice-7")?
        .ttl(Duration::from_secs(10))
        .auto_renew()
        .acquire()
        .await?;
    println!("{:?}", guard.release().await?);
    Ok(())
}
