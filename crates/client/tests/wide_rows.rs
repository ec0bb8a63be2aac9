//! Puts of one row share calls as puts of different rows do, on a fake cluster in virtual time.

use std::time::Duration;

use futures::future::join_all;
use hbase_client::{Connection, Delete, Get, Mutation, Put, Row, Table, WriterOptions};
use hbase_fake::{FakeHBase, Latency};
use tokio::time::Instant;

const TASKS: usize = 64;

async fn connect() -> hbase_client::Result<(FakeHBase, Table)> {
    let one_way = Duration::from_micros(500)..Duration::from_micros(501);
    let latency = Latency {
        request: one_way.clone(),
        queue: Duration::ZERO..Duration::from_micros(1),
        answer: one_way,
    };
    let hbase = FakeHBase::builder().latency(latency).build();
    hbase.create_table("t", &["f"], &[]);
    let connection = Connection::builder(hbase.config()).connector(hbase.connector());
    let table = connection
        .environment(hbase.environment())
        .connect()
        .await?
        .table("t")?;
    Ok((hbase, table))
}

/// Returns how many puts of tasks are applied in a fifth of a second, each of a column of its own.
async fn rate(row: fn(usize) -> String) -> hbase_client::Result<usize> {
    let (_hbase, table) = connect().await?;
    let end = Instant::now() + Duration::from_millis(200);
    let tasks = (0..TASKS).map(async |task| {
        let mut done = 0;
        while Instant::now() < end {
            let put = Put::new(row(task)).cell("f", format!("q{task}"), "v");
            table.put(put).await?;
            done += 1;
        }
        Ok(done)
    });
    join_all(tasks).await.into_iter().sum()
}

#[tokio::test(start_paused = true)]
async fn single_puts_of_one_row_are_as_fast_as_those_of_many() {
    let many = rate(|task| format!("r{task}")).await.unwrap();
    let one = rate(|_| "wide".to_owned()).await.unwrap();
    assert!(one * 10 >= many * 9, "{one} puts of one row, {many} of {TASKS}");
}

/// Writes mutations in bulk, and returns the number of calls.
async fn write(
    hbase: &FakeHBase,
    table: &Table,
    mutations: impl IntoIterator<Item = Mutation>,
) -> hbase_client::Result<usize> {
    let before = hbase.calls("Multi");
    let writer = table.writer(WriterOptions::new());
    for mutation in mutations {
        writer.write(mutation).await?;
    }
    writer.flush().await?;
    Ok(hbase.calls("Multi") - before)
}

fn values(row: &Row) -> Vec<String> {
    row.cells()
        .iter()
        .map(|cell| String::from_utf8_lossy(&cell.value).into_owned())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_writer_sends_the_columns_of_a_row_together_and_its_versions_in_order() {
    let (hbase, table) = connect().await.unwrap();
    let columns = (0..2_000).map(|column| Put::new("wide").cell("f", format!("{column}"), "v").into());
    assert_eq!(write(&hbase, &table, columns).await.unwrap(), 1);
    let times = (1..=2_000).map(|time| Put::new("series").cell_at("f", "q", time, "v").into());
    assert_eq!(write(&hbase, &table, times).await.unwrap(), 1);
    let put = |column: &str, value: &str| Mutation::from(Put::new("a").cell("f", column, value));
    let changes = [
        put("x", "1"),
        put("y", "1"),
        put("x", "2"),
        Delete::new("a").column("f", "y").into(),
        put("y", "3"),
        put("z", "3"),
    ];
    write(&hbase, &table, changes).await.unwrap();
    let row = table.get(Get::new("a")).await.unwrap().unwrap();
    assert_eq!(values(&row), ["2", "3", "3"]);
}
