//! What the cluster does by itself, at its times, and the master's procedures that wait for it.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::{names::ServerName, server::ServerIndex};

/// Something that is due at a time.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// A region begins to open, on this server if it runs.
    Open {
        region: Bytes,
        server: Option<ServerIndex>,
    },
    /// A region is open on the server that it was opening on, if it still is.
    Opened { region: Bytes, start: ServerName },
    /// `hbase:meta` forgets a region that was split.
    Forget { region: Bytes },
}

#[derive(Debug, Default)]
pub(super) struct Procedures {
    /// Steps by their times, and then in the order in which they were planned.
    steps: BTreeMap<(u64, u64), Step>,
    planned: u64,
    /// The regions that must be open at the end of each procedure.
    running: BTreeMap<u64, Vec<Bytes>>,
    begun: u64,
    /// The procedures of calls with a nonce, which are repeated.
    nonces: BTreeMap<(u64, u64), u64>,
}

impl Procedures {
    pub(super) fn plan(&mut self, due: u64, step: Step) {
        self.planned += 1;
        self.steps.insert((due, self.planned), step);
    }

    /// Takes a step that is due.
    pub(super) fn take(&mut self, wall: u64) -> Option<(u64, Step)> {
        let first = self.steps.first_entry().filter(|step| step.key().0 <= wall)?;
        Some((first.key().0, first.remove()))
    }

    /// Returns the procedure that a call with this nonce has begun.
    pub(super) fn begun_by(&self, nonce: (u64, u64)) -> Option<u64> {
        self.nonces.get(&nonce).copied()
    }

    /// Begins a procedure that ends when these regions are open.
    pub(super) fn begin(&mut self, nonce: (u64, u64), regions: Vec<Bytes>) -> u64 {
        self.begun += 1;
        self.running.insert(self.begun, regions);
        if nonce.1 != 0 {
            self.nonces.insert(nonce, self.begun);
        }
        self.begun
    }

    /// Returns the regions that must be open at the end of a procedure, unless its end was told.
    pub(super) fn regions(&self, number: u64) -> Option<&[Bytes]> {
        self.running.get(&number).map(Vec::as_slice)
    }

    pub(super) fn forget(&mut self, number: u64) {
        self.running.remove(&number);
    }

    /// Returns whether regions are about to open.
    pub(super) fn has_openings(&self) -> bool {
        self.steps
            .values()
            .any(|step| !matches!(step, Step::Forget { .. }))
    }
}
