//! Folds the operations of one row.

use std::{borrow::Cow, collections::BTreeMap, ops::Bound};

use bytes::Bytes;
use hbase_client::{
    BytesBinary, Mutation,
    low_level::{DeleteScope, MutationParts, MutationStamp},
};

use super::{
    cell::{CellFold, Change, Refusal, Source},
    gather::{Part, gather},
};
use crate::error::Error;

static NO_QUALIFIER: Bytes = Bytes::new();

/// Family and qualifier.
pub(super) type Key<'a> = (&'a Bytes, &'a Bytes);

/// The result of the operations of a row so far.
#[derive(Debug)]
pub(super) struct RowFold<'a> {
    row: &'a Bytes,
    operations: usize,
    cells: BTreeMap<Key<'a>, CellFold<'a>>,
    /// Deletes without a timestamp. None lies within another, and none hides a change that came
    /// before it.
    deletes: BTreeMap<Scope<'a>, Source<'a>>,
    /// For each scope, the latest delete up to a timestamp.
    stamped_deletes: BTreeMap<Scope<'a>, (u64, Source<'a>)>,
}

/// A folded row.
#[derive(Debug)]
pub(super) struct FoldedRow {
    pub(super) mutations: Vec<Mutation>,
    /// Whether a cell is put over a delete.
    pub(super) replaces: bool,
    /// The number of operations that folding removed.
    pub(super) folded: usize,
}

/// The part of the row that a delete covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Scope<'a> {
    Row,
    Family(&'a Bytes),
    Column(Key<'a>),
}

impl<'a> Scope<'a> {
    fn covers(self, (family, qualifier): Key<'_>) -> bool {
        match self {
            Self::Row => true,
            Self::Family(whole) => family == whole,
            Self::Column(one) => one == (family, qualifier),
        }
    }

    /// Returns the start of the scope's cells in key order.
    fn from(self) -> Bound<Key<'a>> {
        match self {
            Self::Row => Bound::Unbounded,
            Self::Family(family) => Bound::Included((family, &NO_QUALIFIER)),
            Self::Column(key) => Bound::Included(key),
        }
    }

    /// Returns this scope and all wider scopes.
    fn and_wider(self) -> impl Iterator<Item = Self> {
        let family = match self {
            Self::Row => None,
            Self::Family(family) | Self::Column((family, _)) => Some(Self::Family(family)),
        };
        [Some(self), family, Some(Self::Row)].into_iter().flatten()
    }
}

impl<'a> RowFold<'a> {
    pub(super) fn new(row: &'a Bytes) -> Self {
        Self {
            row,
            operations: 0,
            cells: BTreeMap::new(),
            deletes: BTreeMap::new(),
            stamped_deletes: BTreeMap::new(),
        }
    }

    /// Applies a mutation of this row after the earlier ones.
    pub(super) fn apply(&mut self, mutation: &'a Mutation) -> Result<(), Error> {
        let attributes = mutation.attributes();
        let durability = mutation.durability();
        let mut operations = self.operations;
        let mut source = || {
            operations += 1;
            Source {
                at: operations,
                attributes: Cow::Borrowed(attributes),
                durability,
            }
        };
        let in_context = |key| move |refusal| mutation.in_context(explain(refusal, key));
        match mutation {
            Mutation::Put(put) => {
                for cell in put.parts() {
                    let key = (&cell.family, &cell.qualifier);
                    match cell.timestamp.or_else(|| put.stamp()) {
                        None => self.change(key, Change::Put(cell.value.clone().into()), source()),
                        Some(timestamp) => self.put_at(key, timestamp, &cell.value, source()),
                    }
                    .map_err(in_context(key))?;
                }
            }
            Mutation::Increment(increment) => {
                for counter in increment.parts() {
                    let key = (&counter.family, &counter.qualifier);
                    self.change(key, Change::Increment(counter.amount), source())
                        .map_err(in_context(key))?;
                }
            }
            Mutation::Append(append) => {
                for cell in append.parts() {
                    let key = (&cell.family, &cell.qualifier);
                    self.change(key, Change::Append(cell.value.clone().into()), source())
                        .map_err(in_context(key))?;
                }
            }
            Mutation::Delete(delete) => {
                let mut scopes = Vec::new();
                for scope in delete.parts() {
                    scopes.push(match scope {
                        DeleteScope::Family(family) => (Scope::Family(family), None),
                        DeleteScope::FamilyVersion { family, timestamp } => {
                            return Err(mutation.in_context(family_version(family, *timestamp)));
                        }
                        DeleteScope::Column { family, qualifier } => {
                            (Scope::Column((family, qualifier)), None)
                        }
                        DeleteScope::Version {
                            family,
                            qualifier,
                            timestamp,
                        } => (Scope::Column((family, qualifier)), Some(*timestamp)),
                    });
                }
                let row = delete.parts().is_empty().then_some((Scope::Row, None));
                for (scope, version) in scopes.into_iter().chain(row) {
                    match (scope, version, delete.stamp()) {
                        (Scope::Column(key), Some(version), _) => self.delete_version(key, version, source()),
                        (_, _, Some(timestamp)) => self.delete_up_to(scope, timestamp, source()),
                        (_, _, None) => self.delete(scope, source()),
                    }
                    .map_err(|(refusal, key)| mutation.in_context(explain(refusal, key)))?;
                }
            }
        }
        self.operations = operations;
        Ok(())
    }

    fn change(&mut self, key: Key<'a>, change: Change, source: Source<'a>) -> Result<(), Refusal> {
        let mut scopes = Scope::Column(key).and_wider();
        let is_deleted = scopes.any(|scope| self.deletes.contains_key(&scope));
        let is_deleted_up_to = self.deleted_up_to(key).is_some();
        let cell = self.cells.entry(key).or_default();
        if is_deleted_up_to || !cell.versions.is_empty() || !cell.deleted_versions.is_empty() {
            return Err(Refusal::Mixed);
        }
        cell.then(change, source, is_deleted)
    }

    fn put_at(
        &mut self,
        key: Key<'a>,
        timestamp: u64,
        value: &Bytes,
        source: Source<'a>,
    ) -> Result<(), Refusal> {
        let mut scopes = Scope::Column(key).and_wider();
        let is_deleted = scopes.any(|scope| self.deletes.contains_key(&scope));
        let deleted_up_to = self.deleted_up_to(key);
        let cell = self.cells.entry(key).or_default();
        if is_deleted || cell.change.is_some() {
            return Err(Refusal::Mixed);
        }
        if deleted_up_to >= Some(timestamp) || cell.deleted_versions.contains_key(&timestamp) {
            return Err(Refusal::Hidden(timestamp));
        }
        cell.versions.insert(timestamp, (value.clone(), source));
        Ok(())
    }

    fn delete(&mut self, scope: Scope<'a>, source: Source<'a>) -> Result<(), (Refusal, Key<'a>)> {
        self.each_within(scope, |cell| {
            cell.change = None;
            cell.versions.is_empty()
        })?;
        if scope.and_wider().any(|wider| self.deletes.contains_key(&wider)) {
            return Ok(());
        }
        match scope {
            Scope::Row => self.deletes.clear(),
            Scope::Family(family) => self
                .deletes
                .retain(|part, _| !matches!(part, Scope::Column((of, _)) if *of == family)),
            Scope::Column(_) => {}
        }
        self.deletes.insert(scope, source);
        Ok(())
    }

    fn delete_up_to(
        &mut self,
        scope: Scope<'a>,
        timestamp: u64,
        source: Source<'a>,
    ) -> Result<(), (Refusal, Key<'a>)> {
        self.each_within(scope, |cell| {
            cell.versions.retain(|version, _| *version > timestamp);
            cell.change.is_none()
        })?;
        let (latest, _) = self.stamped_deletes.entry(scope).or_insert((0, source));
        *latest = timestamp.max(*latest);
        Ok(())
    }

    fn delete_version(
        &mut self,
        key: Key<'a>,
        version: u64,
        source: Source<'a>,
    ) -> Result<(), (Refusal, Key<'a>)> {
        let cell = self.cells.entry(key).or_default();
        if cell.change.is_some() {
            return Err((Refusal::Mixed, key));
        }
        cell.versions.remove(&version);
        cell.deleted_versions.insert(version, source);
        Ok(())
    }

    /// Changes the cells within a scope, and removes those that become empty. The closure returns
    /// whether the order of the cell's remaining operations and the delete is clear by timestamp.
    fn each_within(
        &mut self,
        scope: Scope<'a>,
        change: impl Fn(&mut CellFold<'a>) -> bool,
    ) -> Result<(), (Refusal, Key<'a>)> {
        let mut forgotten = Vec::new();
        for (key, cell) in self.cells.range_mut((scope.from(), Bound::Unbounded)) {
            if !scope.covers(*key) {
                break;
            }
            if !change(cell) {
                return Err((Refusal::Mixed, *key));
            }
            if cell.is_empty() {
                forgotten.push(*key);
            }
        }
        for key in forgotten {
            self.cells.remove(&key);
        }
        Ok(())
    }

    /// Returns the latest timestamp up to which deletes hide this cell.
    fn deleted_up_to(&self, key: Key<'a>) -> Option<u64> {
        Scope::Column(key)
            .and_wider()
            .filter_map(|scope| self.stamped_deletes.get(&scope))
            .map(|(timestamp, _)| *timestamp)
            .max()
    }

    /// Returns the fewest mutations that can carry the remaining operations, in their order.
    pub(super) fn finish(self) -> FoldedRow {
        let mut replaces = false;
        let mut parts = Vec::new();
        for (key, cell) in self.cells {
            if let Some((change, source)) = cell.change {
                let mut scopes = Scope::Column(key).and_wider();
                replaces |= scopes.any(|scope| self.deletes.contains_key(&scope));
                parts.push((source, Part::Change(key, change)));
            }
            let versions = cell.versions.into_iter();
            parts.extend(versions.map(|(at, (value, source))| (source, Part::Version(key, at, value))));
            let deleted = cell.deleted_versions.into_iter();
            parts.extend(deleted.map(|(at, source)| (source, Part::DeleteVersion(key, at))));
        }
        let deletes = self.deletes.into_iter();
        parts.extend(deletes.map(|(scope, source)| (source, Part::Delete(scope, None))));
        let stamped = self.stamped_deletes.into_iter();
        parts.extend(stamped.map(|(scope, (at, source))| (source, Part::Delete(scope, Some(at)))));
        parts.sort_unstable_by_key(|(source, _)| source.at);
        FoldedRow {
            folded: self.operations - parts.len(),
            mutations: gather(self.row, parts),
            replaces,
        }
    }
}

/// Which columns it changes is known to the server alone.
fn family_version(family: &Bytes, timestamp: u64) -> Error {
    let family = BytesBinary(family);
    Error::invalid(format!(
        "a delete of the cells of family {family} at {timestamp}, and other operations on the row in one transaction"
    ))
    .with_hint("delete the versions of its columns, or use two transactions")
}

fn explain(refusal: Refusal, (family, qualifier): Key<'_>) -> Error {
    let cell = format!("cell {}:{}", BytesBinary(family), BytesBinary(qualifier));
    let (what, hint) = match refusal {
        Refusal::Width(width) => (
            format!("{cell} is put with {width} bytes and then incremented; a counter has 8"),
            "put the number as 8 bytes, big-endian",
        ),
        Refusal::Overflow => (
            format!("{cell} is incremented in one transaction by more than a 64-bit number can hold"),
            "put the number, or use two transactions",
        ),
        Refusal::IncrementAndAppend => (
            format!(
                "{cell} is incremented and appended to in one transaction, and the server does not do one after the other"
            ),
            "put the value, or use two transactions",
        ),
        Refusal::Mixed => (
            format!(
                "operations with and without a timestamp on {cell} in one transaction; the server does not keep their order"
            ),
            "leave one of the two out, or give them timestamps that say the order",
        ),
        Refusal::Hidden(timestamp) => (
            format!("{cell} is put at {timestamp} behind a delete that reaches so far, which hides it"),
            "leave one of the two out, or give the put a later timestamp",
        ),
    };
    Error::invalid(what).with_hint(hint)
}
