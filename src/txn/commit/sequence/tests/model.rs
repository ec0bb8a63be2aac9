//! An in-memory table with HBase's timestamps. It applies a list of mutations one after the other,
//! or in one call.

use std::collections::{BTreeMap, BTreeSet};

use hbase_client::low_level::{MutationParts, MutationStamp};

use crate::txn::commit::sequence::tests::*;

type Key = (Bytes, Bytes, Bytes);

/// The visible cells: row, family, qualifier, value.
pub(super) type Visible = BTreeMap<Key, Bytes>;

#[derive(Clone, Debug, Default)]
pub(super) struct Store {
    /// For each column, the values by timestamp; of two writes at one timestamp the last is kept.
    cells: BTreeMap<Key, BTreeMap<u64, Bytes>>,
    versions: BTreeSet<(Key, u64)>,
    columns: BTreeMap<Key, u64>,
    families: BTreeMap<(Bytes, Bytes), u64>,
    /// The deletion mark.
    pub(super) mark: u64,
}

/// What a client finds in a row that it deletes.
#[derive(Clone, Debug)]
pub(super) struct Found {
    /// Those of the visible cells of the row.
    pub(super) timestamps: BTreeSet<u64>,
    /// The columns of the deleted part, including those whose cells are deleted, with their newest
    /// timestamps.
    pub(super) columns: BTreeMap<Key, u64>,
}

/// The case in which a real server throws an exception.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NotACounter;

pub(super) const FAMILIES: [&str; 2] = ["f", "g"];

impl Store {
    pub(super) fn write(&mut self, key: Key, timestamp: u64, value: Bytes) {
        self.cells.entry(key).or_default().insert(timestamp, value);
    }

    fn hidden_up_to(&self, key: &Key) -> Option<u64> {
        let family = self.families.get(&(key.0.clone(), key.1.clone()));
        self.columns.get(key).max(family).copied()
    }

    fn current(&self, key: &Key) -> Option<(u64, Bytes)> {
        let hidden = self.hidden_up_to(key);
        let versions = self.cells.get(key)?.iter().rev();
        versions
            .filter(|(timestamp, _)| hidden < Some(**timestamp))
            .find(|(timestamp, _)| !self.versions.contains(&(key.clone(), **timestamp)))
            .map(|(timestamp, value)| (*timestamp, value.clone()))
    }

    pub(super) fn visible(&self) -> Visible {
        let keys = self.cells.keys();
        keys.filter_map(|key| Some((key.clone(), self.current(key)?.1)))
            .collect()
    }

    /// Returns the newest timestamp of a row within an extent, including delete markers.
    pub(super) fn newest(&self, row: &Bytes, extent: &Extent) -> u64 {
        // That a family is unchanged is checked with the rest of the row.
        let all = extent.has_families();
        let Extent::Parts { columns: parts, .. } = (if all {
            Extent::column(Bytes::new(), Bytes::new())
        } else {
            extent.clone()
        }) else {
            unreachable!()
        };
        let is_in =
            |family: &Bytes, qualifier: &Bytes| all || parts.contains(&(family.clone(), qualifier.clone()));
        let has_family = |family: &Bytes| all || parts.iter().any(|(of, _)| of == family);
        let of = |key: &Key| key.0 == *row && is_in(&key.1, &key.2);
        let cells = self.cells.iter().filter(|(key, _)| of(key));
        let columns = self.columns.iter().filter(|(key, _)| of(key));
        let versions = self.versions.iter().filter(|(key, _)| of(key));
        let families = self
            .families
            .iter()
            .filter(|((of, family), _)| of == row && has_family(family));
        cells
            .flat_map(|(_, versions)| versions.keys())
            .chain(columns.map(|(_, timestamp)| timestamp))
            .chain(versions.map(|(_, timestamp)| timestamp))
            .chain(families.map(|(_, timestamp)| timestamp))
            .copied()
            .max()
            .unwrap_or(0)
    }

    /// Returns whether the cell has no visible version at the guard's timestamp or later.
    pub(super) fn holds(&self, guard: &GuardedCell) -> bool {
        let key = (guard.row.clone(), guard.family.clone(), guard.qualifier.clone());
        self.current(&key)
            .is_none_or(|(timestamp, _)| timestamp < guard.from)
    }

    /// Returns the cells of a guarded row.
    pub(super) fn found(&self, guard: &GuardedRow) -> Found {
        let of_row = |key: &&Key| key.0 == guard.row;
        let of_family = |key: &&Key| guard.family.as_ref().is_none_or(|family| *family == key.1);
        let visible = self
            .cells
            .keys()
            .filter(of_row)
            .filter_map(|key| self.current(key));
        Found {
            timestamps: visible.map(|(timestamp, _)| timestamp).collect(),
            columns: self
                .cells
                .iter()
                .filter(|(key, _)| of_row(key) && of_family(key))
                .filter_map(|(key, versions)| Some((key.clone(), *versions.keys().next_back()?)))
                .collect(),
        }
    }

    /// Returns whether a row has only the cells that were found. If there were none, whether the
    /// columns found have no version at the guard's timestamp or later. `is_ahead` is whether cells
    /// may have equal timestamps.
    pub(super) fn holds_row(&self, guard: &GuardedRow, found: &Found, is_ahead: bool) -> bool {
        let absent_from =
            |key: &Key, from: u64| self.current(key).is_none_or(|(timestamp, _)| timestamp < from);
        let mut columns = found.columns.iter();
        if found.timestamps.is_empty() {
            return columns.all(|(key, _)| absent_from(key, guard.from));
        }
        let now = self.found(guard).timestamps;
        !now.is_empty()
            && now.is_subset(&found.timestamps)
            && (!is_ahead || columns.all(|(key, newest)| absent_from(key, *newest + 1)))
    }

    /// Applies the mutations in one call: operations without a timestamp get `now`, and the values
    /// for increments and appends are read before anything is written.
    pub(super) fn call(&mut self, mutations: &[Mutation], now: u64) -> Result<(), NotACounter> {
        let before = self.clone();
        for mutation in mutations {
            self.apply(mutation, now, &before)?;
        }
        Ok(())
    }

    /// Applies each operation at a separate time, later than everything stored.
    pub(super) fn in_sequence(&mut self, mutations: &[Mutation], mut now: u64) -> Result<(), NotACounter> {
        for mutation in mutations.iter().flat_map(single_operations) {
            now = now.max(self.newest(mutation.row(), &Extent::Row)) + 1;
            let before = self.clone();
            self.apply(&mutation, now, &before)?;
        }
        Ok(())
    }

    fn apply(&mut self, mutation: &Mutation, now: u64, before: &Self) -> Result<(), NotACounter> {
        let row = mutation.row();
        let key = |family: &Bytes, qualifier: &Bytes| (row.clone(), family.clone(), qualifier.clone());
        let stamp = |old: Option<&(u64, Bytes)>, own: Option<u64>| match old {
            Some((timestamp, _)) => now.max(timestamp + 1),
            None => own.unwrap_or(now),
        };
        match mutation {
            Mutation::Put(put) => {
                for cell in put.parts() {
                    let timestamp = cell.timestamp.or_else(|| put.stamp()).unwrap_or(now);
                    self.write(key(&cell.family, &cell.qualifier), timestamp, cell.value.clone());
                }
            }
            Mutation::Increment(increment) => {
                for counter in increment.parts() {
                    let key = key(&counter.family, &counter.qualifier);
                    let old = before.current(&key);
                    let number = match &old {
                        None => 0,
                        Some((_, value)) => {
                            i64::from_be_bytes(value[..].try_into().map_err(|_| NotACounter)?)
                        }
                    };
                    let sum = number.wrapping_add(counter.amount).to_be_bytes();
                    self.write(key, stamp(old.as_ref(), counter.timestamp), sum.to_vec().into());
                }
            }
            Mutation::Append(append) => {
                for cell in append.parts() {
                    let key = key(&cell.family, &cell.qualifier);
                    let old = before.current(&key);
                    let mut value = old.as_ref().map_or(Vec::new(), |(_, value)| value.to_vec());
                    value.extend_from_slice(&cell.value);
                    self.write(key, stamp(old.as_ref(), cell.timestamp), value.into());
                }
            }
            Mutation::Delete(delete) => {
                let timestamp = delete.stamp().unwrap_or(now);
                let mut hide_family = |family: Bytes| {
                    let marker = self.families.entry((row.clone(), family)).or_default();
                    *marker = timestamp.max(*marker);
                };
                if delete.parts().is_empty() {
                    FAMILIES.map(Bytes::from).into_iter().for_each(&mut hide_family);
                }
                for scope in delete.parts() {
                    match scope {
                        DeleteScope::Family(family) => hide_family(family.clone()),
                        DeleteScope::FamilyVersion { .. } => unreachable!("no transaction has it"),
                        DeleteScope::Column { family, qualifier } => {
                            let marker = self.columns.entry(key(family, qualifier)).or_default();
                            *marker = timestamp.max(*marker);
                        }
                        DeleteScope::Version {
                            family,
                            qualifier,
                            timestamp,
                        } => {
                            self.versions.insert((key(family, qualifier), *timestamp));
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

/// Returns each operation of a mutation as a separate mutation.
fn single_operations(mutation: &Mutation) -> Vec<Mutation> {
    match mutation {
        Mutation::Put(put) => split(put),
        Mutation::Append(append) => split(append),
        Mutation::Increment(increment) => split(increment),
        Mutation::Delete(delete) if delete.parts().is_empty() => vec![mutation.clone()],
        Mutation::Delete(delete) => split(delete),
    }
}

fn split<M: MutationParts<Part: Clone> + Clone + Into<Mutation>>(mutation: &M) -> Vec<Mutation> {
    let one = |part: &M::Part| {
        let mut one = mutation.clone();
        *one.parts_mut() = vec![part.clone()];
        one.into()
    };
    mutation.parts().iter().map(one).collect()
}
