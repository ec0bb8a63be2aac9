use hbase_client::{Append, Condition, Delete, Increment, Put, WriterOptions};
use hbase_fake::FakeHBase;
use rstest::rstest;

use crate::txn::partitioned_table::*;

/// Returns the key of a row that the library keeps in the partition `xxx`.
fn reserved(name: &str) -> Vec<u8> {
    [b"xxx\xff_txn\xff", name.as_bytes()].concat()
}

#[rstest]
#[case::record("ra")]
#[case::version("version")]
#[case::lock("la")]
fn reserved_row_is_not_written_outside_of_a_transaction(#[case] name: &'static str) {
    FakeHBase::run(async |hbase| {
        hbase.create_partitioned_table("orders", &["f", "_txn"], 3);
        let connection = hbase.connect().await?;
        let orders = PartitionedTable::open(&connection, "orders").await?;
        let add = async || {
            let increment = Increment::new("xxxsum").column("f", "n", 1);
            orders
                .transaction("xxx")
                .increment(increment)
                .id("a")
                .commit()
                .await
        };
        assert!(add().await.is_committed());
        let rows = orders.clone().with_operation_timeout(Duration::from_secs(10));
        let rows = rows.table();
        let row = || reserved(name);
        let delete = || Delete::new(row());
        let put = || Put::new(row()).cell("f", "q", "v");
        let absent = || Condition::absent(row(), "f", "q");
        let writer = rows.writer(WriterOptions::new());
        let written = match writer.write(put()).await {
            Ok(_) => writer.flush().await,
            Err(error) => Err(error),
        };
        let mut failures = vec![written.expect_err("the row is reserved")];
        failures.extend(
            [
                rows.delete(delete()).await.err(),
                rows.put(put()).await.err(),
                rows.increment(Increment::new(row()).column("f", "n", 1))
                    .await
                    .err(),
                rows.append(Append::new(row()).cell("f", "q", "v")).await.err(),
                rows.mutate_row([delete().into()]).await.err(),
                rows.check_and_mutate(absent(), [put().into()]).await.err(),
                rows.check_and_mutate_many([(absent(), vec![put().into()])])
                    .await
                    .remove(0)
                    .err(),
                rows.mutate_many([delete()]).await.remove(0).err(),
                rows.batch([Increment::new(row()).column("f", "n", 1).into()])
                    .await
                    .remove(0)
                    .err(),
            ]
            .map(|error| error.expect("the row is reserved")),
        );
        for error in failures {
            assert_eq!(error.kind(), ClientErrorKind::InvalidInput, "{error}");
            assert!(error.to_string().contains("reserved for the records"), "{error}");
        }
        rows.put(Put::new("xxxplain").cell("f", "q", "v")).await?;
        let id = TransactionId::new("a")?;
        assert_eq!(orders.outcome("xxx", &id).await?, Recorded::Committed);
        let unchecked = connection.table("orders")?;
        // A record is stamped ahead, so that deletes without a timestamp do not reach it.
        let behind = Delete::new(reserved("ra")).timestamp(9_000_000_000_000);
        unchecked.delete(behind).await?;
        assert_eq!(orders.outcome("xxx", &id).await?, Recorded::Nothing);
        Ok(())
    });
}
