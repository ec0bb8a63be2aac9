//! Timestamps that make a folded transaction visible, and the conditions under which they do.
//!
//! **The rule.** Cells are stamped by the server, and a delete marker lies in the past: the server's
//! clock has passed its timestamp before the call is sent. So a marker of this library hides no
//! write that the server stamps afterwards, however long that write was under way. No condition sees
//! a delete marker, so nothing else could.
//!
//! S is the newest timestamp found in what a row's operations write, of a cell or a delete marker, or a
//! time that the server's clock had passed before the read, if that is later. P is the latest timestamp
//! that is certainly in the past. Usually S is past, or so recent that the call waits a moment:
//!
//! | operation | timestamp | sent after the server's clock has passed | condition |
//! |---|---|---|---|
//! | a put | the server's | S | nothing at S + 1 or later |
//! | an increment, an append | the server's, after the old cell | S | none is needed |
//! | a delete of a column | M = max(S, P) | M | nothing at M + 1 or later |
//! | a delete of a family or the row | M | M | the row has only the cells found; if it had none, nothing at M + 1 or later in the columns found |
//!
//! A given timestamp is kept.
//!
//! If S is ahead, because a client stamped cells ahead, waiting for the clock takes too long. Where
//! clocks can't be compared, all that may be ahead counts as ahead for puts.
//! Then a put, and an increment or append of an absent cell, lie at S + 1, and a delete lies at S,
//! whatever the clock.
//! Another delete could hide a put at S + 1, so the transaction is [ahead](Stamped::ahead): it has the
//! condition that no transaction deleted anything in the partition since the read, and none was ahead
//! (see [`deletions`](super::super::deletions)).
//!
//! A row of which a family or all is deleted gets a placeholder if it has no cell. On a table without
//! a record family, which has no placeholders, a column that another client adds meanwhile to such a row
//! outlives the delete, as if it was added later.
//!
//! One case is not covered: the server stamps an increment or append one millisecond after an old
//! cell that lies ahead of its clock. If exactly that version was deleted before
//! (`Delete::version`), the new cell is hidden, in a transaction or not.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use hbase_client::{
    Append, Delete, Increment, Mutation, Put,
    low_level::{DeleteScope, MutationParts, MutationStamp, timestamp_after},
};

use super::Sequence;
use crate::{error::Result, txn::proof::servers::ServerTime};

/// How far a timestamp may be ahead of the server's clock, in milliseconds, for the call to wait
/// until the clock has passed it.
const SHORT_WAIT: u64 = 100;

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

/// What was found in an extent of a row.
#[derive(Clone, Copy, Debug)]
pub(in crate::txn) struct Seen<'a> {
    pub(in crate::txn) extent: &'a Extent,
    /// The newest timestamp, or a time that the server's clock had passed before the read.
    pub(in crate::txn) newest: u64,
    /// Whether no call waits until the server's clock has passed the newest timestamp.
    pub(in crate::txn) is_ahead: bool,
}

/// Returns whether a timestamp that a client may have set is so far ahead of the server's clock that no
/// call waits for it.
pub(in crate::txn) fn is_ahead(timestamp: u64, now: ServerTime) -> bool {
    timestamp > now.latest.saturating_add(SHORT_WAIT)
}

/// A transaction with timestamps, and the conditions under which they keep its meaning.
#[derive(Clone, Debug, Default)]
pub(in crate::txn) struct Stamped {
    pub(in crate::txn) mutations: Vec<Mutation>,
    pub(in crate::txn) guards: Vec<GuardedCell>,
    pub(in crate::txn) rows: Vec<GuardedRow>,
    /// The server's clock must have passed this timestamp when the call is sent.
    pub(in crate::txn) floor: u64,
    /// Whether anything is stamped ahead of the server's clock.
    pub(in crate::txn) ahead: bool,
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

/// A row or family that is deleted, and must have no other cells than those that were found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::txn) struct GuardedRow {
    pub(in crate::txn) row: Bytes,
    /// `None` if the row is deleted: all families.
    pub(in crate::txn) family: Option<Bytes>,
    /// The first forbidden timestamp, in milliseconds since 1970.
    pub(in crate::txn) from: u64,
}

impl Sequence<'_> {
    /// Returns what has to be read before [`stamp`](Self::stamp), with one entry for each row: what
    /// deletes without a timestamp cover, and the written columns that are `wanted`, which is
    /// called with row, family and qualifier.
    pub(in crate::txn) fn to_read(&self, wanted: impl Fn(&Bytes, &Bytes, &Bytes) -> bool) -> Vec<ToRead> {
        let mut places: BTreeMap<&Bytes, usize> = BTreeMap::new();
        let mut rows: Vec<ToRead> = Vec::new();
        for mutation in self.mutations.iter().filter(|mutation| takes_stamps(mutation)) {
            let row = mutation.row();
            let place = *places.entry(row).or_insert_with(|| {
                rows.push(ToRead {
                    row: row.clone(),
                    extent: Extent::none(),
                });
                rows.len() - 1
            });
            let wanted = |family: &Bytes, qualifier: &Bytes| wanted(row, family, qualifier);
            rows[place].extent.add(mutation, wanted);
        }
        rows.retain(|to_read| to_read.extent != Extent::none());
        rows
    }

    /// Returns whether anything is deleted without a timestamp.
    pub(in crate::txn) fn deletes(&self) -> bool {
        let is_delete = |mutation: &&Mutation| matches!(mutation, Mutation::Delete(_));
        self.mutations.iter().filter(is_delete).any(takes_stamps)
    }

    /// Stamps the operations that have no timestamp, and returns the conditions under which they are
    /// visible.
    ///
    /// `now` is the time of the server when it answered the read. `seen` returns what was found in the extent of a row from
    /// [`to_read`](Self::to_read), or `None` if nothing of the row had to be read.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidInput`](crate::ClientErrorKind::InvalidInput) for a row with a timestamp so
    /// late that no put can follow it.
    pub(in crate::txn) fn stamp<'a>(
        &self,
        now: ServerTime,
        seen: impl Fn(&Bytes) -> Option<Seen<'a>>,
    ) -> Result<Stamped> {
        let mut stamped = Stamped {
            mutations: Vec::with_capacity(self.mutations.len()),
            ..Stamped::default()
        };
        for mutation in &*self.mutations {
            let seen = takes_stamps(mutation).then(|| seen(mutation.row())).flatten();
            let Some(seen) = seen else {
                stamped.mutations.push(mutation.clone());
                continue;
            };
            let extent = seen.extent;
            let times = Times::new(now, seen).map_err(|error| mutation.in_context(error))?;
            stamped.ahead |= times.ahead.is_some();
            let floor = match (times.ahead, mutation) {
                (Some(_), _) => 0,
                (None, Mutation::Delete(_)) => times.delete,
                (None, _) => times.seen,
            };
            stamped.floor = stamped.floor.max(floor);
            match mutation {
                Mutation::Put(put) => stamped.put(put, &times, extent),
                Mutation::Delete(delete) => stamped.delete(delete, &times),
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

fn is_version(scope: &DeleteScope) -> bool {
    matches!(
        scope,
        DeleteScope::Version { .. } | DeleteScope::FamilyVersion { .. }
    )
}

impl Extent {
    fn none() -> Self {
        Self::Parts {
            families: BTreeSet::new(),
            columns: BTreeSet::new(),
        }
    }

    /// Returns the extent of one column.
    pub(in crate::txn) fn column(family: Bytes, qualifier: Bytes) -> Self {
        Self::Parts {
            families: BTreeSet::new(),
            columns: BTreeSet::from([(family, qualifier)]),
        }
    }

    /// Returns whether it has a whole family.
    pub(in crate::txn) fn has_families(&self) -> bool {
        match self {
            Self::Row => true,
            Self::Parts { families, .. } => !families.is_empty(),
        }
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

    /// Adds what a delete covers, and the columns of another mutation that are wanted.
    fn add(&mut self, mutation: &Mutation, wanted: impl Fn(&Bytes, &Bytes) -> bool) {
        let Self::Parts { families, columns } = self else {
            return;
        };
        let mut add = |family: &Bytes, qualifier: &Bytes| {
            if !families.contains(family) && wanted(family, qualifier) {
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
    /// The newest timestamp found.
    seen: u64,
    /// The timestamp up to which deletes hide cells.
    delete: u64,
    /// The timestamp of puts, and of increments and appends of absent cells, if the newest one found
    /// is too far ahead of the server's clock.
    ahead: Option<u64>,
}

impl Times {
    fn new(now: ServerTime, seen: Seen<'_>) -> Result<Self> {
        let delete = seen.newest.max(now.past());
        // A clock that can't be compared can't be waited for either.
        let put_is_ahead = seen.is_ahead || now.is_assumed && seen.newest > now.past();
        let after = || timestamp_after(seen.newest);
        Ok(Self {
            seen: seen.newest,
            delete,
            ahead: put_is_ahead.then(after).transpose()?,
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

    fn guard_row(&mut self, row: &Bytes, family: Option<&Bytes>, from: u64) {
        self.rows.push(GuardedRow {
            row: row.clone(),
            family: family.cloned(),
            from,
        });
    }

    fn put(&mut self, put: &Put, times: &Times, extent: &Extent) {
        let (row, mut put) = (put.row(), put.clone());
        for cell in put.parts_mut() {
            if cell.timestamp.is_none() && extent.has_column(&cell.family, &cell.qualifier) {
                cell.timestamp = times.ahead;
                self.guard(row, &cell.family, &cell.qualifier, times.seen + 1);
            }
        }
        self.mutations.push(put.into());
    }

    fn delete(&mut self, delete: &Delete, times: &Times) {
        let from = times.delete + 1;
        for scope in delete.parts() {
            match scope {
                DeleteScope::Family(family) => {
                    self.guard_row(delete.row(), Some(family), from);
                }
                DeleteScope::Column { family, qualifier } => {
                    self.guard(delete.row(), family, qualifier, from);
                }
                DeleteScope::Version { .. } | DeleteScope::FamilyVersion { .. } => {}
            }
        }
        // A delete without scopes deletes the row.
        if delete.parts().is_empty() {
            self.guard_row(delete.row(), None, from);
        }
        // Deletes of versions keep their own timestamps.
        self.mutations
            .push(delete.clone().with_stamp(Some(times.delete)).into());
    }

    fn increment(&mut self, increment: &Increment, times: &Times, extent: &Extent) {
        let mut increment = increment.clone();
        for counter in increment.parts_mut() {
            if extent.has_column(&counter.family, &counter.qualifier) {
                counter.timestamp = times.ahead;
            }
        }
        self.mutations.push(increment.into());
    }

    fn append(&mut self, append: &Append, times: &Times, extent: &Extent) {
        let mut append = append.clone();
        for cell in append.parts_mut() {
            if extent.has_column(&cell.family, &cell.qualifier) {
                cell.timestamp = times.ahead;
            }
        }
        self.mutations.push(append.into());
    }
}
