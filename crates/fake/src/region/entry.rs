//! Cells of a row as a region keeps them.

use std::{cmp::Reverse, collections::BTreeMap};

use bytes::Bytes;

use crate::cell::{Cell, Kind};

/// The place of a cell in its row.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CellKey {
    pub(super) family: Bytes,
    pub(super) qualifier: Bytes,
    pub(super) timestamp: Reverse<u64>,
    pub(super) kind: Reverse<Kind>,
    pub(super) sequence: Reverse<u64>,
}

/// How a cell survives a crash until it is flushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Logged {
    Synced,
    Async,
    Not,
}

#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) value: Bytes,
    pub(super) ttl: Option<u64>,
    /// The number of the file that has it, or `None` in memory.
    pub(super) file: Option<u32>,
    pub(super) logged: Logged,
}

pub(super) type Row = BTreeMap<CellKey, Entry>;

impl CellKey {
    pub(super) fn of(cell: &Cell) -> Self {
        Self {
            family: cell.family.clone(),
            qualifier: cell.qualifier.clone(),
            timestamp: Reverse(cell.timestamp),
            kind: Reverse(cell.kind),
            sequence: Reverse(cell.sequence),
        }
    }

    pub(super) fn first_of(family: Bytes, qualifier: Bytes) -> Self {
        Self {
            family,
            qualifier,
            timestamp: Reverse(u64::MAX),
            kind: Reverse(Kind::DeleteFamily),
            sequence: Reverse(u64::MAX),
        }
    }

    pub(super) fn last_of(family: Bytes, qualifier: Bytes) -> Self {
        Self {
            family,
            qualifier,
            timestamp: Reverse(0),
            kind: Reverse(Kind::Put),
            sequence: Reverse(0),
        }
    }
}
