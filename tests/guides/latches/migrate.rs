use std::time::Duration;

use hbase_txn::latch::{BarrierOutcome, LatchManager};

const PATIENCE: Duration = Duration::from_secs(600);

async fn migrate(latches: &LatchManager) -> hbase_txn::Result<()> {
    let barrier = latches.double_barrier("migration")?;
    barrier.create(3, Duration::from_secs(600)).await?;

    // In each of the three parties, in each round.
    let (entry, outcome) = barrier.enter("worker-1", PATIENCE).await?;
    if outcome == BarrierOutcome::Opened {
        println!("all three have begun round {}", entry.generation());
        if barrier.leave(&entry, PATIENCE).await? == BarrierOutcome::Opened {
            println!("all three are done");
        }
    }
    Ok(())
}

#[test]
fn three_parties_begin_and_end_together() {
    hbase_fake::FakeHBase::run(async |hbase| {
        hbase.create_table("D_LTCH_jobs", &["C", "S"], &[]);
        let connection = hbase.connect().await?;
        let options = hbase_txn::latch::LatchManagerOptions::new("billing", "fra");
        let latches = options.open(&connection, "D_LTCH_jobs").await?;
        let barrier = latches.double_barrier("migration")?;
        let other = async |name| {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let (entry, _) = barrier.enter(name, PATIENCE).await?;
            barrier.leave(&entry, PATIENCE).await
        };
        let (first, second, third) = tokio::join!(migrate(&latches), other("worker-2"), other("worker-3"));
        first?;
        assert_eq!(
            (second?, third?),
            (BarrierOutcome::Opened, BarrierOutcome::Opened)
        );
        Ok(())
    });
}
