//! What the latches and barriers of one table share within a process.

use std::sync::Arc;

use bytes::Bytes;
use hbase_client::Table;
use hbase_keyed_lock::{KeyedGuard, KeyedLock};
use tokio::time::Instant;

use super::{barrier::watch::BarrierTable, table::Families, watch::Watch};
use crate::error::{ClientErrorKind, Error, Result};

/// The state that all latches of one client and table share within this process.
pub(super) struct Shared {
    /// Its reads return when cells expire.
    pub(super) table: Table,
    pub(super) client: String,
    pub(super) farm: String,
    pub(super) families: Families,
    /// One task of this process changes a latch or a barrier at a time, because concurrent changes
    /// would conflict.
    pub(super) turns: KeyedLock<Bytes>,
    pub(super) watch: Watch<Table>,
    pub(super) barriers: Watch<BarrierTable>,
}

impl Shared {
    /// Creates the state for a table whose reads return when cells expire.
    pub(super) fn new(table: Table, client: String, farm: String, families: Families) -> Arc<Self> {
        Arc::new(Self {
            watch: Watch::new(table.clone()),
            barriers: Watch::new(BarrierTable(table.clone())),
            table,
            client,
            farm,
            families,
            turns: KeyedLock::new(),
        })
    }
}

/// Waits for the turn among the tasks of this process that change a row.
pub(crate) async fn turn<'a>(
    turns: &'a KeyedLock<Bytes>,
    row: &Bytes,
    deadline: Instant,
) -> Result<KeyedGuard<'a, Bytes>> {
    let turn = turns.lock(row.clone()).until(deadline.into_std()).await;
    turn.map_err(|_| {
        Error::new(
            ClientErrorKind::DeadlineExceeded,
            "other tasks of this process kept changing it",
        )
        .with_retryable(true)
        .with_hint("use fewer tasks, count by more at a time, or allow more time")
    })
}
