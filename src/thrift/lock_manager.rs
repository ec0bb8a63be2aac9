//! Locks of one client in one table, through a gateway.

use std::{fmt, sync::Arc};

use hbase_client::{BytesBinary, IntoTableName, TableName, low_level::login_name};

use super::{
    connection::ThriftConnection,
    lock_location::{ThriftAttempt, ThriftLockLocation},
    permits::Lane,
    request::ThriftLockRequest,
    rows::Rows,
};
use crate::{
    error::{Error, Result},
    java_layout::Level,
    lock::{FAMILY, LocalLocks, LockInfo, LockName, LockRows, LockToken, ReleaseOutcome, default_holder},
};

const NO_TABLE: &str = "check its name; a gateway cannot create it, LockManagerOptions::open_or_create can";

/// The locks of one client (a service, say) in one table, through a Thrift gateway.
///
/// They are the locks of a [`LockManager`](crate::lock::LockManager), in the same rows: native
/// clients, Java clients and clients of a gateway exclude each other. The guarantees are the same,
/// but the operations take more calls. Where a native client sends one call, acquiring a free lock
/// takes five calls through a gateway, seven with a companion row, and one more if the lock was
/// free for a week. A renewal takes four or seven calls, a release three or four, a read one.
///
/// A gateway does not support sets of locks, locks in partitions, transactions that are fenced by a
/// lock, forced releases or lists.
///
/// Cheap to clone; clones share everything. Create one per process, client and table: the tasks of
/// a process queue up for a lock only among the clones of one manager.
///
/// # Examples
///
/// The [module](super) opens a lock table and acquires a lock.
///
/// A transaction cannot be fenced by a lock that is held through a gateway. This compiles with a
/// [`LockGuard`](crate::lock::LockGuard):
///
/// ```
/// # hbase_fake::FakeHBase::run(async |hbase| {
/// # hbase.create_partitioned_table("orders", &["f", "_lock"], 3);
/// # let orders = hbase_txn::PartitionedTable::open(&hbase.connect().await?, "orders").await?;
/// # let locks = hbase_txn::lock::PartitionLocks::open(&orders).await?;
/// # let guard = locks.lock("xxx", "writer")?.acquire().await?;
/// # let transaction = orders.transaction("xxx").put(hbase_txn::client::Put::new("xxx").cell("f", "q", "v"));
/// let fenced = transaction.fenced_by(&guard);
/// # assert!(fenced.commit().await.is_committed());
/// # Ok(()) });
/// ```
///
/// A [`ThriftLockGuard`](super::ThriftLockGuard) in its place does not compile:
///
/// ```compile_fail,E0308
/// # fn example(transaction: hbase_txn::Transaction, guard: hbase_txn::thrift::ThriftLockGuard) {
/// let fenced = transaction.fenced_by(&guard);
/// # }
/// ```
#[derive(Clone)]
pub struct ThriftLockManager {
    rows: Rows,
    client: String,
    farm: Option<String>,
    companion: bool,
    local: Arc<LocalLocks<ThriftAttempt>>,
}

/// The options of a [`ThriftLockManager`].
#[derive(Clone, Debug)]
#[must_use = "options do nothing until open is called"]
pub struct ThriftLockManagerOptions {
    client: String,
    farm: Option<String>,
    holder: Option<String>,
    companion: bool,
}

impl ThriftLockManagerOptions {
    /// Creates options for the locks of this client id: a part of every lock's name, the same for
    /// all processes that exclude each other.
    pub fn new(client: impl Into<String>) -> Self {
        Self {
            client: client.into(),
            farm: None,
            holder: None,
            companion: true,
        }
    }

    /// Sets the farm (data centre) of locks of level [`Dc`](Level::Dc). Required for that level.
    pub fn farm(mut self, farm: impl Into<String>) -> Self {
        self.farm = Some(farm.into());
        self
    }

    /// Sets the name of this process as a holder, for humans; `user@host:pid` unless specified.
    pub fn holder(mut self, name: impl Into<String>) -> Self {
        self.holder = Some(name.into());
        self
    }

    /// Declares that the table was created with
    /// [`LockTableOptions::without_java_clients`](crate::lock::LockTableOptions::without_java_clients),
    /// so that locks have no companion row. A gateway does not return that attribute of the table.
    /// If the declaration is wrong, locks still exclude each other, but there are two separate
    /// sequences of fencing numbers.
    pub fn without_java_clients(mut self) -> Self {
        self.companion = false;
        self
    }

    /// Opens a lock table, and uses it unchanged if it is fit for locks. Sends two calls.
    ///
    /// # Errors
    ///
    /// - [`InvalidInput`](crate::ClientErrorKind::InvalidInput) for an invalid client, farm or
    ///   holder;
    /// - [`TableNotFound`](crate::ClientErrorKind::TableNotFound) or
    ///   [`TableDisabled`](crate::ClientErrorKind::TableDisabled);
    /// - [`FamilyNotFound`](crate::ClientErrorKind::FamilyNotFound) if the table has no family `D`;
    /// - the errors of the calls.
    pub async fn open(
        self,
        gateway: &ThriftConnection,
        name: impl IntoTableName,
    ) -> Result<ThriftLockManager> {
        let name = name.into_table_name()?;
        let in_context = |error: Error| error.at_operation("opening for locks").at_table(&name);
        // Whether a client or farm is valid does not depend on the id.
        LockName::xdc(&self.client, "-").map_err(in_context)?;
        if let Some(farm) = &self.farm {
            LockName::dc(farm, &self.client, "-").map_err(in_context)?;
        }
        let holder = self.holder.unwrap_or_else(|| default_holder(&login_name()));
        let rows = Rows {
            connection: gateway.clone(),
            table: name.clone(),
            family: FAMILY,
        };
        let families = rows
            .families(NO_TABLE, gateway.deadline())
            .await
            .map_err(in_context)?;
        let cells_live = *families
            .get(&FAMILY)
            .ok_or_else(|| in_context(rows.no_family(&FAMILY, "")))?;
        let local = LocalLocks::new(holder, cells_live).map_err(in_context)?;
        Ok(ThriftLockManager {
            rows,
            client: self.client,
            farm: self.farm,
            companion: self.companion,
            local: Arc::new(local),
        })
    }
}

impl ThriftLockManager {
    /// Creates a request for a lock. Sends nothing.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidInput`](crate::ClientErrorKind::InvalidInput) if the id is empty or too
    /// long, or if the lock is of one farm and no farm was specified.
    pub fn lock(&self, level: Level, id: &str) -> Result<ThriftLockRequest> {
        let (name, location) = self.location(level, id)?;
        Ok(ThriftLockRequest::new(
            Arc::clone(&self.local),
            name.key().to_owned(),
            location,
        ))
    }

    /// Reads the holder of a lock. Sends one call, which reads each of its rows separately.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`lock`](Self::lock), and those of the call.
    pub async fn show(&self, level: Level, id: &str) -> Result<LockInfo> {
        let (name, location) = self.location(level, id)?;
        let states = location.read(self.rows.connection.deadline()).await?;
        let key = BytesBinary(name.key().as_bytes()).to_string();
        Ok(LockInfo::of(Some(name), key, &states))
    }

    /// Releases a lock by its token, from any process. Nothing continues in the background: if it
    /// fails, call it again.
    ///
    /// # Errors
    ///
    /// Returns an error if a call fails, within the operation timeout.
    pub async fn release(&self, level: Level, id: &str, token: LockToken) -> Result<ReleaseOutcome> {
        let (name, location) = self.location(level, id)?;
        let deadline = self.rows.connection.deadline();
        let released = location.in_lane(Lane::Releases).release(token, deadline).await;
        released.map_err(|error| error.at_operation(format!("lock {name}")))
    }

    /// Returns the table's name.
    #[must_use]
    pub fn table(&self) -> &TableName {
        &self.rows.table
    }

    fn location(&self, level: Level, id: &str) -> Result<(LockName, ThriftLockLocation)> {
        let name = match (level, &self.farm) {
            (Level::Dc, Some(farm)) => LockName::dc(farm, &self.client, id),
            (Level::Dc, None) => Err(Error::invalid("a lock of one farm, but no farm was named")),
            (Level::Xdc, _) => LockName::xdc(&self.client, id),
        };
        let name = name.map_err(|error| error.at_operation("naming a lock").at_table(self.table()))?;
        let lock = if self.companion {
            LockRows::with_companion(name.row())
        } else {
            LockRows::alone(FAMILY, name.row())
        };
        let rows = self.rows.clone();
        Ok((name, ThriftLockLocation { rows, lock }))
    }
}

impl fmt::Debug for ThriftLockManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThriftLockManager")
            .field("gateway", self.rows.connection.gateway())
            .field("table", self.table())
            .field("client", &self.client)
            .field("farm", &self.farm)
            .finish_non_exhaustive()
    }
}
