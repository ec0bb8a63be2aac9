//! Batches of operations on a fake cluster in virtual time: lost answers, and silent servers.

use std::time::Duration;

use hbase_client::{Connection, Get, Increment, Put, Result, Row, RowOperation, Table};
use hbase_fake::{Call, FakeHBase};
use tokio::time::Instant;

const OPERATIONS: usize = 200;

fn increment(row: usize) -> RowOperation {
    Increment::new(row.to_string()).column("f", "n", 1).into()
}

/// Increments of 200 rows, puts of 200 others, and gets of those that are incremented.
fn operations() -> Vec<RowOperation> {
    let rows = 0..OPERATIONS;
    let put = |row: usize| Put::new(format!("put {row}")).cell_at("f", "q", 1, "v").into();
    let get = |row: usize| Get::new(row.to_string()).into();
    let all = rows.clone().map(increment).chain(rows.clone().map(put));
    all.chain(rows.map(get)).collect()
}

async fn numbers(table: &Table) -> Result<Vec<i64>> {
    let rows = table.get_many((0..OPERATIONS).map(|row| Get::new(row.to_string())));
    let number = |row: Option<Row>| Ok(row.map_or(Ok(None), |row| row.get("f", "n"))?.unwrap_or(0));
    rows.await?.into_iter().map(number).collect()
}

#[test]
fn operations_whose_answers_are_lost_are_applied_once() {
    FakeHBase::run(async |hbase| {
        hbase.create_table("t", &["f"], &["5"]);
        let config = hbase.config().with_write_timeout(Duration::from_secs(1));
        let builder = Connection::builder(config).connector(hbase.connector());
        let table = builder.connect().await?.table("t")?;
        hbase.fault(Call::Mutate.on("t").lose_answer().times(30));
        hbase.fault(Call::Multi.on("t").lose_answer().times(2));
        let results = table.batch(operations()).await;
        assert_eq!(results.len(), 3 * OPERATIONS);
        for result in results {
            result?;
        }
        assert_eq!(numbers(&table).await?, [1; OPERATIONS]);
        Ok(())
    });
}

#[test]
fn silent_servers_end_a_batch_at_its_deadline() {
    FakeHBase::run(async |hbase| {
        hbase.create_table("t", &["f"], &["5"]);
        let timeout = Duration::from_secs(3);
        let table = hbase.connect().await?.table("t")?.with_operation_timeout(timeout);
        table.get(Get::new("0")).await?;
        hbase.fault(Call::Any.on("t").lose_request());
        let began = Instant::now();
        let results = table.batch(operations()).await;
        assert!(began.elapsed() <= timeout + Duration::from_millis(10));
        assert!(results.iter().all(Result::is_err));
        Ok(())
    });
}

#[test]
fn dropped_batch_sends_no_further_operations() {
    FakeHBase::run(async |hbase| {
        hbase.create_table("t", &["f"], &[]);
        let table = hbase.connect().await?.table("t")?;
        hbase.fault(Call::Any.on("t").delay_answer(Duration::from_secs(1)));
        let limit = Duration::from_millis(1500);
        let batch = table.batch(operations());
        assert!(tokio::time::timeout(limit, batch).await.is_err());
        let sent = hbase.calls("Mutate");
        assert!(sent < OPERATIONS);
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(hbase.calls("Mutate"), sent);
        let counted: i64 = numbers(&table).await?.iter().sum();
        assert_eq!(counted, i64::try_from(sent)?);
        Ok(())
    });
}
