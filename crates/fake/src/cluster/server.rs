//! The processes of a cluster: region servers and masters.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::{names::ServerName, scanners::Scanners};
use crate::{
    exception::{Exception, Result},
    region::Nonces,
};

/// A process of the cluster: region servers come first, then masters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ServerIndex(pub(crate) usize);

/// What a process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Region,
    Master,
}

/// Whether a process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerState {
    /// Accepts connections, and serves calls from this time on.
    Up { serves_from: u64 },
    /// Accepts connections and does nothing.
    Hung,
    /// Accepts no connections.
    Down,
}

/// A region server or a master.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) name: ServerName,
    pub(crate) role: Role,
    pub(crate) state: ServerState,
    /// How far its clock is ahead, in milliseconds.
    pub(crate) skew: i64,
    pub(super) scanners: Scanners,
    pub(super) nonces: Nonces,
    /// The number of regions that it serves or opens.
    pub(super) regions: usize,
    /// The regions that have moved from here, by their encoded names.
    pub(super) moved: BTreeMap<Bytes, Moved>,
}

/// The new server of a region.
#[derive(Clone, Debug)]
pub(super) struct Moved {
    pub(super) to: ServerName,
    pub(super) sequence: u64,
    pub(super) forgotten_at: u64,
}

impl Server {
    pub(super) fn new(name: ServerName, role: Role) -> Self {
        Self {
            scanners: Scanners::new(name.start_code),
            nonces: Nonces::default(),
            name,
            role,
            state: ServerState::Up { serves_from: 0 },
            skew: 0,
            regions: 0,
            moved: BTreeMap::new(),
        }
    }

    /// Returns its clock, given the time without skew.
    pub(super) fn clock(&self, wall: u64) -> u64 {
        wall.saturating_add_signed(self.skew)
    }

    /// Returns whether regions can be assigned to it. The master does not notice a hung server.
    pub(super) fn can_open(&self) -> bool {
        self.role == Role::Region && matches!(self.state, ServerState::Up { .. } | ServerState::Hung)
    }

    pub(super) fn check_open(&self, wall: u64) -> Result<()> {
        let name = &self.name;
        match self.state {
            ServerState::Up { serves_from } if serves_from <= wall => Ok(()),
            ServerState::Up { .. } => Err(Exception::new(
                "ipc.ServerNotRunningYetException",
                format!("Server {name} is not running yet"),
            )),
            ServerState::Hung | ServerState::Down => Err(Exception::new(
                "regionserver.RegionServerAbortedException",
                format!("Server {name} aborting"),
            )),
        }
    }
}
