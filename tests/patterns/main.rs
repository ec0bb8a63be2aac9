//! The patterns of `examples/`: each runs twice on one table, and keeps its invariant with many
//! concurrent clients. The tests use the code of the examples.

#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(
    clippy::duplicate_mod,
    reason = "each example has its own copy of examples/support"
)]
#![allow(unreachable_pub, reason = "the examples are programs elsewhere")]

use hbase_test_support as support;

mod audited_counter;
mod fenced_partitions;
mod multi_tenant;
mod outbox_inbox;
mod partition_owner;
mod shards;
mod time_buckets;
mod transfer;
mod unique_index;
mod work_queue;

use std::time::{Duration, Instant};

use futures::future::{Either, join_all, select};
use hbase_txn::{PartitionedTable, client::Connection};

use crate::support::{connect, table::TestTable};

/// The time limit of a test's work; it takes a few seconds, on a busy machine a minute.
const LIMIT: Duration = Duration::from_secs(120);

/// A pattern's table, created by its example, and clients of it that share nothing.
struct Pattern {
    table: TestTable,
    connections: Vec<Connection>,
}

impl Pattern {
    /// Runs the example twice, so that it also finds an existing table with data.
    async fn new<E: std::fmt::Display>(
        what: &str,
        run: impl AsyncFn(&Connection, &str) -> Result<(), E>,
    ) -> Self {
        let table = TestTable::unmade(what);
        let connections = join_all((0..4).map(|_| connect())).await;
        for connection in &connections[..2] {
            let ended = tokio::time::timeout(LIMIT, run(connection, &table.name.to_string())).await;
            ended
                .expect("the example hangs")
                .unwrap_or_else(|error| panic!("the example fails: {error}"));
        }
        Self { table, connections }
    }

    /// The table, opened by each of the clients.
    async fn clients(&self) -> Vec<PartitionedTable> {
        join_all(
            self.connections
                .iter()
                .map(|connection| self.table.open(connection)),
        )
        .await
    }
}

/// Runs tasks concurrently, and returns their results.
async fn side_by_side<T, F>(tasks: usize, task: impl Fn(usize) -> F) -> Vec<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let tasks = join_all((0..tasks).map(|number| tokio::spawn(task(number))));
    let ended = tokio::time::timeout(LIMIT, tasks).await.expect("the tasks hang");
    ended.into_iter().map(Result::unwrap).collect()
}

/// Checks again and again until the work is done, and once more. Fails if there was hardly time for
/// a check.
#[allow(clippy::future_not_send, reason = "a test waits for it where it is")]
async fn watched<T>(work: impl Future<Output = T>, look: impl AsyncFn()) -> T {
    let (began, mut looks) = (Instant::now(), 0);
    let watch = async {
        loop {
            look().await;
            looks += 1;
        }
    };
    let done = match select(Box::pin(work), Box::pin(watch)).await {
        Either::Left((done, _)) => done,
        Either::Right((never, _)) => never,
    };
    look().await;
    assert!(looks >= 3, "{looks} looks in {:?}", began.elapsed());
    done
}
