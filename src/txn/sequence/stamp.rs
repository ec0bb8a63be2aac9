//! Timestamps that make a folded transaction visible, and the conditions under which they do.
//!
//! S is the newest timestamp found in a row, of a cell or a delete marker. `now` is the client's
//! estimate of the server's time. T = max(now, S + 1).
//!
//! | operation | timestamp | condition |
//! |---|---|---|
//! | a put | T: above everything found | nothing at T or later |
//! | a delete of a column | S: hides everything found, and nothing that others put later, even in the same millisecond | nothing at S + 1 or later |
//! | a delete of a family or the row | S; by the server if nothing was found | nothing at S + 1 or later in the columns that were found |
//! | an increment, an append | by the server, after the old cell; T if there is no old cell and a marker stamped ahead could hide the new one | none is needed |
//! | a delete with a put over it | T - 1: below the put, above everything found | nothing at T or later, for columns |
//!
//! A given timestamp is kept. The result does not depend on the accuracy of `now`, as long as it is
//! less than an hour wrong: what was found is compared with S. If `now` is ahead, the cells are
//! stamped ahead.
//!
//! No condition sees a delete marker. If another client writes one at T or later between the read
//! and the commit, it hides the put, as if that delete had come last.
//!
//! A write to a cell that one of its conditions names is stamped only where the server's clock may
//! be behind S ([`Stamping::IfAhead`]). Elsewhere the server stamps it after S, under the condition
//! that there is nothing at S + 1 or later. HBase's own check-and-put does the same with the cell
//! that it checks. Here S covers only these cells; other cells of the row are stamped by the
//! server.
//!
//! A column that another client adds in the meantime outlives the delete of its family or row, as if
//! it came last. A second marker at the server's time would hide it, but also a put that another
//! transaction makes after this one, and with `NEW_VERSION_BEHAVIOR` it would have no effect: HBase's
//! `NewVersionBehaviorTracker` keeps one family marker for each sequence id.
//!
//! One case is not covered: the server stamps an increment or append one millisecond after an old
//! cell that lies ahead of its clock. If exactly that version was deleted before
//! (`Delete::version`), the new cell is hidden, in a transaction or not.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use hbase_client::{
    Append, Delete, Increment, Mutation, Put,
    low_level::{Column, DeleteScope, MutationParts, MutationStamp, timestamp_after},
};

use super::Sequence;
use crate::error::Result;

/// The maximum error of `now`, in milliseconds (one hour): S counts as past if it is older.
const CLOCK_DOUBT: u64 = 3_600_000;

/// How far `now` may be ahead of the server's clock where [`Stamping::IfAhead`] leaves the
/// timestamp to the server, in milliseconds.
const CLOCK_MARGIN: u64 = 1_000;

/// The part of a row that must be read before it is stamped, including all delete markers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::txn) struct ToRead {
    pub(in crate::txn) row: Bytes,
    pub(in crate::txn) extent: Extent,
}

/// A part of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::txn) enum Extent {
    Row,
    Parts {
        families: BTreeSet<Bytes>,
        /// Family and qualifier; none in `families`.
        columns: BTreeSet<(Bytes, Bytes)>,
    },
}

/// How the operations of a row are stamped. S is the newest timestamp found there, 0 if none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::txn) enum Stamping<'a> {
    /// By the server.
    Server,
    /// After S, wherever S lies.
    Behind(u64),
    /// In this extent: after S if the server's clock may not have passed S yet, else by the server.
    /// Everything else: by the server.
    IfAhead(u64, &'a Extent),
}

/// A transaction with timestamps, and the conditions under which they keep its meaning.
#[derive(Clone, Debug)]
pub(in crate::txn) struct Stamped {
    pub(in crate::txn) mutations: Vec<Mutation>,
    pub(in crate::txn) guards: Vec<GuardedCell>,
    pub(in crate::txn) families: Vec<GuardedFamily>,
}

/// A cell that must have no version at or after a timestamp.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::txn) struct GuardedCell {
    pub(in crate::txn) row: Bytes,
    pub(in crate::txn) family: Bytes,
    pub(in crate::txn) qualifier: Bytes,
    /// The first forbidden timestamp, in milliseconds since 1970.
    pub(in crate::txn) from: u64,
}

/// A deleted family, whose columns that were found must have no version at or after a timestamp.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::txn) struct GuardedFamily {
    pub(in crate::txn) row: Bytes,
    /// `None` if the row is deleted: all families.
    pub(in crate::txn) family: Option<Bytes>,
    /// The first forbidden timestamp, in milliseconds since 1970.
    pub(in crate::txn) from: u64,
}

impl Sequence<'_> {
    /// Returns what has to be read before [`stamp`](Self::stamp), with one entry for each row. Rows
    /// in which every operation has a timestamp are left out.
    pub(in crate::txn) fn to_read(&self) -> Vec<ToRead> {
        let mut places: BTreeMap<&Bytes, usize> = BTreeMap::new();
        let mut rows: Vec<ToRead> = Vec::new();
        for mutation in self.mutations.iter().filter(|mutation| takes_stamps(mutation)) {
            let place = *places.entry(mutation.row()).or_insert_with(|| {
                rows.push(ToRead {
                    row: mutation.row().clone(),
                    extent: Extent::Parts {
                        families: BTreeSet::new(),
                        columns: BTreeSet::new(),
                    },
                });
                rows.len() - 1
            });
            rows[place].extent.add(mutation);
        }
        rows
    }

    /// Stamps the operations that have no timestamp, and returns the conditions under which the
    /// timestamps are right.
    ///
    /// `now` is the client's estimate of the server's time in milliseconds since 1970. `how`
    /// returns how to stamp a row, with the newest timestamp found in the extent from
    /// [`to_read`](Self::to_read).
    ///
    /// # Errors
    ///
    /// Returns [`InvalidInput`](crate::ClientErrorKind::InvalidInput) for a row with a timestamp so
    /// late that no put can follow it.
    pub(in crate::txn) fn stamp<'a>(
        &self,
        now: u64,
        how: impl Fn(&Bytes) -> Stamping<'a>,
    ) -> Result<Stamped> {
        let mut stamped = Stamped {
            mutations: Vec::with_capacity(self.mutations.len()),
            guards: Vec::new(),
            families: Vec::new(),
        };
        for mutation in &*self.mutations {
            let how = match takes_stamps(mutation) {
                true => how(mutation.row()),
                false => Stamping::Server,
            };
            let (seen, extent) = match how {
                Stamping::Server => {
                    stamped.mutations.push(mutation.clone());
                    continue;
                }
                Stamping::IfAhead(seen, extent) if seen.saturating_add(CLOCK_MARGIN) < now || seen == 0 => {
                    stamped.guard_all(mutation, extent, seen + 1);
                    stamped.mutations.push(mutation.clone());
                    continue;
                }
                Stamping::IfAhead(seen, extent) => (seen, extent),
                Stamping::Behind(seen) => (seen, &Extent::Row),
            };
            let replaced = self.replaced.contains(mutation.row());
            let times = Times::new(now, seen, replaced).map_err(|error| mutation.in_context(error))?;
            match mutation {
                Mutation::Put(put) => stamped.put(put, &times, extent),
                Mutation::Delete(delete) => stamped.delete(delete, &times, extent),
                Mutation::Increment(increment) => stamped.increment(increment, &times, extent),
                Mutation::Append(append) => stamped.append(append, &times, extent),
            }
        }
        Ok(stamped)
    }
}

/// Returns whether any part of the mutation has no timestamp.
fn takes_stamps(mutation: &Mutation) -> bool {
    match mutation {
        Mutation::Put(put) => {
            put.stamp().is_none() && put.parts().iter().any(|cell| cell.timestamp.is_none())
        }
        Mutation::Delete(delete) => {
            delete.stamp().is_none()
                && (delete.parts().is_empty() || delete.parts().iter().any(|scope| !is_version(scope)))
        }
        Mutation::Increment(_) | Mutation::Append(_) => true,
    }
}

/// Returns whether a put's cell has no timestamp and must get one.
fn is_stamped(cell: &Column, extent: &Extent) -> bool {
    cell.timestamp.is_none() && extent.has_column(&cell.family, &cell.qualifier)
}

fn is_version(scope: &DeleteScope) -> bool {
    matches!(
        scope,
        DeleteScope::Version { .. } | DeleteScope::FamilyVersion { .. }
    )
}

impl Extent {
    /// Returns the columns that are in this extent, or `None` if none are.
    pub(in crate::txn) fn only<'a>(
        &self,
        columns: impl IntoIterator<Item = (&'a Bytes, &'a Bytes)>,
    ) -> Option<Self> {
        let columns: BTreeSet<_> = columns
            .into_iter()
            .filter(|(family, qualifier)| self.has_column(family, qualifier))
            .map(|(family, qualifier)| (family.clone(), qualifier.clone()))
            .collect();
        (!columns.is_empty()).then_some(Self::Parts {
            families: BTreeSet::new(),
            columns,
        })
    }

    /// Returns whether a column is in this extent.
    fn has_column(&self, family: &Bytes, qualifier: &Bytes) -> bool {
        match self {
            Self::Row => true,
            Self::Parts { families, columns } => {
                families.contains(family) || columns.contains(&(family.clone(), qualifier.clone()))
            }
        }
    }

    /// Returns whether a delete covers a column that is in this extent.
    fn has_scope(&self, scope: &DeleteScope) -> bool {
        match (self, scope) {
            (Self::Row, _) => true,
            (Self::Parts { families, columns }, DeleteScope::Family(family)) => {
                families.contains(family) || columns.iter().any(|(of, _)| of == family)
            }
            (_, DeleteScope::Column { family, qualifier }) => self.has_column(family, qualifier),
            (_, DeleteScope::Version { .. } | DeleteScope::FamilyVersion { .. }) => false,
        }
    }

    fn add(&mut self, mutation: &Mutation) {
        let Self::Parts { families, columns } = self else {
            return;
        };
        let mut add = |family: &Bytes, qualifier: &Bytes| {
            if !families.contains(family) {
                columns.insert((family.clone(), qualifier.clone()));
            }
        };
        match mutation {
            Mutation::Put(put) => {
                for cell in put.parts().iter().filter(|cell| cell.timestamp.is_none()) {
                    add(&cell.family, &cell.qualifier);
                }
            }
            Mutation::Append(append) => {
                for cell in append.parts() {
                    add(&cell.family, &cell.qualifier);
                }
            }
            Mutation::Increment(increment) => {
                for counter in increment.parts() {
                    add(&counter.family, &counter.qualifier);
                }
            }
            Mutation::Delete(delete) if delete.parts().is_empty() => *self = Self::Row,
            Mutation::Delete(delete) => {
                for scope in delete.parts() {
                    match scope {
                        DeleteScope::Family(family) => {
                            columns.retain(|(of, _)| of != family);
                            families.insert(family.clone());
                        }
                        DeleteScope::Column { family, qualifier } => {
                            if !families.contains(family) {
                                columns.insert((family.clone(), qualifier.clone()));
                            }
                        }
                        DeleteScope::Version { .. } | DeleteScope::FamilyVersion { .. } => {}
                    }
                }
            }
        }
    }
}

/// The timestamps of one row.
struct Times {
    put: u64,
    /// The timestamp up to which deletes of columns hide cells.
    column: u64,
    /// The timestamp up to which deletes of families and rows hide cells, or `None` for the
    /// server's.
    family: Option<u64>,
    /// The timestamp for increments and appends of absent cells, or `None` for the server's.
    change: Option<u64>,
}

impl Times {
    fn new(now: u64, seen: u64, replaced: bool) -> Result<Self> {
        let put = timestamp_after(seen.max(now.saturating_sub(1)))?;
        let is_surely_old = seen.saturating_add(CLOCK_DOUBT) <= now;
        Ok(Self {
            put,
            column: if replaced { put - 1 } else { seen },
            family: match (replaced, seen) {
                (true, _) => Some(put - 1),
                (false, 0) => None,
                (false, seen) => Some(seen),
            },
            change: (!is_surely_old).then_some(put),
        })
    }
}

impl Stamped {
    fn guard(&mut self, row: &Bytes, family: &Bytes, qualifier: &Bytes, from: u64) {
        self.guards.push(GuardedCell {
            row: row.clone(),
            family: family.clone(),
            qualifier: qualifier.clone(),
            from,
        });
    }

    fn guard_family(&mut self, row: &Bytes, family: Option<&Bytes>, from: u64) {
        self.families.push(GuardedFamily {
            row: row.clone(),
            family: family.cloned(),
            from,
        });
    }

    /// Guards the cells of an extent that a mutation puts or deletes and that the server stamps.
    fn guard_all(&mut self, mutation: &Mutation, extent: &Extent, from: u64) {
        match mutation {
            Mutation::Put(put) => {
                for cell in put.parts().iter().filter(|cell| is_stamped(cell, extent)) {
                    self.guard(put.row(), &cell.family, &cell.qualifier, from);
                }
            }
            Mutation::Delete(delete) => {
                for scope in delete.parts().iter().filter(|scope| extent.has_scope(scope)) {
                    match scope {
                        DeleteScope::Column { family, qualifier } => {
                            self.guard(delete.row(), family, qualifier, from);
                        }
                        DeleteScope::Family(family) => self.guard_family(delete.row(), Some(family), from),
                        DeleteScope::Version { .. } | DeleteScope::FamilyVersion { .. } => {}
                    }
                }
                if delete.parts().is_empty() {
                    self.guard_family(delete.row(), None, from);
                }
            }
            // The server stamps them after the old cell.
            Mutation::Increment(_) | Mutation::Append(_) => {}
        }
    }

    fn put(&mut self, put: &Put, times: &Times, extent: &Extent) {
        let (row, mut put) = (put.row(), put.clone());
        for cell in put.parts_mut().iter_mut().filter(|cell| is_stamped(cell, extent)) {
            cell.timestamp = Some(times.put);
            self.guard(row, &cell.family, &cell.qualifier, times.put);
        }
        self.mutations.push(put.into());
    }

    fn delete(&mut self, delete: &Delete, times: &Times, extent: &Extent) {
        let part = |scopes: Vec<DeleteScope>, timestamp: Option<u64>| {
            let mut part = delete.clone().with_stamp(timestamp);
            *part.parts_mut() = scopes;
            Mutation::Delete(part)
        };
        let (mut families, mut columns, mut others) = (Vec::new(), Vec::new(), Vec::new());
        for scope in delete.parts() {
            match scope {
                _ if !extent.has_scope(scope) => others.push(scope.clone()),
                DeleteScope::Family(family) => {
                    self.guard_family(delete.row(), Some(family), times.column + 1);
                    families.push(scope.clone());
                }
                DeleteScope::Column { family, qualifier } => {
                    self.guard(delete.row(), family, qualifier, times.column + 1);
                    columns.push(scope.clone());
                }
                DeleteScope::Version { .. } | DeleteScope::FamilyVersion { .. } => {
                    columns.push(scope.clone());
                }
            }
        }
        for (scopes, timestamp) in [(columns, Some(times.column)), (others, None)] {
            if !scopes.is_empty() {
                self.mutations.push(part(scopes, timestamp));
            }
        }
        match delete.parts() {
            // A delete without scopes deletes the row.
            [] => self.guard_family(delete.row(), None, times.column + 1),
            _ if families.is_empty() => return,
            _ => {}
        }
        self.mutations.push(part(families, times.family));
    }

    fn increment(&mut self, increment: &Increment, times: &Times, extent: &Extent) {
        let mut increment = increment.clone();
        for counter in increment.parts_mut() {
            if extent.has_column(&counter.family, &counter.qualifier) {
                counter.timestamp = times.change;
            }
        }
        self.mutations.push(increment.into());
    }

    fn append(&mut self, append: &Append, times: &Times, extent: &Extent) {
        let mut append = append.clone();
        for cell in append.parts_mut() {
            if extent.has_column(&cell.family, &cell.qualifier) {
                cell.timestamp = times.change;
            }
        }
        self.mutations.push(append.into());
    }
}
