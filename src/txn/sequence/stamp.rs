//! Timestamps that make a folded transaction visible, and what must hold for them.
//!
//! With S for the newest timestamp that was seen in a row (of a cell or of a delete marker), `now` for what the client
//! takes for the server's time, and T = max(now, S + 1):
//!
//! | in a row | is stamped | condition |
//! |---|---|---|
//! | a put | T: above all that was seen | nothing from T on |
//! | a delete of a column | S: hides all that was seen, and nothing that others put later, not even in the same millisecond | nothing from S + 1 on |
//! | a delete of a family or the row | by the server, and, unless S is surely past, a second marker at S: the server's clock covers what others wrote meanwhile, S what is stamped ahead of it | none can be said |
//! | an increment, an append | by the server, past the old cell; T if there is no old cell, or a marker stamped ahead would hide it | none is needed |
//! | deletes, where one has a put over it | T - 1: below the put, above all that was seen | nothing from T on, for columns |
//!
//! What has a timestamp keeps it. No answer depends on how right `now` is, as long as it is not an hour wrong: what was
//! seen is judged by S. A `now` that is ahead makes cells that are stamped ahead.
//!
//! No condition sees a delete marker. One that another client writes between the read and the commit hides the put if
//! its timestamp is T or later, as if that delete had come last.
//!
//! What no stamp cures: the server stamps an increment or append right behind an old cell that lies ahead of its clock.
//! Where exactly that version was deleted before (`Delete::version`), the new cell is hidden, in a transaction or not.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::Sequence;
use crate::{
    error::{Error, Result},
    model::{Append, Delete, DeleteScope, Increment, LATEST_TIMESTAMP, Mutation, Put},
};

/// How far `now` may be from the server's clock before it decides anything, in milliseconds: one hour.
const CLOCK_DOUBT: u64 = 3_600_000;

/// What has to be read of a row before it is stamped. Delete markers count, those of families too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::txn) struct ToRead {
    pub(in crate::txn) row: Bytes,
    pub(in crate::txn) extent: Extent,
}

/// How much of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::txn) enum Extent {
    Row,
    Parts {
        families: BTreeSet<Bytes>,
        /// Family and qualifier; none of those families.
        columns: BTreeSet<(Bytes, Bytes)>,
    },
}

/// A transaction with timestamps, and the conditions under which they keep its meaning.
#[derive(Clone, Debug)]
pub(in crate::txn) struct Stamped {
    pub(in crate::txn) mutations: Vec<Mutation>,
    pub(in crate::txn) guards: Vec<GuardedCell>,
}

/// A cell that must have no version at or after a timestamp.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::txn) struct GuardedCell {
    pub(in crate::txn) row: Bytes,
    pub(in crate::txn) family: Bytes,
    pub(in crate::txn) qualifier: Bytes,
    /// The first timestamp that must not be there, in milliseconds since 1970.
    pub(in crate::txn) from: u64,
}

impl Sequence<'_> {
    /// What has to be read before [`stamp`](Self::stamp), once for each row. Rows with timestamps only are not there.
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

    /// Stamps the operations that have no timestamp, and says under which conditions that is right.
    ///
    /// `now` is the server's time in milliseconds since 1970, as far as the client knows. `seen` answers the newest
    /// timestamp in what [`to_read`](Self::to_read) names of a row; 0 if there is nothing.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for a row with so late a timestamp that nothing can be put over it.
    pub(in crate::txn) fn stamp(&self, now: u64, seen: impl Fn(&Bytes) -> u64) -> Result<Stamped> {
        let mut stamped = Stamped {
            mutations: Vec::with_capacity(self.mutations.len()),
            guards: Vec::new(),
        };
        for mutation in &*self.mutations {
            if !takes_stamps(mutation) {
                stamped.mutations.push(mutation.clone());
                continue;
            }
            let replaced = self.replaced.contains(mutation.row());
            let times =
                Times::new(now, seen(mutation.row()), replaced).map_err(|error| mutation.blame(error))?;
            match mutation {
                Mutation::Put(put) => stamped.put(put, &times),
                Mutation::Delete(delete) => stamped.delete(delete, &times),
                Mutation::Increment(increment) => stamped.increment(increment, &times),
                Mutation::Append(append) => stamped.append(append, &times),
            }
        }
        Ok(stamped)
    }
}

/// Whether anything in it has no timestamp.
fn takes_stamps(mutation: &Mutation) -> bool {
    match mutation {
        Mutation::Put(put) => {
            put.timestamp.is_none() && put.cells.iter().any(|cell| cell.timestamp.is_none())
        }
        Mutation::Delete(delete) => {
            delete.timestamp.is_none()
                && (delete.scopes.is_empty() || delete.scopes.iter().any(|scope| !is_version(scope)))
        }
        Mutation::Increment(_) | Mutation::Append(_) => true,
    }
}

fn is_version(scope: &DeleteScope) -> bool {
    matches!(scope, DeleteScope::Version { .. })
}

impl Extent {
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
                for cell in put.cells.iter().filter(|cell| cell.timestamp.is_none()) {
                    add(&cell.family, &cell.qualifier);
                }
            }
            Mutation::Append(append) => {
                for cell in &append.cells {
                    add(&cell.family, &cell.qualifier);
                }
            }
            Mutation::Increment(increment) => {
                for counter in &increment.columns {
                    add(&counter.family, &counter.qualifier);
                }
            }
            Mutation::Delete(delete) if delete.scopes.is_empty() => *self = Self::Row,
            Mutation::Delete(delete) => {
                for scope in &delete.scopes {
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
                        DeleteScope::Version { .. } => {}
                    }
                }
            }
        }
    }
}

/// The timestamps of one row.
struct Times {
    put: u64,
    /// What deletes of columns hide up to.
    column: u64,
    family: FamilyTimes,
    /// Where increments and appends of absent cells are stamped, if not by the server.
    change: Option<u64>,
}

/// What deletes of families and rows hide up to.
enum FamilyTimes {
    At(u64),
    Now,
    NowAnd(u64),
}

impl Times {
    fn new(now: u64, seen: u64, replaced: bool) -> Result<Self> {
        let put = now.max(seen.saturating_add(1));
        if put >= LATEST_TIMESTAMP {
            return Err(Error::invalid(format!(
                "no timestamp is left behind {}, which the row has",
                put - 1
            ))
            .with_hint("take another row, or delete up to that timestamp and compact the table"));
        }
        let is_surely_old = seen.saturating_add(CLOCK_DOUBT) <= now;
        Ok(Self {
            put,
            column: if replaced { put - 1 } else { seen },
            family: match (replaced, is_surely_old || seen == 0) {
                (true, _) => FamilyTimes::At(put - 1),
                (false, true) => FamilyTimes::Now,
                (false, false) => FamilyTimes::NowAnd(seen),
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

    fn put(&mut self, put: &Put, times: &Times) {
        let mut put = put.clone();
        for cell in put.cells.iter_mut().filter(|cell| cell.timestamp.is_none()) {
            cell.timestamp = Some(times.put);
            self.guard(&put.row, &cell.family, &cell.qualifier, times.put);
        }
        self.mutations.push(put.into());
    }

    fn delete(&mut self, delete: &Delete, times: &Times) {
        for scope in &delete.scopes {
            if let DeleteScope::Column { family, qualifier } = scope {
                self.guard(&delete.row, family, qualifier, times.column + 1);
            }
        }
        let part = |scopes: Vec<DeleteScope>, timestamp: Option<u64>| {
            Mutation::Delete(Delete {
                scopes,
                timestamp,
                ..delete.clone()
            })
        };
        let is_family = |scope: &&DeleteScope| matches!(scope, DeleteScope::Family(_));
        let families: Vec<_> = delete.scopes.iter().filter(is_family).cloned().collect();
        let others: Vec<_> = delete
            .scopes
            .iter()
            .filter(|scope| !is_family(scope))
            .cloned()
            .collect();
        if !others.is_empty() {
            self.mutations.push(part(others, Some(times.column)));
        }
        // Without any scope it is the row.
        if families.is_empty() && !delete.scopes.is_empty() {
            return;
        }
        match times.family {
            FamilyTimes::At(timestamp) => self.mutations.push(part(families, Some(timestamp))),
            FamilyTimes::Now => self.mutations.push(part(families, None)),
            FamilyTimes::NowAnd(timestamp) => {
                self.mutations.push(part(families.clone(), None));
                self.mutations.push(part(families, Some(timestamp)));
            }
        }
    }

    fn increment(&mut self, increment: &Increment, times: &Times) {
        let mut increment = increment.clone();
        for counter in &mut increment.columns {
            counter.timestamp = times.change;
        }
        self.mutations.push(increment.into());
    }

    fn append(&mut self, append: &Append, times: &Times) {
        let mut append = append.clone();
        for cell in &mut append.cells {
            cell.timestamp = times.change;
        }
        self.mutations.push(append.into());
    }
}
