//! The view through which an update's closure reads and changes a partition. No I/O.

use std::{
    collections::{BTreeSet, HashSet},
    fmt,
    sync::Arc,
};

use bytes::Bytes;
use hbase_client::{
    Append, BytesBinary, Cell, Condition, Delete, FromValue, Increment, Mutation, Put, Row, TableName,
    low_level::MutationParts,
};
use tokio::time::Instant;

use super::options::UpdateOptions;
use crate::{
    error::{ClientErrorKind, Error, Result},
    partition::Partition,
    txn::{
        commit::plan::{Group, other_partition},
        part::Part,
        proof::terms::Terms,
        snapshot::{Snapshot, prefix_range},
    },
};

/// The maximum number of different ranges that one update may read.
const MAX_RANGES: usize = 1_000;

/// A partition at one point in time, and the changes that depend on it. Passed to the closure of
/// [`PartitionedTable::update`](crate::PartitionedTable::update).
///
/// The view remembers every read: the changes are applied only if what was read is unchanged. All
/// reads show the same point in time, before the changes that are added here. So a row that was
/// written here can't be read any more; the attempt is an error that names the row. Read first,
/// then write. Every call fails once the operation timeout is over, so that a closure ends by `?`.
pub struct UpdateView<'a> {
    snapshot: &'a Snapshot,
    table: &'a TableName,
    terms: &'a Terms,
    max_conditions: usize,
    /// Whether the partition version guards everything that is read.
    versioned: bool,
    deadline: Instant,
    group: Group,
    /// The cells that were read and have conditions.
    tracked: HashSet<(Bytes, Bytes, Bytes)>,
    whole_rows: BTreeSet<Bytes>,
    /// The rows that the closure writes.
    written: BTreeSet<Bytes>,
    /// The rows that can be read; an empty bound means that of the partition.
    bounds: (Bytes, Bytes),
    /// The ranges that were read; an empty end means that of the partition.
    ranges: Vec<(Bytes, Bytes)>,
    has_read: bool,
    /// The positions of the conditions created from reads, in the group.
    reads: BTreeSet<usize>,
}

/// The transaction to send.
#[derive(Debug)]
pub(in crate::txn) struct Change {
    pub(in crate::txn) group: Group,
    /// The positions of the conditions that come from reads, among all of the group.
    pub(in crate::txn) reads: BTreeSet<usize>,
}

impl<'a> UpdateView<'a> {
    pub(in crate::txn) fn new(
        snapshot: &'a Snapshot,
        table: &'a TableName,
        terms: &'a Terms,
        options: &UpdateOptions,
        versioned: bool,
        deadline: Instant,
    ) -> Self {
        Self {
            snapshot,
            table,
            terms,
            max_conditions: options.max_conditions,
            versioned,
            deadline,
            group: Group::new(snapshot.partition().clone()),
            tracked: HashSet::new(),
            whole_rows: BTreeSet::new(),
            written: BTreeSet::new(),
            bounds: {
                let (start, stop) = options.snapshot.bounds();
                (start.clone(), stop.clone())
            },
            ranges: Vec::new(),
            has_read: false,
            reads: BTreeSet::new(),
        }
    }

    /// Returns the partition.
    #[must_use]
    pub fn partition(&self) -> &Partition {
        &self.group.partition
    }

    /// Reads the value of a cell as a type. Returns `None` if the cell is absent or empty.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`cell`](Self::cell) and [`Row::get`].
    pub fn get<T: FromValue<'a>>(
        &mut self,
        row: impl AsRef<[u8]>,
        family: impl AsRef<[u8]>,
        qualifier: impl AsRef<[u8]>,
    ) -> Result<Option<T>> {
        let cell = self.cell(row, family, qualifier)?;
        Ok(cell.map(Cell::decode).transpose()?)
    }

    /// Reads the bytes of the value of a cell. Returns `None` if the cell is absent or empty.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`cell`](Self::cell).
    pub fn value(
        &mut self,
        row: impl AsRef<[u8]>,
        family: impl AsRef<[u8]>,
        qualifier: impl AsRef<[u8]>,
    ) -> Result<Option<&'a Bytes>> {
        let cell = self.cell(row, family, qualifier)?;
        Ok(cell.map(|cell| &cell.value))
    }

    /// Reads a cell. Returns `None` if the cell is absent or has an empty value, which counts as
    /// absent. The value must be the same when the changes are applied; the timestamp may differ.
    ///
    /// # Errors
    ///
    /// - [`OtherPartition`](crate::ErrorKind::OtherPartition) if the row is in another partition;
    /// - [`FamilyNotFound`](ClientErrorKind::FamilyNotFound) if the table does not have the family;
    /// - [`InvalidInput`](ClientErrorKind::InvalidInput) if this update has written the row, or the
    ///   row is outside the [range](UpdateOptions::start_row) of the update;
    /// - [`LimitExceeded`](ClientErrorKind::LimitExceeded) beyond the [maximum number of
    ///   conditions](UpdateOptions::max_conditions) of an update;
    /// - [`DeadlineExceeded`](ClientErrorKind::DeadlineExceeded) once the operation timeout is
    ///   over.
    pub fn cell(
        &mut self,
        row: impl AsRef<[u8]>,
        family: impl AsRef<[u8]>,
        qualifier: impl AsRef<[u8]>,
    ) -> Result<Option<&'a Cell>> {
        let (row, family, qualifier) = (row.as_ref(), family.as_ref(), qualifier.as_ref());
        self.begin_read_of_row(row)?;
        self.track(row, family, qualifier)?;
        let cell = self.snapshot.cell(row, family, qualifier);
        Ok(cell.filter(|cell| !cell.value.is_empty()))
    }

    /// Reads a row. Returns `None` if the row does not exist.
    ///
    /// All of its cells must have the same values when the changes are applied, and the cells that
    /// the closure writes in this row must be present or absent as they were read. Other columns
    /// that are added to the row in the meantime are noticed only on a table with [partition
    /// versions](crate::TableDescriptorExt::with_partition_version).
    ///
    /// # Errors
    ///
    /// Returns the errors of [`cell`](Self::cell).
    pub fn row(&mut self, key: impl AsRef<[u8]>) -> Result<Option<&'a Row>> {
        let key = key.as_ref();
        self.begin_read_of_row(key)?;
        let row = self.snapshot.row(key);
        if self.whole_rows.contains(key) {
            return Ok(row);
        }
        self.track_rows(row)?;
        // A missing row adds no condition that could be counted, so the rows are counted.
        if self.whole_rows.len() < self.max_conditions {
            self.whole_rows.insert(Bytes::copy_from_slice(key));
        } else if !self.versioned {
            return Err(self.too_many("rows"));
        }
        Ok(row)
    }

    /// Reads the rows from `start` (inclusive) to `stop` (exclusive). An empty bound means that of
    /// the partition, or of the [range](UpdateOptions::start_row) of the update. `stop` may be the first
    /// key behind the partition.
    ///
    /// The rows are checked as by [`row`](Self::row). Rows that are added to the range in the
    /// meantime are noticed only on a table with [partition
    /// versions](crate::TableDescriptorExt::with_partition_version).
    ///
    /// # Errors
    ///
    /// Returns the errors of [`cell`](Self::cell).
    pub fn rows(&mut self, start: impl AsRef<[u8]>, stop: impl AsRef<[u8]>) -> Result<&'a [Row]> {
        self.begin_read()?;
        let (start, stop) = self.range(start.as_ref(), stop.as_ref())?;
        let rows = self.snapshot.range(&start, &stop);
        if !self.ranges.contains(&(start.clone(), stop.clone())) {
            self.track_rows(rows)?;
            if self.ranges.len() >= MAX_RANGES {
                return Err(Error::new(
                    ClientErrorKind::LimitExceeded,
                    format!("an update that reads more than {MAX_RANGES} different ranges"),
                ));
            }
            self.ranges.push((start, stop));
        }
        Ok(rows)
    }

    /// Reads the rows with a prefix, which begins with that of the partition. An empty prefix means
    /// the partition, or the [range](UpdateOptions::start_row) of the update.
    ///
    /// The rows are checked as those of [`rows`](Self::rows).
    ///
    /// # Errors
    ///
    /// Returns the errors of [`cell`](Self::cell).
    pub fn rows_with_prefix(&mut self, prefix: impl AsRef<[u8]>) -> Result<&'a [Row]> {
        let (start, stop) = prefix_range(prefix.as_ref());
        self.rows(start, stop)
    }

    /// Adds a put.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`add`](Self::add).
    pub fn put(&mut self, put: Put) -> Result<&mut Self> {
        self.add(put)
    }

    /// Adds a delete.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`add`](Self::add).
    pub fn delete(&mut self, delete: Delete) -> Result<&mut Self> {
        self.add(delete)
    }

    /// Adds an increment.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`add`](Self::add).
    pub fn increment(&mut self, increment: Increment) -> Result<&mut Self> {
        self.add(increment)
    }

    /// Adds an append.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`add`](Self::add).
    pub fn append(&mut self, append: Append) -> Result<&mut Self> {
        self.add(append)
    }

    /// Adds a mutation.
    ///
    /// # Errors
    ///
    /// - the errors of [`Transaction::try_add`](crate::Transaction::try_add);
    /// - [`LimitExceeded`](ClientErrorKind::LimitExceeded) beyond the maximum number of mutations
    ///   of a transaction;
    /// - [`DeadlineExceeded`](ClientErrorKind::DeadlineExceeded) once the operation timeout is
    ///   over.
    pub fn add(&mut self, mutation: impl Into<Mutation>) -> Result<&mut Self> {
        self.check_time()?;
        if self.group.mutations.len() >= self.terms.max_mutations {
            return Err(Error::new(
                ClientErrorKind::LimitExceeded,
                format!("an update of more than {} mutations", self.terms.max_mutations),
            )
            .with_hint("open the table with a higher max_mutations"));
        }
        let mutation = mutation.into();
        let row = mutation.row().clone();
        self.group.add(mutation, self.terms)?;
        self.written.insert(row);
        Ok(self)
    }

    /// Adds a condition on data that the closure does not read. If the condition does not hold, and
    /// everything that was read is unchanged, the update ends with
    /// [`ConditionNotMet`](crate::ErrorKind::ConditionNotMet).
    ///
    /// # Errors
    ///
    /// - the errors of [`Transaction::try_add`](crate::Transaction::try_add);
    /// - [`LimitExceeded`](ClientErrorKind::LimitExceeded) beyond the maximum number of conditions
    ///   of a transaction;
    /// - [`DeadlineExceeded`](ClientErrorKind::DeadlineExceeded) once the operation timeout is
    ///   over.
    pub fn condition(&mut self, condition: Condition) -> Result<&mut Self> {
        self.check_time()?;
        if self.group.conditions.len() >= self.terms.max_conditions {
            return Err(Error::new(
                ClientErrorKind::LimitExceeded,
                format!("an update of more than {} conditions", self.terms.max_conditions),
            )
            .with_hint("open the table with a higher max_conditions"));
        }
        self.group.add(condition, self.terms)?;
        Ok(self)
    }

    pub(crate) fn table(&self) -> &TableName {
        self.table
    }

    /// Adds a part of a higher layer. Its condition counts as one of the caller, not as a read.
    pub(crate) fn add_part(&mut self, part: Arc<dyn Part>) -> Result<()> {
        self.check_time()?;
        self.group.add_part(part, self.terms)
    }

    /// Returns whether the closure only read.
    pub(in crate::txn) fn only_reads(&self) -> bool {
        self.group.mutations.is_empty() && self.group.all_conditions().count() == self.reads.len()
    }

    /// Returns the change to send.
    pub(in crate::txn) fn finish(mut self) -> Result<Change> {
        for (row, family, qualifier) in self.written_where_all_was_read() {
            self.track(&row, &family, &qualifier)?;
        }
        if self.versioned && self.has_read {
            let condition = self.snapshot.state().unchanged(self.partition())?;
            self.reads.insert(self.group.conditions.len());
            self.group.conditions.push(condition);
        }
        Ok(Change {
            group: self.group,
            reads: self.reads,
        })
    }

    fn begin_read(&mut self) -> Result<()> {
        self.check_time()?;
        self.has_read = true;
        Ok(())
    }

    fn begin_read_of_row(&mut self, row: &[u8]) -> Result<()> {
        self.begin_read()?;
        self.group.check_row(row, self.terms)?;
        if self.written.contains(row) {
            return Err(read_after_write(row));
        }
        if is_in(row, &self.bounds.0, &self.bounds.1) {
            Ok(())
        } else {
            Err(self.outside(&format_args!("row {}", BytesBinary(row))))
        }
    }

    /// Returns the bounds of a readable range, with those of the update in place of empty ones.
    fn range(&self, start: &[u8], stop: &[u8]) -> Result<(Bytes, Bytes)> {
        let (first, end) = &self.bounds;
        let partition = &self.group.partition;
        let behind = partition.key_behind();
        let is_outside =
            |bound: &[u8]| bound < &partition.first_key()[..] || (!behind.is_empty() && bound > &behind[..]);
        let mut bounds = [start, stop].into_iter().filter(|bound| !bound.is_empty());
        if let Some(bound) = bounds.find(|bound| is_outside(bound)) {
            return Err(other_partition(bound, partition, self.terms, "this update"));
        }
        let or = |bound: &[u8], default: &Bytes| match bound {
            [] => default.clone(),
            bound => Bytes::copy_from_slice(bound),
        };
        let range = (or(start, first), or(stop, end));
        let (start, stop) = &range;
        if start < first || (!end.is_empty() && stop > end) {
            return Err(self.outside(&"a range"));
        }
        match self.written.range(start.clone()..).next() {
            Some(row) if is_in(row, start, stop) => Err(read_after_write(row)),
            _ => Ok(range),
        }
    }

    fn outside(&self, what: &dyn fmt::Display) -> Error {
        let (start, stop) = &self.bounds;
        Error::invalid(format!(
            "cannot read {what} outside of the range of the update, from {} to {}",
            BytesBinary(start),
            BytesBinary(stop)
        ))
        .with_hint("give the update a larger range")
    }

    fn check_time(&self) -> Result<()> {
        if Instant::now() < self.deadline {
            Ok(())
        } else {
            Err(Error::new(
                ClientErrorKind::DeadlineExceeded,
                "the time was over before the update had computed its changes",
            ))
        }
    }

    fn track_rows(&mut self, rows: impl IntoIterator<Item = &'a Row>) -> Result<()> {
        for cell in rows.into_iter().flat_map(Row::cells) {
            self.track(&cell.row, &cell.family, &cell.qualifier)?;
        }
        Ok(())
    }

    /// Adds the condition that a cell is as the snapshot shows it.
    fn track(&mut self, row: &[u8], family: &[u8], qualifier: &[u8]) -> Result<()> {
        let key = [row, family, qualifier].map(Bytes::copy_from_slice);
        let [row, family, qualifier] = key.clone();
        let key: (Bytes, Bytes, Bytes) = key.into();
        if self.tracked.contains(&key) {
            return Ok(());
        }
        let found = self.snapshot.value(&row, &family, &qualifier);
        let condition = match found.filter(|value| !value.is_empty()) {
            Some(value) => Condition::equal(row, family, qualifier, value.clone()),
            None => Condition::absent(row, family, qualifier),
        };
        if self.tracked.len() < self.max_conditions {
            self.reads.insert(self.group.conditions.len());
            self.group.add(condition, self.terms)?;
            self.tracked.insert(key);
            return Ok(());
        }
        self.group.check_condition(&condition, self.terms)?;
        if self.versioned {
            return Ok(());
        }
        Err(self.too_many("cells"))
    }

    fn too_many(&self, what: &str) -> Error {
        Error::new(
            ClientErrorKind::LimitExceeded,
            format!(
                "an update that depends on more than {} {what}",
                self.max_conditions
            ),
        )
        .with_hint("raise max_conditions, or give the table versions of partitions")
    }

    /// Returns the columns that are written in rows that were read whole: other writers may have
    /// added them in the meantime.
    fn written_where_all_was_read(&self) -> Vec<(Bytes, Bytes, Bytes)> {
        let was_read = |row: &Bytes| {
            self.whole_rows.contains(row) || self.ranges.iter().any(|(start, stop)| is_in(row, start, stop))
        };
        let mut columns = Vec::new();
        for mutation in self
            .group
            .mutations
            .iter()
            .filter(|mutation| was_read(mutation.row()))
        {
            let mut add = |family: &Bytes, qualifier: &Bytes| {
                columns.push((mutation.row().clone(), family.clone(), qualifier.clone()));
            };
            match mutation {
                Mutation::Put(put) => put
                    .parts()
                    .iter()
                    .for_each(|cell| add(&cell.family, &cell.qualifier)),
                Mutation::Append(append) => {
                    append
                        .parts()
                        .iter()
                        .for_each(|cell| add(&cell.family, &cell.qualifier));
                }
                Mutation::Increment(increment) => {
                    increment
                        .parts()
                        .iter()
                        .for_each(|cell| add(&cell.family, &cell.qualifier));
                }
                _ => {}
            }
        }
        columns
    }
}

/// Returns whether a row is in a range; an empty `stop` means no upper bound.
fn is_in(row: &[u8], start: &Bytes, stop: &Bytes) -> bool {
    start[..] <= *row && (stop.is_empty() || *row < stop[..])
}

fn read_after_write(row: &[u8]) -> Error {
    Error::invalid(format!(
        "cannot read row {}: this update has written it, and reads show the partition as it was before",
        BytesBinary(row)
    ))
    .with_hint("read all rows before the first write to them")
}

impl fmt::Debug for UpdateView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpdateView")
            .field("partition", self.partition())
            .field("mutations", &self.group.mutations)
            .field("conditions", &self.group.conditions)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
