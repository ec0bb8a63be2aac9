//! Many processes that use latches and barriers of one table, for tests.

use std::{ops::Range, time::Duration};

use futures::future::try_join_all;
use hbase_client::Connection;
use hbase_fake::{FakeHBase, Latency};

use super::{LatchManager, LatchManagerOptions};
use crate::Result;

/// Calls take 2 ms, longer than the pauses after the first conflicts.
const THERE_OR_BACK: Range<Duration> = Duration::from_millis(1)..Duration::from_millis(1);

pub(super) fn cluster() -> FakeHBase {
    let latency = Latency {
        request: THERE_OR_BACK,
        answer: THERE_OR_BACK,
        ..Latency::NONE
    };
    let hbase = FakeHBase::builder().latency(latency).build();
    hbase.create_table("D_LTCH_jobs", &["C", "S"], &[]);
    hbase
}

/// Processes, each with a connection of its own.
pub(super) async fn processes(
    hbase: &FakeHBase,
    number: usize,
    timeout: Duration,
) -> Result<Vec<LatchManager>> {
    try_join_all((0..number).map(|_| async {
        let connection = Connection::builder(hbase.config().with_operation_timeout(timeout))
            .connector(hbase.connector())
            .environment(hbase.environment())
            .connect()
            .await?;
        LatchManagerOptions::new("billing", "fra")
            .open(&connection, "D_LTCH_jobs")
            .await
    }))
    .await
}
