//! Latches next to the data of a partition, which transactions can count down.

use std::{fmt, sync::Arc};

use hbase_client::{BytesBinary, IntoBytes};

use super::{handle::Latch, layout::Cells, shared::Shared, table::Families};
use crate::{error::Result, txn::PartitionedTable};

/// The first byte of a latch's name among the reserved rows of a partition.
const LATCH: u8 = b'c';
/// Separates prefix and id in the displayed name of a latch.
const SEPARATOR: char = '#';

/// Latches in the partitions of a table, each in the partition of its data.
///
/// They are created, counted, waited for and deleted like other latches. Because a latch is stored
/// with the data, a transaction can [count it down](crate::Transaction::count_down), or
/// [arrive](crate::Transaction::arrive) at it, together with the data: a client that finds the
/// latch reached also finds all results written.
///
/// These latches have no farms and no levels, and Java clients of the latch library do not see
/// them.
///
/// Cheap to clone; clones share everything. Create one per process and table.
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use hbase_txn::{Outcome, client::Put, latch::PartitionLatches};
///
/// # hbase_fake::FakeHBase::run(async |hbase| {
/// # hbase.create_partitioned_table("orders", &["f", "_lock"], 3);
/// # let orders = hbase_txn::PartitionedTable::open(&hbase.connect().await?, "orders").await?;
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
/// # assert!(outcome.is_committed());
/// match outcome {
///     Outcome::Rejected(rejection) => println!("the latch is over: {rejection}"),
///     other => println!("{other}"),
/// }
/// # Ok(()) });
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
    /// Returns [`FamilyNotFound`](crate::ClientErrorKind::FamilyNotFound) if the table does not
    /// have the family, and the errors of reading the table's descriptor.
    pub async fn open(table: &PartitionedTable) -> Result<Self> {
        let family = table.lock_family("latches").await?;
        let expiring = table.own_table().clone().with_expiry();
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

    /// Returns the latch with this id in the partition of a bare prefix. Sends nothing; the latch
    /// need not exist.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidInput`](crate::ClientErrorKind::InvalidInput) if the prefix is invalid
    /// under the table's rule, or if the id is empty or too long for a row.
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
