//! Locks of the master's lock service.

use std::time::Duration;

use hbase_client::{
    Error, ErrorKind, IntoTableName, Result, ServiceKind, TableName,
    low_level::{CallKind, ServerTarget, call_server, convert, pb},
};
use prost::Message;
use tokio::time::Instant;

use crate::{admin::Admin, polling::poll_until};

/// The time for withdrawing a request that was not granted in time.
const WITHDRAWAL: Duration = Duration::from_secs(1);

/// An exclusive lock on the name of a table, held in the master, as HBase's `EntityLock`.
///
/// The master releases the lock if it receives no [heartbeat](Self::heartbeat) for the
/// [timeout](Self::timeout). A lock that is dropped expires in this way. A restart of the master keeps
/// the lock.
#[derive(Debug)]
#[must_use = "a lock that is dropped expires"]
pub struct EntityLock {
    admin: Admin,
    table: TableName,
    procedure: u64,
    timeout: Duration,
}

impl Admin {
    /// Acquires the exclusive lock on the name of a table, and waits for its turn. The table need not
    /// exist.
    ///
    /// While the lock is held, the master starts no change of a table of this name: a call that
    /// changes the table waits, also one of the holder. To exclude other clients that change one table
    /// by agreement, lock another name in its namespace.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the request or the lock expires.
    ///
    /// # Errors
    ///
    /// Returns [`DeadlineExceeded`](hbase_client::ErrorKind::DeadlineExceeded) if the lock is not free within
    /// the operation timeout, and [`AccessDenied`](hbase_client::ErrorKind::AccessDenied) if the user has neither
    /// `ADMIN` nor `CREATE` on this name: globally or on the namespace, if there is no such table.
    ///
    /// # Example
    ///
    /// ```no_run
    /// use hbase_admin::Admin;
    ///
    /// # async fn example(connection: &hbase_client::Connection) -> hbase_client::Result<()> {
    /// let lock = Admin::new(connection).table_lock("orders", "a copy of its files").await?;
    /// // No client changes the table meanwhile.
    /// lock.heartbeat().await?;
    /// lock.release().await
    /// # }
    /// ```
    pub async fn table_lock(&self, table: impl IntoTableName, description: &str) -> Result<EntityLock> {
        let table = table.into_table_name()?;
        let in_context = |error: Error| error.at_operation("locking the name of a table").at_table(&table);
        let deadline = self.deadline();
        let request = pb::LockRequest {
            lock_type: pb::LockType::Exclusive.into(),
            table_name: Some(convert::table_name_message(&table)),
            description: Some(description.to_owned()),
            nonce_group: Some(self.nonce()),
            nonce: Some(self.nonce()),
            ..pb::LockRequest::default()
        };
        let answer: pb::LockResponse = self
            .call_lock_service("RequestLock", &request, deadline)
            .await
            .map_err(in_context)?;
        let mut lock = EntityLock {
            admin: self.clone(),
            table: table.clone(),
            procedure: answer.proc_id,
            timeout: Duration::ZERO,
        };
        let poll = async || Ok(lock.send_heartbeat(true, deadline).await?);
        let still_locked = || {
            Error::new(ErrorKind::DeadlineExceeded, "another client holds the lock")
                .with_hint("wait until it is released, or allow more time; the lock of a process that was killed expires")
        };
        match poll_until(deadline, poll, still_locked).await {
            Ok(timeout) => {
                lock.timeout = timeout;
                Ok(lock)
            }
            Err(error) => {
                // Without an answer the request expires.
                let _ = lock.send_heartbeat(false, Instant::now() + WITHDRAWAL).await;
                Err(in_context(error))
            }
        }
    }

    async fn call_lock_service<M: Message, R: Message + Default>(
        &self,
        method: &'static str,
        request: &M,
        deadline: Instant,
    ) -> Result<R> {
        let target = ServerTarget::Master(ServiceKind::Lock);
        let kind = CallKind::IdempotentWrite;
        call_server(&self.connection, target, method, kind, request, deadline).await
    }
}

impl EntityLock {
    /// Returns how long the master keeps the lock without a heartbeat
    /// (`hbase.master.procedure.remote.locks.timeout.ms`, 30 s by default).
    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Keeps the lock for another [timeout](Self::timeout). Returns `false` if the lock has expired.
    ///
    /// # Errors
    ///
    /// Returns an error if the master does not answer within the operation timeout.
    pub async fn heartbeat(&self) -> Result<bool> {
        let held = self.send_heartbeat(true, self.admin.deadline()).await;
        let held = held.map_err(|error| self.in_context(error, "keeping the lock on the name of a table"))?;
        Ok(held.is_some())
    }

    /// Releases the lock.
    ///
    /// # Errors
    ///
    /// Returns an error if the master does not answer within the operation timeout; the lock then
    /// expires.
    pub async fn release(self) -> Result<()> {
        let released = self.send_heartbeat(false, self.admin.deadline()).await;
        released
            .map(drop)
            .map_err(|error| self.in_context(error, "releasing the lock on the name of a table"))
    }

    /// Returns the timeout of the lock if it is held.
    async fn send_heartbeat(&self, keep_alive: bool, deadline: Instant) -> Result<Option<Duration>> {
        let request = pb::LockHeartbeatRequest {
            proc_id: self.procedure,
            keep_alive: Some(keep_alive),
        };
        let answer: pb::LockHeartbeatResponse = self
            .admin
            .call_lock_service("LockHeartbeat", &request, deadline)
            .await?;
        let timeout = Duration::from_millis(answer.timeout_ms().into());
        let is_held = answer.lock_status() == pb::lock_heartbeat_response::LockStatus::Locked;
        Ok(is_held.then_some(timeout))
    }

    fn in_context(&self, error: Error, operation: &'static str) -> Error {
        error.at_operation(operation).at_table(&self.table)
    }
}
