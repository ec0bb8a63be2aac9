//! Determines which transaction must precede which, and why.

use std::collections::{BTreeSet, HashSet};

use super::versions::Versions;
use crate::serialisability::history::{History, Read, Transaction};

/// The reason why one transaction precedes another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Why {
    /// The later one overwrote a write of the earlier one.
    Overwritten,
    /// The later one has read a write of the earlier one.
    Seen,
    /// The earlier one has not read a write of the later one to a key that it read.
    NotSeen,
    /// The same, for a key that was absent in a row or a range that was read.
    Phantom,
    /// The earlier one ended before the later one began.
    Earlier,
}

/// One transaction precedes another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Dependency<'a> {
    pub(super) before: usize,
    pub(super) behind: usize,
    pub(super) why: Why,
    /// The key; empty for a dependency by time.
    pub(super) key: &'a str,
}

/// All dependencies of a history.
#[derive(Debug, Default)]
pub(super) struct Dependencies<'a> {
    pub(super) all: Vec<Dependency<'a>>,
    pub(super) absences: usize,
    pub(super) undecided: usize,
}

/// A key that was read, with its number of elements.
#[derive(Clone, Copy, Debug)]
struct Seen<'a> {
    key: &'a str,
    elements: usize,
    in_span: bool,
}

impl<'a> Dependencies<'a> {
    pub(super) fn of(history: &'a History, versions: &Versions<'a>) -> Self {
        let mut finder = Finder {
            history,
            versions,
            found: BTreeSet::new(),
            absences: 0,
        };
        finder.of_writes();
        let open = finder.of_reads();
        let undecided = finder.of_open(&open);
        finder.of_time();
        Self {
            all: finder.found.into_iter().collect(),
            absences: finder.absences,
            undecided,
        }
    }
}

struct Finder<'a, 'v> {
    history: &'a History,
    versions: &'v Versions<'a>,
    found: BTreeSet<Dependency<'a>>,
    absences: usize,
}

/// A read of an absent key that some transaction deletes.
struct Open<'a> {
    reader: usize,
    seen: Seen<'a>,
    writer: usize,
    deleter: usize,
}

impl<'a> Finder<'a, '_> {
    fn add(&mut self, before: usize, behind: usize, why: Why, key: &'a str) {
        if before != behind {
            self.found.insert(Dependency {
                before,
                behind,
                why,
                key,
            });
        }
    }

    fn of_writes(&mut self) {
        let versions = self.versions;
        for (key, order) in &versions.keys {
            let writers: Vec<usize> = order.writers.iter().copied().chain(order.deleter).collect();
            for two in writers.windows(2) {
                self.add(two[0], two[1], Why::Overwritten, key);
            }
        }
    }

    /// Returns the ambiguous reads.
    fn of_reads(&mut self) -> Vec<Open<'a>> {
        let mut open = Vec::new();
        for (reader, transaction) in committed(self.history) {
            for seen in seen_by(transaction, self.versions) {
                let Some(order) = self.versions.keys.get(seen.key) else {
                    continue;
                };
                if let Some(last) = seen.elements.checked_sub(1) {
                    self.add(order.writers[last], reader, Why::Seen, seen.key);
                } else if let (Some(&writer), Some(deleter)) = (order.writers.first(), order.deleter) {
                    open.push(Open {
                        reader,
                        seen,
                        writer,
                        deleter,
                    });
                    continue;
                }
                self.not_seen(reader, seen);
            }
        }
        open
    }

    fn not_seen(&mut self, reader: usize, seen: Seen<'a>) {
        self.absences += usize::from(seen.elements == 0);
        let behind = self.versions.keys[seen.key].writer_behind(seen.elements);
        if let Some(behind) = behind {
            self.add(reader, behind, why_not_seen(seen), seen.key);
        }
    }

    /// If the reader of an absent key precedes its deleter, the key was not created yet; if it
    /// follows the deleter, there is no new dependency. Returns the number of reads that remain
    /// ambiguous.
    fn of_open(&mut self, open: &[Open<'a>]) -> usize {
        let known: HashSet<(usize, usize, bool)> = self
            .found
            .iter()
            .map(|found| (found.before, found.behind, found.why == Why::Phantom))
            .collect();
        let transactions = &self.history.transactions;
        let mut undecided = 0;
        for one in open {
            let Open {
                reader,
                seen,
                writer,
                deleter,
            } = *one;
            let in_time = transactions[reader].ended < transactions[deleter].began;
            let for_sure = in_time || reader == deleter || known.contains(&(reader, deleter, false));
            if for_sure || known.contains(&(reader, deleter, true)) {
                self.absences += 1;
                let why = if for_sure {
                    why_not_seen(seen)
                } else {
                    // It follows from a phantom, so it is one too.
                    Why::Phantom
                };
                self.add(reader, writer, why, seen.key);
                continue;
            }
            let behind = transactions[deleter].ended < transactions[reader].began
                || known.contains(&(deleter, reader, false))
                || known.contains(&(deleter, reader, true));
            if behind {
                self.absences += 1;
            } else {
                undecided += 1;
            }
        }
        undecided
    }

    /// Adds dependencies between neighbours in time only; the others follow.
    fn of_time(&mut self) {
        let history = self.history;
        for (behind, later) in committed(history) {
            let earlier = || committed(history).filter(|(_, one)| one.ended < later.began);
            let Some(newest) = earlier().map(|(_, one)| one.began).max() else {
                continue;
            };
            for (before, _) in earlier().filter(|(_, one)| one.ended >= newest) {
                self.add(before, behind, Why::Earlier, "");
            }
        }
    }
}

fn committed(history: &History) -> impl Iterator<Item = (usize, &Transaction)> {
    let all = history.transactions.iter().enumerate();
    all.filter(|(_, transaction)| transaction.is_committed())
}

fn why_not_seen(seen: Seen<'_>) -> Why {
    if seen.in_span && seen.elements == 0 {
        Why::Phantom
    } else {
        Why::NotSeen
    }
}

/// Returns every read of a key by a transaction: of single cells, and of all keys in ranges.
fn seen_by<'a>(transaction: &'a Transaction, versions: &Versions<'a>) -> Vec<Seen<'a>> {
    let mut seen = Vec::new();
    for read in &transaction.reads {
        match read {
            Read::Cell { key, found } => seen.push(Seen {
                key,
                elements: found.len(),
                in_span: false,
            }),
            Read::Span { start, stop, found } => {
                let keys = versions.keys.range(start.as_str()..stop.as_str());
                seen.extend(keys.map(|(&key, _)| Seen {
                    key,
                    elements: found.get(key).map_or(0, Vec::len),
                    in_span: true,
                }));
            }
        }
    }
    seen
}
