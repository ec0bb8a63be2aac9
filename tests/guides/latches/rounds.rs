use std::time::Duration;

use hbase_txn::latch::{BarrierOutcome, LatchManager};

async fn rounds(latches: &LatchManager) -> hbase_txn::Result<()> {
    let barrier = latches.barrier("rounds")?;
    barrier.create(3, Duration::from_secs(600)).await?;

    // In each of the three parties, in each round.
    let (arrival, outcome) = barrier
        .arrive_and_wait("worker-1", Duration::from_secs(600))
        .await?;
    if outcome == BarrierOutcome::Opened {
        println!("all three have arrived in round {}", arrival.generation());
    }
    Ok(())
}

#[test]
fn barrier_opens_for_three_parties() {
    hbase_fake::FakeHBase::run(async |hbase| {
        hbase.create_table("D_LTCH_jobs", &["C", "S"], &[]);
        let connection = hbase.connect().await?;
        let options = hbase_txn::latch::LatchManagerOptions::new("billing", "fra");
        let latches = options.open(&connection, "D_LTCH_jobs").await?;
        let barrier = latches.barrier("rounds")?;
        let other = async |name| {
            tokio::time::sleep(Duration::from_secs(1)).await;
            barrier.arrive_and_wait(name, Duration::from_secs(600)).await
        };
        let (first, second, third) = tokio::join!(rounds(&latches), other("worker-2"), other("worker-3"));
        first?;
        assert_eq!(
            (second?.1, third?.1),
            (BarrierOutcome::Opened, BarrierOutcome::Opened)
        );
        Ok(())
    });
}
