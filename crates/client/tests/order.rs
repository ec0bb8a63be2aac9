//! Writes of one row, one after the other: the last one counts.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::time::Duration;

use futures::{StreamExt, stream};
use hbase_client::{
    Append, Condition, Delete, Get, Increment, IngestEvent, Mutation, Put, RowOperation, Table, WriterOptions,
};
use hbase_fake::{FakeHBase, Latency};
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
