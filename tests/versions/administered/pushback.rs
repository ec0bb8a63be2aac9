//! Bulk writes that follow the load of regions, which the servers of these clusters report.

use hbase_txn::client::{Connection, Scan, Table, TableDescriptor, TableName, WriterOptions};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

use crate::{Cluster, TestTable, keys, plain, put, versions};

/// Rows of 4 MiB together, in calls of 1 MiB.
const ROWS: usize = 4_096;

/// A call fills the memstore of a region.
fn with_small_memstores(name: TableName) -> TableDescriptor {
    plain(name).with_attribute("MEMSTORE_FLUSHSIZE", (1 << 20).to_string())
}

async fn connect(cluster: &Cluster, backpressure: bool) -> Connection {
    let config = cluster.config().with_backpressure(backpressure);
    Connection::builder(config).connect().await.unwrap()
}

/// Returns the number of pauses so far.
fn pauses(handle: &PrometheusHandle) -> usize {
    let text = handle.render();
    let mut lines = text.lines().filter_map(|line| line.rsplit_once(' '));
    let count = lines.find(|(name, _)| *name == "hbase_client_pushback_duration_seconds_count");
    count.map_or(0, |(_, count)| count.parse().unwrap())
}

async fn write_list(table: &Table) {
    for result in table.mutate_many((0..ROWS).map(row)).await {
        result.unwrap();
    }
}

async fn write_stream(table: &Table) {
    let writer = table.writer(WriterOptions::new());
    for number in 0..ROWS {
        writer.write(row(number)).await.unwrap();
    }
    writer.flush().await.unwrap();
}

fn row(number: usize) -> hbase_txn::client::Put {
    put(format!("{number:04}"), vec![b'v'; 1 << 10])
}

#[tokio::test]
#[allow(
    clippy::future_not_send,
    reason = "a test runs on one thread, as its recorder does"
)]
async fn reported_load_slows_bulk_writes() {
    for cluster in versions() {
        let recorder = PrometheusBuilder::new().build_recorder();
        let handle = recorder.handle();
        let _recorder = metrics::set_default_local_recorder(&recorder);
        let name = cluster.status.name.as_str();

        let shared = TestTable::create_on(&cluster, "pushback", with_small_memstores, &[]).await;
        let connection = connect(&cluster, false).await;
        write_list(&shared.of(&connection)).await;
        assert_eq!(pauses(&handle), 0, "{name}: {}", handle.render());

        let connection = connect(&cluster, true).await;
        let table = shared.of(&connection);
        write_list(&table).await;
        let of_list = pauses(&handle);
        assert!(of_list > 0, "{name}: {}", handle.render());
        write_stream(&table).await;
        assert!(pauses(&handle) > of_list, "{name}: {}", handle.render());
        assert_eq!(keys(&table, Scan::new()).await.len(), ROWS, "{name}");
    }
}
