//! Locks next to the data of a partition, which transactions can acquire, check and release.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use hbase_client::{BytesBinary, IntoBytes, low_level::TableCalls};

use super::{
    protocol::{layout::LockRows, location::LockLocation, owner::LockToken},
    queue::local::{self, LocalLocks},
    request::LockRequest,
    state::{LockHolder, LockInfo, ReleaseOutcome},
};
use crate::{
    error::{Error, Result},
    txn::PartitionedTable,
};

/// The first byte of a lock's name among the reserved rows of a partition.
const LOCK: u8 = b'l';
/// Separates prefix and id in the displayed name of a lock.
const SEPARATOR: char = '#';

/// Locks in the partitions of a table, each in the partition of the data that it protects.
///
/// They are acquired, renewed, waited for and released like other locks. Because a lock is stored
/// with the data, a transaction can be [fenced](crate::Transaction::fenced_by) by it: the server
/// rejects the write of a process that no longer holds the lock, however late the write arrives and
/// whatever its sender believes. A transaction can also [acquire](crate::Transaction::acquire_lock)
/// and [release](crate::Transaction::release_lock) locks together with the data.
///
/// Leases expire by the region server's clock, and fencing numbers rise, as with other locks. A
/// lock does not stop a writer that does not use `fenced_by`. Java clients of the lock library do
/// not see these locks.
///
/// Cheap to clone; clones share everything. Create one per process and table: the tasks of a
/// process queue up for a lock only among the clones of one instance.
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use hbase_txn::{Outcome, client::Put, lock::PartitionLocks};
///
/// # hbase_fake::FakeHBase::run(async |hbase| {
/// # hbase.create_partitioned_table("orders", &["f", "_lock"], 3);
/// # let orders = hbase_txn::PartitionedTable::open(&hbase.connect().await?, "orders").await?;
/// let locks = PartitionLocks::open(&orders).await?;
/// let guard = locks
///     .lock("xxx", "writer")?
///     .ttl(Duration::from_secs(10))
///     .wait(Duration::from_secs(30))
///     .auto_renew()
///     .acquire()
///     .await?;
/// let outcome = orders
///     .transaction("xxx")
///     .fenced_by(&guard)
///     .put(Put::new("xxxabc").cell("f", "state", "done"))
///     .commit()
///     .await;
/// # assert!(outcome.is_committed());
/// match outcome {
///     Outcome::Rejected(rejection) => println!("another process is the writer now: {rejection}"),
///     other => println!("{other}"),
/// }
/// # Ok(()) });
/// ```
#[derive(Clone)]
pub struct PartitionLocks {
    table: PartitionedTable,
    local: Arc<LocalLocks>,
}

impl PartitionLocks {
    /// Opens the locks of a table, which needs the family
    /// [`_lock`](crate::TableDescriptorExt::LOCK_FAMILY). The holder's name is `user@host:pid`.
    ///
    /// # Errors
    ///
    /// Returns [`FamilyNotFound`](crate::ClientErrorKind::FamilyNotFound) if the table does not
    /// have the family, and the errors of reading the table's descriptor.
    pub async fn open(table: &PartitionedTable) -> Result<Self> {
        let user = table.table().connection().config().user().to_owned();
        Self::open_as(table, local::default_holder(&user)).await
    }

    /// Opens the locks of a table with this holder's name, of up to 256 bytes.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`open`](Self::open), and
    /// [`InvalidInput`](crate::ClientErrorKind::InvalidInput) for a longer name.
    pub async fn open_as(table: &PartitionedTable, holder: impl Into<String>) -> Result<Self> {
        let in_context = |error: Error| error.at_operation("opening for locks").at_table(table.name());
        let family = table.lock_family("locks").await?;
        Ok(Self {
            table: table.clone(),
            local: Arc::new(LocalLocks::new(holder.into(), family.time_to_live()).map_err(in_context)?),
        })
    }

    /// Creates a request for the lock with this id in the partition of a bare prefix. Sends
    /// nothing. A partition may have any number of locks, and they need no creation.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidInput`](crate::ClientErrorKind::InvalidInput) if the prefix is invalid
    /// under the table's rule, or if the id is empty or too long for a row.
    pub fn lock(&self, prefix: impl IntoBytes, id: &str) -> Result<LockRequest> {
        let (name, location) = self.location(prefix.into_bytes(), id)?;
        Ok(LockRequest::new(Arc::clone(&self.local), name, location))
    }

    /// Reads the holder of a lock.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`lock`](Self::lock), and those of the call.
    pub async fn show(&self, prefix: impl IntoBytes, id: &str) -> Result<LockInfo> {
        let (name, location) = self.location(prefix.into_bytes(), id)?;
        let states = location.read(location.table.deadline()).await;
        let states = states.map_err(|error| location.in_context(&name, error))?;
        Ok(LockInfo::of(None, name, &states))
    }

    /// Revokes a lock and returns its holder. Returns `None` if it was not held, or was released or
    /// expired meanwhile. Until the holder notices, its [fenced](crate::Transaction::fenced_by)
    /// transactions are rejected. The forced release is logged as a warning with the holder's name
    /// and token.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`lock`](Self::lock), and those of the calls.
    pub async fn force_release(&self, prefix: impl IntoBytes, id: &str) -> Result<Option<LockHolder>> {
        let (name, location) = self.location(prefix.into_bytes(), id)?;
        location
            .evict(&name, None, location.table.deadline())
            .await
            .map_err(|error| location.in_context(&name, error))
    }

    /// Releases a lock by its token, from any process. Nothing continues in the background: if it
    /// fails, call it again.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`lock`](Self::lock), and those of the calls.
    pub async fn release(
        &self,
        prefix: impl IntoBytes,
        id: &str,
        token: LockToken,
    ) -> Result<ReleaseOutcome> {
        let (name, location) = self.location(prefix.into_bytes(), id)?;
        let released = location.release(token, location.table.deadline()).await;
        released.map_err(|error| location.in_context(&name, error))
    }

    /// Returns the table.
    #[must_use]
    pub fn table(&self) -> &PartitionedTable {
        &self.table
    }

    fn location(&self, prefix: Bytes, id: &str) -> Result<(String, LockLocation)> {
        let shown = BytesBinary(&prefix).to_string();
        let row = self.table.reserved_row(prefix, "lock", LOCK, id)?;
        let table = self.table.own_table().clone();
        let location = self.local.location(table, LockRows::in_partition(row));
        Ok((format!("{shown}{SEPARATOR}{id}"), location))
    }
}

impl fmt::Debug for PartitionLocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PartitionLocks")
            .field("table", self.table.name())
            .field("holder", &self.local.holder)
            .finish_non_exhaustive()
    }
}
