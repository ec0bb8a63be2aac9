//! Locks that live beside the data of a partition, so that transactions can take, check and release them.

use std::{fmt, sync::Arc};

use bytes::Bytes;

use super::{
    guard::ReleaseOutcome,
    layout::LockRows,
    owner::LockToken,
    party::{self, Party},
    place::Place,
    request::LockRequest,
    state::{LockHolder, LockInfo},
};
use crate::{
    error::{Error, Result},
    model::BytesBinary,
    txn::PartitionedTable,
};

/// Begins the name of a lock's row, among the rows that are reserved in a partition.
const LOCK: u8 = b'l';
/// Between prefix and id, in a lock's name for people.
const SEPARATOR: char = '#';

/// Locks in the partitions of a table: each lives in the partition of the data that it protects.
///
/// They are acquired, renewed, waited for and released as others are. And as they live where the data lives, a transaction
/// can be [fenced](crate::Transaction::fenced_by) by one: the server itself refuses the write of whoever does not hold it any
/// more, however late that arrives and whatever its sender believes. A transaction can
/// [acquire](crate::Transaction::acquire_lock) and [release](crate::Transaction::release_lock) them together with the data.
///
/// Leases end by the clock of the region's server, and fencing numbers rise, as with other locks. A writer that does not use
/// `fenced_by` is not stopped by any lock. Java clients of the lock library know nothing of these locks.
///
/// Cheap to clone; clones share everything. Make one per process and table: the tasks of a process queue up for a lock only
/// among the clones of one.
///
/// # Example
///
/// ```no_run
/// # async fn example(orders: hbase_txn::PartitionedTable) -> hbase_txn::Result<()> {
/// use std::time::Duration;
/// use hbase_txn::{Outcome, PartitionLocks, Put};
///
/// let locks = PartitionLocks::open(&orders).await?;
/// let guard = locks
///     .lock("xxx", "writer")?
///     .ttl(Duration::from_secs(10))
///     .wait(Duration::from_secs(30))
///     .renewed()
///     .acquire()
///     .await?;
/// let mut transaction = orders.at("xxx")?;
/// transaction.fenced_by(&guard)?;
/// transaction.put(Put::new("xxxabc").cell("f", "state", "done"))?;
/// match transaction.commit().await {
///     Outcome::Rejected(rejection) => println!("somebody else is the writer now: {rejection}"),
///     other => println!("{other}"),
/// }
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct PartitionLocks {
    table: PartitionedTable,
    party: Arc<Party>,
}

impl PartitionLocks {
    /// The locks of a table, which needs the family [`_lock`](crate::TableDescriptor::LOCK_FAMILY). The holder is called
    /// `user@host:pid` where people look.
    ///
    /// # Errors
    ///
    /// [`FamilyNotFound`](crate::ErrorKind::FamilyNotFound) without the family; those of reading the table's descriptor.
    pub async fn open(table: &PartitionedTable) -> Result<Self> {
        let user = table.table().connection().config().user().to_owned();
        Self::open_as(table, party::default_holder(&user)).await
    }

    /// The same for a holder that calls itself so; up to 256 bytes.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open), and [`InvalidInput`](crate::ErrorKind::InvalidInput) for a longer name.
    pub async fn open_as(table: &PartitionedTable, holder: impl Into<String>) -> Result<Self> {
        let blame = |error: Error| error.at_operation("opening for locks").at_table(table.name());
        let family = table.lock_family("locks").await?;
        Ok(Self {
            table: table.clone(),
            party: Arc::new(Party::new(holder.into(), family.time_to_live()).map_err(blame)?),
        })
    }

    /// Asks for the lock of this id in the partition of a bare prefix; nothing is sent yet. There may be any number of locks
    /// in a partition, and none need exist before.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for what is no prefix under the table's rule, and for an id that is empty or
    /// too long for a row.
    pub fn lock(&self, prefix: impl Into<Bytes>, id: &str) -> Result<LockRequest> {
        let (name, place) = self.place(prefix.into(), id)?;
        Ok(LockRequest::new(Arc::clone(&self.party), name, place))
    }

    /// Who holds a lock.
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock), and those of the call.
    pub async fn show(&self, prefix: impl Into<Bytes>, id: &str) -> Result<LockInfo> {
        let (name, place) = self.place(prefix.into(), id)?;
        let sights = place.look(place.table.deadline()).await;
        let sights = sights.map_err(|error| place.blame(&name, error))?;
        Ok(LockInfo::of(None, name, &sights))
    }

    /// Takes a lock away from whoever holds it, and tells whom that hit; none when nobody held it. What the holder does until it
    /// learns of it is refused where it is [fenced](crate::Transaction::fenced_by).
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock), and those of the calls.
    pub async fn force_release(&self, prefix: impl Into<Bytes>, id: &str) -> Result<Option<LockHolder>> {
        let (name, place) = self.place(prefix.into(), id)?;
        place
            .evict(place.table.deadline())
            .await
            .map_err(|error| place.blame(&name, error))
    }

    /// Releases a lock of another process, by the token that it was told. Nothing goes on in the background: where it fails,
    /// call it again.
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock), and those of the calls.
    pub async fn release(
        &self,
        prefix: impl Into<Bytes>,
        id: &str,
        token: LockToken,
    ) -> Result<ReleaseOutcome> {
        let (name, place) = self.place(prefix.into(), id)?;
        let released = place.release(token, place.table.deadline()).await;
        released.map_err(|error| place.blame(&name, error))
    }

    /// The table.
    #[must_use]
    pub fn table(&self) -> &PartitionedTable {
        &self.table
    }

    fn place(&self, prefix: Bytes, id: &str) -> Result<(String, Place)> {
        let shown = BytesBinary(&prefix).to_string();
        let row = self.table.reserved_row(prefix, "lock", LOCK, id)?;
        let place = Place {
            cells_live: self.party.cells_live,
            table: self.table.table().clone(),
            rows: LockRows::in_partition(row),
        };
        Ok((format!("{shown}{SEPARATOR}{id}"), place))
    }
}

impl fmt::Debug for PartitionLocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PartitionLocks")
            .field("table", self.table.name())
            .field("holder", &self.party.holder)
            .finish_non_exhaustive()
    }
}
