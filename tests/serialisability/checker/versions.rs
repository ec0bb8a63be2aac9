//! The order of the versions of each key, and violations in any order.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::{Anomaly, Kind};
use crate::serialisability::history::{History, List, Read, Transaction, Write};

/// The writers of each key, in order. A key is absent at first.
#[derive(Debug, Default)]
pub(super) struct Versions<'a> {
    pub(super) keys: BTreeMap<&'a str, Key>,
}

/// The versions of one key after the first.
#[derive(Debug, Default)]
pub(super) struct Key {
    /// The transactions that appended its elements.
    pub(super) writers: Vec<usize>,
    /// The transaction that deleted it at last.
    pub(super) deleter: Option<usize>,
}

impl Key {
    /// Returns the writer of the version after the one with this many elements.
    pub(super) fn writer_behind(&self, elements: usize) -> Option<usize> {
        self.writers.get(elements).copied().or(self.deleter)
    }
}

/// The list of a key in a read of a transaction, or in the final state.
struct Sight<'a> {
    reader: Option<usize>,
    list: &'a List,
}

impl<'a> Versions<'a> {
    /// Determines the orders. A key whose order does not follow from the reads has none.
    pub(super) fn of(history: &'a History) -> (Self, Vec<Anomaly>) {
        let mut finder = Finder::new(history);
        let mut keys = BTreeMap::new();
        for (key, sights) in sights(history) {
            if let Some(order) = finder.order_of(key, &sights) {
                keys.insert(key, order);
            }
        }
        (Self { keys }, finder.anomalies)
    }
}

/// Returns the lists of each key in all reads and the final state. A key that was written and never
/// read has none.
fn sights(history: &History) -> BTreeMap<&str, Vec<Sight<'_>>> {
    let mut sights: BTreeMap<&str, Vec<Sight<'_>>> = BTreeMap::new();
    for (reader, transaction) in history.transactions.iter().enumerate() {
        if !transaction.is_committed() {
            continue;
        }
        let reader = Some(reader);
        for write in &transaction.writes {
            let (Write::Append { key, .. } | Write::Delete { key }) = write;
            sights.entry(key).or_default();
        }
        for read in &transaction.reads {
            match read {
                Read::Cell { key, found } => {
                    sights.entry(key).or_default().push(Sight { reader, list: found });
                }
                Read::Span { found, .. } => {
                    for (key, list) in found {
                        sights.entry(key).or_default().push(Sight { reader, list });
                    }
                }
            }
        }
    }
    for (key, list) in &history.end {
        sights.entry(key).or_default().push(Sight { reader: None, list });
    }
    sights
}

struct Finder<'a> {
    history: &'a History,
    /// The writer of each element of each key.
    appended: HashMap<(&'a str, &'a str), usize>,
    deleted: HashMap<&'a str, Vec<usize>>,
    anomalies: Vec<Anomaly>,
}

impl<'a> Finder<'a> {
    fn new(history: &'a History) -> Self {
        let mut appended = HashMap::new();
        let mut deleted: HashMap<&str, Vec<usize>> = HashMap::new();
        for (writer, transaction) in history.transactions.iter().enumerate() {
            for write in &transaction.writes {
                match write {
                    Write::Append { key, element } => {
                        let other = appended.insert((key.as_str(), element.as_str()), writer);
                        assert!(other.is_none(), "{element} was appended to {key} by two");
                    }
                    Write::Delete { key } if transaction.is_committed() => {
                        assert!(
                            has_seen(transaction, key),
                            "{key} was deleted unseen: {transaction}"
                        );
                        deleted.entry(key).or_default().push(writer);
                    }
                    Write::Delete { .. } => {}
                }
            }
        }
        Self {
            history,
            appended,
            deleted,
            anomalies: Vec::new(),
        }
    }

    fn order_of(&mut self, key: &'a str, sights: &[Sight<'a>]) -> Option<Key> {
        let longest = sights.iter().max_by_key(|sight| sight.list.len());
        let longest: &[String] = longest.map_or(&[], |sight| sight.list);
        let mut has_order = true;
        for sight in sights {
            has_order &= self.check_sight(key, sight);
            if !longest.starts_with(sight.list) {
                has_order = false;
                let what = format!("{key} was seen as {:?} and as {longest:?}", sight.list);
                self.found(Kind::LostUpdate, sight.reader, what);
            }
        }
        let deleters = self.deleted.get(key).cloned().unwrap_or_default();
        if deleters.len() > 1 {
            let what = format!("{key} was deleted by all of them");
            self.found(Kind::LostUpdate, deleters.iter().copied(), what);
        }
        let end = self.history.end.get(key);
        match (end, deleters.first().copied()) {
            (Some(end), Some(_)) => {
                let what = format!("{key} was deleted, and is {end:?} at the end");
                self.found(Kind::LostUpdate, deleters.iter().copied(), what);
            }
            // The deleter has read the list that it deleted.
            (None, deleter @ Some(_)) => self.check_nothing_is_lost(key, longest, deleter),
            (end, None) => self.check_nothing_is_lost(key, end.map_or(&[], Vec::as_slice), None),
        }
        let writers: Vec<usize> = longest
            .iter()
            .map(|element| self.appended.get(&(key, element.as_str())).copied())
            .collect::<Option<_>>()
            .filter(|_| has_order)?;
        self.check_whole(key, sights, &writers);
        Some(Key {
            writers,
            deleter: deleters.first().copied(),
        })
    }

    /// Checks that each element was written once, and by a committed transaction.
    fn check_sight(&mut self, key: &str, sight: &Sight<'_>) -> bool {
        let list = sight.list;
        let mut seen = HashSet::new();
        let mut is_right = true;
        for element in list {
            let wrong = match self.appended.get(&(key, element.as_str())).copied() {
                _ if !seen.insert(element) => Some((Kind::AppliedTwice, None)),
                None => Some((Kind::Unwritten, None)),
                Some(writer) if !self.history.transactions[writer].is_committed() => {
                    Some((Kind::DirtyRead, Some(writer)))
                }
                Some(_) => None,
            };
            if let Some((kind, writer)) = wrong {
                is_right = false;
                let what = format!("{element} in {key} = {list:?}");
                self.found(kind, sight.reader.into_iter().chain(writer), what);
            }
        }
        is_right
    }

    /// Checks that no read has a list without all elements of its last writer.
    fn check_whole(&mut self, key: &str, sights: &[Sight<'_>], writers: &[usize]) {
        for Sight { reader, list } in sights {
            let (Some(last), Some(next)) = (list.len().checked_sub(1), writers.get(list.len())) else {
                continue;
            };
            if writers[last] == *next && *reader != Some(*next) {
                let what = format!("{key} was seen as {list:?}");
                self.found(
                    Kind::IntermediateRead,
                    reader.iter().copied().chain([*next]),
                    what,
                );
            }
        }
    }

    /// Checks that all appended elements are there, except those of the deleter itself.
    fn check_nothing_is_lost(&mut self, key: &str, there: &[String], deleter: Option<usize>) {
        let lost: Vec<(&str, usize)> = self
            .committed_to(key)
            .filter(|(element, writer)| Some(*writer) != deleter && !there.iter().any(|one| one == element))
            .collect();
        for (element, writer) in lost {
            let what = format!("{element} was appended to {key}, where {there:?} is all that was left");
            self.found(Kind::LostUpdate, deleter.into_iter().chain([writer]), what);
        }
    }

    /// Returns the elements that committed transactions appended to a key, without order.
    fn committed_to(&self, key: &str) -> impl Iterator<Item = (&'a str, usize)> {
        let transactions = self.history.transactions.iter().enumerate();
        let committed = transactions.filter(|(_, transaction)| transaction.is_committed());
        committed.flat_map(move |(writer, transaction)| {
            transaction.writes.iter().filter_map(move |write| match write {
                Write::Append { key: to, element } if to == key => Some((element.as_str(), writer)),
                _ => None,
            })
        })
    }

    fn found(&mut self, kind: Kind, who: impl IntoIterator<Item = usize>, what: String) {
        let who: Vec<&Transaction> = who
            .into_iter()
            .map(|one| &self.history.transactions[one])
            .collect();
        let lines = who.iter().map(|transaction| format!("\n  {transaction}"));
        self.anomalies.push(Anomaly {
            kind,
            what: lines.fold(what, |all, line| all + &line),
            transactions: who.iter().map(|transaction| transaction.name.clone()).collect(),
        });
    }
}

/// Returns whether a transaction has read elements of a key.
fn has_seen(transaction: &Transaction, key: &str) -> bool {
    transaction.reads.iter().any(|read| match read {
        Read::Cell { key: read, found } => read == key && !found.is_empty(),
        Read::Span { found, .. } => found.contains_key(key),
    })
}
