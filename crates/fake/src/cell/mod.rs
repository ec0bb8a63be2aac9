//! Cells, and the forms in which they travel.

mod block;
mod message;

use std::fmt;

use bytes::Bytes;

pub(crate) use self::{
    block::{Cells, encode_block},
    message::to_message,
};

/// The newest timestamp: a mutation without a time of its own has it until the server stamps it.
pub(crate) const LATEST: u64 = i64::MAX as u64;

/// The type of a cell, by HBase's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub(crate) enum Kind {
    Put = 4,
    /// Deletes one version.
    Delete = 8,
    DeleteFamilyVersion = 10,
    DeleteColumn = 12,
    DeleteFamily = 14,
}

/// A stored cell, or a delete marker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) row: Bytes,
    pub(crate) family: Bytes,
    pub(crate) qualifier: Bytes,
    /// Milliseconds since 1970, or a number that the writer chose.
    pub(crate) timestamp: u64,
    pub(crate) kind: Kind,
    /// The number of the write in its region; of two cells with the same key the higher wins.
    pub(crate) sequence: u64,
    pub(crate) value: Bytes,
    /// How long the cell lives after its timestamp, in milliseconds.
    pub(crate) ttl: Option<u64>,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [row, family, qualifier, value] =
            [&self.row, &self.family, &self.qualifier, &self.value].map(|bytes| bytes.escape_ascii());
        let (timestamp, kind) = (self.timestamp, self.kind);
        write!(f, "{row} {family}:{qualifier} {timestamp} {kind:?} {value}")
    }
}

impl Kind {
    pub(crate) fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            4 => Self::Put,
            8 => Self::Delete,
            10 => Self::DeleteFamilyVersion,
            12 => Self::DeleteColumn,
            14 => Self::DeleteFamily,
            _ => return None,
        })
    }

    pub(crate) fn is_delete(self) -> bool {
        self != Self::Put
    }

    /// Whether it deletes in all columns of a family.
    pub(crate) fn is_of_family(self) -> bool {
        matches!(self, Self::DeleteFamily | Self::DeleteFamilyVersion)
    }
}
