use std::time::Duration;

use hbase_txn::{
    Level,
    coordination::{Group, Semaphore},
    lock::LockManager,
};

async fn export(locks: &LockManager, exports: &Semaphore, workers: &Group) -> hbase_txn::Result<()> {
    let session = locks.session("export-7")?.ttl(Duration::from_secs(20));
    let _member = workers.join(&session, "export").await?;
    let _permit = exports.permit().session(&session).acquire().await?;
    let _lock = locks
        .lock(Level::Dc, "invoices")?
        .session(&session)
        .acquire()
        .await?;
    tokio::select! {
        end = session.lost() => println!("stop: {end}"),
        () = async { /* the export */ } => {}
    }
    println!("{}", session.close().await?);
    Ok(())
}

#[test]
fn export_leaves_nothing_held() {
    hbase_fake::FakeHBase::run(async |hbase| {
        let locks = crate::open_locks(hbase).await?;
        let exports = Semaphore::create(&locks, Level::Dc, "exports", 1).await?;
        let workers = Group::new(&locks, Level::Dc, "workers")?;
        export(&locks, &exports, &workers).await?;
        export(&locks, &exports, &workers).await?;
        assert!(workers.members().await?.is_empty());
        Ok(())
    });
}
