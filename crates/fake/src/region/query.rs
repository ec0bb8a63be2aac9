//! What a get or a scan asks of each row.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use hbase_protocol as pb;

use super::{
    Region,
    entry::Row,
    family::Family,
    store::{FamilyCells, cells_of, to_cell},
    versions::{Fate, Tracker},
};
use crate::{
    cell::Cell,
    exception::{Exception, Result},
    filter::{Filter, Verdict},
};

/// The parts of a read that gets and scans share.
#[derive(Clone, Debug)]
pub(super) struct Query {
    /// The families to read, each with its columns, or with none for all.
    families: BTreeMap<Bytes, BTreeSet<Bytes>>,
    most_versions: u32,
    time_range: (u64, u64),
    family_ranges: BTreeMap<Bytes, (u64, u64)>,
    raw: bool,
    /// The most cells of a family of a row, and how many are left out before them.
    limit: Option<usize>,
    offset: usize,
}

/// The point up to which a read sees writes, and its time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) read_point: u64,
    pub(super) now: u64,
}

/// Returns the first timestamp of a range, and the one behind its last.
///
/// # Errors
///
/// Returns an error for a message without ends, of which HBase makes all times or none, depending
/// on the release and the call. No client sends one.
pub(super) fn time_range(range: Option<&pb::TimeRange>) -> Result<(u64, u64)> {
    match range {
        None => Ok((0, u64::MAX)),
        Some(pb::TimeRange { from: None, to: None }) => {
            Err(Exception::not_modelled("a time range without ends"))
        }
        Some(range) => Ok((range.from.unwrap_or(0), range.to.unwrap_or(u64::MAX))),
    }
}

/// The fields of a get or a scan that a [`Query`] is made of.
pub(super) struct Parts<'a> {
    pub(super) columns: &'a [pb::Column],
    pub(super) attributes: &'a [pb::NameBytesPair],
    pub(super) time_range: Option<&'a pb::TimeRange>,
    pub(super) family_ranges: &'a [pb::ColumnFamilyTimeRange],
    pub(super) max_versions: u32,
    pub(super) store_limit: Option<u32>,
    pub(super) store_offset: Option<u32>,
}

impl Region {
    pub(super) fn query(&self, parts: &Parts<'_>) -> Result<Query> {
        let mut families: BTreeMap<Bytes, BTreeSet<Bytes>> = BTreeMap::new();
        for column in parts.columns {
            self.family(&column.family)?;
            let columns = families.entry(column.family.clone()).or_default();
            if column.qualifier.is_empty() {
                // As in Java: the family after its columns, or they after it, replace each other.
                columns.clear();
            }
            columns.extend(column.qualifier.iter().cloned());
        }
        if families.is_empty() {
            families = self
                .families
                .keys()
                .map(|family| (family.clone(), BTreeSet::new()))
                .collect();
        }
        let mut raw = false;
        for attribute in parts.attributes {
            match &*attribute.name {
                "_raw_" => raw = attribute.value().first() == Some(&0xff),
                "_isolationlevel_" if attribute.value().first() == Some(&0) => {}
                "scan.attributes.table.name" | "scan.attributes.metrics.enable" => {}
                name => return Err(Exception::not_modelled(format!("attribute {name} of a read"))),
            }
        }
        if raw && families.values().any(|columns| !columns.is_empty()) {
            return Err(Exception::do_not_retry(
                "Cannot specify any column for a raw scan",
            ));
        }
        Ok(Query {
            families,
            most_versions: parts.max_versions,
            time_range: time_range(parts.time_range)?,
            family_ranges: parts
                .family_ranges
                .iter()
                .map(|range| Ok((range.column_family.clone(), time_range(Some(&range.time_range))?)))
                .collect::<Result<_>>()?,
            raw,
            limit: parts.store_limit.and_then(|limit| usize::try_from(limit).ok()),
            offset: parts
                .store_offset
                .and_then(|offset| usize::try_from(offset).ok())
                .unwrap_or(0),
        })
    }
}

impl Query {
    /// A query of the newest version of everything, or of one column.
    pub(super) fn newest(region: &Region, column: Option<(&Bytes, &Bytes)>, range: (u64, u64)) -> Self {
        let families = match column {
            Some((family, qualifier)) => {
                BTreeMap::from([(family.clone(), BTreeSet::from([qualifier.clone()]))])
            }
            None => region
                .families
                .keys()
                .map(|family| (family.clone(), BTreeSet::new()))
                .collect(),
        };
        Self {
            families,
            most_versions: 1,
            time_range: range,
            family_ranges: BTreeMap::new(),
            raw: false,
            limit: None,
            offset: 0,
        }
    }

    pub(super) fn versions(mut self, most: u32) -> Self {
        self.most_versions = most;
        self
    }

    pub(super) fn families(&self) -> impl Iterator<Item = &Bytes> {
        self.families.keys()
    }

    /// Whether a row has cells in the families that are read, visible or not.
    pub(super) fn has_cells(&self, row: &Row, read_point: u64) -> bool {
        row.keys()
            .any(|key| self.families.contains_key(&key.family) && key.sequence.0 <= read_point)
    }

    /// Returns the cells of a row that pass the query and the filter.
    pub(super) fn read(
        &self,
        region: &Region,
        name: &Bytes,
        row: &Row,
        moment: Moment,
        mut filter: Option<&mut dyn Filter>,
    ) -> Result<Vec<Cell>> {
        let mut cells = Vec::new();
        for (family, columns) in &self.families {
            let Some(settings) = region.families.get(family) else {
                continue;
            };
            self.read_family(
                settings,
                columns,
                name,
                cells_of(row, family),
                moment,
                match &mut filter {
                    Some(filter) => Some(&mut **filter),
                    None => None,
                },
                &mut cells,
            )?;
        }
        Ok(cells)
    }

    #[allow(clippy::too_many_arguments, reason = "all of them are of one read")]
    fn read_family(
        &self,
        family: &Family,
        columns: &BTreeSet<Bytes>,
        name: &Bytes,
        mut stored: FamilyCells<'_>,
        moment: Moment,
        mut filter: Option<&mut dyn Filter>,
        cells: &mut Vec<Cell>,
    ) -> Result<()> {
        // Versions of the family count before the filter, those of the query behind it.
        let most = match self.raw {
            true => self.most_versions,
            false => family.versions,
        };
        let mut tracker = Tracker::new(family, most);
        let behind_filter = self.most_versions.min(most);
        let mut column: Option<(Bytes, u32)> = None;
        let mut skipped: Option<Bytes> = None;
        let mut seek = None;
        let mut seen = 0;
        while let Some((key, entry)) = stored.next() {
            if key.sequence.0 > moment.read_point || family.is_expired(key.timestamp.0, entry.ttl, moment.now)
            {
                continue;
            }
            let is_marker = key.kind.0.is_delete();
            if is_marker && !self.raw {
                tracker.mark(key);
                if tracker.is_column_done(key) {
                    stored.skip_column(&key.qualifier);
                }
                continue;
            }
            let (from, to) = self.family_ranges.get(&key.family).unwrap_or(&self.time_range);
            let in_range = (*from..*to).contains(&key.timestamp.0);
            let wanted = columns.is_empty() || columns.contains(&key.qualifier);
            // By sequence, versions count whether they are read or not.
            if !(in_range && wanted || family.by_sequence && !self.raw) {
                continue;
            }
            let fate = match self.raw {
                true => tracker.raw(key),
                false => tracker.put(key),
            };
            if !self.raw && tracker.is_column_done(key) {
                stored.skip_column(&key.qualifier);
            }
            if !(in_range && wanted) {
                continue;
            }
            if fate != Fate::Visible || skipped.as_ref() == Some(&key.qualifier) {
                continue;
            }
            let cell = to_cell(name, key, entry);
            if let Some(to) = &seek {
                let to: &crate::filter::SeekKey = to;
                if to.compare(&cell).is_gt() {
                    continue;
                }
                seek = None;
            }
            let mut stop = false;
            if let Some(filter) = &mut filter {
                match filter.cell(&cell)? {
                    Verdict::Include => {}
                    Verdict::IncludeAndNextColumn => skipped = Some(key.qualifier.clone()),
                    Verdict::IncludeAndNextRow => stop = true,
                    Verdict::Skip => continue,
                    Verdict::NextColumn => {
                        skipped = Some(key.qualifier.clone());
                        continue;
                    }
                    Verdict::NextRow => return Ok(()),
                    Verdict::Seek(to) => {
                        if to.row != *name {
                            return Ok(());
                        }
                        seek = Some(to);
                        continue;
                    }
                }
            }
            // Behind a filter, HBase counts markers too.
            if !is_marker || filter.is_some() {
                let count = match &mut column {
                    Some((qualifier, count)) if *qualifier == key.qualifier => {
                        *count += 1;
                        *count
                    }
                    column => {
                        *column = Some((key.qualifier.clone(), 1));
                        1
                    }
                };
                if count > behind_filter {
                    continue;
                }
            }
            seen += 1;
            if self.limit.is_some_and(|limit| seen > limit + self.offset) {
                return Ok(());
            }
            if seen > self.offset {
                cells.push(match &filter {
                    Some(filter) => filter.transform(cell),
                    None => cell,
                });
            }
            if stop {
                return Ok(());
            }
        }
        Ok(())
    }
}
