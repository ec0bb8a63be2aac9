//! Writes of one row, one after the other: the last one counts.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::time::Duration;

use futures::{StreamExt, stream};
use hbase_client::{
    Append, Condition, Connection, Delete, Get, Increment, IngestEvent, Mutation, Put, RowOperation, Table,
    WriterOptions,
};
use hbase_fake::{Call, FakeHBase, Latency};
use rstest::rstest;
use tokio::time::{Instant, sleep};

/// The number of rows, whose writes begin at different times within a millisecond.
const ROWS: u64 = 20;
const STEP: Duration = Duration::from_micros(3_137);

/// A way to write a row.
#[derive(Clone, Copy, Debug)]
enum Way {
    Single,
    MutateMany,
    Writer,
    Ingest,
    Batch,
    MutateRow,
    Conditional,
    ConditionalMany,
    Increment,
    Append,
    IncrementInABatch,
}

fn put(row: &str) -> Put {
    Put::new(row.to_owned()).cell("f", "q", "new")
}

async fn store(table: &Table, row: &str, way: Way, mutations: Vec<Mutation>) -> hbase_client::Result<()> {
    match way {
        Way::Single => {
            for mutation in mutations {
                match mutation {
                    Mutation::Delete(delete) => table.delete(delete).await?,
                    Mutation::Put(put) => table.put(put).await?,
                    other => panic!("{other:?}"),
                }
            }
        }
        Way::MutateMany => {
            for result in table.mutate_many(mutations).await {
                result?;
            }
        }
        Way::Writer => {
            let writer = table.writer(WriterOptions::new());
            for mutation in mutations {
                writer.write(mutation).await?;
            }
            writer.flush().await?;
        }
        Way::Ingest => {
            let mut events = table.ingest(stream::iter(mutations), WriterOptions::new());
            while let Some(event) = events.next().await {
                assert!(matches!(event, IngestEvent::Watermark(_)), "{event:?}");
            }
        }
        Way::Batch => {
            let operations = mutations.into_iter().map(RowOperation::from);
            for result in table.batch(operations).await {
                result?;
            }
        }
        Way::MutateRow => {
            for mutation in mutations {
                table.mutate_row([mutation]).await?;
            }
        }
        Way::Conditional => {
            for mutation in mutations {
                let always = Condition::absent(row.to_owned(), "f", "other");
                assert!(table.check_and_mutate(always, [mutation]).await?.success);
            }
        }
        Way::ConditionalMany => {
            for mutation in mutations {
                let always = Condition::absent(row.to_owned(), "f", "other");
                for result in table.check_and_mutate_many([(always, vec![mutation])]).await {
                    assert!(result?.success);
                }
            }
        }
        Way::Increment => {
            table
                .increment(Increment::new(row.to_owned()).column("f", "q", 1))
                .await?;
        }
        Way::Append => {
            table
                .append(Append::new(row.to_owned()).cell("f", "q", "new"))
                .await?;
        }
        Way::IncrementInABatch => {
            let increment = Increment::new(row.to_owned()).column("f", "q", 1);
            for result in table.batch([increment.into()]).await {
                result?;
            }
        }
    }
    Ok(())
}

fn cluster(one_way: Duration) -> FakeHBase {
    let tick = Duration::from_nanos(1);
    let latency = Latency {
        request: one_way..one_way + tick,
        queue: Duration::ZERO..tick,
        answer: one_way..one_way + tick,
    };
    FakeHBase::builder().latency(latency).build()
}

#[rstest]
#[tokio::test(start_paused = true)]
async fn put_after_a_delete_of_its_row_is_stored(
    #[values(Way::Single, Way::MutateMany, Way::Writer, Way::Ingest, Way::Batch)] way: Way,
    #[values(0, 100)] micros: u64,
) {
    let hbase = cluster(Duration::from_micros(micros));
    hbase.create_table("orders", &["f"], &[]);
    let orders = hbase.connect().await.unwrap().table("orders").unwrap();
    for number in 0..ROWS {
        sleep(STEP).await;
        let row = format!("{number:02}");
        let mutations = vec![
            put(&row).into(),
            Delete::new(row.clone()).into(),
            put(&row).into(),
        ];
        store(&orders, &row, way, mutations).await.unwrap();
        assert!(
            orders.get(Get::new(row.clone())).await.unwrap().is_some(),
            "{row}"
        );
    }
}

#[rstest]
#[tokio::test(start_paused = true)]
async fn write_in_one_way_after_a_delete_in_another_is_stored(
    #[values(
        Way::Single,
        Way::MutateMany,
        Way::MutateRow,
        Way::Conditional,
        Way::ConditionalMany
    )]
    deletes: Way,
    #[values(
        Way::Single,
        Way::MutateMany,
        Way::Writer,
        Way::MutateRow,
        Way::Conditional,
        Way::ConditionalMany,
        Way::Increment,
        Way::Append,
        Way::IncrementInABatch
    )]
    writes: Way,
) {
    let hbase = cluster(Duration::ZERO);
    hbase.create_table("orders", &["f"], &[]);
    let orders = hbase.connect().await.unwrap().table("orders").unwrap();
    for number in 0..ROWS {
        sleep(STEP).await;
        let row = format!("{number:02}");
        let delete = Delete::new(row.clone()).column("f", "q");
        store(&orders, &row, deletes, vec![delete.into()]).await.unwrap();
        store(&orders, &row, writes, vec![put(&row).into()])
            .await
            .unwrap();
        assert!(
            orders.get(Get::new(row.clone())).await.unwrap().is_some(),
            "{row}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn only_puts_that_a_delete_could_hide_wait() {
    let hbase = FakeHBase::start();
    hbase.create_table("orders", &["f"], &[]);
    let orders = hbase.connect().await.unwrap().table("orders").unwrap();
    orders.put(put("b")).await.unwrap();
    orders.delete(Delete::new("a")).await.unwrap();
    let began = Instant::now();
    orders.put(put("b")).await.unwrap();
    orders.put(put("a").timestamp(7)).await.unwrap();
    orders.delete(Delete::new("a")).await.unwrap();
    orders.delete(Delete::new("c").timestamp(7)).await.unwrap();
    orders.put(put("c")).await.unwrap();
    let always = Condition::absent("d", "f", "other");
    let never = Condition::equal("d", "f", "other", "v");
    let refused = orders
        .check_and_mutate(never, [Delete::new("d").into()])
        .await
        .unwrap();
    assert!(!refused.success);
    assert!(
        orders
            .check_and_mutate(always, [put("d").into()])
            .await
            .unwrap()
            .success
    );
    assert_eq!(began.elapsed(), Duration::ZERO);
    orders.put(put("a")).await.unwrap();
    assert!(
        began.elapsed() >= Duration::from_millis(1),
        "{:?}",
        began.elapsed()
    );
    assert!(
        began.elapsed() <= Duration::from_millis(3),
        "{:?}",
        began.elapsed()
    );
}

async fn value(table: &Table, row: &str) -> Option<String> {
    let row = table.get(Get::new(row.to_owned())).await.unwrap()?;
    Some(row.get::<&str>("f", "q").unwrap().unwrap().to_owned())
}

fn put_of(value: &str) -> Mutation {
    Put::new("a").cell("f", "q", value.to_owned()).into()
}

/// The first copy of the first mutation comes after all others. The server's clock differs from the client's.
#[rstest]
#[case::puts(put_of("old"), put_of("new"), Some("new"))]
#[case::delete_then_put(Delete::new("a").into(), put_of("new"), Some("new"))]
#[case::delete_of_a_column_then_put(Delete::new("a").column("f", "q").into(), put_of("new"), Some("new"))]
#[case::put_then_delete(put_of("old"), Delete::new("a").into(), None)]
#[tokio::test(start_paused = true)]
async fn late_copy_does_not_hide_a_later_write(
    #[case] first: Mutation,
    #[case] later: Mutation,
    #[case] expected: Option<&str>,
    #[values(-20_000, 0, 20_000)] ahead: i64,
    #[values(false, true)] by_another_client: bool,
) {
    let hbase = cluster(Duration::from_micros(250));
    hbase.server(0).set_clock_ahead(ahead);
    hbase.create_table("orders", &["f"], &[]);
    let config = hbase.config().with_read_timeout(Duration::from_secs(1));
    let builder = Connection::builder(config).connector(hbase.connector());
    let builder = builder.environment(hbase.environment());
    let orders = builder.connect().await.unwrap().table("orders").unwrap();
    let others = hbase.connect().await.unwrap().table("orders").unwrap();
    store(&others, "a", Way::Single, vec![put_of("oldest")])
        .await
        .unwrap();
    let copy = hbase.fault(Call::Multi.on("orders").nth(1).hold_request());
    let writer = orders.writer(WriterOptions::new().at_least_once());
    writer.write(first).await.unwrap();
    if by_another_client {
        writer.flush().await.unwrap();
        sleep(Duration::from_millis(2)).await;
        store(&others, "a", Way::Single, vec![later]).await.unwrap();
    } else {
        writer.write(later).await.unwrap();
    }
    writer.flush().await.unwrap();
    assert_eq!(value(&orders, "a").await.as_deref(), expected);
    copy.release();
    sleep(Duration::from_secs(5)).await;
    assert_eq!(value(&orders, "a").await.as_deref(), expected);
    store(&others, "a", Way::Single, vec![put_of("newest")])
        .await
        .unwrap();
    assert_eq!(value(&orders, "a").await.as_deref(), Some("newest"));
}

#[tokio::test(start_paused = true)]
async fn writes_that_may_repeat_alternate_with_others_in_their_order() {
    let hbase = cluster(Duration::from_micros(40));
    hbase.create_table("orders", &["f"], &[]);
    let orders = hbase.connect().await.unwrap().table("orders").unwrap();
    for number in 0..200 {
        let writer = orders.writer(WriterOptions::new().at_least_once());
        for part in ["x", "y", "z"] {
            writer.write(put_of(&format!("{part}{number}"))).await.unwrap();
        }
        writer.flush().await.unwrap();
        assert_eq!(value(&orders, "a").await, Some(format!("z{number}")));
        store(&orders, "a", Way::Single, vec![put_of("plain")])
            .await
            .unwrap();
        assert_eq!(value(&orders, "a").await.as_deref(), Some("plain"));
        store(&orders, "a", Way::Single, vec![Delete::new("a").into()])
            .await
            .unwrap();
    }
    assert_eq!(value(&orders, "a").await, None);
}

#[tokio::test(start_paused = true)]
async fn user_who_may_not_compare_clocks_writes_once() {
    let hbase = cluster(Duration::from_micros(40));
    hbase.create_table("orders", &["f"], &[]);
    let config = hbase.config().with_read_timeout(Duration::from_secs(1));
    let config = config.with_write_timeout(Duration::from_secs(1));
    let builder = Connection::builder(config).connector(hbase.connector());
    let orders = builder.connect().await.unwrap().table("orders").unwrap();
    let denied = "org.apache.hadoop.hbase.security.AccessDeniedException";
    hbase.fault(
        Call::named("Mutate")
            .on("orders")
            .fail_before(denied, "no")
            .times(2),
    );
    let writer = orders.writer(WriterOptions::new().at_least_once());
    writer.write(put_of("first")).await.unwrap();
    writer.flush().await.unwrap();
    hbase.fault(Call::Multi.on("orders").lose_answer());
    writer.write(put_of("second")).await.unwrap();
    assert!(writer.flush().await.unwrap_err().is_outcome_unknown());
    assert_eq!(value(&orders, "a").await.as_deref(), Some("second"));
}
