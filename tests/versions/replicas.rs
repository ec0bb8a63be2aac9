//! Reads that replicas of a region may answer.

use std::{collections::BTreeSet, time::Duration};

use hbase_txn::{
    ClientErrorKind,
    admin::Admin,
    client::{Connection, Consistency, Get, Row, Scan, Table, TableName},
};

use super::{Cluster, TestTable, on_each, plain, put, says};
use crate::support::{eventually, rows};

/// A client that waits this long for a primary before it asks replicas.
async fn connect(cluster: &Cluster, patience: Duration) -> Connection {
    let config = cluster.config().with_primary_call_timeouts(patience, patience);
    Connection::builder(config).connect().await.unwrap()
}

fn timeline(row: &'static str) -> Get {
    Get::new(row).consistency(Consistency::Timeline)
}

/// Returns the values of the rows that a replica has.
async fn values_of(table: &Table, replica_id: u16) -> Vec<String> {
    let found = rows(table, Scan::new().replica_id(replica_id)).await;
    assert!(found.iter().all(|row| row.is_stale() == (replica_id > 0)));
    let value = |row: &Row| row.get::<String>("f", "q").unwrap().unwrap();
    found.iter().map(value).collect()
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
        let admin = Admin::new(&patient);
        admin.flush_table(&name.name).await.unwrap();
        admin.disable_table(&name.name).await.unwrap();
        admin.enable_table(&name.name).await.unwrap();

        // They have opened the files that were flushed, but not what came later.
        primary.put(put("z", "later")).await.unwrap();
        assert_eq!(stale(&any, "z").await.value("f", "q").unwrap(), "v");
        eventually("a replica answers one of many gets", async || {
            let found = any.get_many([timeline("z"), Get::new("z")]).await.unwrap();
            let value = |row: &Option<Row>| row.as_ref()?.get::<String>("f", "q").unwrap();
            assert_eq!(value(&found[1]).as_deref(), Some("later"));
            (value(&found[0]).as_deref() == Some("v")).then_some(())
        })
        .await;
        let scan = Scan::new().consistency(Consistency::Timeline);
        // A scan hears the replicas of some regions only.
        let mut answered = BTreeSet::new();
        eventually("a replica of each region answers a scan", async || {
            let found = rows(&any, scan.clone()).await;
            let keys: Vec<_> = found.iter().map(|row| row.key().clone()).collect();
            assert_eq!(keys, ["a", "z"]);
            let stale = found.iter().filter(|row| row.is_stale());
            answered.extend(stale.map(|row| row.key().clone()));
            (answered.len() == 2).then_some(())
        })
        .await;
        let found = rows(&primary, scan).await;
        assert!(found.iter().all(|row| !row.is_stale()));
        assert_eq!(found[1].value("f", "q").unwrap(), "later");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn chosen_replica_alone_answers() {
    on_each(async |cluster| {
        let replicated = |name: TableName| plain(name).with_attribute("REGION_REPLICATION", "2");
        let name = TestTable::create_on(cluster, "replica-id", replicated, &["m"]).await;
        let connection = cluster.connect().await;
        let (table, admin) = (name.of(&connection), Admin::new(&connection));
        for row in ["a", "z"] {
            table.put(put(row, "first")).await.unwrap();
        }
        // Replicas open the files that were flushed.
        admin.flush_table(&name.name).await.unwrap();
        admin.disable_table(&name.name).await.unwrap();
        admin.enable_table(&name.name).await.unwrap();
        table.put(put("z", "second")).await.unwrap();
        let regions = admin.regions(&name.name).await.unwrap();
        for region in &regions {
            assert!(matches!(region.replicas[..], [(1, _)]), "{region:?}");
        }
        assert_eq!(table.locate("z").await.unwrap(), regions[1]);
        assert_eq!(values_of(&table, 0).await, ["first", "second"]);
        assert_eq!(values_of(&table, 1).await, ["first", "first"]);
        for (id, value) in [(0, "second"), (1, "first")] {
            let get = Get::new("z").replica_id(id);
            let row = table.get(get.clone()).await.unwrap().unwrap();
            assert_eq!(row.get::<String>("f", "q").unwrap().as_deref(), Some(value));
            assert_eq!(row.is_stale(), id > 0);
            assert!(table.exists(get).await.unwrap());
        }
        let hasty = table.with_operation_timeout(Duration::from_secs(1));
        let error = hasty.get(Get::new("z").replica_id(7)).await.unwrap_err();
        assert_eq!(error.kind(), ClientErrorKind::DeadlineExceeded, "{error}");
        let mut scanner = hasty.scan(Scan::new().replica_id(7)).unwrap();
        let error = scanner.next().await.unwrap_err();
        says(&error, &["replica 7 of the region is not served"]);
    })
    .await;
}
