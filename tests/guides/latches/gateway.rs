use hbase_txn::{
    Level,
    thrift::{ThriftConnection, ThriftLatchManagerOptions},
};

async fn count() -> hbase_txn::Result<()> {
    let gateway = ThriftConnection::connect("gateway.example:9090").await?;
    let latches = ThriftLatchManagerOptions::new("billing", "fra")
        .open(&gateway, "D_LTCH_jobs")
        .await?;
    let parts = latches.latch(Level::Dc, "invoices-2026-11")?;
    parts.count_down(1).await?;
    Ok(())
}
