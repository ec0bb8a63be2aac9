//! Locks of one client in one table.

use std::{fmt, sync::Arc, time::Duration};

use hbase_admin::Admin;
use hbase_client::{
    BytesBinary, Connection, IntoTableName, ResultScanner, Scan, Table, TableName, low_level::TableCalls,
};
use tokio::time::Instant;

use super::{
    name::LockName,
    protocol::{
        layout::{FAMILY, LockRows},
        location::LockLocation,
        owner::LockToken,
    },
    queue::local::{self, LocalLocks},
    request::LockRequest,
    state::{LockHolder, LockInfo, LockLoss, ReleaseOutcome},
    table::{self, LockTableOptions},
};
use crate::{
    error::{Error, Result},
    java_layout::Level,
    observe,
    table_descriptor::usable_or_created,
};

/// The locks of one client (a service, say) in one table.
///
/// Cheap to clone; clones share everything. Make one per process, client and table: the tasks of a
/// process queue up for a lock only among the clones of one manager.
///
/// # Example
///
/// ```
/// use hbase_txn::{Level, lock::LockManagerOptions};
///
/// # hbase_fake::FakeHBase::run(async |hbase| {
/// # hbase.create_table("dlm_locks", &["D"], &[]);
/// # let connection = hbase.connect().await?;
/// let locks = LockManagerOptions::new("billing")
///     .farm("fra")
///     .open(&connection, "dlm_locks")
///     .await?;
/// if let Some(guard) = locks.lock(Level::Dc, "invoice-7")?.try_acquire().await? {
///     assert!(locks.lock(Level::Dc, "invoice-7")?.try_acquire().await?.is_none());
///     assert!(guard.release().await?.is_released());
/// }
/// # assert!(locks.lock(Level::Dc, "invoice-7")?.try_acquire().await?.is_some());
/// # Ok(()) });
/// ```
#[derive(Clone)]
pub struct LockManager {
    shared: Arc<Shared>,
}

struct Shared {
    table: Table,
    client: String,
    farm: Option<String>,
    companion: bool,
    local: Arc<LocalLocks>,
}

/// The hint of a table that does not exist.
const MISSING: &str = "check its name, or create it with LockManagerOptions::open_or_create";

/// The options of a [`LockManager`].
#[derive(Clone, Debug)]
#[must_use = "options do nothing until open is called"]
pub struct LockManagerOptions {
    client: String,
    farm: Option<String>,
    holder: Option<String>,
}

impl LockManagerOptions {
    /// Creates options for the locks of this client id: a part of every lock's name, the same for
    /// all processes that exclude each other.
    pub fn new(client: impl Into<String>) -> Self {
        Self {
            client: client.into(),
            farm: None,
            holder: None,
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

    /// Opens a lock table. Reads its descriptor, and uses the table unchanged if it is fit for
    /// locks. A missing table is an error: a misspelt name would grant locks that exclude no other
    /// process. See [`open_or_create`](Self::open_or_create).
    ///
    /// # Errors
    ///
    /// - [`InvalidInput`](crate::ClientErrorKind::InvalidInput) for an invalid client, farm or
    ///   holder;
    /// - [`TableNotFound`](crate::ClientErrorKind::TableNotFound) or
    ///   [`TableDisabled`](crate::ClientErrorKind::TableDisabled);
    /// - [`FeatureUnknown`](crate::ErrorKind::FeatureUnknown) for a table that only newer releases
    ///   may use;
    /// - [`FamilyNotFound`](crate::ClientErrorKind::FamilyNotFound) if the table has no family `D`.
    pub async fn open(self, connection: &Connection, name: impl IntoTableName) -> Result<LockManager> {
        self.open_table(connection, name.into_table_name()?, None).await
    }

    /// Opens the lock table that these options describe, and creates it first if it does not exist.
    ///
    /// An existing table is used unchanged. Several processes may open and create the table at the
    /// same time.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`open`](Self::open), except
    /// [`TableNotFound`](crate::ClientErrorKind::TableNotFound), and those of
    /// [`LockTableOptions::create`](super::LockTableOptions::create).
    ///
    /// # Example
    ///
    /// ```
    /// use hbase_txn::lock::{LockManagerOptions, LockTableOptions};
    ///
    /// # hbase_fake::FakeHBase::run(async |hbase| {
    /// # let connection = hbase.connect().await?;
    /// let table = LockTableOptions::new("dlm_locks")?.regions(4);
    /// let locks = LockManagerOptions::new("billing")
    ///     .open_or_create(&connection, table)
    ///     .await?;
    /// # assert_eq!(hbase_txn::admin::Admin::new(&connection).regions(locks.table()).await?.len(), 4);
    /// # Ok(()) });
    /// ```
    pub async fn open_or_create(
        self,
        connection: &Connection,
        table: LockTableOptions,
    ) -> Result<LockManager> {
        self.open_table(connection, table.name().clone(), Some(table))
            .await
    }

    async fn open_table(
        self,
        connection: &Connection,
        name: TableName,
        create: Option<LockTableOptions>,
    ) -> Result<LockManager> {
        observe::describe();
        let in_context = |error: Error| error.at_operation("opening for locks").at_table(&name);
        // Whether a client or farm is valid does not depend on the id.
        LockName::xdc(&self.client, "-").map_err(in_context)?;
        if let Some(farm) = &self.farm {
            LockName::dc(farm, &self.client, "-").map_err(in_context)?;
        }
        let holder = self
            .holder
            .unwrap_or_else(|| local::default_holder(connection.config().user()));
        let admin = Admin::new(connection);
        let timeout = connection.config().operation_timeout();
        let create = create.as_ref().map(|table| table.create(&admin));
        let descriptor = usable_or_created(&admin, &name, timeout, create, MISSING, in_context).await?;
        let family = table::lock_family(&descriptor).map_err(in_context)?;
        let local = Arc::new(LocalLocks::new(holder, family.time_to_live()).map_err(in_context)?);
        Ok(LockManager {
            shared: Arc::new(Shared {
                table: connection.table(name)?.with_durability_of(&descriptor),
                client: self.client,
                farm: self.farm,
                companion: LockTableOptions::has_companions(&descriptor),
                local,
            }),
        })
    }
}

impl LockManager {
    /// Creates a request for a lock. Sends nothing.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidInput`](crate::ClientErrorKind::InvalidInput) if the id is empty or too
    /// long, or if the lock is of one farm and no farm was specified.
    pub fn lock(&self, level: Level, id: &str) -> Result<LockRequest> {
        let (name, location) = self.location(level, id)?;
        let local = Arc::clone(&self.shared.local);
        Ok(LockRequest::new(local, name.key().to_owned(), location))
    }

    /// Reads the holder of a lock.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`lock`](Self::lock), and those of the call.
    pub async fn show(&self, level: Level, id: &str) -> Result<LockInfo> {
        let (name, location) = self.location(level, id)?;
        let states = location.read(location.table.deadline()).await;
        let states = states.map_err(|error| location.in_context(&name, error))?;
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
        let released = location.release(token, location.table.deadline()).await;
        released.map_err(|error| location.in_context(&name, error))
    }

    /// Renews a lock by its token, from any process: it is held for `lease` from now on, or as long
    /// as before if that is longer. `None` is the lock's own lease: that of its request, or of its
    /// last renewal. [`LockRequest::resume`](super::LockRequest::resume) returns a guard instead.
    ///
    /// The inner result is the loss if the token does not hold the lock any more, or if the new lease
    /// had expired when the answer arrived.
    ///
    /// # Errors
    ///
    /// - [`InvalidInput`](crate::ClientErrorKind::InvalidInput) for a lease out of range;
    /// - [`LimitExceeded`](crate::ClientErrorKind::LimitExceeded) for a lock that would outlive the
    ///   TTL of the table's family;
    /// - the errors of the calls, within the operation timeout.
    pub async fn renew(
        &self,
        level: Level,
        id: &str,
        token: LockToken,
        lease: impl Into<Option<Duration>>,
    ) -> Result<Result<(), LockLoss>> {
        let (name, location) = self.location(level, id)?;
        let lease = lease.into();
        if let Some(lease) = lease {
            let checked = self.shared.local.check_lease(lease);
            checked.map_err(|error| location.in_context(&name, error))?;
        }
        let renewed = location.renew_for(token, lease, location.table.deadline()).await;
        renewed.map_err(|error| location.in_context(&name, error))
    }

    /// Revokes a lock and returns its holder. Returns `None` if it was not held, or was released or
    /// expired meanwhile. The forced release is logged as a warning with the holder's name and
    /// token.
    ///
    /// The holder notices at its next renewal or release; its work continues until then. Fencing
    /// numbers and [`Transaction::fenced_by`](crate::Transaction::fenced_by) stop its writes.
    ///
    /// # Errors
    ///
    /// Returns an error if a call fails.
    pub async fn force_release(&self, level: Level, id: &str) -> Result<Option<LockHolder>> {
        let (name, location) = self.location(level, id)?;
        location
            .evict(name.key(), None, location.table.deadline())
            .await
            .map_err(|error| location.in_context(&name, error))
    }

    /// Waits until nothing continues in the background for requests and guards of this manager that
    /// were dropped: they have left the queue, and released what they held. Locks, permits, readers,
    /// writers, leaders and members are meant. For a session, await [`Session::close`](super::Session::close). It does not wait for calls whose answer was lost, for which a
    /// task looks for two minutes.
    ///
    /// Await it before the runtime is shut down, with a timeout: a server that does not answer keeps
    /// these tasks waiting until the leases expire.
    pub async fn background_done(&self) {
        self.local().tasks.done().await;
    }

    /// Returns the table's name.
    #[must_use]
    pub fn table(&self) -> &TableName {
        self.shared.table.name()
    }

    /// Returns the name of this process as a holder.
    #[must_use]
    pub fn holder(&self) -> &str {
        &self.shared.local.holder
    }

    /// Returns whether locks have a companion row; see
    /// [`LockTableOptions::without_java_clients`](super::LockTableOptions::without_java_clients).
    #[must_use]
    pub fn has_companions(&self) -> bool {
        self.shared.companion
    }

    /// Returns the deadline of an operation that begins now.
    pub(super) fn deadline(&self) -> Instant {
        self.shared.table.deadline()
    }

    pub(super) fn local(&self) -> &Arc<LocalLocks> {
        &self.shared.local
    }

    pub(super) fn location(&self, level: Level, id: &str) -> Result<(LockName, LockLocation)> {
        let Shared { client, farm, .. } = &*self.shared;
        let name = match (level, farm) {
            (Level::Dc, Some(farm)) => LockName::dc(farm, client, id),
            (Level::Dc, None) => Err(Error::invalid("a lock of one farm, but no farm was named")
                .with_hint("name it with LockManagerOptions::farm, or use level xdc, which spans all farms")),
            (Level::Xdc, _) => LockName::xdc(client, id),
        };
        let name = name.map_err(|error| error.at_operation("naming a lock").at_table(self.table()))?;
        let row = name.row();
        let rows = if self.shared.companion {
            LockRows::with_companion(row)
        } else {
            LockRows::alone(FAMILY, row)
        };
        let table = self.shared.table.clone();
        Ok((name, self.shared.local.location(table, rows)))
    }

    pub(super) fn scan(&self, scan: Scan) -> Result<ResultScanner> {
        Ok(self.shared.table.scan(scan)?)
    }
}

impl fmt::Debug for LockManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockManager")
            .field("table", self.table())
            .field("client", &self.shared.client)
            .field("farm", &self.shared.farm)
            .finish_non_exhaustive()
    }
}

/// Creates a lock table on a fake cluster, and opens its locks as two processes of one client.
#[cfg(test)]
pub(super) async fn two_processes(hbase: &hbase_fake::FakeHBase) -> Result<[LockManager; 2]> {
    let connection = hbase.connect().await?;
    let name: TableName = "locks".parse()?;
    let options = LockTableOptions::from(name.clone());
    options.create(&Admin::new(&connection)).await?;
    let open = || {
        let options = LockManagerOptions::new("client").farm("farm");
        options.open(&connection, name.clone())
    };
    Ok([open().await?, open().await?])
}
