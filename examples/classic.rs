//! The classic example: rows of one prefix change together; rows of several prefixes are grouped; a
//! transaction over two prefixes is refused.
//!
//! `make demo` starts a local HBase and runs this. On a cluster of your own:
//! `HBASE_TXN_CONNECT=hbase+zk://host:2181/hbase cargo run --example classic`. Without this variable it
//! reads the `hbase-site.xml` in `HBASE_CONF_DIR`; for a cluster with Kerberos or TLS add `--features
//! kerberos,tls`. It creates the table `classic` if it does not exist.

use hbase_txn::{
    ErrorKind, Outcome, PartitionRule, PartitionedTable, Result, TableDescriptorExt,
    admin::Admin,
    client::{BytesBinary, Config, Connection, Delete, FamilyDescriptor, Put, Scan, Table, TableDescriptor},
};

#[tokio::main]
async fn main() -> Result<()> {
    let config = match std::env::var("HBASE_TXN_CONNECT") {
        Ok(uri) => Config::from_uri(&uri)?,
        Err(_) => Config::from_env()?,
    };
    let connection = Connection::builder(config).connect().await?;
    let cluster = Admin::new(&connection).cluster_info().await?;
    println!("HBase {} at {}\n", cluster.version, connection.config().address());

    make_table(&connection, "classic").await?;
    let table = PartitionedTable::open(&connection, "classic").await?;
    println!(
        "Table classic: a partition is all rows that share {}.",
        table.rule()
    );
    println!("Opening it proved that the endpoint answers and that no region boundary cuts a partition.\n");

    println!(
        "1. One transaction, located by the bare prefix xxx; no row with the key xxx exists, and none is needed."
    );
    table
        .table()
        .put(Put::new("xxxzzz").cell("f", "q", "to be deleted"))
        .await?;
    println!("   The rows of partition xxx before it:");
    print_rows(table.table(), Scan::prefix("xxx")).await?;
    let transaction = table
        .transaction("xxx")
        .put(Put::new("xxxabc").cell("f", "q", "one"))
        .put(Put::new("xxx123").cell("f", "q", "two"))
        .delete(Delete::new("xxxzzz"));
    println!("   put xxxabc, put xxx123, delete xxxzzz");
    println!("   {}", transaction.commit().await);
    println!("   The rows of partition xxx after it:");
    print_rows(table.table(), Scan::prefix("xxx")).await?;

    println!("\n2. A batch of any rows; each partition's group is a transaction of its own:");
    let mut batch = table.batch();
    let rows = [
        ("aaa1", "a"),
        ("bbb1", "b"),
        ("ccc1", "c"),
        ("aaa2", "a"),
        ("bbb2", "b"),
    ];
    batch.extend(rows.map(|(row, value)| Put::new(row).cell("f", "q", value)));
    println!("   explained, before anything is sent:");
    for group in batch.explain().await?.groups {
        println!("     {group}");
    }
    println!("   sent:");
    for group in batch.commit().await {
        println!("     {}", group.outcome);
    }

    println!("\n3. A transaction over two prefixes is invalid, and nothing of it is sent to the server:");
    let outcome = table
        .transaction("xxx")
        .put(Put::new("xxxabc").cell("f", "q", "never written"))
        .put(Put::new("yyy1").cell("f", "q", "never written"))
        .commit()
        .await;
    match outcome {
        Outcome::Invalid(error) if error.kind() == ErrorKind::OtherPartition => println!("   {error}\n"),
        other => unreachable!("rows of two partitions can't be in one transaction: {other}"),
    }

    println!("4. All rows, read back in one scan:");
    print_rows(table.table(), Scan::new()).await?;
    connection.close().await;
    Ok(())
}

/// Prints rows like `hbase-txn scan`: row, column, timestamp, value.
async fn print_rows(table: &Table, scan: Scan) -> Result<()> {
    let mut rows = table.scan(scan)?;
    while let Some(row) = rows.next().await? {
        for cell in row.cells() {
            println!(
                "     {}  {}:{}  {}  {}",
                BytesBinary(&cell.row),
                BytesBinary(&cell.family),
                BytesBinary(&cell.qualifier),
                cell.timestamp,
                BytesBinary(&cell.value)
            );
        }
    }
    Ok(())
}

/// Creates the table, with a rule that keeps three-byte prefixes together and the endpoint that
/// applies transactions.
async fn make_table(connection: &Connection, name: &str) -> Result<()> {
    if Admin::new(connection).exists(name).await? {
        return Ok(());
    }
    let descriptor = TableDescriptor::new(name)?
        .with_family(FamilyDescriptor::new("f"))
        .with_partition_rule(&PartitionRule::prefix_length(3)?)
        .with_multi_row_mutation_endpoint();
    let split_keys = ["bbb".into(), "mmm".into()];
    Admin::new(connection)
        .create_table(&descriptor, &split_keys)
        .await?;
    Ok(())
}
