//! What a group of mutations is, and why one may not be sent. No I/O.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fmt,
};

use bytes::Bytes;

use crate::{
    error::{Error, ErrorKind, Result},
    model::{
        BytesBinary, Delete, DeleteScope, Durability, Limits, Mutation, Partition, PartitionRule, Put,
        RegionInfo, ServerName, TableDescriptor, VISIBILITY_ATTRIBUTE,
    },
};

/// What is known of the table that a group is for.
#[derive(Clone, Debug)]
pub(super) struct Terms {
    pub(super) rule: PartitionRule,
    pub(super) families: HashSet<Bytes>,
    /// The durability of mutations that don't name one.
    pub(super) durability: Durability,
    pub(super) limits: Limits,
    pub(super) max_mutations: usize,
    pub(super) max_bytes: usize,
}

/// The mutations of one partition, in the order they were added.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) partition: Partition,
    pub(super) mutations: Vec<Mutation>,
}

impl Group {
    pub(super) fn new(partition: Partition) -> Self {
        Self {
            partition,
            mutations: Vec::new(),
        }
    }

    /// The number of different rows.
    pub(super) fn rows(&self) -> usize {
        self.mutations
            .iter()
            .map(Mutation::row)
            .collect::<HashSet<_>>()
            .len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.mutations.iter().map(Mutation::size).sum()
    }

    /// Refuses a group that the endpoint would refuse, or would take and mean something else by. Returns the one
    /// durability that all its mutations are sent with.
    pub(super) fn check(&self, terms: &Terms) -> Result<Durability> {
        if self.mutations.is_empty() {
            return Err(Error::invalid("a transaction without mutations"));
        }
        let too_large = |what: String| {
            Error::new(ErrorKind::LimitExceeded, what).with_hint("split it, or raise the limit")
        };
        if self.mutations.len() > terms.max_mutations {
            return Err(too_large(format!(
                "a transaction of {} mutations; the limit is {}",
                self.mutations.len(),
                terms.max_mutations
            )));
        }
        if self.bytes() > terms.max_bytes {
            return Err(too_large(format!(
                "a transaction of {} bytes; the limit is {}",
                self.bytes(),
                terms.max_bytes
            )));
        }
        for mutation in &self.mutations {
            check_mutation(mutation, terms)?;
        }
        check_overlaps(&self.mutations)?;
        self.durability(terms)
    }

    /// The strongest durability that is named. One cell edit that skips the log among others that don't would be
    /// missing after a crash: half a transaction.
    fn durability(&self, terms: &Terms) -> Result<Durability> {
        let named = |mutation: &Mutation| match mutation.durability() {
            Durability::UseDefault => terms.durability,
            durability => durability,
        };
        let strength = |durability| match durability {
            Durability::SkipWal => 0,
            Durability::AsyncWal => 1,
            Durability::UseDefault | Durability::SyncWal => 2,
            Durability::FsyncWal => 3,
        };
        let strongest = self
            .mutations
            .iter()
            .map(named)
            .max_by_key(|durability| strength(*durability))
            .unwrap_or_default();
        match self
            .mutations
            .iter()
            .find(|mutation| named(mutation) == Durability::SkipWal)
        {
            Some(mutation) if strongest != Durability::SkipWal => Err(mutation.blame(
                Error::invalid(
                    "SKIP_WAL beside mutations that are logged: a crash would leave half the transaction",
                )
                .with_hint("give all mutations of the transaction the same durability"),
            )),
            _ => Ok(strongest),
        }
    }
}

/// Refuses a mutation that can't be part of any transaction of this table.
pub(super) fn check_mutation(mutation: &Mutation, terms: &Terms) -> Result<()> {
    mutation.check(&terms.limits)?;
    if mutation.has_attribute(VISIBILITY_ATTRIBUTE) {
        return Err(mutation.blame(Error::invalid(
            "visibility labels in a transaction: with an invalid one the server drops that mutation and applies the rest",
        )));
    }
    if mutation
        .families()
        .any(|family| family == TableDescriptor::RECORD_FAMILY)
    {
        return Err(mutation.blame(Error::invalid(format!(
            "family {} is kept for the records of transactions",
            TableDescriptor::RECORD_FAMILY
        ))));
    }
    if let Some(family) = mutation
        .families()
        .find(|family| !terms.families.contains(*family))
    {
        let mut known: Vec<_> = terms
            .families
            .iter()
            .map(|family| BytesBinary(family).to_string())
            .collect();
        known.sort_unstable();
        return Err(mutation.blame(Error::new(
            ErrorKind::FamilyNotFound,
            format!(
                "the table has no family {}; it has {}",
                BytesBinary(family),
                known.join(", ")
            ),
        )));
    }
    Ok(())
}

/// Groups mutations by partition, in the order in which the partitions first appear.
pub(super) fn group(mutations: impl IntoIterator<Item = Mutation>, rule: &PartitionRule) -> Vec<Group> {
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

/// Refuses mutations of the same cells whose order the endpoint would not keep: it stamps all of one call alike,
/// so a delete hides a put whatever their order, and of two puts one is lost.
fn check_overlaps(mutations: &[Mutation]) -> Result<()> {
    let mut rows: BTreeMap<&Bytes, Vec<&Mutation>> = BTreeMap::new();
    for mutation in mutations {
        rows.entry(mutation.row()).or_default().push(mutation);
    }
    for mutations in rows.into_values() {
        let mut cells = HashSet::new();
        for mutation in &mutations {
            let Mutation::Put(put) = mutation else { continue };
            for cell in &put.cells {
                let timestamp = cell.timestamp.or(put.timestamp);
                if !cells.insert((&cell.family, &cell.qualifier, timestamp)) {
                    return Err(mutation.blame(overlap(&cell.family, &cell.qualifier, "is put twice")));
                }
            }
        }
        if mutations.len() == 1 {
            continue;
        }
        let deletes = || {
            mutations.iter().filter_map(|mutation| match mutation {
                Mutation::Delete(delete) => Some(delete),
                _ => None,
            })
        };
        for mutation in &mutations {
            let Mutation::Put(put) = mutation else { continue };
            if let Some(cell) = deletes().find_map(|delete| hidden_cell(put, delete)) {
                return Err(mutation.blame(overlap(cell.0, cell.1, "is put and deleted")));
            }
        }
    }
    Ok(())
}

fn overlap(family: &Bytes, qualifier: &Bytes, what: &str) -> Error {
    Error::invalid(format!(
        "cell {}:{} {what} in one transaction, and the server does not keep their order",
        BytesBinary(family),
        BytesBinary(qualifier)
    ))
    .with_hint("leave one of the two out, or give them timestamps that say the order")
}

/// A cell of the put that the delete of the same row would hide.
fn hidden_cell<'a>(put: &'a Put, delete: &Delete) -> Option<(&'a Bytes, &'a Bytes)> {
    // Without a timestamp both get the server's time, the same one.
    let hides = |put: Option<u64>, delete: Option<u64>| match (put, delete) {
        (Some(put), Some(delete)) => put <= delete,
        _ => true,
    };
    let cell = put.cells.iter().find(|cell| {
        let timestamp = cell.timestamp.or(put.timestamp);
        delete.scopes.is_empty() && hides(timestamp, delete.timestamp)
            || delete.scopes.iter().any(|scope| match scope {
                DeleteScope::Family(family) => cell.family == *family && hides(timestamp, delete.timestamp),
                DeleteScope::Column { family, qualifier } => {
                    cell.family == *family
                        && cell.qualifier == *qualifier
                        && hides(timestamp, delete.timestamp)
                }
                DeleteScope::Version {
                    family,
                    qualifier,
                    timestamp: version,
                } => cell.family == *family && cell.qualifier == *qualifier && timestamp == Some(*version),
            })
    })?;
    Some((&cell.family, &cell.qualifier))
}

/// What a batch would do: its groups, where each would go, and what would be refused.
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
    /// How many different rows it has.
    pub rows: usize,
    /// How many mutations it has.
    pub mutations: usize,
    /// The bytes of their keys and values.
    pub bytes: usize,
    /// The region that it would go to, as far as it is known now.
    pub region: Option<RegionInfo>,
    /// The server of that region.
    pub server: Option<ServerName>,
    /// Why it would be refused; none when it would be sent.
    pub refusal: Option<String>,
}

/// A number of things, in words.
pub(super) fn counted(number: usize, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
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
