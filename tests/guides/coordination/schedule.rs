use hbase_txn::coordination::Election;

async fn schedule(election: &Election) -> hbase_txn::Result<()> {
    election
        .campaign()
        .lead_while(async |leadership| println!("scheduling in term {}", leadership.term()))
        .await
}

#[test]
fn leader_resigns_when_its_work_is_done() {
    hbase_fake::FakeHBase::run(async |hbase| {
        let locks = crate::open_locks(hbase).await?;
        let election = Election::new(&locks, hbase_txn::Level::Dc, "scheduler")?;
        schedule(&election).await?;
        assert!(election.leader().await?.is_none());
        Ok(())
    });
}
