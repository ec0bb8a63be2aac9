//! What a read does after each stored cell: HBase's `ScanQueryMatcher` and its subclasses.

use std::cmp::Reverse;

use bytes::Bytes;

use super::{
    by_sequence::BySequence,
    columns::{AllColumns, SomeColumns},
    deletes::Deletes,
    step::{Masked, Step},
};
use crate::{
    cell::{Cell, Kind},
    exception::Result,
    filter::{Filter, Verdict},
    region::{
        entry::{CellKey, Entry},
        family::Family,
        store::to_cell,
    },
};

/// Who reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A client's read of what is visible.
    Visible,
    /// A client's read of everything, markers included.
    Raw,
    /// A flush or a compaction, which keeps markers or drops them.
    Rewrite { keep_markers: bool },
}

#[derive(Clone, Debug)]
enum Columns {
    All(AllColumns, Deletes),
    Some(SomeColumns, Deletes),
    BySequence(BySequence),
}

/// Decides about the cells of one family.
#[derive(Clone, Debug)]
pub(super) struct Matcher {
    purpose: Purpose,
    family: Family,
    columns: Columns,
    time_range: (u64, u64),
    /// The time of the read.
    now: u64,
    /// The versions that a column may have behind the filter, and the present column with its count.
    versions_behind_filter: u32,
    behind_filter: Option<(Bytes, u32)>,
    /// Whether a row has been begun.
    pub(super) is_in_row: bool,
}

/// The parts of a query that are about one family.
#[derive(Clone, Debug)]
pub(super) struct FamilyQuery {
    /// The columns to read, or none for all.
    pub(super) columns: Vec<Bytes>,
    pub(super) most_versions: u32,
    pub(super) time_range: (u64, u64),
    pub(super) has_filter: bool,
}

impl Matcher {
    pub(super) fn new(family: Family, purpose: Purpose, query: FamilyQuery, now: u64) -> Self {
        let most = match purpose {
            Purpose::Visible => query.most_versions.min(family.versions),
            Purpose::Raw => query.most_versions,
            Purpose::Rewrite { .. } => family.versions,
        };
        // A filter chooses among all versions of the family, and what it includes is counted after it.
        let before_filter = match purpose {
            _ if !query.has_filter => most,
            Purpose::Raw => u32::MAX,
            _ => family.versions,
        };
        let explicit = !query.columns.is_empty();
        let columns = if family.by_sequence && purpose != Purpose::Raw {
            let columns = explicit.then_some(query.columns);
            Columns::BySequence(BySequence::new(columns, family.versions, most))
        } else if explicit {
            Columns::Some(SomeColumns::new(query.columns, before_filter), Deletes::default())
        } else {
            Columns::All(AllColumns::new(before_filter), Deletes::default())
        };
        Self {
            purpose,
            family,
            columns,
            time_range: query.time_range,
            now,
            versions_behind_filter: most,
            behind_filter: None,
            is_in_row: false,
        }
    }

    /// Begins a row.
    pub(super) fn enter_row(&mut self) {
        self.is_in_row = true;
        self.behind_filter = None;
        match &mut self.columns {
            Columns::All(columns, deletes) => {
                columns.reset();
                deletes.reset();
            }
            Columns::Some(columns, deletes) => {
                columns.reset();
                deletes.reset();
            }
            Columns::BySequence(columns) => columns.reset(),
        }
    }

    /// Returns the column at which a read continues that leaves the present one, or `None` for the
    /// one behind it.
    pub(super) fn next_column(&self) -> Option<&Bytes> {
        match &self.columns {
            Columns::All(..) => None,
            Columns::Some(columns, _) => columns.next(),
            Columns::BySequence(columns) => columns.next(),
        }
    }

    /// Returns the next step behind a cell of the row that was begun.
    pub(super) fn step(
        &mut self,
        key: &CellKey,
        entry: &Entry,
        cell: impl FnOnce() -> Cell,
        filter: Option<&mut (dyn Filter + 'static)>,
    ) -> Result<Step> {
        if filter.as_ref().is_some_and(|filter| filter.all_remaining()) {
            return Ok(Step::Done);
        }
        let keeps_all = self.purpose == Purpose::Rewrite { keep_markers: true };
        if keeps_all && matches!(self.columns, Columns::BySequence(_)) {
            // A cell of a later write elsewhere may make room for this one.
            return Ok(Step::Include);
        }
        if let Some(step) = self.leave_out(key, entry) {
            return Ok(step);
        }
        match self.purpose {
            Purpose::Visible => {
                if key.kind.0.is_delete() {
                    if key.timestamp.0 >= self.time_range.0 {
                        self.add_marker(key);
                    }
                    return Ok(Step::Skip);
                }
                match self.mask(key) {
                    Some(step) => Ok(step),
                    None => self.select(key, cell, filter),
                }
            }
            Purpose::Raw => self.select(key, cell, filter),
            Purpose::Rewrite { keep_markers } => {
                if key.kind.0.is_delete() {
                    self.add_marker(key);
                    return Ok(if keep_markers { Step::Include } else { Step::Skip });
                }
                Ok(self.mask(key).unwrap_or_else(|| self.count(key)))
            }
        }
    }

    /// Returns the next step of a flush or a compaction.
    pub(super) fn step_without_filter(&mut self, key: &CellKey, entry: &Entry) -> Result<Step> {
        // Only filters look at whole cells.
        self.step(key, entry, || to_cell(&Bytes::new(), key, entry), None)
    }

    /// `preCheck`: cells behind the last column, and expired ones.
    fn leave_out(&mut self, key: &CellKey, entry: &Entry) -> Option<Step> {
        let is_done = match &self.columns {
            Columns::All(..) => false,
            Columns::Some(columns, _) => columns.next().is_none(),
            Columns::BySequence(columns) => columns.is_done(),
        };
        if is_done {
            return Some(Step::NextRow);
        }
        // `StoreScanner` reads raw without the TTL of the family, but with those of cells.
        let has_ttl = !matches!(self.columns, Columns::BySequence(_)) && self.purpose != Purpose::Raw;
        if has_ttl && self.family.is_expired(key.timestamp.0, None, self.now) {
            return Some(self.leave_column(key));
        }
        let is_expired = |ttl| key.timestamp.0.saturating_add(ttl) < self.now;
        entry.ttl.is_some_and(is_expired).then_some(Step::Skip)
    }

    fn add_marker(&mut self, key: &CellKey) {
        match &mut self.columns {
            Columns::All(_, deletes) | Columns::Some(_, deletes) => deletes.add(key),
            Columns::BySequence(columns) => columns.add(key),
        }
    }

    fn mask(&mut self, key: &CellKey) -> Option<Step> {
        let masked = match &mut self.columns {
            Columns::All(_, deletes) | Columns::Some(_, deletes) => deletes.mask(key),
            Columns::BySequence(columns) => columns.mask(key),
        };
        Some(match masked? {
            Masked::Alone => Step::Skip,
            Masked::WithOlder => self.leave_column(key),
        })
    }

    /// `getNextRowOrNextColumn`.
    fn leave_column(&mut self, key: &CellKey) -> Step {
        if let Columns::Some(columns, _) = &mut self.columns {
            columns.leave_column(&key.qualifier);
            if columns.next().is_none() {
                return Step::NextRow;
            }
        }
        Step::NextColumn
    }

    fn count(&mut self, key: &CellKey) -> Step {
        let (timestamp, kind) = (key.timestamp.0, key.kind.0);
        match &mut self.columns {
            Columns::All(columns, _) => columns.count(&key.qualifier, timestamp, kind),
            Columns::Some(columns, _) => columns.count(timestamp),
            Columns::BySequence(columns) => columns.count(self.family.is_expired(timestamp, None, self.now)),
        }
    }

    /// `matchColumn`: time range, columns, versions, and then the filter.
    fn select(
        &mut self,
        key: &CellKey,
        cell: impl FnOnce() -> Cell,
        filter: Option<&mut (dyn Filter + 'static)>,
    ) -> Result<Step> {
        let (from, to) = self.time_range;
        if key.timestamp.0 >= to {
            return Ok(Step::Skip);
        }
        if key.timestamp.0 < from {
            return Ok(self.leave_column(key));
        }
        let selected = match &mut self.columns {
            Columns::All(..) => Step::Include,
            Columns::Some(columns, _) => columns.select(&key.qualifier),
            Columns::BySequence(columns) => columns.select(&key.qualifier),
        };
        if selected != Step::Include {
            return Ok(selected);
        }
        let step = self.count(key);
        match filter {
            Some(filter) if !matches!(step, Step::Skip | Step::NextColumn) => {
                let verdict = filter.cell(&cell())?;
                Ok(self.merge(key, step, verdict))
            }
            _ => Ok(step),
        }
    }

    /// `mergeFilterResponse`: both must include the cell, and the further of their steps is taken.
    fn merge(&mut self, key: &CellKey, step: Step, verdict: Verdict) -> Step {
        let mut step = match (verdict, step) {
            (Verdict::Skip, Step::Include) => return Step::Skip,
            (Verdict::Skip, Step::IncludeAndNextColumn) => return Step::NextColumn,
            (Verdict::NextColumn, Step::Include | Step::IncludeAndNextColumn) => {
                return self.leave_column(key);
            }
            (Verdict::Skip | Verdict::NextColumn | Verdict::NextRow, _) => return Step::NextRow,
            (Verdict::Seek(to), _) => return Step::Seek(to),
            (Verdict::IncludeAndNextColumn, Step::Include) => Step::IncludeAndNextColumn,
            (Verdict::Include | Verdict::IncludeAndNextColumn, step) => step,
            (Verdict::IncludeAndNextRow, _) => Step::IncludeAndNextRow,
        };
        let count = match &self.behind_filter {
            Some((column, count)) if *column == key.qualifier => count + 1,
            _ => 1,
        };
        self.behind_filter = Some((key.qualifier.clone(), count));
        if count > self.versions_behind_filter {
            step = match step {
                Step::IncludeAndNextRow => Step::NextRow,
                _ => Step::NextColumn,
            };
        }
        if let (Step::IncludeAndNextColumn | Step::NextColumn, Columns::Some(columns, _)) =
            (&step, &mut self.columns)
        {
            columns.leave_column(&key.qualifier);
        }
        step
    }
}

/// The key at which a read continues that leaves the unnamed column, which also has the markers of
/// its family: `PrivateCellUtil.createNextOnRowCol`. Cells of the next kind with the same timestamp
/// are before it.
pub(super) fn behind(key: &CellKey) -> CellKey {
    let kind = match key.kind.0 {
        Kind::Put | Kind::Delete => Kind::Put,
        Kind::DeleteFamilyVersion => Kind::Delete,
        Kind::DeleteColumn => Kind::DeleteFamilyVersion,
        Kind::DeleteFamily => Kind::DeleteColumn,
    };
    CellKey {
        kind: Reverse(kind),
        sequence: Reverse(0),
        ..key.clone()
    }
}
