use hbase_provision::{Sampling, Skew};
use hbase_txn::client::Connection;

async fn example(connection: &Connection) -> hbase_txn::Result<()> {
    let report = Skew::new(connection, "orders")?
        .sampling(Sampling::Fraction(0.05))
        .largest(10)
        .run(|now| eprintln!("{} of {} regions", now.regions_done, now.regions))
        .await?;
    for size in &report.largest {
        println!(
            "{}: {} ± {} bytes",
            size.partition,
            size.total_bytes(),
            size.margin_bytes
        );
    }
    Ok(())
}

#[test]
fn example_runs() {
    hbase_fake::FakeHBase::run(async |hbase| {
        crate::open_orders(hbase).await?;
        let connection = hbase.connect().await?;
        let put = hbase_txn::client::Put::new("xxxabc").cell("f", "state", "new");
        connection.table("orders")?.put(put).await?;
        example(&connection).await?;
        Ok(())
    });
}
