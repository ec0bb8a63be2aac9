//! The lock that keeps operators from changing one table at the same time.

use std::convert::Infallible;

use hbase_admin::{Admin, EntityLock};
use hbase_client::{Connection, TableName};
use hbase_txn::{ClientErrorKind, Error, ErrorKind, Result};
use tokio::time::sleep;

/// The end of the locked name. It is not the table's own name: while that is locked, the master would
/// not change the table for the holder either.
const SUFFIX: &str = ".hbase-txn.alteration";
/// The number of heartbeats in the time after which the master releases the lock.
const HEARTBEATS: u32 = 4;

/// The advisory lock on the changes of a table. Processes of this toolkit that change one table take
/// turns; other clients are not excluded.
#[derive(Debug)]
pub(super) struct TableLock {
    /// `None` if the user may not lock names in the namespace.
    lock: Option<EntityLock>,
}

impl TableLock {
    /// Waits for the lock within the operation timeout. A lock that is dropped expires.
    pub(super) async fn acquire(connection: &Connection, table: &TableName) -> Result<Self> {
        match Admin::new(connection)
            .table_lock(name_for(table)?, "hbase-txn")
            .await
        {
            Ok(lock) => Ok(Self { lock: Some(lock) }),
            Err(error) if error.kind() == ClientErrorKind::AccessDenied => Ok(Self { lock: None }),
            Err(error) => {
                let what = "the lock on changes of the table was not acquired";
                let outer = Error::new(error.kind(), what)
                    .with_retryable(error.is_retryable())
                    .with_hint("another process is changing the table");
                Err(outer.with_source(error))
            }
        }
    }

    /// Returns whether other processes of this toolkit are excluded.
    pub(super) const fn is_exclusive(&self) -> bool {
        self.lock.is_some()
    }

    /// Keeps the lock while `work` runs. Its loss does not stop the work: each step that relies on it calls
    /// [`check`](Self::check).
    pub(super) async fn keep<T>(&self, work: impl Future<Output = T>) -> T {
        tokio::select! {
            done = work => done,
            never = self.send_heartbeats() => match never {},
        }
    }

    async fn send_heartbeats(&self) -> Infallible {
        let Some(lock) = &self.lock else {
            return std::future::pending().await;
        };
        loop {
            sleep(lock.timeout() / HEARTBEATS).await;
            // A failure is repeated, or found by `check`.
            let _ = lock.heartbeat().await;
        }
    }

    /// Returns an error if another process may have acquired the lock.
    pub(super) async fn check(&self) -> Result<()> {
        match &self.lock {
            Some(lock) if !lock.heartbeat().await? => Err(Error::new(
                ErrorKind::Conflict,
                "the lock on the changes of the table has expired before the next step",
            )
            .with_hint("plan again")),
            _ => Ok(()),
        }
    }

    /// Releases the lock. Without an answer of the master it expires.
    pub(super) async fn release(self) {
        if let Some(lock) = self.lock {
            let _ = lock.release().await;
        }
    }
}

/// Returns the name that is locked for a table, in its namespace. Two tables with long names may share
/// it, and then take turns.
fn name_for(table: &TableName) -> Result<TableName> {
    let qualifier = table.qualifier();
    let most = qualifier.len().min(TableName::MAX_PART - SUFFIX.len());
    let end = (0..=most).rfind(|end| qualifier.is_char_boundary(*end));
    let kept = &qualifier[..end.unwrap_or(0)];
    Ok(TableName::new(table.namespace(), &format!("{kept}{SUFFIX}"))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_table_has_a_name_to_lock() {
        let name = |table: &str| name_for(&table.parse().unwrap()).unwrap().to_string();
        assert_eq!(name("orders"), "orders.hbase-txn.alteration");
        assert_eq!(name("shop:orders"), "shop:orders.hbase-txn.alteration");
        let longest = "é".repeat(TableName::MAX_PART / 2);
        assert!(name(&longest).ends_with("é.hbase-txn.alteration"));
    }
}
