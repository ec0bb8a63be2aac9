//! The settlements that a client has seen in records, in the order in which it saw them.
//!
//! A settlement stops each commit of its id that began before it. A commit that finds one can't tell
//! by the record whether it came before or during the commit. One that its client had seen before
//! the commit began came before.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// The number of settlements that are remembered. A commit that meets a forgotten one is aborted,
/// and can be repeated.
const MAX_REMEMBERED: usize = 10_000;

/// The settlements that the clones of an open table have seen.
#[derive(Debug, Default)]
pub(in crate::txn) struct SeenSettlements(Mutex<Remembered>);

/// A position in the order in which settlements were seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::txn) struct Position(u64);

#[derive(Debug, Default)]
struct Remembered {
    next: u64,
    /// By the writer of the record, which is unique.
    positions: HashMap<u64, Position>,
    writers: VecDeque<u64>,
}

impl SeenSettlements {
    fn remembered(&self) -> MutexGuard<'_, Remembered> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the position of the next settlement that is seen.
    pub(in crate::txn) fn position(&self) -> Position {
        Position(self.remembered().next)
    }

    /// Remembers the record of a settlement by its writer.
    pub(in crate::txn) fn add(&self, writer: u64) {
        let mut remembered = self.remembered();
        if remembered.positions.contains_key(&writer) {
            return;
        }
        let position = Position(remembered.next);
        remembered.next += 1;
        remembered.positions.insert(writer, position);
        remembered.writers.push_back(writer);
        if remembered.writers.len() > MAX_REMEMBERED
            && let Some(first) = remembered.writers.pop_front()
        {
            remembered.positions.remove(&first);
        }
    }

    /// Returns whether the settlement was seen before this position.
    pub(super) fn has_before(&self, writer: u64, position: Position) -> bool {
        let remembered = self.remembered();
        let seen = remembered.positions.get(&writer);
        seen.is_some_and(|seen| *seen < position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settlement_keeps_the_position_at_which_it_was_first_seen() {
        let seen = SeenSettlements::default();
        let before = seen.position();
        seen.add(7);
        let after = seen.position();
        seen.add(7);
        assert!(!seen.has_before(7, before) && seen.has_before(7, after));
        assert!(!seen.has_before(8, after));
        assert_eq!(seen.position(), after);
    }

    #[test]
    fn oldest_settlements_are_forgotten() {
        let seen = SeenSettlements::default();
        for writer in 0..=MAX_REMEMBERED as u64 {
            seen.add(writer);
        }
        let now = seen.position();
        assert!(!seen.has_before(0, now) && seen.has_before(1, now));
        assert_eq!(seen.remembered().positions.len(), MAX_REMEMBERED);
    }
}
