//! Whether transactions could have run one after the other, each when it was asked for.
//!
//! | file | what |
//! |---|---|
//! | `versions` | the order of what each key held, and what can't be in any order |
//! | `dependencies` | who must have come before whom, and why |
//! | `cycles` | who must have come before himself |
//!
//! After Adya, and as Elle does it: the elements that a key holds tell who wrote it in which order;
//! from this and from what was read follows who came before whom; the history is serialisable if
//! that has no cycle.
//!
//! An absent key that somebody deletes tells little: it was read before it was there, or
//! afterwards. Where nothing else tells which, nothing follows from it, and the [`Report`] counts
//! it.

mod cycles;
mod dependencies;
#[cfg(test)]
mod tests;
mod versions;

use std::{collections::BTreeMap, fmt};

use self::{cycles::Graph, dependencies::Dependencies, versions::Versions};
use super::history::History;

/// What can be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    /// Something of a transaction that was not applied was seen, or is there at the end.
    DirtyRead,
    /// A part of what a transaction wrote into one key was seen.
    IntermediateRead,
    /// Something is there that nobody wrote.
    Unwritten,
    /// An element is there twice.
    AppliedTwice,
    /// Something that was written over was written without it.
    LostUpdate,
    /// Transactions wrote over each other.
    WriteCycle,
    /// Transactions have seen what each other wrote.
    CircularInformation,
    /// A transaction comes behind another one, and has not seen all of it.
    ReadSkew,
    /// Each of some transactions has not seen what the next one wrote into what it read.
    WriteSkew,
    /// The same, where something was absent in a row or a range that was read.
    Phantom,
    /// They have an order, but not the one in which they were asked for.
    Stale,
}

/// Something wrong.
#[derive(Clone, Debug)]
pub(crate) struct Anomaly {
    pub(crate) kind: Kind,
    /// The names of those it happened to; of a cycle in their order.
    pub(crate) transactions: Vec<String>,
    what: String,
}

/// What a history shows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report {
    pub(crate) anomalies: Vec<Anomaly>,
    pub(crate) committed: usize,
    /// Who had to come before whom.
    pub(crate) dependencies: usize,
    /// Absent keys that were read, and told something.
    pub(crate) absences: usize,
    /// Absent keys that were read, and told nothing.
    pub(crate) undecided: usize,
}

/// Finds what is wrong. Of cycles it finds the worst first, then the shortest, and none that share
/// a transaction: so there are others, perhaps, but none where it found none. A cycle is called a
/// phantom only where none is without one.
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
    /// How often each kind was found.
    pub(crate) fn kinds(&self) -> BTreeMap<Kind, usize> {
        let mut kinds = BTreeMap::new();
        for anomaly in &self.anomalies {
            *kinds.entry(anomaly.kind).or_default() += 1;
        }
        kinds
    }

    /// Adds what another partition shows.
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
