use std::time::Duration;

use hbase_txn::{
    Level,
    client::Connection,
    latch::{LatchManagerOptions, WaitOutcome},
};

async fn report(connection: &Connection) -> hbase_txn::Result<()> {
    let latches = LatchManagerOptions::new("billing", "fra")
        .open(connection, "D_LTCH_jobs")
        .await?;
    let parts = latches.latch(Level::Dc, "invoices-2026-11")?;
    parts.init(3, Duration::from_secs(3_600)).await?;

    // In each worker. A worker that calls it again is counted once.
    parts.arrive("worker-1").await?;

    match parts.wait(Duration::from_secs(600)).await? {
        WaitOutcome::Reached => println!("all parts are finished"),
        other => println!("not finished: {other:?}"),
    }
    Ok(())
}

#[test]
fn all_parts_are_finished() {
    hbase_fake::FakeHBase::run(async |hbase| {
        hbase.create_table("D_LTCH_jobs", &["C", "S"], &[]);
        let connection = hbase.connect().await?;
        let latches = LatchManagerOptions::new("billing", "fra")
            .open(&connection, "D_LTCH_jobs")
            .await?;
        let parts = latches.latch(Level::Dc, "invoices-2026-11")?;
        let others = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            parts.arrive("worker-2").await?;
            parts.arrive("worker-3").await
        };
        let (reported, arrived) = tokio::join!(report(&connection), others);
        reported?;
        assert_eq!(arrived?.left, 0);
        Ok(())
    });
}
