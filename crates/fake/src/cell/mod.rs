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
    pub(crate) heap: Heap,
}

/// The bytes that a cell takes in a server while it is read, which count towards the size of an
/// answer (`Cell.heapSize`). They depend on where it was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heap {
    Memory(u64),
    File(u64),
}

impl Default for Heap {
    fn default() -> Self {
        Self::Memory(0)
    }
}

impl Heap {
    pub(crate) fn bytes(self) -> u64 {
        let (Self::Memory(bytes) | Self::File(bytes)) = self;
        bytes
    }

    /// What HBase's `KeyOnlyFilter` makes of it.
    pub(crate) fn key_only(self) -> Self {
        /// `KeyOnlyByteBufferExtendedCell.FIXED_OVERHEAD`.
        const OVERHEAD: u64 = 17;
        match self {
            Self::Memory(bytes) => Self::Memory((OVERHEAD + bytes).next_multiple_of(8)),
            Self::File(bytes) => Self::File(bytes),
        }
    }
}

impl Cell {
    /// The length of the cell as HBase stores it, as a `KeyValue`.
    pub(crate) fn length(&self) -> u64 {
        /// The lengths of key, value, row and family, the timestamp and the type.
        const FIXED: usize = 4 + 4 + 2 + 1 + 8 + 1;
        let tags = if self.ttl.is_some() { 2 + 2 + 1 + 8 } else { 0 };
        let parts = [&self.row, &self.family, &self.qualifier, &self.value];
        (FIXED + tags + parts.map(|part| part.len()).iter().sum::<usize>()) as u64
    }
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
