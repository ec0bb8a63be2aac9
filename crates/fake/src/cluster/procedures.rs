//! What the cluster does by itself, at its times, and the master's procedures that wait for it.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::{
    names::{ServerName, TableName},
    server::ServerIndex,
};
use crate::exception::Result;

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
    /// What each procedure has come to: the regions that must be open at its end, or its failure.
    begun: BTreeMap<u64, Result<Vec<Bytes>>>,
    last: u64,
    /// The procedures of calls with a nonce, which are repeated.
    nonces: BTreeMap<(u64, u64), u64>,
    /// The locks of `LockService`, in the order of their requests.
    pub(super) locks: Vec<EntityLock>,
}

/// A lock, or the request for one: the first on a name is held.
#[derive(Clone, Debug)]
pub(super) struct EntityLock {
    pub(super) procedure: u64,
    pub(super) name: TableName,
    pub(super) expires: u64,
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

    /// Begins a procedure that ends when these regions are open, or has failed.
    pub(super) fn begin(&mut self, nonce: (u64, u64), outcome: Result<Vec<Bytes>>) -> u64 {
        self.last += 1;
        self.begun.insert(self.last, outcome);
        if nonce.1 != 0 {
            self.nonces.insert(nonce, self.last);
        }
        self.last
    }

    /// Returns the regions that must be open at the end of a procedure or its failure, unless its
    /// end was returned before.
    pub(super) fn outcome(&self, number: u64) -> Option<&Result<Vec<Bytes>>> {
        self.begun.get(&number)
    }

    pub(super) fn forget(&mut self, number: u64) {
        self.begun.remove(&number);
    }

    /// Returns whether regions are about to open.
    pub(super) fn has_openings(&self) -> bool {
        self.steps
            .values()
            .any(|step| !matches!(step, Step::Forget { .. }))
    }
}
