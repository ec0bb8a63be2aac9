use std::time::Duration;

use hbase_txn::{Level, client::Connection, lock::LockManagerOptions};

async fn bill(connection: &Connection) -> hbase_txn::Result<()> {
    let locks = LockManagerOptions::new("billing")
        .farm("fra")
        .open(connection, "dlm_locks")
        .await?;
    let guard = locks
        .lock(Level::Dc, "invoice-7")?
        .ttl(Duration::from_secs(10))
        .wait(Duration::from_secs(5))
        .auto_renew()
        .acquire()
        .await?;
    println!("send the invoice, with the fencing number {}", guard.fencing());
    println!("{:?}", guard.release().await?);
    Ok(())
}

#[test]
fn lock_is_free_again() {
    hbase_fake::FakeHBase::run(async |hbase| {
        let locks = crate::open_locks(hbase).await?;
        let connection = hbase.connect().await?;
        bill(&connection).await?;
        assert!(locks.lock(Level::Dc, "invoice-7")?.try_acquire().await?.is_some());
        Ok(())
    });
}
