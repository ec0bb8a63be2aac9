//! What an update's closure reads and changes. No I/O.

use std::{
    collections::{BTreeSet, HashSet},
    fmt,
    sync::Arc,
};

use bytes::Bytes;
use tokio::time::Instant;

use super::UpdateOptions;
use crate::{
    error::{Error, ErrorKind, Result},
    model::{
        Append, Cell, Condition, Delete, Increment, Mutation, Partition, Put, Row, TableDescriptor, TableName,
    },
    txn::{
        part::Part,
        partition_version,
        plan::{Group, Terms},
        snapshot::Snapshot,
    },
};

/// How many different ranges one update may read.
const MAX_RANGES: usize = 1_000;

/// A partition as it was at one moment, and the changes that depend on it. Handed to the closure of
/// [`PartitionedTable::update`](crate::PartitionedTable::update).
///
/// What is read is remembered: the changes are applied only if it is still so. All reads show the same moment, and never
/// the changes that are added here. Every call fails once the update's time is over, so that a closure ends by `?`.
pub struct UpdateView<'a> {
    snapshot: &'a Snapshot,
    table: &'a TableName,
    terms: &'a Terms,
    max_conditions: usize,
    /// Whether the version of the partition stands for what is read.
    versioned: bool,
    deadline: Instant,
    group: Group,
    /// The cells that were read, and have conditions.
    tracked: HashSet<(Bytes, Bytes, Bytes)>,
    whole_rows: BTreeSet<Bytes>,
    /// Ranges that were read; an empty end is the partition's.
    ranges: Vec<(Bytes, Bytes)>,
    has_read: bool,
    /// The labels of the conditions that reads became.
    labels_of_reads: HashSet<String>,
    /// The labels of the conditions that the closure added.
    conditions_of_caller: HashSet<String>,
}

/// What is to be sent.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) group: Group,
    /// The labels of conditions that say nothing of what was read.
    pub(super) conditions_of_caller: HashSet<String>,
}

impl<'a> UpdateView<'a> {
    pub(super) fn new(
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
            ranges: Vec::new(),
            has_read: false,
            labels_of_reads: HashSet::new(),
            conditions_of_caller: HashSet::new(),
        }
    }

    /// The partition.
    #[must_use]
    pub fn partition(&self) -> &Partition {
        &self.group.partition
    }

    /// Reads the value of a cell; none when it is absent, or empty, which counts as absent.
    ///
    /// # Errors
    ///
    /// As [`cell`](Self::cell).
    pub fn value(
        &mut self,
        row: impl AsRef<[u8]>,
        family: impl AsRef<[u8]>,
        qualifier: impl AsRef<[u8]>,
    ) -> Result<Option<&'a Bytes>> {
        let cell = self.cell(row, family, qualifier)?;
        Ok(cell.map(|cell| &cell.value))
    }

    /// Reads a cell; none when it is absent, or has an empty value, which counts as absent. Its value is what must be the
    /// same when the changes are applied; its timestamp may be another.
    ///
    /// # Errors
    ///
    /// - [`OtherPartition`](ErrorKind::OtherPartition) and [`FamilyNotFound`](ErrorKind::FamilyNotFound);
    /// - [`LimitExceeded`](ErrorKind::LimitExceeded) beyond the [most
    ///   conditions](UpdateOptions::max_conditions) of an update;
    /// - [`DeadlineExceeded`](ErrorKind::DeadlineExceeded) once the operation timeout is over.
    pub fn cell(
        &mut self,
        row: impl AsRef<[u8]>,
        family: impl AsRef<[u8]>,
        qualifier: impl AsRef<[u8]>,
    ) -> Result<Option<&'a Cell>> {
        let (row, family, qualifier) = (row.as_ref(), family.as_ref(), qualifier.as_ref());
        self.begin_read()?;
        self.track(row, family, qualifier)?;
        let cell = self.snapshot.cell(row, family, qualifier);
        Ok(cell.filter(|cell| !cell.value.is_empty()))
    }

    /// Reads a row; none when it is not there.
    ///
    /// All of its cells must have the same values when the changes are applied, and those that the closure writes in
    /// this row must be there or absent as they were read. Other columns that are added to the row meanwhile are
    /// noticed only on a table with [versions of partitions](crate::TableDescriptor::with_partition_version).
    ///
    /// # Errors
    ///
    /// As [`cell`](Self::cell).
    pub fn row(&mut self, key: impl AsRef<[u8]>) -> Result<Option<&'a Row>> {
        let key = key.as_ref();
        self.begin_read()?;
        self.group.check_row(key, self.terms)?;
        let row = self.snapshot.row(key);
        if self.whole_rows.contains(key) {
            return Ok(row);
        }
        self.track_rows(row)?;
        // Rows that are not there make no conditions, which would be counted; so the rows are.
        if self.whole_rows.len() < self.max_conditions {
            self.whole_rows.insert(Bytes::copy_from_slice(key));
        } else if !self.versioned {
            return Err(self.too_many("rows"));
        }
        Ok(row)
    }

    /// Reads the rows from `start` to before `stop`; an empty bound is the end of the partition on that side.
    ///
    /// The rows are treated as by [`row`](Self::row). Rows that are added to the range meanwhile are noticed only on a table
    /// with [versions of partitions](crate::TableDescriptor::with_partition_version).
    ///
    /// # Errors
    ///
    /// As [`cell`](Self::cell).
    pub fn rows(&mut self, start: impl AsRef<[u8]>, stop: impl AsRef<[u8]>) -> Result<&'a [Row]> {
        self.begin_read()?;
        let range = [start.as_ref(), stop.as_ref()].map(Bytes::copy_from_slice);
        let rows = self.snapshot.range(&range[0], &range[1]);
        let [start, stop] = range;
        if !self.ranges.contains(&(start.clone(), stop.clone())) {
            self.track_rows(rows)?;
            if self.ranges.len() >= MAX_RANGES {
                return Err(Error::new(
                    ErrorKind::LimitExceeded,
                    format!("an update that reads more than {MAX_RANGES} different ranges"),
                ));
            }
            self.ranges.push((start, stop));
        }
        Ok(rows)
    }

    /// Adds a put.
    ///
    /// # Errors
    ///
    /// As [`add`](Self::add).
    pub fn put(&mut self, put: Put) -> Result<&mut Self> {
        self.add(put)
    }

    /// Adds a delete.
    ///
    /// # Errors
    ///
    /// As [`add`](Self::add).
    pub fn delete(&mut self, delete: Delete) -> Result<&mut Self> {
        self.add(delete)
    }

    /// Adds an increment.
    ///
    /// # Errors
    ///
    /// As [`add`](Self::add).
    pub fn increment(&mut self, increment: Increment) -> Result<&mut Self> {
        self.add(increment)
    }

    /// Adds an append.
    ///
    /// # Errors
    ///
    /// As [`add`](Self::add).
    pub fn append(&mut self, append: Append) -> Result<&mut Self> {
        self.add(append)
    }

    /// Adds a mutation.
    ///
    /// # Errors
    ///
    /// As [`Transaction::add`](crate::Transaction::add); [`LimitExceeded`](ErrorKind::LimitExceeded) beyond the most
    /// mutations of a transaction; [`DeadlineExceeded`](ErrorKind::DeadlineExceeded) once the operation timeout is over.
    pub fn add(&mut self, mutation: impl Into<Mutation>) -> Result<&mut Self> {
        self.check_time()?;
        if self.group.mutations.len() >= self.terms.max_mutations {
            return Err(Error::new(
                ErrorKind::LimitExceeded,
                format!("an update of more than {} mutations", self.terms.max_mutations),
            )
            .with_hint("open the table with a higher max_mutations"));
        }
        self.group.add(mutation.into(), self.terms)?;
        Ok(self)
    }

    /// Adds a condition on something that the closure does not read. If it does not hold, and all that was read is still
    /// so, the update ends with [`ConditionNotMet`](ErrorKind::ConditionNotMet).
    ///
    /// # Errors
    ///
    /// As [`Transaction::condition`](crate::Transaction::condition), and as [`add`](Self::add) beyond the bounds.
    pub fn condition(&mut self, condition: Condition) -> Result<&mut Self> {
        self.check_time()?;
        if self.group.conditions.len() >= self.terms.max_conditions {
            return Err(Error::new(
                ErrorKind::LimitExceeded,
                format!("an update of more than {} conditions", self.terms.max_conditions),
            )
            .with_hint("open the table with a higher max_conditions"));
        }
        let label = condition.label_text().into_owned();
        self.group.require(condition, self.terms)?;
        self.conditions_of_caller.insert(label);
        Ok(self)
    }

    pub(crate) fn table(&self) -> &TableName {
        self.table
    }

    /// Adds a part of a layer above, which says nothing of what was read.
    pub(crate) fn add_part(&mut self, part: Arc<dyn Part>) -> Result<()> {
        self.check_time()?;
        let label = part.condition().label_text().into_owned();
        self.group.add_part(part, self.terms)?;
        self.conditions_of_caller.insert(label);
        Ok(())
    }

    /// What is to be sent; none when the closure only read.
    pub(super) fn finish(mut self) -> Result<Option<Change>> {
        if self.group.mutations.is_empty() && self.conditions_of_caller.is_empty() {
            return Ok(None);
        }
        for (row, family, qualifier) in self.written_where_all_was_read() {
            self.track(&row, &family, &qualifier)?;
        }
        if self.versioned
            && self.has_read
            && let Some(row) = partition_version::row(self.partition())
        {
            let (family, qualifier) = (TableDescriptor::VERSION_FAMILY, partition_version::QUALIFIER);
            let condition = match self.snapshot.version() {
                Some(cell) if !cell.value.is_empty() => {
                    Condition::equal(row, family, qualifier, cell.value.clone())
                }
                _ => Condition::absent(row, family, qualifier),
            };
            let label = format!("partition {} unchanged", self.partition());
            self.group.conditions.push(condition.label(label));
        }
        // One that says the same as a read, under the same label, does not hold because what was read has changed.
        self.conditions_of_caller
            .retain(|label| !self.labels_of_reads.contains(label));
        Ok(Some(Change {
            group: self.group,
            conditions_of_caller: self.conditions_of_caller,
        }))
    }

    fn begin_read(&mut self) -> Result<()> {
        self.check_time()?;
        self.has_read = true;
        Ok(())
    }

    fn check_time(&self) -> Result<()> {
        match Instant::now() < self.deadline {
            true => Ok(()),
            false => Err(Error::new(
                ErrorKind::DeadlineExceeded,
                "the time was over before the update had computed its changes",
            )),
        }
    }

    fn track_rows(&mut self, rows: impl IntoIterator<Item = &'a Row>) -> Result<()> {
        for cell in rows.into_iter().flat_map(Row::cells) {
            self.track(&cell.row, &cell.family, &cell.qualifier)?;
        }
        Ok(())
    }

    /// Makes a condition of a cell: that it is as the snapshot shows it.
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
            let label = condition.label_text().into_owned();
            self.group.require(condition, self.terms)?;
            self.labels_of_reads.insert(label);
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
            ErrorKind::LimitExceeded,
            format!(
                "an update that depends on more than {} {what}",
                self.max_conditions
            ),
        )
        .with_hint("raise max_conditions, or give the table versions of partitions")
    }

    /// The columns that are written in rows that were read whole. Others may have put them there meanwhile.
    fn written_where_all_was_read(&self) -> Vec<(Bytes, Bytes, Bytes)> {
        let was_read = |row: &Bytes| {
            self.whole_rows.contains(row)
                || self
                    .ranges
                    .iter()
                    .any(|(start, stop)| start <= row && (stop.is_empty() || row < stop))
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
                    .cells
                    .iter()
                    .for_each(|cell| add(&cell.family, &cell.qualifier)),
                Mutation::Append(append) => {
                    append
                        .cells
                        .iter()
                        .for_each(|cell| add(&cell.family, &cell.qualifier));
                }
                Mutation::Increment(increment) => {
                    increment
                        .columns
                        .iter()
                        .for_each(|cell| add(&cell.family, &cell.qualifier));
                }
                _ => {}
            }
        }
        columns
    }
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
