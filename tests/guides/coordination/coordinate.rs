use std::time::Duration;

use hbase_txn::{
    Level,
    coordination::{Election, ReadWriteLock, Semaphore},
    lock::LockManager,
};

async fn coordinate(locks: &LockManager) -> hbase_txn::Result<()> {
    // At most four exports at a time.
    let exports = Semaphore::create(locks, Level::Dc, "exports", 4).await?;
    let permit = exports
        .permit()
        .wait(Duration::from_secs(60))
        .auto_renew()
        .acquire()
        .await?;
    println!("{:?}", permit.release().await?);

    // Many readers, or one writer.
    let schema = ReadWriteLock::new(locks, Level::Dc, "schema")?;
    let reading = schema
        .read()
        .wait(Duration::from_secs(5))
        .auto_renew()
        .acquire()
        .await?;
    println!("{:?}", reading.release().await?);

    // One leader.
    let election = Election::new(locks, Level::Dc, "scheduler")?;
    let leadership = election.campaign().ttl(Duration::from_secs(10)).lead().await?;
    println!("leading in term {}", leadership.term());
    println!("{:?}", leadership.resign().await?);
    Ok(())
}

#[test]
fn example_runs_twice() {
    hbase_fake::FakeHBase::run(async |hbase| {
        let locks = crate::open_locks(hbase).await?;
        coordinate(&locks).await?;
        coordinate(&locks).await?;
        Ok(())
    });
}
