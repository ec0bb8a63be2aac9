//! Checks that a history is strictly serialisable: transactions have an order that agrees with real
//! time.
//!
//! | file | what |
//! |---|---|
//! | `versions` | the order of the versions of each key, and violations in any order |
//! | `dependencies` | which transaction must precede which, and why |
//! | `cycles` | transactions that must precede themselves |
//!
//! The method is Adya's, as in Elle: the elements of a key show the order of its writers; this and
//! the reads determine the order of transactions; the history is serialisable if that has no cycle.
//!
//! The absence of a key that is deleted later is ambiguous: it was read before the key was created,
//! or after the deletion. Unless another dependency decides, nothing follows from it, and the
//! [`Report`] counts it.

mod cycles;
mod dependencies;
#[cfg(test)]
mod tests;
mod versions;

use std::{collections::BTreeMap, fmt};

use self::{cycles::Graph, dependencies::Dependencies, versions::Versions};
use super::history::History;

/// A kind of anomaly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    /// A read, or the final state, has an element of a transaction that was not applied.
    DirtyRead,
    /// A read has a part of a transaction's writes to one key.
    IntermediateRead,
    /// A read has an element that no transaction wrote.
    Unwritten,
    /// An element occurs twice.
    AppliedTwice,
    /// A write replaced a version without its elements.
    LostUpdate,
    /// Transactions overwrote each other.
    WriteCycle,
    /// Transactions have read each other's writes.
    CircularInformation,
    /// A transaction depends on another one, and has not read all of its writes.
    ReadSkew,
    /// Each of some transactions has not read the next one's write to a key that it read.
    WriteSkew,
    /// The same, for a key that was absent in a row or a range that was read.
    Phantom,
    /// They have an order, but it contradicts real time.
    Stale,
}

/// A violation.
#[derive(Clone, Debug)]
pub(crate) struct Anomaly {
    pub(crate) kind: Kind,
    /// The names of the transactions; those of a cycle in its order.
    pub(crate) transactions: Vec<String>,
    what: String,
}

/// The result of checking a history.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report {
    pub(crate) anomalies: Vec<Anomaly>,
    pub(crate) committed: usize,
    /// The number of dependencies between transactions.
    pub(crate) dependencies: usize,
    /// The number of reads of absent keys that determine an order.
    pub(crate) absences: usize,
    /// The number of reads of absent keys that are ambiguous.
    pub(crate) undecided: usize,
}

/// Finds anomalies. Of cycles it finds the worst first, then the shortest, and none that share a
/// transaction: so there may be others, but none if it finds none. A cycle is reported as a phantom
/// only if there is none without one.
pub(crate) fn check(history: &History) -> Report {
    let (versions, mut anomalies) = Versions::of(history);
    let dependencies = Dependencies::of(history, &versions);
    let mut graph = Graph::new(history, &dependencies.all);
    anomalies.extend(graph.anomalies());
    Report {
        anomalies,
        committed: history
            .transactions
            .iter()
            .filter(|transaction| transaction.is_committed())
            .count(),
        dependencies: dependencies.all.len(),
        absences: dependencies.absences,
        undecided: dependencies.undecided,
    }
}

impl Report {
    /// Returns the number of anomalies of each kind.
    pub(crate) fn kinds(&self) -> BTreeMap<Kind, usize> {
        let mut kinds = BTreeMap::new();
        for anomaly in &self.anomalies {
            *kinds.entry(anomaly.kind).or_default() += 1;
        }
        kinds
    }

    /// Adds the report on another partition.
    pub(crate) fn extend(&mut self, other: Self) {
        self.anomalies.extend(other.anomalies);
        self.committed += other.committed;
        self.dependencies += other.dependencies;
        self.absences += other.absences;
        self.undecided += other.undecided;
    }
}

impl fmt::Display for Anomaly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.kind, self.what)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} committed, {} dependencies, {} absences and {} undecided: {:?}",
            self.committed,
            self.dependencies,
            self.absences,
            self.undecided,
            self.kinds()
        )
    }
}
