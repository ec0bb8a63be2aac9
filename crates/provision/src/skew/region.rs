//! The measures of one region.

use bytes::Bytes;
use hbase_client::Row;
use hbase_txn::{ClientErrorKind, Error, PartitionRule, Result};

use super::{
    boundaries::Boundaries,
    partitions::{Partitions, Scale, Tally},
    report::Amount,
};

/// The bytes of a cell in addition to row, family, qualifier and value: lengths, timestamp and type
/// (HBase's `KeyValue`).
const CELL: u64 = 20;

/// The rows of a region so far.
#[derive(Debug)]
pub(super) struct RegionMeasure {
    rule: PartitionRule,
    scale: Scale,
    region: usize,
    pub(super) users: Amount,
    pub(super) reserved: Amount,
    pub(super) squares: f64,
    pub(super) partitions: u64,
    pub(super) boundaries: Boundaries,
    /// The first partition, once the second has begun: the region before may have rows of it.
    pub(super) first: Option<Tally>,
    /// The partitions between the first and the last.
    pub(super) inner: Partitions,
    /// The partition of the last row.
    pub(super) last: Option<Tally>,
}

impl RegionMeasure {
    /// Creates the measure of the region with this index in the table.
    pub(super) fn new(rule: PartitionRule, scale: Scale, region: usize, largest: usize) -> Self {
        Self {
            rule,
            scale,
            region,
            users: Amount::default(),
            reserved: Amount::default(),
            squares: 0.0,
            partitions: 0,
            boundaries: Boundaries::default(),
            first: None,
            inner: Partitions::new(largest),
            last: None,
        }
    }

    /// Adds the next row, which has the lengths of values instead of the values.
    pub(super) fn add(&mut self, row: &Row) -> Result<()> {
        let bytes = size(row)?;
        self.add_row(row.key(), bytes);
        Ok(())
    }

    fn add_row(&mut self, key: &Bytes, bytes: u64) {
        let mut tally = match self.last.take() {
            Some(tally) if tally.partition.contains(key) => tally,
            before => self.begin(key, before),
        };
        let reserved = tally.partition.reserves(key);
        tally.add_row(bytes, reserved);
        self.last = Some(tally);
        if reserved {
            self.reserved.add_row(bytes);
        } else {
            self.users.add_row(bytes);
        }
        self.squares += (bytes as f64).powi(2);
    }

    /// Begins the partition of this row.
    fn begin(&mut self, key: &Bytes, before: Option<Tally>) -> Tally {
        // A copy, so that the response frame can be freed.
        let partition = self.rule.partition_of(Bytes::copy_from_slice(key));
        if let Some(before) = before {
            let at = self.users.bytes + self.reserved.bytes;
            self.boundaries.push(partition.first_key(), at);
            match self.first {
                None => self.first = Some(before),
                Some(_) => self.inner.add(before, self.scale),
            }
        }
        self.partitions += 1;
        Tally::new(partition, self.region)
    }
}

/// Returns the bytes of a row that has the lengths of values instead of the values.
fn size(row: &Row) -> Result<u64> {
    let mut bytes = 0;
    for cell in row.cells() {
        let Some(length) = cell.value.first_chunk().map(|length| u32::from_be_bytes(*length)) else {
            return Err(Error::new(
                ClientErrorKind::Protocol,
                format!("a value came as {} bytes, not as its length", cell.value.len()),
            ));
        };
        let names = cell.row.len() + cell.family.len() + cell.qualifier.len();
        bytes += CELL + names as u64 + u64::from(length);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measure(rows: &[(&'static [u8], u64)]) -> RegionMeasure {
        let rule = PartitionRule::delimiter("/").unwrap();
        let mut measure = RegionMeasure::new(rule, Scale::new(1.0), 0, 10);
        for (key, bytes) in rows {
            measure.add_row(&Bytes::from_static(key), *bytes);
        }
        measure
    }

    #[test]
    fn the_first_and_the_last_partition_stay_open() {
        let measure = measure(&[
            (b"a/1", 1),
            (b"a/2", 2),
            (b"alone", 4),
            (b"b/1", 8),
            (b"b/2", 16),
            (b"c/1", 32),
        ]);
        let open = |tally: Option<Tally>| tally.map(|tally| (tally.partition.to_string(), tally.users.bytes));
        assert_eq!(open(measure.first), Some(("a".to_owned(), 3)));
        assert_eq!(open(measure.last), Some(("c".to_owned(), 32)));
        assert_eq!((measure.partitions, measure.inner.count()), (4, 2));
        assert_eq!(measure.users, Amount { rows: 6, bytes: 63 });
        assert_eq!(measure.boundaries.some(9), [3, 7, 31]);
    }

    #[test]
    fn the_toolkits_own_rows_are_told_apart() {
        let measure = measure(&[(b"a/1", 1), (b"a/\xff_txn\xffrecord", 64)]);
        assert_eq!(measure.users, Amount { rows: 1, bytes: 1 });
        assert_eq!(measure.reserved, Amount { rows: 1, bytes: 64 });
        assert_eq!(measure.partitions, 1);
    }
}
