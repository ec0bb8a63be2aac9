//! Queries of a registry, and their answers.

use crate::model::ServerName;

/// The maximum number of replicas of `hbase:meta` besides the primary. HBase recommends two.
pub(super) const MAX_REPLICAS: u16 = 16;

/// A server that only the registry knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// The server of `hbase:meta`, and those of its replicas if the client reads them.
    Meta {
        replicas: bool,
    },
    ActiveMaster,
}

/// The answer of a registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) server: ServerName,
    /// The servers of the replicas that are served, by the number of the replica.
    pub(super) replicas: Vec<(u16, ServerName)>,
}
