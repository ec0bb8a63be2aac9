//! Reads that replicas of a region may answer.

use std::time::Duration;

use hbase_txn::{Connection, Consistency, Get, Row, Scan, Table, TableName};

use super::{Cluster, TestTable, on_each, plain, put};
use crate::support::{eventually, rows};

/// A client that waits this long for a primary before it asks replicas.
async fn connect(cluster: &Cluster, patience: Duration) -> Connection {
    let config = cluster.config().with_primary_call_timeouts(patience, patience);
    Connection::builder(config).connect().await.unwrap()
}

fn timeline(row: &'static str) -> Get {
    Get::new(row).consistency(Consistency::Timeline)
}

/// Reads the row until a replica answers first.
async fn stale(table: &Table, row: &'static str) -> Row {
    eventually("a replica answers", async || {
        let found = table.get(timeline(row)).await.unwrap();
        found.filter(Row::is_stale)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_answer_reads_that_allow_it() {
    on_each(async |cluster| {
        let replicated = |name: TableName| plain(name).with_attribute("REGION_REPLICATION", "2");
        let name = TestTable::create_on(cluster, "replicas", replicated, &["m"]).await;
        let patient = connect(cluster, Duration::from_secs(60)).await;
        let hasty = connect(cluster, Duration::ZERO).await;
        let (primary, any) = (name.of(&patient), name.of(&hasty));
        for row in ["a", "z"] {
            primary.put(put(row, "v")).await.unwrap();
        }

        // The primary answers in time.
        for _ in 0..50 {
            let row = primary.get(timeline("a")).await.unwrap().unwrap();
            assert!(!row.is_stale() && row.value("f", "q").unwrap() == "v");
            let row = any.get(Get::new("a")).await.unwrap().unwrap();
            assert!(!row.is_stale(), "only the primary answers");
        }
        assert!(primary.exists(timeline("a")).await.unwrap());
        assert_eq!(primary.get(timeline("none")).await.unwrap(), None);

        // Replicas have nothing yet, and say so.
        let row = stale(&any, "z").await;
        assert!(row.key() == "z" && row.cells().is_empty(), "{row:?}");
        let admin = patient.admin();
        admin.flush_table(&name.name).await.unwrap();
        admin.disable_table(&name.name).await.unwrap();
        admin.enable_table(&name.name).await.unwrap();

        // They have opened the files that were flushed, but not what came later.
        primary.put(put("z", "later")).await.unwrap();
        assert_eq!(stale(&any, "z").await.value("f", "q").unwrap(), "v");
        let scan = Scan::new().consistency(Consistency::Timeline);
        eventually("a replica of each region answers a scan", async || {
            let found = rows(&any, scan.clone()).await;
            let keys: Vec<_> = found.iter().map(|row| row.key().clone()).collect();
            assert_eq!(keys, ["a", "z"]);
            found.iter().all(Row::is_stale).then_some(())
        })
        .await;
        let found = rows(&primary, scan).await;
        assert!(found.iter().all(|row| !row.is_stale()));
        assert_eq!(found[1].value("f", "q").unwrap(), "later");
    })
    .await;
}
