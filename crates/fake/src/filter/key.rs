//! Filters of keys without regard to the names of columns.

use std::collections::BTreeSet;

use bytes::Bytes;

use super::{Filter, SeekKey, Verdict};
use crate::{cell::Cell, exception::Result};

/// `KeyOnlyFilter`: cells without their values.
pub(super) struct KeyOnly {
    /// The value is replaced by its length, as four bytes.
    pub(super) length_as_value: bool,
}

impl Filter for KeyOnly {
    fn cell(&mut self, _cell: &Cell) -> Result<Verdict> {
        Ok(Verdict::Include)
    }

    fn transform(&self, cell: Cell) -> Cell {
        let value = if self.length_as_value {
            Bytes::copy_from_slice(&(cell.value.len() as u32).to_be_bytes())
        } else {
            Bytes::new()
        };
        Cell {
            value,
            ttl: None,
            heap: cell.heap.key_only(),
            ..cell
        }
    }
}

/// `FirstKeyOnlyFilter`: the first cell of each row.
#[derive(Default)]
pub(super) struct FirstKeyOnly {
    found: bool,
}

impl Filter for FirstKeyOnly {
    fn reset(&mut self) {
        self.found = false;
    }

    fn cell(&mut self, _cell: &Cell) -> Result<Verdict> {
        Ok(if std::mem::replace(&mut self.found, true) {
            Verdict::NextRow
        } else {
            Verdict::Include
        })
    }
}

/// `TimestampsFilter`: versions with these timestamps.
pub(super) struct Timestamps {
    pub(super) timestamps: BTreeSet<u64>,
    pub(super) can_hint: bool,
}

impl Filter for Timestamps {
    fn gives_hints(&self) -> bool {
        true
    }

    fn cell(&mut self, cell: &Cell) -> Result<Verdict> {
        if self.timestamps.contains(&cell.timestamp) {
            return Ok(Verdict::Include);
        }
        // Without any timestamp, HBase's lowest is the highest possible one.
        Ok(match self.timestamps.range(..cell.timestamp).next_back() {
            None => Verdict::NextColumn,
            Some(&timestamp) if self.can_hint => Verdict::Seek(SeekKey {
                timestamp,
                ..SeekKey::at(cell)
            }),
            Some(_) => Verdict::Skip,
        })
    }
}
