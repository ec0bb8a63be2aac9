//! What is told of a table.

use bytes::Bytes;

use crate::{
    client::RegionLoad,
    model::{Partition, RegionInfo, ServerName, TableName},
};

/// How a table's rows are spread over its partitions and regions.
///
/// A row's bytes are those of its cells as HBase keeps them: row, family, qualifier, value and 20 more of each cell, all
/// versions that the families keep. Compression, encodings, indexes, tags and what is deleted and not yet compacted away
/// are not in it, so it is not what the files take on disk.
///
/// No row is counted twice, but this is no snapshot: rows that are written meanwhile may be in it or not.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SkewReport {
    /// The table.
    pub table: TableName,
    /// Which part of the rows was read. Below 1 every figure of rows and bytes is an estimate.
    pub fraction: f64,
    /// Rows of users.
    pub users: Amount,
    /// Rows that the toolkit keeps for itself beside them: records of transactions, versions, locks.
    pub reserved: Amount,
    /// By how much the bytes of `users` and `reserved` together are off, 19 times of 20; 0 where all rows were read.
    pub margin_bytes: u64,
    /// Partitions that have rows. Of a sample: those that a row was seen of, which is less than there are.
    pub partitions: u64,
    /// The regions, in order, as they were when the reading began.
    pub regions: Vec<RegionSkew>,
    /// The largest partitions, the largest first.
    pub largest: Vec<PartitionSize>,
    /// How many partitions there are of which size, the smallest first, without gaps.
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

/// A region, and what it has.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RegionSkew {
    /// The region.
    pub region: RegionInfo,
    /// The server that had it when the reading began.
    pub server: Option<ServerName>,
    /// What that server last said of it: files, memory, requests. None of a region that was opened just now.
    pub load: Option<RegionLoad>,
    /// Rows of users.
    pub users: Amount,
    /// The toolkit's own rows.
    pub reserved: Amount,
    /// Partitions that have rows in it.
    pub partitions: u64,
    /// Where its partitions begin, in bytes from its beginning, without the first: all of them, or 64 far apart.
    pub boundaries: Vec<u64>,
    /// What HBase would do, were it to split the region now.
    pub next_split: NextSplit,
    /// The boundary of partitions that is nearest to the middle: the best place to split at by hand. None where there
    /// is one partition, or no row.
    pub best_split: Option<SplitPoint>,
}

/// What HBase would do, were it to split a region by itself: it takes the row in the middle, and goes back to where that
/// row's partition begins. Here the middle is that of all rows; HBase takes that of its largest file, and may therefore come
/// out elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NextSplit {
    /// No row was seen.
    NoRows,
    /// It can't: there is only one partition.
    OnePartition,
    /// It can't: the middle lies in the first partition, so there is nothing to go back to. HBase fails, or makes a
    /// region without rows. By hand, there is a [place](RegionSkew::best_split).
    FirstPartition,
    /// It can.
    At(SplitPoint),
}

/// A place where a region can be split, and what both halves would have. Exact where the region has 512 partitions or
/// fewer and all rows were read; otherwise the place is right, but another may be nearer to what is looked for, by less than
/// a hundredth of the region.
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

/// What a partition has.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PartitionSize {
    /// The partition.
    pub partition: Partition,
    /// Rows of users.
    pub users: Amount,
    /// The toolkit's own rows.
    pub reserved: Amount,
    /// By how much [`total_bytes`](Self::total_bytes) is off, 19 times of 20; 0 where all rows were read. Not to be relied
    /// on where fewer than some 30 rows were.
    pub margin_bytes: u64,
    /// The place in [`SkewReport::regions`] of the region that its first row is in.
    pub region: usize,
    /// Whether a boundary of regions cuts it.
    pub cut: bool,
}

/// How many partitions there are of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SizeBucket {
    /// The fewest bytes that one of them can have.
    pub from: u64,
    /// The fewest bytes that one can't have any more: four times as much.
    pub to: u64,
    /// How many there are.
    pub partitions: u64,
    /// What they have together.
    pub bytes: u64,
}

/// How far the reading has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SkewProgress {
    /// Regions that were read to their end.
    pub regions_done: usize,
    /// All regions.
    pub regions: usize,
    /// Rows that were seen.
    pub rows: u64,
}

impl SkewReport {
    /// Whether only a sample of the rows was read.
    #[must_use]
    pub fn is_sampled(&self) -> bool {
        self.fraction < 1.0
    }

    /// The bytes of all rows, the toolkit's own too.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.users.bytes + self.reserved.bytes
    }
}

impl RegionSkew {
    /// The bytes of all rows, the toolkit's own too.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.users.bytes + self.reserved.bytes
    }
}

impl PartitionSize {
    /// The bytes of all rows, the toolkit's own too.
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
