//! The report on a table.

use bytes::Bytes;
use hbase_admin::RegionLoad;
use hbase_client::{RegionInfo, ServerName, TableName};
use hbase_txn::Partition;

/// The distribution of a table's rows over its partitions and regions.
///
/// The bytes of a row are those of its cells as HBase stores them: row, family, qualifier, value,
/// and 20 bytes more for each cell, in all versions that the families keep. They do not include
/// compression, encodings, indexes, tags, or deleted cells that are not yet compacted away, so the
/// size on disk differs.
///
/// No row is counted twice, but this is not a snapshot: rows that are written meanwhile may or may
/// not be included.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SkewReport {
    /// The table.
    pub table: TableName,
    /// The fraction of the rows that was read. Below 1, all numbers of rows and bytes are
    /// estimates.
    pub fraction: f64,
    /// Rows of users.
    pub users: Amount,
    /// Rows that the toolkit stores in the table: records of transactions, versions, locks.
    pub reserved: Amount,
    /// The margin of error of the bytes of `users` and `reserved` together, at 95 %; 0 if all rows
    /// were read.
    pub margin_bytes: u64,
    /// The number of partitions with rows. For a sample: with rows in the sample, so fewer than
    /// there are.
    pub partitions: u64,
    /// The regions when the reading began, in order.
    pub regions: Vec<RegionSkew>,
    /// The largest partitions, the largest first.
    pub largest: Vec<PartitionSize>,
    /// The number of partitions of each size, the smallest size first, without gaps.
    pub histogram: Vec<SizeBucket>,
}

/// Rows, and the bytes of their cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// The number of rows.
    pub rows: u64,
    /// The number of bytes, as defined in [`SkewReport`].
    pub bytes: u64,
}

/// A region and its contents.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RegionSkew {
    /// The region.
    pub region: RegionInfo,
    /// Its server when the reading began.
    pub server: Option<ServerName>,
    /// The server's last report on it: files, memory, requests. `None` if the region was just
    /// opened.
    pub load: Option<RegionLoad>,
    /// Rows of users.
    pub users: Amount,
    /// The toolkit's own rows.
    pub reserved: Amount,
    /// The number of partitions with rows in it.
    pub partitions: u64,
    /// The positions of its partitions, in bytes from the beginning of the region, without the
    /// first: all of them, or at most 64, spread over the region.
    pub boundaries: Vec<u64>,
    /// The result if HBase split the region now.
    pub next_split: NextSplit,
    /// The partition boundary nearest to the middle: the best key for a manual split. `None` if the
    /// region has only one partition or no rows.
    pub best_split: Option<SplitPoint>,
}

/// The result of an automatic split by HBase. HBase takes the row in the middle and goes back to
/// the beginning of that row's partition. Here the middle is computed from all rows; HBase uses its
/// largest file, so its result may differ.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NextSplit {
    /// No row was read.
    NoRows,
    /// HBase can't split: there is only one partition.
    OnePartition,
    /// HBase can't split: the middle is in the first partition, so there is no boundary before it.
    /// HBase fails, or creates a region without rows. For a manual split see
    /// [`best_split`](RegionSkew::best_split).
    FirstPartition,
    /// HBase can split.
    At(SplitPoint),
}

/// A key at which a region can be split, and the sizes of both halves. Exact if the region has 512
/// partitions or fewer and all rows were read. Otherwise the key is valid, but another may be
/// nearer to the middle, by less than a hundredth of the region.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SplitPoint {
    /// The first key of the second half.
    pub key: Bytes,
    /// The bytes of the first half.
    pub before: u64,
    /// The bytes of the second half.
    pub after: u64,
}

/// The size of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PartitionSize {
    /// The partition.
    pub partition: Partition,
    /// Rows of users.
    pub users: Amount,
    /// The toolkit's own rows.
    pub reserved: Amount,
    /// The margin of error of [`total_bytes`](Self::total_bytes), at 95 %; 0 if all rows were read.
    /// Unreliable if fewer than about 30 rows were read.
    pub margin_bytes: u64,
    /// The index in [`SkewReport::regions`] of the region with its first row.
    pub region: usize,
    /// Whether a region boundary splits it.
    pub cut: bool,
}

/// The partitions of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SizeBucket {
    /// The minimum size in bytes.
    pub from: u64,
    /// The upper limit in bytes, exclusive: four times the minimum.
    pub to: u64,
    /// The number of partitions.
    pub partitions: u64,
    /// Their total size.
    pub bytes: u64,
}

/// The progress of the reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SkewProgress {
    /// The number of completed regions.
    pub regions_done: usize,
    /// The number of regions.
    pub regions: usize,
    /// The number of rows so far.
    pub rows: u64,
}

impl SkewReport {
    /// Returns whether only a sample of the rows was read.
    #[must_use]
    pub fn is_sampled(&self) -> bool {
        self.fraction < 1.0
    }

    /// Returns the bytes of all rows, including those of the toolkit.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.users.bytes + self.reserved.bytes
    }
}

impl RegionSkew {
    /// Returns the bytes of all rows, including those of the toolkit.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.users.bytes + self.reserved.bytes
    }
}

impl PartitionSize {
    /// Returns the bytes of all rows, including those of the toolkit.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.users.bytes + self.reserved.bytes
    }
}

impl Amount {
    /// Adds a row.
    pub(super) fn add_row(&mut self, bytes: u64) {
        self.rows += 1;
        self.bytes += bytes;
    }

    pub(super) fn add(&mut self, other: Self) {
        self.rows += other.rows;
        self.bytes += other.bytes;
    }
}
