//! What mutations write. All of one call have one time and one sequence number, and read what was
//! there before the call.

use std::collections::BTreeMap;

use bytes::Bytes;
use hbase_protocol as pb;
use pb::mutation_proto::MutationType;

use super::{Region, Release, entry::Logged, mutation::Mutation, read::Query};
use crate::{
    cell::{Cell, Heap, Kind, LATEST},
    exception::{Exception, Result},
};

/// The cells that a mutation writes.
#[derive(Debug)]
pub(super) struct Written {
    cells: Vec<Cell>,
    logged: Logged,
    /// Whether older versions in memory are replaced.
    replaces: bool,
}

impl Region {
    /// Checks what a mutation names, before anything of its call is written.
    pub(super) fn check(&self, mutation: &Mutation) -> Result<()> {
        for cell in &mutation.cells {
            let family = self.family(&cell.family)?;
            // HBase confuses the column without a name with its family's markers, fails reads behind
            // markers of one version of a family, and counts a deleted version for those behind it.
            let is_odd = matches!(cell.kind, Kind::Delete | Kind::DeleteFamilyVersion)
                || cell.qualifier.is_empty() && !cell.kind.is_of_family();
            if family.by_sequence && is_odd {
                return Err(Exception::not_modelled(
                    "the column without a name, and deletes of one version, with NEW_VERSION_BEHAVIOR",
                ));
            }
        }
        Ok(())
    }

    /// Returns what a mutation writes at a time. `least` is a timestamp that its puts must not be
    /// below.
    pub(super) fn resolve(&self, mutation: &Mutation, now: u64, least: u64) -> Result<Written> {
        let mut cells = match mutation.kind {
            MutationType::Put => mutation.cells.clone(),
            MutationType::Delete => self.deleted(mutation, now)?,
            MutationType::Increment | MutationType::Append => self.added(mutation, now)?,
        };
        for cell in &mut cells {
            if cell.timestamp == LATEST {
                cell.timestamp = match mutation.kind {
                    MutationType::Put => now.max(least),
                    _ => now,
                };
            }
            if mutation.ttl.is_some() {
                cell.ttl = mutation.ttl;
            }
        }
        Ok(Written {
            cells,
            logged: mutation.durability.unwrap_or(self.durability),
            replaces: matches!(mutation.kind, MutationType::Increment | MutationType::Append),
        })
    }

    fn deleted(&self, mutation: &Mutation, now: u64) -> Result<Vec<Cell>> {
        if mutation.cells.is_empty() {
            let whole = |family: &Bytes| Cell {
                row: mutation.row.clone(),
                family: family.clone(),
                qualifier: Bytes::new(),
                timestamp: mutation.timestamp,
                kind: Kind::DeleteFamily,
                sequence: 0,
                value: Bytes::new(),
                ttl: None,
                heap: Heap::default(),
            };
            return Ok(self.families.keys().map(whole).collect());
        }
        let mut cells = mutation.cells.clone();
        // Of several deletes of the newest version of a column, each finds the next one.
        let mut found: BTreeMap<(Bytes, Bytes), u32> = BTreeMap::new();
        for cell in &mut cells {
            if cell.kind == Kind::Delete && cell.timestamp == LATEST {
                let number = found
                    .entry((cell.family.clone(), cell.qualifier.clone()))
                    .or_default();
                *number += 1;
                let column = Some((&cell.family, &cell.qualifier));
                let query = Query::newest(self, column, (0, u64::MAX)).versions(*number);
                let versions = self.read_row(&query, &cell.row, now, None, false)?;
                if let Some(version) = versions.get(*number as usize - 1) {
                    cell.timestamp = version.timestamp;
                }
            }
        }
        Ok(cells)
    }

    /// Returns the new values of an increment or append.
    fn added(&self, mutation: &Mutation, now: u64) -> Result<Vec<Cell>> {
        let mut cells = mutation.cells.clone();
        for cell in &mut cells {
            let column = Some((&cell.family, &cell.qualifier));
            let query = Query::newest(self, column, mutation.time_range);
            let old = self
                .read_row(&query, &cell.row, now, None, false)?
                .into_iter()
                .next();
            if let Some(old) = &old {
                cell.timestamp = now.max(old.timestamp + 1);
            }
            cell.ttl = old.as_ref().and_then(|old| old.ttl);
            cell.value = match mutation.kind {
                MutationType::Append => {
                    let old = old.map(|old| old.value).unwrap_or_default();
                    [&old[..], &cell.value[..]].concat().into()
                }
                _ => {
                    let old = old.map_or(Ok(0), |old| number(&old.value))?;
                    let sum = old.wrapping_add(number(&cell.value)?);
                    Bytes::copy_from_slice(&sum.to_be_bytes())
                }
            };
        }
        Ok(cells)
    }

    /// Writes what several mutations have resolved to, and returns it.
    pub(super) fn apply(&mut self, written: Vec<Written>) -> Vec<Vec<Cell>> {
        let before = self.smallest_read_point();
        self.sequence += 1;
        let sequence = self.sequence;
        written
            .into_iter()
            .map(
                |Written {
                     mut cells,
                     logged,
                     replaces,
                 }| {
                    for cell in &mut cells {
                        cell.sequence = sequence;
                        self.store.insert(cell.clone(), logged);
                        let versions = self.families.get(&cell.family).map(|family| family.versions);
                        if replaces && versions == Some(1) && self.release == Release::V2_4_2 {
                            self.store.forget_replaced(cell, before);
                        }
                    }
                    cells
                },
            )
            .collect()
    }
}

fn number(value: &[u8]) -> Result<i64> {
    let bytes = value
        .try_into()
        .map_err(|_| Exception::do_not_retry("Field is not a long, it's not 8 bytes wide"))?;
    Ok(i64::from_be_bytes(bytes))
}
