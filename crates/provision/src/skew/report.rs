//! The report on a table.

use bytes::Bytes;
use hbase_client::{Partition, RegionInfo, RegionLoad, ServerName, TableName};

/// How a table's rows are spread over its partitions and regions.
///
/// A row's bytes are those of its cells as HBase keeps them: row, family, qualifier, value and 20
/// more of each cell, all versions that the families keep. Compression, encodings, indexes, tags
/// and what is deleted and not yet compacted away are not in it, so it is not what the files take
/// on disk.
///
/// No row is counted twice, but this is no snapshot: rows that are written meanwhile may be in it
/// or not.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SkewReport {
    /// The table.
    pub table: TableName,
    /// The fraction of the rows that was read. Below 1 every figure of rows and bytes is an
    /// estimate.
    pub fraction: f64,
    /// Rows of users.
    pub users: Amount,
    /// Rows that the toolkit keeps for itself beside them: records of transactions, versions,
    /// locks.
    pub reserved: Amount,
    /// The margin of error of the bytes of `users` and `reserved` together, at 95 %; 0 if
    /// all rows were read.
    pub margin_bytes: u64,
    /// Partitions that have rows. Of a sample: those that a row was seen of, which is less than
    /// there are.
    pub partitions: u64,
    /// The regions, in order, as they were when the reading began.
    pub regions: Vec<RegionSkew>,
    /// The largest partitions, the largest first.
    pub largest: Vec<PartitionSize>,
    /// The number of partitions of each size, the smallest size first, without gaps.
    pub histogram: Vec<SizeBucket>,
}

/// Rows, and the bytes of their cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// Rows.
    pub rows: u64,
    /// Bytes, as [`SkewReport`] counts them.
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
    /// The last report of that server on it: files, memory, requests. `None` if the region was just
    /// opened.
    pub load: Option<RegionLoad>,
    /// Rows of users.
    pub users: Amount,
    /// The toolkit's own rows.
    pub reserved: Amount,
    /// Partitions that have rows in it.
    pub partitions: u64,
    /// The positions of its partitions, in bytes from its beginning, without the first: all of
    /// them, or 64 far apart.
    pub boundaries: Vec<u64>,
    /// The result if HBase split the region now.
    pub next_split: NextSplit,
    /// The boundary of partitions nearest to the middle: the best place for a manual split. `None`
    /// with one partition, or without rows.
    pub best_split: Option<SplitPoint>,
}

/// The result of an automatic split by HBase. HBase takes the row in the middle, and goes back to
/// the beginning of that row's partition. Here the middle is that of all rows; HBase takes that of
/// its largest file, so its result may differ.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NextSplit {
    /// No row was seen.
    NoRows,
    /// HBase can't split: there is only one partition.
    OnePartition,
    /// HBase can't split: the middle is in the first partition, so there is no boundary before it.
    /// HBase fails, or creates a region without rows. A manual split has a
    /// [place](RegionSkew::best_split).
    FirstPartition,
    /// HBase can split.
    At(SplitPoint),
}

/// A place where a region can be split, and the sizes of both halves. Exact if the region has 512
/// partitions or fewer and all rows were read; otherwise the place is valid, but another may be
/// nearer to the middle, by less than a hundredth of the region.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SplitPoint {
    /// The first key of the second half.
    pub key: Bytes,
    /// The bytes of the first half.
    pub before: u64,
    /// The bytes of the second half.
    pub behind: u64,
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
    /// The index in [`SkewReport::regions`] of the region of its first row.
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
    /// One more row.
    pub(super) fn add_row(&mut self, bytes: u64) {
        self.rows += 1;
        self.bytes += bytes;
    }

    pub(super) fn add(&mut self, other: Self) {
        self.rows += other.rows;
        self.bytes += other.bytes;
    }
}
