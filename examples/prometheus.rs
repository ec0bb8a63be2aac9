//! Prometheus: serves the metrics of a program that commits a transaction each second.
//!
//! A recorder collects the metrics, and each request on `127.0.0.1:9184` gets them as text. A real
//! program may use the HTTP server of `metrics-exporter-prometheus` or its own.
//!
//! Run: `HBASE_TXN_CONNECT=… cargo run --example prometheus --features metrics`, and read
//! `http://127.0.0.1:9184/metrics`.

use std::{error::Error, time::Duration};

use hbase_txn::{PartitionRule, client::Increment};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    time::{interval, timeout},
};

mod support;

/// The address that Prometheus reads.
const ADDRESS: &str = "127.0.0.1:9184";
/// The bounds of buckets: half a millisecond to half a minute, and 1 to 1,000 operations.
const SECONDS: [f64; 11] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 1.0, 5.0, 30.0,
];
const OPERATIONS: [f64; 9] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 256.0, 1000.0];

/// Installs the recorder. Do this before connecting.
pub fn install() -> Result<PrometheusHandle, Box<dyn Error>> {
    let builder = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".into()), &SECONDS)?
        .set_buckets_for_metric(Matcher::Prefix("hbase_client_coalesced".into()), &OPERATIONS)?
        .set_buckets_for_metric(Matcher::Prefix("hbase_txn_coalesced".into()), &OPERATIONS)?;
    Ok(builder.install_recorder()?)
}

/// Answers each request with the metrics, until the future is dropped.
pub async fn serve(listener: TcpListener, metrics: PrometheusHandle) -> std::io::Result<()> {
    loop {
        let (mut socket, _) = listener.accept().await?;
        metrics.run_upkeep();
        let text = metrics.render();
        tokio::spawn(async move {
            let mut request = [0; 4096];
            let read = timeout(Duration::from_secs(5), socket.read(&mut request)).await;
            if matches!(read, Ok(Ok(1..))) {
                let length = text.len();
                let head = format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
                );
                let _ = socket.write_all((head + &text).as_bytes()).await;
            }
        });
    }
}

/// Commits a transaction each second, until the future is dropped.
async fn work() -> Result<(), Box<dyn Error>> {
    let connection = support::connect().await?;
    let rule = PartitionRule::delimiter("/")?;
    let table = support::open(&connection, "observed", &rule).await?;
    let mut ticks = interval(Duration::from_secs(1));
    loop {
        ticks.tick().await;
        let increment = Increment::new("visits/total").column("f", "count", 1);
        let outcome = table.transaction("visits").increment(increment).commit().await;
        if let Some(error) = outcome.error() {
            eprintln!("{error}");
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let metrics = install()?;
    let listener = TcpListener::bind(ADDRESS).await?;
    println!("http://{ADDRESS}/metrics");
    tokio::select! {
        ended = serve(listener, metrics) => Ok(ended?),
        ended = work() => ended,
    }
}
