//! Delete markers, which mask what is older by its timestamp: HBase's `ScanDeleteTracker`.

use std::collections::BTreeSet;

use bytes::Bytes;

use super::step::Masked;
use crate::{cell::Kind, region::entry::CellKey};

/// The markers seen so far in one family of a row. Cells come in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Deletes {
    family: Option<u64>,
    family_versions: BTreeSet<u64>,
    column: Option<(Bytes, Kind, u64)>,
}

impl Deletes {
    pub(super) fn reset(&mut self) {
        self.family = None;
        self.family_versions.clear();
        self.column = None;
    }

    pub(super) fn add(&mut self, key: &CellKey) {
        let (timestamp, kind) = (key.timestamp.0, key.kind.0);
        if self.family.is_some_and(|family| timestamp <= family) {
            return;
        }
        match kind {
            Kind::DeleteFamily => self.family = Some(timestamp),
            Kind::DeleteFamilyVersion => {
                self.family_versions.insert(timestamp);
            }
            _ => {
                let is_covered = self
                    .column
                    .as_ref()
                    .is_some_and(|(column, other, _)| kind < *other && *column == key.qualifier);
                if !is_covered {
                    self.column = Some((key.qualifier.clone(), kind, timestamp));
                }
            }
        }
    }

    /// Returns what masks a put.
    pub(super) fn mask(&mut self, key: &CellKey) -> Option<Masked> {
        let timestamp = key.timestamp.0;
        if self.family.is_some_and(|family| timestamp <= family) {
            return Some(Masked::WithOlder);
        }
        if self.family_versions.contains(&timestamp) {
            return Some(Masked::Alone);
        }
        let (column, kind, deleted) = self.column.as_ref()?;
        if *column == key.qualifier {
            if *kind == Kind::DeleteColumn {
                return Some(Masked::WithOlder);
            }
            if *deleted == timestamp {
                return Some(Masked::Alone);
            }
        }
        self.column = None;
        None
    }
}
