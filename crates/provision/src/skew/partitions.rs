//! Partitions that were read completely: the largest, and the number of each size.

use std::{
    cmp::{Ordering, Reverse},
    collections::BinaryHeap,
};

use hbase_txn::Partition;

use super::report::{Amount, PartitionSize, SizeBucket};

/// The number of buckets; each holds partitions four times as large as the previous one.
const BUCKETS: usize = 32;

/// The rows of a partition so far.
#[derive(Debug)]
pub(super) struct Tally {
    pub(super) partition: Partition,
    pub(super) users: Amount,
    pub(super) reserved: Amount,
    /// The sum of the squares of its rows' bytes, for the margin of error of a sample.
    pub(super) squares: f64,
    pub(super) region: usize,
    pub(super) cut: bool,
}

/// Extrapolates a sample to all rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    fraction: f64,
}

/// Partitions that were read completely.
#[derive(Debug)]
pub(super) struct Partitions {
    /// The smallest is on top, to be replaced first.
    largest: BinaryHeap<Reverse<BySize>>,
    most: usize,
    histogram: [(u64, u64); BUCKETS],
}

/// Orders by size; of two equal sizes the first partition is the greater.
#[derive(Debug)]
struct BySize(PartitionSize);

impl Tally {
    pub(super) fn new(partition: Partition, region: usize) -> Self {
        Self {
            partition,
            users: Amount::default(),
            reserved: Amount::default(),
            squares: 0.0,
            region,
            cut: false,
        }
    }

    pub(super) fn add_row(&mut self, bytes: u64, reserved: bool) {
        if reserved {
            self.reserved.add_row(bytes);
        } else {
            self.users.add_row(bytes);
        }
        self.squares += (bytes as f64).powi(2);
    }

    /// Adds the rows that the next region has of the same partition.
    pub(super) fn go_on(&mut self, behind: &Self) {
        self.users.add(behind.users);
        self.reserved.add(behind.reserved);
        self.squares += behind.squares;
        self.cut = true;
    }

    fn size(self, scale: Scale) -> PartitionSize {
        PartitionSize {
            users: scale.amount(self.users),
            reserved: scale.amount(self.reserved),
            margin_bytes: scale.margin(self.squares),
            partition: self.partition,
            region: self.region,
            cut: self.cut,
        }
    }
}

impl Scale {
    pub(super) const fn new(fraction: f64) -> Self {
        Self { fraction }
    }

    pub(super) fn number(self, seen: u64) -> u64 {
        if self.fraction < 1.0 {
            (seen as f64 / self.fraction).round() as u64
        } else {
            seen
        }
    }

    pub(super) fn amount(self, seen: Amount) -> Amount {
        Amount {
            rows: self.number(seen.rows),
            bytes: self.number(seen.bytes),
        }
    }

    /// Returns two standard deviations of the sum over rows that were each sampled with the same
    /// probability (Horvitz-Thompson estimator, computed from the sampled rows).
    pub(super) fn margin(self, squares: f64) -> u64 {
        (2.0 * ((1.0 - self.fraction) * squares).sqrt() / self.fraction).round() as u64
    }
}

impl Partitions {
    /// Creates an empty set that keeps the `most` largest partitions.
    pub(super) fn new(most: usize) -> Self {
        Self {
            largest: BinaryHeap::new(),
            most,
            histogram: [(0, 0); BUCKETS],
        }
    }

    pub(super) fn add(&mut self, tally: Tally, scale: Scale) {
        let size = tally.size(scale);
        let bytes = size.total_bytes();
        let (partitions, together) = &mut self.histogram[bucket(bytes)];
        *partitions += 1;
        *together += bytes;
        self.keep(BySize(size));
    }

    pub(super) fn merge(&mut self, others: Self) {
        for (mine, theirs) in self.histogram.iter_mut().zip(others.histogram) {
            mine.0 += theirs.0;
            mine.1 += theirs.1;
        }
        for Reverse(size) in others.largest {
            self.keep(size);
        }
    }

    fn keep(&mut self, size: BySize) {
        if self.largest.len() < self.most {
            self.largest.push(Reverse(size));
        } else if let Some(mut smallest) = self.largest.peek_mut()
            && smallest.0 < size
        {
            *smallest = Reverse(size);
        }
    }

    pub(super) fn count(&self) -> u64 {
        self.histogram.iter().map(|(partitions, _)| partitions).sum()
    }

    /// Returns the buckets from the smallest to the largest size that occurs.
    pub(super) fn histogram(&self) -> Vec<SizeBucket> {
        let filled = |(partitions, _): &(u64, u64)| *partitions > 0;
        let first = self.histogram.iter().position(filled);
        let last = self.histogram.iter().rposition(filled);
        let (Some(first), Some(last)) = (first, last) else {
            return Vec::new();
        };
        let buckets = (first..=last).map(|at| SizeBucket {
            from: 1 << (2 * at),
            to: 1_u64.checked_shl(2 * at as u32 + 2).unwrap_or(u64::MAX),
            partitions: self.histogram[at].0,
            bytes: self.histogram[at].1,
        });
        buckets.collect()
    }

    /// Returns the largest partitions, the largest first.
    pub(super) fn into_largest(self) -> Vec<PartitionSize> {
        let sorted = self.largest.into_sorted_vec().into_iter();
        sorted.map(|Reverse(BySize(size))| size).collect()
    }
}

/// Returns the bucket of a partition. A partition has at least one row, and so at least one byte.
fn bucket(bytes: u64) -> usize {
    bytes.max(1).ilog(4) as usize
}

impl Ord for BySize {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_size = self.0.total_bytes().cmp(&other.0.total_bytes());
        by_size.then_with(|| other.0.partition.cmp(&self.0.partition))
    }
}

impl PartialOrd for BySize {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for BySize {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for BySize {}

#[cfg(test)]
mod tests {
    use super::*;
    use hbase_txn::PartitionRule;

    const ALL: Scale = Scale::new(1.0);

    fn tally(prefix: &'static str, rows: &[u64]) -> Tally {
        let rule = PartitionRule::prefix_length(1).unwrap();
        let mut tally = Tally::new(rule.partition(prefix).unwrap(), 0);
        for bytes in rows {
            tally.add_row(*bytes, false);
        }
        tally
    }

    fn text(partitions: Partitions) -> String {
        let text = |size: PartitionSize| format!("{}={}", size.partition, size.total_bytes());
        let largest: Vec<_> = partitions.into_largest().into_iter().map(text).collect();
        largest.join(" ")
    }

    #[test]
    fn largest_are_kept_and_the_first_among_equals() {
        let mut partitions = Partitions::new(3);
        for (prefix, bytes) in [("a", 5), ("b", 9), ("c", 5), ("d", 7), ("e", 5)] {
            partitions.add(tally(prefix, &[bytes]), ALL);
        }
        let mut others = Partitions::new(3);
        others.add(tally("f", &[1, 7]), ALL);
        partitions.merge(others);
        assert_eq!(partitions.count(), 6);
        assert_eq!(text(partitions), "b=9 f=8 d=7");
    }

    #[test]
    fn the_histogram_has_no_gaps_and_everything_in_it() {
        let mut partitions = Partitions::new(0);
        assert!(partitions.histogram().is_empty());
        for bytes in [4, 15, 16, 300] {
            partitions.add(tally("a", &[bytes]), ALL);
        }
        let buckets = partitions.histogram().into_iter();
        let seen: Vec<_> = buckets.map(|b| (b.from, b.to, b.partitions, b.bytes)).collect();
        assert_eq!(
            seen,
            [
                (4, 16, 2, 19),
                (16, 64, 1, 16),
                (64, 256, 0, 0),
                (256, 1024, 1, 300)
            ]
        );
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn a_sample_stands_for_more_and_says_how_far_it_is_off() {
        let scale = Scale::new(0.25);
        let size = tally("a", &[10, 10]).size(scale);
        assert_eq!(size.users, Amount { rows: 8, bytes: 80 });
        // 2 * sqrt(0.75 * (100 + 100)) / 0.25
        assert_eq!(size.margin_bytes, 98);
        assert_eq!(tally("a", &[10, 10]).size(ALL).margin_bytes, 0);
    }
}
