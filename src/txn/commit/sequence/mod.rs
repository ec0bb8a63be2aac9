//! Folds the operations of a transaction, which take effect one after the other, into a form that
//! the endpoint can apply at once. No I/O.
//!
//! | file | what |
//! |---|---|
//! | `row` | folds the operations of one row |
//! | `cell` | folds the operations of one cell |
//! | `gather` | turns the remaining operations of a row into mutations |
//! | `stamp` | timestamps that make a folded transaction visible, and their conditions |
//!
//! The endpoint gives all cells of a call the same timestamp, and reads the old values for
//! increments and appends before it writes anything. So within one call a delete hides a put in
//! either order, one of two increments is lost, and an increment does not see a put. After folding,
//! each cell has at most one operation without a timestamp, so no order has to be kept, except for
//! a put over a delete: those two need different timestamps.

mod cell;
mod gather;
mod row;
mod stamp;

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet, hash_map::Entry},
};

use bytes::Bytes;
use hbase_client::{
    Mutation,
    low_level::{Limits, MutationParts},
};

use self::row::RowFold;
pub(in crate::txn) use self::stamp::{Extent, GuardedRow, Seen, ToRead, is_ahead};
use crate::error::Result;

/// The number of cells from which on hashing finds a repeated cell, instead of comparing pairs.
const HASHED: usize = 16;

/// The folded operations of a transaction.
#[derive(Debug)]
pub(in crate::txn) struct Sequence<'a> {
    mutations: Cow<'a, [Mutation]>,
    /// The rows in which a cell is put over a delete.
    replaced: HashSet<Bytes>,
    folded: usize,
}

impl<'a> Sequence<'a> {
    /// Folds the operations of each cell into one. A mutation is left as it is if no other mutation
    /// names its row and it names no cell twice.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidInput`](crate::ClientErrorKind::InvalidInput), naming the row, the cell and
    /// the reason, if no single call can express the sequence, or if a folded cell is larger than
    /// the limit.
    pub(in crate::txn) fn fold(mutations: &'a [Mutation], limits: &Limits) -> Result<Self> {
        // Sorted rows are the usual case, and cheaper to detect than to hash.
        let ascending = mutations.windows(2).all(|two| two[0].row() < two[1].row());
        let repeated = if ascending {
            HashSet::new()
        } else {
            repeated_rows(mutations)
        };
        let is_simple =
            |mutation: &Mutation| !repeated.contains(mutation.row()) && !names_a_cell_twice(mutation);
        if mutations.iter().all(is_simple) {
            return Ok(Self::unchanged(mutations));
        }

        let mut parts: Vec<Part<'a>> = Vec::new();
        let mut places: HashMap<&Bytes, usize> = HashMap::new();
        for mutation in mutations {
            if is_simple(mutation) {
                parts.push(Part::Simple(mutation));
                continue;
            }
            let place = match places.entry(mutation.row()) {
                Entry::Occupied(place) => *place.get(),
                Entry::Vacant(place) => {
                    parts.push(Part::Folded(RowFold::new(mutation.row())));
                    *place.insert(parts.len() - 1)
                }
            };
            if let Part::Folded(row) = &mut parts[place] {
                row.apply(mutation)?;
            }
        }
        let (mut folded, mut replaced, mut operations) = (Vec::new(), HashSet::new(), 0);
        for part in parts {
            let row = match part {
                Part::Simple(mutation) => {
                    folded.push(mutation.clone());
                    continue;
                }
                Part::Folded(row) => row.finish(),
            };
            for mutation in &row.mutations {
                mutation.check(limits)?;
            }
            if let (true, Some(mutation)) = (row.replaces, row.mutations.first()) {
                replaced.insert(mutation.row().clone());
            }
            operations += row.folded;
            folded.extend(row.mutations);
        }
        Ok(Self {
            mutations: Cow::Owned(folded),
            replaced,
            folded: operations,
        })
    }

    /// Wraps mutations that need no folding, because each cell is in only one of them.
    pub(in crate::txn) fn unchanged(mutations: &'a [Mutation]) -> Self {
        Self {
            mutations: Cow::Borrowed(mutations),
            replaced: HashSet::new(),
            folded: 0,
        }
    }

    /// Returns whether a cell is put over a delete of the same transaction. Such a put and delete
    /// need different timestamps.
    pub(in crate::txn) fn replaces(&self) -> bool {
        !self.replaced.is_empty()
    }

    /// Returns the mutations that can be sent without timestamps, or `None` if the transaction
    /// [`replaces`](Self::replaces).
    pub(in crate::txn) fn mutations(&self) -> Option<&[Mutation]> {
        (!self.replaces()).then_some(&self.mutations)
    }

    /// Returns the number of operations that folding removed.
    pub(in crate::txn) fn folded(&self) -> usize {
        self.folded
    }
}

enum Part<'a> {
    Simple(&'a Mutation),
    Folded(RowFold<'a>),
}

/// Returns the rows that several mutations name.
fn repeated_rows(mutations: &[Mutation]) -> HashSet<&Bytes> {
    let mut rows = HashSet::with_capacity(mutations.len());
    mutations
        .iter()
        .map(Mutation::row)
        .filter(|row| !rows.insert(*row))
        .collect()
}

fn names_a_cell_twice(mutation: &Mutation) -> bool {
    fn twice<'a>(cells: impl ExactSizeIterator<Item = (&'a Bytes, &'a Bytes)> + Clone) -> bool {
        match cells.len() {
            0 | 1 => false,
            2..HASHED => {
                let mut rest = cells;
                while let Some(cell) = rest.next() {
                    if rest.clone().any(|other| other == cell) {
                        return true;
                    }
                }
                false
            }
            count => {
                let mut seen = HashSet::with_capacity(count);
                !cells.into_iter().all(|cell| seen.insert(cell))
            }
        }
    }
    match mutation {
        Mutation::Put(put) => twice(put.parts().iter().map(|cell| (&cell.family, &cell.qualifier))),
        Mutation::Append(append) => twice(append.parts().iter().map(|cell| (&cell.family, &cell.qualifier))),
        Mutation::Increment(increment) => twice(
            increment
                .parts()
                .iter()
                .map(|counter| (&counter.family, &counter.qualifier)),
        ),
        // Repeated delete markers in one call have no further effect.
        Mutation::Delete(_) => false,
    }
}

#[cfg(test)]
mod tests;
