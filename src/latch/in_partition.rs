//! Latches that live beside the data of a partition, so that transactions can count them down.

use std::{fmt, sync::Arc};

use hbase_client::{BytesBinary, IntoBytes};

use super::{handle::Latch, layout::Cells, manager::Shared, table::Families};
use crate::{error::Result, txn::PartitionedTable};

/// Begins the name of a latch's row, among the rows that are reserved in a partition.
const LATCH: u8 = b'c';
/// Between prefix and id, in a latch's name for people.
const SEPARATOR: char = '#';

/// Latches in the partitions of a table: each in the partition of its data.
///
/// They are made, counted, waited for and deleted as others are. And as they live where the data
/// lives, a transaction can [count one down](crate::Transaction::count_down), or
/// [arrive](crate::Transaction::arrive) at it, together with the data: who is told that the latch
/// is reached finds all results written.
///
/// There are no farms and no levels here, and Java clients of the latch library know nothing of
/// these latches.
///
/// Cheap to clone; clones share everything. Make one per process and table.
///
/// # Example
///
/// ```no_run
/// # async fn example(orders: hbase_txn::PartitionedTable) -> hbase_txn::Result<()> {
/// use std::time::Duration;
/// use hbase_txn::{Outcome, Put, latch::PartitionLatches};
///
/// let latches = PartitionLatches::open(&orders).await?;
/// let parts = latches.latch("xxx", "parts")?;
/// parts.init(3, Duration::from_secs(3_600)).await?;
/// // Each worker:
/// let outcome = orders
///     .transaction("xxx")
///     .put(Put::new("xxxpart1").cell("f", "result", "42"))
///     .arrive(&parts, "worker-1")
///     .commit()
///     .await;
/// match outcome {
///     Outcome::Rejected(rejection) => println!("the latch is over: {rejection}"),
///     other => println!("{other}"),
/// }
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct PartitionLatches {
    table: PartitionedTable,
    shared: Arc<Shared>,
}

impl PartitionLatches {
    /// Opens the latches of a table, which needs the family
    /// [`_lock`](crate::TableDescriptorExt::LOCK_FAMILY).
    ///
    /// # Errors
    ///
    /// [`FamilyNotFound`](crate::ClientErrorKind::FamilyNotFound) without the family; those of
    /// reading the table's descriptor.
    pub async fn open(table: &PartitionedTable) -> Result<Self> {
        let family = table.lock_family("latches").await?;
        let expiring = table.table().clone().with_expiry();
        Ok(Self {
            table: table.clone(),
            shared: Shared::new(
                expiring,
                String::new(),
                String::new(),
                Families::in_partition(&family),
            ),
        })
    }

    /// Returns the latch of this id in the partition of a bare prefix. Sends nothing; the latch
    /// need not exist.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](crate::ClientErrorKind::InvalidInput) for what is no prefix under the
    /// table's rule, and for an id that is empty or too long for a row.
    pub fn latch(&self, prefix: impl IntoBytes, id: &str) -> Result<Latch> {
        let prefix = prefix.into_bytes();
        let key = format!("{}{SEPARATOR}{id}", BytesBinary(&prefix));
        let row = self.table.reserved_row(prefix, "latch", LATCH, id)?;
        Ok(Latch::new(
            Arc::clone(&self.shared),
            &key,
            Cells::in_partition(row),
        ))
    }

    /// Returns the table.
    #[must_use]
    pub fn table(&self) -> &PartitionedTable {
        &self.table
    }
}

impl fmt::Debug for PartitionLatches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PartitionLatches")
            .field("table", self.table.name())
            .finish_non_exhaustive()
    }
}
