//! Batches of operations on a fake cluster in virtual time: lost answers, and silent servers.

use std::time::Duration;

use hbase_client::{Connection, Get, Increment, Put, Result, Row, RowOperation, Table};
use hbase_fake::{Call, FakeHBase};
use tokio::time::{Instant, sleep};

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
        hbase.fault(Call::Multi.on("t").lose_answer().times(5));
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
    const MANY: usize = 5_000;
    FakeHBase::run(async |hbase| {
        hbase.create_table("t", &["f"], &[]);
        let table = hbase.connect().await?.table("t")?;
        // Not so long that the calls are overdue.
        hbase.fault(Call::Any.on("t").delay_answer(Duration::from_millis(300)));
        let limit = Duration::from_millis(450);
        let batch = table.batch((0..MANY).map(increment));
        assert!(tokio::time::timeout(limit, batch).await.is_err());
        let sent = hbase.calls("Multi");
        assert!((1..MANY / 1_000).contains(&sent), "{sent}");
        sleep(Duration::from_secs(5)).await;
        assert_eq!(hbase.calls("Multi"), sent);
        let rows = table.get_many((0..MANY).map(|row| Get::new(row.to_string())));
        let counted = rows.await?.iter().filter(|row| row.is_some()).count();
        assert_eq!(counted, sent * 1_000);
        Ok(())
    });
}

async fn soon(then: impl FnOnce()) {
    sleep(Duration::from_millis(500)).await;
    then();
}

/// Loses the answer to increments, which are sent again after a second, and does something meanwhile.
/// Checks that each is applied once, and returns the rows whose outcome is unknown.
async fn unknown_after_a_lost_answer(
    hbase: &FakeHBase,
    meanwhile: impl Future<Output = ()>,
) -> std::result::Result<Vec<usize>, Box<dyn std::error::Error>> {
    hbase.create_table("t", &["f"], &[]);
    let config = hbase.config().with_write_timeout(Duration::from_secs(1));
    let builder = Connection::builder(config).connector(hbase.connector());
    let table = builder.connect().await?.table("t")?;
    hbase.fault(Call::Multi.on("t").lose_answer().times(1));
    let increments = table.batch((0..OPERATIONS).map(increment));
    let (results, ()) = tokio::join!(increments, meanwhile);
    assert_eq!(numbers(&table).await?, [1; OPERATIONS]);
    let mut unknown = Vec::new();
    for (row, result) in results.into_iter().enumerate() {
        match result {
            Err(error) if error.is_outcome_unknown() => {
                assert!(error.to_string().contains(&format!("row {row}")), "{error}");
                unknown.push(row);
            }
            result => {
                let row = result?.ok_or("no row")?;
                assert!(
                    row.cells().is_empty() || row.get::<i64>("f", "n")? == Some(1),
                    "{row:?}"
                );
            }
        }
    }
    Ok(unknown)
}

#[test]
fn increments_that_were_applied_together_are_unknown_where_a_split_parts_them() {
    FakeHBase::run(async |hbase| {
        let unknown = unknown_after_a_lost_answer(hbase, soon(|| hbase.split("t", "5"))).await?;
        // The first hundred, in the order of their rows, are in one of the two regions.
        let mut rows: Vec<_> = (0..OPERATIONS).map(|row| row.to_string()).collect();
        rows.sort();
        let mut expected: Vec<usize> = Vec::new();
        for row in &rows[100..] {
            expected.push(row.parse()?);
        }
        expected.sort_unstable();
        assert_eq!(unknown, expected);
        Ok(())
    });
}

#[tokio::test(start_paused = true)]
async fn increments_are_unknown_where_another_server_has_their_region() {
    let hbase = FakeHBase::builder().servers(2).build();
    let unknown = unknown_after_a_lost_answer(&hbase, soon(|| hbase.move_region("t", "0", 1)));
    assert_eq!(unknown.await.unwrap(), (0..OPERATIONS).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn increments_are_unknown_where_their_server_starts_again_while_they_wait_for_it() {
    let hbase = FakeHBase::start();
    hbase.fault(
        Call::Multi
            .on("t")
            .nth(2)
            .fail_before("CallQueueTooBigException", "full"),
    );
    let restart = async {
        while hbase.calls("Multi") < 2 {
            sleep(Duration::from_millis(1)).await;
        }
        // The refusal arrives, and the client waits before it tries again.
        sleep(Duration::from_millis(10)).await;
        hbase.server(0).crash();
        hbase.server(0).restart();
    };
    let unknown = unknown_after_a_lost_answer(&hbase, restart).await;
    // The refused call had one of the two actions.
    assert_eq!(unknown.unwrap().len(), 100);
}

#[test]
fn without_nonces_increments_are_sent_once() {
    FakeHBase::run(async |hbase| {
        hbase.create_table("t", &["f"], &[]);
        let config = hbase.config().with_nonces(false);
        let builder = Connection::builder(config).connector(hbase.connector());
        let table = builder.connect().await?.table("t")?;
        hbase.fault(Call::Multi.on("t").lose_answer().times(1));
        for result in table.batch((0..OPERATIONS).map(increment)).await {
            assert!(result.is_err_and(|error| error.is_outcome_unknown()));
        }
        assert_eq!(numbers(&table).await?, [1; OPERATIONS]);
        assert_eq!(hbase.calls("Multi"), 2);
        Ok(())
    });
}

#[test]
fn failures_in_a_batch_cost_one_call_more() {
    FakeHBase::run(async |hbase| {
        hbase.create_table("t", &["f"], &[]);
        let table = hbase.connect().await?.table("t")?;
        table.put(Put::new("7").cell("f", "n", "text")).await?;
        let before = hbase.calls("Multi");
        let increments = (0..100).map(|row| match row {
            20 => Increment::new("20").column("absent", "n", 1).into(),
            _ => increment(row),
        });
        for (row, result) in table.batch(increments).await.into_iter().enumerate() {
            assert_eq!(result.is_err(), [7, 20].contains(&row), "{row}: {result:?}");
        }
        assert_eq!(hbase.calls("Multi"), before + 2);
        Ok(())
    });
}
