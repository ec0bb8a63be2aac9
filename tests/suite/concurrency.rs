//! Many tasks at once: each reads what it has written, whatever happens to regions and files.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use hbase_txn::{
    admin::Admin,
    client::{Get, Put, Scan, Table},
};

use crate::support::{
    connect, keys, put,
    table::{TestTable, plain},
    value, within,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_reads_what_it_has_written() {
    const TASKS: usize = 16;
    let connection = connect().await;
    let owned = TestTable::create("ownwrites", plain, &["task-08"]).await;
    let tasks = (0..TASKS).map(|task| {
        let table = owned.of(&connection);
        tokio::spawn(async move {
            for round in 0..50 {
                let (row, written) = (format!("task-{task:02}-{:02}", round % 10), round.to_string());
                table.put(put(row.clone(), written.clone())).await.unwrap();
                assert_eq!(value(&table, row.clone()).await, Some(written.clone()));
                let found = table.get_many([Get::new(row.clone())]).await.unwrap();
                let found = found.into_iter().next().flatten().unwrap();
                assert_eq!(found.value("f", "q").unwrap(), &written);
                assert_eq!(keys(&table, Scan::prefix(row.clone())).await, [row]);
            }
        })
    });
    within(Duration::from_secs(60), async {
        for task in tasks.collect::<Vec<_>>() {
            task.await.unwrap();
        }
    })
    .await;
}

/// Reads rows in turn until `stop` is set, and counts them in `reads`.
async fn read(table: Table, begin: usize, rows: usize, stop: Arc<AtomicBool>, reads: Arc<AtomicUsize>) {
    for row in (0..rows).cycle().skip(begin) {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let key = format!("{row:03}");
        let found = table.get(Get::new(key.clone())).await.unwrap().unwrap();
        assert_eq!(found.value("f", "q").unwrap(), &key);
        assert_eq!(found.value("f", "large").unwrap().len(), 1_000);
        reads.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_find_their_rows_while_regions_split_flush_compact_and_reopen() {
    const ROWS: usize = 200;
    let connection = connect().await;
    let owned = TestTable::create("busyregions", plain, &["050", "100", "150"]).await;
    let (table, admin) = (owned.of(&connection), Admin::new(&connection));
    let puts = (0..ROWS).map(|row| {
        let key = format!("{row:03}");
        Put::new(key.clone())
            .cell("f", "q", key)
            .cell("f", "large", vec![b'x'; 1_000])
    });
    for result in table.mutate_many(puts).await {
        result.unwrap();
    }
    let (stop, reads) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let readers: Vec<_> = (0..8)
        .map(|reader| {
            let (table, stop, reads) = (owned.of(&connection), Arc::clone(&stop), Arc::clone(&reads));
            tokio::spawn(read(table, reader * 25, ROWS, stop, reads))
        })
        .collect();
    // A half of a split has no files of its own for minutes, and is not split again until then.
    for key in ["025", "075", "175"] {
        owned.split_at(&connection, key).await;
        admin.flush_table(&owned.name).await.unwrap();
    }
    let regions = owned.regions(&connection).await;
    let whole: Vec<_> = regions
        .iter()
        .filter(|region| region.start_key == "100")
        .collect();
    assert_eq!((regions.len(), whole.len()), (7, 1));
    admin.major_compact_region(whole[0]).await.unwrap();
    let reopened = admin.descriptor(&owned.name).await.unwrap();
    admin
        .modify_table(&reopened.with_attribute("MAX_FILESIZE", "10737418240"))
        .await
        .unwrap();
    stop.store(true, Ordering::Relaxed);
    within(Duration::from_secs(30), async {
        for reader in readers {
            reader.await.unwrap();
        }
    })
    .await;
    let reads = reads.load(Ordering::Relaxed);
    assert!(reads > 8 * 10, "{reads} reads");
    assert_eq!(keys(&table, Scan::new()).await.len(), ROWS);
}
