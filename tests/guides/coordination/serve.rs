use futures::TryStreamExt;
use hbase_txn::{Level, coordination::Group, lock::LockManager};

async fn serve(locks: &LockManager) -> hbase_txn::Result<()> {
    let session = locks.session("worker-7")?;
    let workers = Group::new(locks, Level::Dc, "workers")?;
    let membership = workers.join(&session, "10.0.0.7:9000").await?;
    let mut changes = workers.changes();
    while let Some(members) = changes.try_next().await? {
        let place = members
            .iter()
            .position(|member| member.holder.token == Some(membership.token()));
        println!("{place:?} of {}", members.len());
    }
    Ok(())
}

#[test]
fn member_is_listed_while_it_serves() {
    hbase_fake::FakeHBase::run(async |hbase| {
        let locks = crate::open_locks(hbase).await?;
        let workers = Group::new(&locks, Level::Dc, "workers")?;
        let second = std::time::Duration::from_secs(1);
        let serving = tokio::time::timeout(second, serve(&locks));
        let (served, members) = tokio::join!(serving, async {
            tokio::time::sleep(second / 2).await;
            workers.members().await
        });
        assert!(served.is_err(), "it serves until it is stopped");
        assert_eq!(members?[0].data, "10.0.0.7:9000");
        locks.background_done().await;
        assert!(workers.members().await?.is_empty());
        Ok(())
    });
}
