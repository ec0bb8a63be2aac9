//! How far a read has come: HBase's `ScannerContext`.

use bytes::Bytes;

use crate::cell::Cell;

/// Where a read may stop at a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scope {
    Rows,
    Cells,
}

/// When a call ends. A read without limits reads one whole row.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Limits {
    /// The most cells of a result.
    pub(crate) batch: Option<usize>,
    /// The size of the results, after which nothing is added.
    pub(crate) bytes: Option<u64>,
    /// The number of cells that are looked at before the time is over.
    pub(crate) cells_in_time: Option<u64>,
    /// Whether a row may be cut where the size or the time ends.
    pub(crate) cuts_rows: bool,
}

/// The limits of a call, and what it has read.
#[derive(Debug)]
pub(crate) struct Progress {
    limits: Limits,
    /// The scope of size and time: filters of whole rows raise it.
    scope: Scope,
    /// Cells of the present result.
    pub(super) batch: usize,
    /// Serialized bytes, and bytes in a server's memory.
    pub(super) bytes: (u64, u64),
    looked_at: u64,
    last_row: Option<Bytes>,
    pub(super) is_mid_row: bool,
    /// Whether cells are left out that count towards no limit.
    pub(super) is_skipping: bool,
}

impl Progress {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            scope: if limits.cuts_rows {
                Scope::Cells
            } else {
                Scope::Rows
            },
            batch: 0,
            bytes: (0, 0),
            looked_at: 0,
            last_row: None,
            is_mid_row: false,
            is_skipping: false,
        }
    }

    /// A read of one whole row.
    pub(crate) fn unlimited() -> Self {
        Self::new(Limits::default())
    }

    /// Begins a result, for which alone its cells count.
    pub(crate) fn begin_result(&mut self) {
        self.batch = 0;
    }

    /// Whether the last result ends within its row, as far as a server knows.
    pub(crate) fn is_mid_row(&self) -> bool {
        self.is_mid_row
    }

    /// The row of the last cell that was looked at.
    pub(crate) fn last_row(&self) -> Option<Bytes> {
        self.last_row.clone()
    }

    /// Forbids to cut rows.
    pub(super) fn keep_rows_whole(&mut self) {
        self.scope = Scope::Rows;
    }

    pub(super) fn look_at(&mut self, row: &Bytes) {
        self.looked_at += 1;
        if self.last_row.as_ref() != Some(row) {
            self.last_row = Some(row.clone());
        }
    }

    pub(super) fn add(&mut self, cell: &Cell) {
        /// The length of a cell before it.
        const PREFIX: u64 = 4;
        if !self.is_skipping {
            self.batch += 1;
            self.bytes.0 += cell.length() + PREFIX;
            self.bytes.1 += cell.heap.bytes();
        }
    }

    pub(super) fn has_limit(&self, scope: Scope) -> bool {
        self.limits.batch.is_some()
            || scope <= self.scope && (self.limits.bytes.is_some() || self.limits.cells_in_time.is_some())
    }

    pub(super) fn is_batch_full(&self) -> bool {
        !self.is_skipping && self.limits.batch.is_some_and(|most| self.batch >= most)
    }

    pub(crate) fn is_size_reached(&self, scope: Scope) -> bool {
        let (serialized, heap) = self.bytes;
        let reached = |most| serialized >= most || heap >= most;
        !self.is_skipping && scope <= self.scope && self.limits.bytes.is_some_and(reached)
    }

    pub(crate) fn is_time_over(&self, scope: Scope) -> bool {
        let is_over = |most| self.looked_at >= most;
        !self.is_skipping && scope <= self.scope && self.limits.cells_in_time.is_some_and(is_over)
    }

    pub(super) fn is_any_reached(&self, scope: Scope) -> bool {
        self.is_size_reached(scope) || self.is_batch_full() || self.is_time_over(scope)
    }
}
