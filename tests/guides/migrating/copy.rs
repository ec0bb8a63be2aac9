use futures::TryStreamExt;
use hbase_txn::{Connection, Put, Row, Scan};

/// The key in the new table: what belongs together first.
fn new_key(row: &Row) -> Vec<u8> {
    let customer = row.value("f", "customer").map_or(&[][..], |value| value);
    [customer, b"/", &row.key()[..]].concat()
}

async fn copy(connection: &Connection) -> hbase_txn::Result<()> {
    let (old, new) = (
        connection.table("orders")?,
        connection.table("orders_by_customer")?,
    );
    let rows = old.scan(Scan::new())?.into_stream();
    let copies = rows.map_ok(|row| {
        let mut put = Put::new(new_key(&row));
        for cell in row.cells() {
            put = put.cell_at(&cell.family, &cell.qualifier, cell.timestamp, &cell.value);
        }
        put
    });
    copies.try_for_each_concurrent(32, |put| new.put(put)).await?;
    Ok(())
}

#[test]
fn copy_has_the_timestamps() {
    hbase_fake::FakeHBase::run(async |hbase| {
        hbase.create_table("orders", &["f"], &["m"]);
        hbase.create_table("orders_by_customer", &["f"], &[]);
        let connection = hbase.connect().await?;
        let put = Put::new("order-7").cell_at("f", "customer", 1_000, "anna");
        connection.table("orders")?.put(put).await?;
        copy(&connection).await?;
        let copied = connection.table("orders_by_customer")?;
        let row = copied
            .get(hbase_txn::Get::new("anna/order-7"))
            .await?
            .ok_or("no row")?;
        assert_eq!(row.cells()[0].timestamp, 1_000);
        Ok(())
    });
}
