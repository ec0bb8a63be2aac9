//! What a get or a scan asks of each row.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
};

use bytes::Bytes;
use hbase_protocol as pb;

use super::{
    matcher::{FamilyQuery, Matcher, Purpose},
    region_scanner::RegionScanner,
    store_scanner::{Rules, StoreScanner},
};
use crate::{
    exception::{Exception, Result},
    filter::Filter,
    region::{Region, store::RowKey},
};

/// The parts of a read that gets and scans share.
#[derive(Clone, Debug)]
pub(in crate::region) struct Query {
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

/// The rows of a read.
pub(in crate::region) struct Rows {
    pub(in crate::region) from: Bound<RowKey>,
    pub(in crate::region) to: Bound<RowKey>,
    pub(in crate::region) reversed: bool,
    /// Whether families that the filter does not need are read after it has let a row pass.
    pub(in crate::region) joins: bool,
    /// The last write that is seen.
    pub(in crate::region) read_point: u64,
}

/// Returns the first timestamp of a range, and the one behind its last.
///
/// # Errors
///
/// Returns an error for a message without ends, of which HBase makes all times or none, depending
/// on the release and the call. No client sends one.
pub(in crate::region) fn time_range(range: Option<&pb::TimeRange>) -> Result<(u64, u64)> {
    match range {
        None => Ok((0, u64::MAX)),
        Some(pb::TimeRange { from: None, to: None }) => {
            Err(Exception::not_modelled("a time range without ends"))
        }
        Some(range) => Ok((range.from.unwrap_or(0), range.to.unwrap_or(u64::MAX))),
    }
}

/// The fields of a get or a scan that a [`Query`] is made of.
pub(in crate::region) struct Parts<'a> {
    pub(in crate::region) columns: &'a [pb::Column],
    pub(in crate::region) attributes: &'a [pb::NameBytesPair],
    pub(in crate::region) time_range: Option<&'a pb::TimeRange>,
    pub(in crate::region) family_ranges: &'a [pb::ColumnFamilyTimeRange],
    pub(in crate::region) max_versions: u32,
    pub(in crate::region) store_limit: Option<u32>,
    pub(in crate::region) store_offset: Option<u32>,
}

impl Region {
    pub(in crate::region) fn query(&self, parts: &Parts<'_>) -> Result<Query> {
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
                name @ ("VISIBILITY" | "acl") => {
                    return Err(Exception::not_modelled(format!("attribute {name} of a read")));
                }
                // Isolation decides the moment of a scan; others are for coprocessors.
                _ => {}
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
    pub(in crate::region) fn newest(
        region: &Region,
        column: Option<(&Bytes, &Bytes)>,
        range: (u64, u64),
    ) -> Self {
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

    pub(in crate::region) fn versions(mut self, most: u32) -> Self {
        self.most_versions = most;
        self
    }

    pub(in crate::region) fn families(&self) -> impl Iterator<Item = &Bytes> {
        self.families.keys()
    }

    /// Begins a read.
    pub(in crate::region) fn scanner(
        &self,
        region: &Region,
        filter: Option<Box<dyn Filter>>,
        rows: Rows,
        now: u64,
    ) -> RegionScanner {
        let (mut stores, mut joined) = (Vec::new(), Vec::new());
        for (family, columns) in &self.families {
            let Some(settings) = region.families.get(family) else {
                continue;
            };
            let time_range = *self.family_ranges.get(family).unwrap_or(&self.time_range);
            let purpose = if self.raw { Purpose::Raw } else { Purpose::Visible };
            let query = FamilyQuery {
                columns: columns.iter().cloned().collect(),
                most_versions: self.most_versions,
                time_range,
                has_filter: filter.is_some(),
            };
            let store = StoreScanner::new(Rules {
                family: family.clone(),
                matcher: Matcher::new(*settings, purpose, query, now),
                read_point: rows.read_point,
                left_out: region.store.files_without(family, time_range),
                limit: self.limit,
                offset: self.offset,
                reversed: rows.reversed,
            });
            let is_needed = filter.as_ref().is_none_or(|filter| filter.needs_family(family));
            if is_needed || !rows.joins {
                stores.push(store);
            } else {
                joined.push(store);
            }
        }
        RegionScanner {
            stores,
            joined,
            filter,
            reversed: rows.reversed,
            from: rows.from,
            to: rows.to,
            row: None,
            joining: None,
        }
    }
}
