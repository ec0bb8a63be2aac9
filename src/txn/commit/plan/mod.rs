//! Groups of mutations, and the checks before they are sent. No I/O.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    sync::Arc,
};

use bytes::Bytes;
use hbase_client::{BytesBinary, Condition, Durability, Mutation, RegionInfo, ServerName, TableDescriptor};

use crate::{
    error::{ClientErrorKind, Error, ErrorKind, Result},
    partition::{Partition, PartitionRule},
    table_descriptor::TableDescriptorExt,
    txn::{
        operation::Operation,
        outcome::counted,
        part::Part,
        proof::terms::Terms,
        record::RecordRequest,
        reserved_rows::{TRIALS, VERSION, reserved_row},
    },
};

/// The reason why a row that belongs to the library can't be written.
pub(in crate::txn) const RESERVED_ROW: &str =
    "the row is reserved for the records of transactions, and for the locks and latches of the partition";

/// The mutations and conditions of a transaction, in the order in which they were added.
#[derive(Clone, Debug)]
pub(in crate::txn) struct Group {
    pub(in crate::txn) partition: Partition,
    pub(in crate::txn) mutations: Vec<Mutation>,
    /// The number of mutations that [`add`](Self::add) has checked, which are the first ones.
    checked: usize,
    pub(in crate::txn) conditions: Vec<Condition>,
    /// The additions of higher layers.
    pub(in crate::txn) parts: Vec<Arc<dyn Part>>,
    pub(in crate::txn) guard_timestamps: bool,
    pub(in crate::txn) record: Option<RecordRequest>,
}

impl Group {
    pub(in crate::txn) fn new(partition: Partition) -> Self {
        Self {
            partition,
            mutations: Vec::new(),
            checked: 0,
            conditions: Vec::new(),
            parts: Vec::new(),
            guard_timestamps: false,
            record: None,
        }
    }

    /// Returns the group of a redo, which was checked before it was kept, and must be applied whatever the
    /// limits of this client are.
    pub(in crate::txn) fn of_redo(partition: Partition, mutations: Vec<Mutation>) -> Self {
        Self {
            guard_timestamps: !mutations.is_empty(),
            checked: mutations.len(),
            mutations,
            ..Self::new(partition)
        }
    }

    /// Returns whether a part sets the version of the partition.
    pub(in crate::txn) fn sets_version(&self) -> bool {
        self.parts.iter().any(|part| part.sets_version())
    }

    /// Checks an operation and adds it.
    pub(in crate::txn) fn add(&mut self, operation: impl Into<Operation>, terms: &Terms) -> Result<()> {
        match operation.into() {
            Operation::Mutation(mutation) => {
                self.check_row(mutation.row(), terms)
                    .map_err(|error| mutation.in_context(error))?;
                self.check_mutation(&mutation, terms)?;
                self.mutations.push(mutation);
                self.checked = self.mutations.len();
            }
            Operation::Condition(condition) => {
                self.check_condition(&condition, terms)?;
                self.conditions.push(condition);
            }
        }
        Ok(())
    }

    /// Adds a part of a higher layer.
    pub(in crate::txn) fn add_part(&mut self, part: Arc<dyn Part>, terms: &Terms) -> Result<()> {
        let condition = part.condition().clone();
        let in_context = |error: Error| error.at_operation(condition.label_text().into_owned());
        self.check_row(condition.row(), terms).map_err(in_context)?;
        let same_row = |other: &Arc<dyn Part>| other.condition().row() == condition.row();
        if let Some(other) = self.parts.iter().find(|other| same_row(other)) {
            return Err(in_context(Error::invalid(format!(
                "the same row of a lock or latch twice in one transaction: {} is in it already",
                other.description()
            ))
            .with_hint("one of the two is enough: a release needs a held lock, and so does not fit an acquisition; count a latch down by more than one at once")));
        }
        self.parts.push(part);
        Ok(())
    }

    /// Returns all conditions, including those of parts.
    pub(in crate::txn) fn all_conditions(&self) -> impl Iterator<Item = &Condition> {
        let of_parts = self.parts.iter().map(|part| part.condition());
        self.conditions.iter().chain(of_parts)
    }

    /// Refuses a condition that can't be part of the group.
    pub(in crate::txn) fn check_condition(&self, condition: &Condition, terms: &Terms) -> Result<()> {
        check_condition(condition, terms)?;
        self.check_row(condition.row(), terms)
            .map_err(|error| condition.in_context(error))
    }

    /// Refuses a mutation that can't be part of any transaction of the partition.
    fn check_mutation(&self, mutation: &Mutation, terms: &Terms) -> Result<()> {
        mutation.check(&terms.limits)?;
        if mutation.has_visibility() {
            return Err(mutation.in_context(Error::invalid(
                "visibility labels in a transaction: with an invalid one the server drops that mutation and applies the rest",
            )));
        }
        if mutation.has_times() {
            return Err(mutation.in_context(Error::invalid(
                "a timestamp or time range of an increment or append in a transaction, which chooses timestamps itself",
            )));
        }
        if self.partition.reserves(mutation.row()) {
            return Err(mutation.in_context(Error::invalid(RESERVED_ROW)));
        }
        check_families(mutation.families(), terms).map_err(|error| mutation.in_context(error))
    }

    /// Refuses a row of another partition.
    pub(in crate::txn) fn check_row(&self, row: &[u8], terms: &Terms) -> Result<()> {
        if self.partition.contains(row) {
            return Ok(());
        }
        Err(other_partition(row, &self.partition, terms, "this transaction"))
    }

    /// Returns the number of distinct rows.
    pub(in crate::txn) fn rows(&self) -> usize {
        let rows = || self.mutations.iter().map(Mutation::row);
        // Sorted rows are the usual case, and cheaper to detect than to hash.
        if rows().is_sorted_by(|row, next| row < next) {
            self.mutations.len()
        } else {
            rows().collect::<HashSet<_>>().len()
        }
    }

    pub(in crate::txn) fn bytes(&self) -> usize {
        let mutations: usize = self.mutations.iter().map(Mutation::size).sum();
        let conditions: usize = self.conditions.iter().map(Condition::size).sum();
        mutations + conditions
    }

    /// Refuses a group that the endpoint would refuse or would apply with another meaning. Returns
    /// the single durability with which all its mutations are sent.
    pub(in crate::txn) fn check(&self, terms: &Terms) -> Result<Durability> {
        if self.mutations.is_empty() && self.conditions.is_empty() && self.parts.is_empty() {
            return Err(Error::invalid("a transaction without mutations and conditions"));
        }
        for (what, have, limit) in [
            ("mutations", self.mutations.len(), terms.max_mutations),
            ("conditions", self.conditions.len(), terms.max_conditions),
            ("bytes", self.bytes(), terms.max_bytes),
        ] {
            if have > limit && !self.sets_version() {
                let error = Error::new(
                    ClientErrorKind::LimitExceeded,
                    format!("a transaction of {have} {what}; the limit is {limit}"),
                );
                return Err(error.with_hint("split it, or raise the limit"));
            }
        }
        for mutation in &self.mutations[self.checked..] {
            self.check_mutation(mutation, terms)?;
        }
        // Families were checked when the conditions were added. An update adds one on a reserved
        // family, which a check here would refuse.
        for condition in &self.conditions {
            condition.check()?;
        }
        let needs_endpoint =
            self.all_conditions().next().is_some() || self.record.is_some() || self.guard_timestamps;
        if !terms.endpoint && needs_endpoint {
            return Err(Error::invalid(
                "conditions, records, locks and guarded timestamps need the endpoint, and the table was opened to do \
                 without it",
            ));
        }
        self.check_prefix(terms)?;
        let durability = self.durability(terms)?;
        self.check_record(terms, durability)?;
        let is_weak = durability.is_weak();
        if let Some(part) = self.parts.iter().find(|part| part.writes() && is_weak) {
            return Err(Error::new(
                ErrorKind::WeakDurability,
                "a transaction that changes a lock or a latch must be at least SYNC_WAL: a crash would undo that",
            )
            .at_operation(part.condition().label_text().into_owned()));
        }
        Ok(durability)
    }

    /// Refuses a prefix that leaves no room for the rows that the library needs in the partition.
    fn check_prefix(&self, terms: &Terms) -> Result<()> {
        if self.partition.is_lone_row() {
            return Ok(());
        }
        if terms.partition_version {
            reserved_row(&self.partition, VERSION, "a version")?;
        }
        if !terms.endpoint {
            reserved_row(&self.partition, TRIALS[0], "transactions without the endpoint")?;
        }
        Ok(())
    }

    /// Refuses a record that could be lost or could not be stored.
    fn check_record(&self, terms: &Terms, durability: Durability) -> Result<()> {
        if self.record.is_none() {
            return Ok(());
        }
        terms.record_window()?;
        if durability.is_weak() {
            Err(Error::new(
                ErrorKind::WeakDurability,
                "a transaction with a record must be at least SYNC_WAL: a crash could lose the record, or the mutations that it records",
            ))
        } else {
            Ok(())
        }
    }

    /// Returns the strongest durability of the mutations. Refuses SKIP_WAL next to logged
    /// mutations: after a crash, half the transaction would be missing.
    fn durability(&self, terms: &Terms) -> Result<Durability> {
        let named = |mutation: &Mutation| match mutation.durability() {
            Durability::UseDefault => terms.durability,
            durability => durability,
        };
        let strength = |durability| match durability {
            Durability::SkipWal => 0,
            Durability::AsyncWal => 1,
            Durability::SyncWal => 2,
            // The region server's default: SYNC_WAL or FSYNC_WAL.
            Durability::UseDefault => 3,
            Durability::FsyncWal => 4,
        };
        let strongest = self
            .mutations
            .iter()
            .map(named)
            .max_by_key(|durability| strength(*durability))
            // Only conditions, and possibly a record, which is then sent with this durability.
            .unwrap_or(terms.durability);
        match self
            .mutations
            .iter()
            .find(|mutation| named(mutation) == Durability::SkipWal)
        {
            // Whatever the table's durability is by now.
            _ if self.sets_version() && strongest.is_weak() => Ok(Durability::SyncWal),
            Some(mutation) if strongest != Durability::SkipWal => Err(mutation.in_context(
                Error::invalid(
                    "SKIP_WAL next to mutations that are logged: a crash would leave half the transaction",
                )
                .with_hint("give all mutations of the transaction the same durability"),
            )),
            _ => Ok(strongest),
        }
    }
}

/// Returns the error of a row that is not in the partition of a transaction or reading.
pub(in crate::txn) fn other_partition(row: &[u8], partition: &Partition, terms: &Terms, what: &str) -> Error {
    let of_row = terms.rule.partition_of(row);
    Error::new(
        ErrorKind::OtherPartition,
        format!(
            "row {} is in partition {of_row}; {what} is in partition {partition}",
            BytesBinary(row)
        ),
    )
    .with_hint("rows of several partitions go into a batch: one transaction each")
}

/// Refuses a condition that can't be part of any transaction of this table.
pub(in crate::txn) fn check_condition(condition: &Condition, terms: &Terms) -> Result<()> {
    condition.check()?;
    if condition.has_time_range() {
        return Err(condition.in_context(Error::invalid(
            "a time range of a condition in a transaction, which compares newest versions",
        )));
    }
    check_families(condition.families(), terms).map_err(|error| condition.in_context(error))
}

fn check_families<'a>(mut families: impl Iterator<Item = &'a Bytes>, terms: &Terms) -> Result<()> {
    let wrong =
        |family: &&Bytes| TableDescriptor::reserves_family(family) || !terms.families.contains(*family);
    let Some(family) = families.find(wrong) else {
        return Ok(());
    };
    let mut reserved = TableDescriptor::RESERVED_FAMILIES.iter();
    if let Some((name, what)) = reserved.find(|(name, _)| family == *name) {
        return Err(Error::invalid(format!("family {name} is reserved for {what}")));
    }
    let mut known: Vec<_> = terms
        .user_families()
        .map(|family| BytesBinary(family).to_string())
        .collect();
    known.sort_unstable();
    Err(Error::new(
        ClientErrorKind::FamilyNotFound,
        format!(
            "the table has no family {}; it has {}",
            BytesBinary(family),
            known.join(", ")
        ),
    ))
}

/// Groups mutations by partition, in the order in which the partitions first appear.
pub(in crate::txn) fn group(
    mutations: impl IntoIterator<Item = Mutation>,
    rule: &PartitionRule,
) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let mut places: HashMap<Partition, usize> = HashMap::new();
    for mutation in mutations {
        let partition = rule.partition_of(mutation.row());
        let place = *places.entry(partition.clone()).or_insert_with(|| {
            groups.push(Group::new(partition));
            groups.len() - 1
        });
        groups[place].mutations.push(mutation);
    }
    groups
}

/// What a batch would do: its groups, the region of each, and which would be refused.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Explanation {
    /// The groups, in the order in which their partitions first appear.
    pub groups: Vec<ExplainedGroup>,
}

/// What one group of a batch would do.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ExplainedGroup {
    /// The group's partition.
    pub partition: Partition,
    /// The number of distinct rows.
    pub rows: usize,
    /// The number of mutations.
    pub mutations: usize,
    /// The number of operations that are folded into others of the same cell: of two puts the last
    /// is sent, of two increments the sum.
    pub folded: usize,
    /// The size of their keys and values, in bytes.
    pub bytes: usize,
    /// The region that the group would go to, if it is known.
    pub region: Option<RegionInfo>,
    /// The server of that region.
    pub server: Option<ServerName>,
    /// The reason why the group would be refused, or `None` if it would be sent.
    pub refusal: Option<String>,
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, group) in self.groups.iter().enumerate() {
            if at > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{group}")?;
        }
        Ok(())
    }
}

impl fmt::Display for ExplainedGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "partition {}: {} of {}, {}",
            self.partition,
            counted(self.mutations, "mutation"),
            counted(self.rows, "row"),
            counted(self.bytes, "byte")
        )?;
        if self.folded > 0 {
            write!(f, ", {} of them folded", self.folded)?;
        }
        if let Some(region) = &self.region {
            write!(f, ", region {}", region.range_text())?;
        }
        if let Some(server) = &self.server {
            write!(f, " on {}", server.address())?;
        }
        match &self.refusal {
            Some(refusal) => write!(f, "; would be refused: {refusal}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
