//! What the cluster does by itself, at its times, and the master's procedures that wait for it.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::{names::ServerName, server::ServerIndex, world::World};
use crate::exception::{Exception, Result};

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

/// A procedure of the master.
#[derive(Clone, Debug)]
struct Procedure {
    /// The regions that must be open at its end.
    regions: Vec<Bytes>,
    failure: Option<Exception>,
}

/// How a procedure ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    Unknown,
    Running,
    Finished(Option<Exception>),
}

#[derive(Debug, Default)]
pub(super) struct Procedures {
    /// Steps by their times, and then in the order in which they were planned.
    steps: BTreeMap<(u64, u64), Step>,
    planned: u64,
    running: BTreeMap<u64, Procedure>,
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

    /// Returns whether regions are about to open.
    pub(super) fn has_openings(&self) -> bool {
        self.steps
            .values()
            .any(|step| !matches!(step, Step::Forget { .. }))
    }
}

impl World {
    /// Begins a procedure, unless the call with this nonce has begun it before: then returns that
    /// one's number. `work` returns the regions that must be open at the end.
    pub(super) fn procedure(
        &mut self,
        nonce: (u64, u64),
        work: impl FnOnce(&mut Self) -> Result<Vec<Bytes>>,
    ) -> Result<u64> {
        if let Some(number) = self.procedures.nonces.get(&nonce) {
            return Ok(*number);
        }
        let regions = work(self)?;
        self.procedures.begun += 1;
        let number = self.procedures.begun;
        let procedure = Procedure {
            regions,
            failure: None,
        };
        self.procedures.running.insert(number, procedure);
        if nonce.1 != 0 {
            self.procedures.nonces.insert(nonce, number);
        }
        Ok(number)
    }

    /// Returns how far a procedure is. The end is told once.
    pub(super) fn progress(&mut self, number: u64) -> Progress {
        let Some(procedure) = self.procedures.running.get(&number) else {
            return Progress::Unknown;
        };
        let is_open = |region: &Bytes| {
            let hosted = self.regions.get(region);
            hosted.is_none_or(|hosted| hosted.info.split || hosted.is_open())
        };
        if !procedure.regions.iter().all(is_open) {
            return Progress::Running;
        }
        let failure = procedure.failure.clone();
        self.procedures.running.remove(&number);
        Progress::Finished(failure)
    }
}
