//! The transactions that wait for a call to their region. No I/O.
//!
//! Of the transactions with one row, only the first may go, and only if no call in flight has the row.
//! The others are not looked at until the first one's call has ended: a thousand that wait for one row
//! delay no transaction of another one.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, hash_map::Entry},
    hash::BuildHasherDefault,
    mem,
};

use super::{HashOfHash, RowHash, RowSet, Waiting};

type ByRow<T> = HashMap<RowHash, T, BuildHasherDefault<HashOfHash>>;

/// The transactions of a region that wait, by ticket, and so in the order of arrival.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// Behind pointers: an entry moves when others leave.
    waiting: BTreeMap<u64, Box<Waiting>>,
    /// Those that may go: they are the first of each of their rows, and no call in flight has one of
    /// these, nor their version.
    ready: BTreeSet<u64>,
    by_row: ByRow<RowQueue>,
    /// Those that only wait for a version to be in no call.
    by_version: ByRow<BTreeSet<u64>>,
    /// The rows of the calls in flight.
    locked: RowSet,
}

/// The tickets of the transactions with one row.
#[derive(Debug)]
struct RowQueue {
    first: u64,
    others: BTreeSet<u64>,
}

impl Queue {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns whether a call in flight has this row.
    pub(super) fn is_locked(&self, row: RowHash) -> bool {
        self.locked.contains(&row)
    }

    /// Returns whether no call in flight has one of these rows.
    pub(super) fn are_free(&self, mut rows: impl Iterator<Item = RowHash>) -> bool {
        !rows.any(|row| self.is_locked(row))
    }

    /// Records that a call in flight has these rows.
    pub(super) fn lock(&mut self, rows: impl Iterator<Item = RowHash>) {
        self.locked.extend(rows);
    }

    /// Records that the call with these rows has ended.
    pub(super) fn unlock(&mut self, rows: &[RowHash]) {
        for row in rows {
            self.locked.remove(row);
        }
        for row in rows {
            self.check_first_of(row);
            for ticket in self.by_version.remove(row).unwrap_or_default() {
                self.check(ticket);
            }
        }
    }

    /// Returns those that may go, in the order of arrival.
    pub(super) fn ready(&self) -> impl ExactSizeIterator<Item = (u64, &Waiting)> {
        let waiting = |ticket: &u64| (*ticket, &*self.waiting[ticket]);
        self.ready.iter().map(waiting)
    }

    pub(super) fn insert(&mut self, ticket: u64, waiting: Box<Waiting>) {
        for row in &waiting.member.rows {
            match self.by_row.entry(*row) {
                Entry::Vacant(queue) => {
                    queue.insert(RowQueue {
                        first: ticket,
                        others: BTreeSet::new(),
                    });
                }
                Entry::Occupied(mut queue) => queue.get_mut().insert(ticket),
            }
        }
        self.waiting.insert(ticket, waiting);
        self.check(ticket);
    }

    /// Takes a transaction for a call, which has its rows from now on.
    pub(super) fn take(&mut self, ticket: u64) -> Option<Box<Waiting>> {
        let rows = self.waiting.get(&ticket)?.member.all_rows();
        self.locked.extend(rows);
        self.remove(ticket)
    }

    /// Removes a transaction. The next ones of its rows may go, unless a call has these.
    pub(super) fn remove(&mut self, ticket: u64) -> Option<Box<Waiting>> {
        let waiting = self.waiting.remove(&ticket)?;
        self.ready.remove(&ticket);
        let version = waiting.member.version.as_ref().map(|version| version.row);
        if let Some(version) = version
            && let Entry::Occupied(mut parked) = self.by_version.entry(version)
        {
            parked.get_mut().remove(&ticket);
            if parked.get().is_empty() {
                parked.remove();
            }
        }
        for row in &waiting.member.rows {
            if let Entry::Occupied(mut queue) = self.by_row.entry(*row)
                && !queue.get_mut().remove(ticket)
            {
                queue.remove();
            }
            self.check_first_of(row);
        }
        Some(waiting)
    }

    fn check_first_of(&mut self, row: &RowHash) {
        if let Some(first) = self.by_row.get(row).map(|queue| queue.first) {
            self.check(first);
        }
    }

    /// Determines whether a transaction may go.
    pub(super) fn check(&mut self, ticket: u64) {
        let Some(waiting) = self.waiting.get(&ticket) else {
            return;
        };
        let member = &waiting.member;
        let is_next = |row: &RowHash| {
            let is_first = self.by_row.get(row).is_some_and(|queue| queue.first == ticket);
            is_first && !self.is_locked(*row)
        };
        if !member.rows.iter().all(is_next) {
            return;
        }
        match &member.version {
            Some(version) if self.is_locked(version.row) => {
                self.by_version.entry(version.row).or_default().insert(ticket);
                self.ready.remove(&ticket);
            }
            _ => {
                self.ready.insert(ticket);
            }
        }
    }
}

impl RowQueue {
    fn insert(&mut self, ticket: u64) {
        // A transaction that is sent back after a shared call was there before the others.
        if ticket < self.first {
            self.others.insert(mem::replace(&mut self.first, ticket));
        } else if ticket > self.first {
            self.others.insert(ticket);
        }
    }

    /// Removes a ticket. Returns whether another one is left.
    fn remove(&mut self, ticket: u64) -> bool {
        if ticket != self.first {
            self.others.remove(&ticket);
            return true;
        }
        self.others.pop_first().is_some_and(|next| {
            self.first = next;
            true
        })
    }
}

#[cfg(test)]
mod tests;
