//! A region and where it is.

use hbase_protocol as pb;
use pb::region_state::State;

use super::{
    names::{RegionInfo, ServerName},
    server::ServerIndex,
};
use crate::region::Region;

/// A region of the cluster, open or not.
#[derive(Debug)]
pub(super) struct Hosted {
    pub(super) info: RegionInfo,
    /// Its cells, or `None` if it was split.
    pub(super) region: Option<Region>,
    pub(super) state: State,
    /// When the state began.
    pub(super) since: u64,
    /// The server that serves it, or opens it.
    pub(super) serving: Option<ServerIndex>,
    /// The server that `hbase:meta` names, also while the region is closed.
    pub(super) location: Option<ServerName>,
    /// The sequence number at which it was last opened.
    pub(super) open_sequence: u64,
    /// Whether it was opened with the endpoint for changes of several rows.
    pub(super) has_endpoint: bool,
    pub(super) reads: u64,
    pub(super) writes: u64,
}

impl Hosted {
    pub(super) fn new(info: RegionInfo, region: Region, now: u64) -> Self {
        Self {
            info,
            region: Some(region),
            state: State::Closed,
            since: now,
            serving: None,
            location: None,
            open_sequence: 1,
            has_endpoint: false,
            reads: 0,
            writes: 0,
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.state == State::Open && self.serving.is_some()
    }

    pub(super) fn is_open_on(&self, server: ServerIndex) -> bool {
        self.state == State::Open && self.serving == Some(server)
    }

    /// Returns whether its row in `hbase:meta` is that of a region in use.
    pub(super) fn is_live(&self) -> bool {
        !self.info.split
    }
}
