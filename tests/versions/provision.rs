//! Tables from files: created, and changed with their regions reopened.

use hbase_provision::{Plan, TableFile, audit_table, reopen_table};
use hbase_txn::{
    PartitionedTable,
    admin::Admin,
    client::{Get, TableName},
    lock::LockTableOptions,
};

use crate::{
    on_each,
    support::{
        Cluster, put,
        table::{TestTable, plain, unique_name},
    },
};

fn file(name: &TableName, lines: &str) -> TableFile {
    let text = format!(
        "table = '{name}'\npartition = {{prefix_length = 3}}\nfamily = [{{name = 'f', versions = 2}}]\n{lines}"
    );
    TableFile::parse("test.toml", &text).unwrap()
}

/// Applies a file to the present table, uses the table, and applies the file again.
async fn is_applied(cluster: &Cluster, file: &TableFile, changes: bool) {
    let connection = cluster.connect().await;
    let plan = Plan::read(&connection, file).await.unwrap();
    let applied = plan.apply(&connection, &()).await.unwrap();
    assert_eq!(applied.changed, changes);
    assert_eq!(audit_table(&connection, file.name()).await.unwrap(), []);
    let table = PartitionedTable::open(&connection, file.name().clone())
        .await
        .unwrap();
    let transaction = table
        .transaction("xxx")
        .put(put("xxx1", "v"))
        .put(put("xxx2", "v"));
    transaction.commit().await.into_result().unwrap();
    let again = Plan::read(&connection, file).await.unwrap();
    assert_eq!((again.changes(), again.refusals()), (&[][..], vec![]));
    assert!(!again.apply(&connection, &()).await.unwrap().changed);
}

#[tokio::test]
async fn a_table_is_made_and_changed_by_files() {
    on_each(async |cluster| {
        let admin = Admin::new(&cluster.connect().await);
        let name = unique_name("provision");
        is_applied(
            cluster,
            &file(&name, "split = {hex = 3}\nlock_family = true"),
            true,
        )
        .await;
        let more = "partition_version = true\nlock_family = true\nattributes = {MAX_FILESIZE = 1073741824}";
        is_applied(cluster, &file(&name, more), true).await;
        admin.delete_table(&name).await.unwrap();

        let table = TestTable::create_on(cluster, "retrofit", plain, &["ggg"]).await;
        is_applied(cluster, &file(&table.name, ""), true).await;
    })
    .await;
}

#[tokio::test]
async fn created_table_matches_its_file() {
    on_each(async |cluster| {
        let connection = cluster.connect().await;
        let name = unique_name("locks");
        let locks = LockTableOptions::from(name.clone()).regions(3);
        locks.create(&Admin::new(&connection)).await.unwrap();
        let text = format!("table = '{name}'\nkind = 'locks'\nregions = 3");
        let file = TableFile::parse("locks.toml", &text).unwrap();
        let plan = Plan::read(&connection, &file).await.unwrap();
        assert_eq!((plan.changes(), plan.notes()), (&[][..], &[][..]));
        assert_eq!(plan.apply(&connection, &()).await.unwrap().regions, 3);
        Admin::new(&connection).delete_table(&name).await.unwrap();
    })
    .await;
}

/// A call that replaces the descriptor by itself reopens the regions on every release.
#[tokio::test]
async fn table_is_reopened_and_stays_enabled() {
    on_each(async |cluster| {
        let connection = cluster.connect().await;
        let table = TestTable::create_on(cluster, "reopened", plain, &["m"]).await;
        let openings = async || {
            let meta = connection.table("hbase:meta").unwrap();
            let mut found = Vec::new();
            for region in Admin::new(&connection).regions(&table.name).await.unwrap() {
                let row = meta.get(Get::new(region.region.name)).await.unwrap().unwrap();
                found.push(row.value("info", "seqnumDuringOpen").unwrap().clone());
            }
            found
        };
        connection
            .table(&table.name)
            .unwrap()
            .put(put("a", "v"))
            .await
            .unwrap();
        connection
            .table(&table.name)
            .unwrap()
            .put(put("z", "v"))
            .await
            .unwrap();
        let before = openings().await;
        assert_eq!(reopen_table(&connection, &table.name).await.unwrap(), 2);
        let after = openings().await;
        assert!(
            before.iter().zip(&after).all(|(before, after)| before < after),
            "{before:?} {after:?}"
        );
        let lock = Admin::new(&connection)
            .table_lock("no-such-table", "a test")
            .await
            .unwrap();
        assert!(lock.heartbeat().await.unwrap());
        lock.release().await.unwrap();
    })
    .await;
}
