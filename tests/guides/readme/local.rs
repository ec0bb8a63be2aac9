use hbase_local::{BootOptions, LocalCluster};

#[tokio::main]
async fn main() -> hbase_local::Result<()> {
    let cluster = LocalCluster::new("mine")?;
    let status = cluster.up(&BootOptions::new()).await?;
    println!("{}", status.uri.unwrap_or_default());
    cluster.down().await?;
    Ok(())
}
