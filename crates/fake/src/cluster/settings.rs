//! The size, the release and the speed of a cluster.

use std::net::SocketAddr;

use crate::region::Release;

/// What a cluster is started with.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// The number of region servers.
    pub(crate) servers: usize,
    /// The number of masters: the active one and its backups.
    pub(crate) masters: usize,
    pub(crate) release: Release,
    pub(crate) seed: u64,
    /// The time of the start, in milliseconds since 1970.
    pub(crate) start: u64,
    pub(crate) durations: Durations,
    /// The addresses of all processes on this machine, or none in a process.
    pub(crate) addresses: Vec<SocketAddr>,
    /// The host of all processes with an address, in place of that address.
    pub(crate) host: Option<String>,
}

/// How long the cluster takes for what it does, in milliseconds. All of them may be 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Durations {
    /// From a region's close to the start of its opening.
    pub(crate) close: u64,
    /// From the start of a region's opening to its first calls.
    pub(crate) open: u64,
    /// From a server's crash to the opening of its regions elsewhere.
    pub(crate) reassign: u64,
    /// From a server's start to its first calls.
    pub(crate) start: u64,
    /// From a split until `hbase:meta` forgets the region before it.
    pub(crate) janitor: u64,
    /// The lease of a scanner.
    pub(crate) lease: u64,
    /// How long a server remembers the new server of a region.
    pub(crate) moved: u64,
    /// From one attempt to assign a region to the next.
    pub(crate) retry: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            servers: 1,
            masters: 1,
            release: Release::V2_6,
            seed: 0,
            start: 1_700_000_000_000,
            durations: Durations::default(),
            addresses: Vec::new(),
            host: None,
        }
    }
}

impl Default for Durations {
    /// The durations of a small idle cluster.
    fn default() -> Self {
        Self {
            close: 1,
            open: 5,
            reassign: 50,
            start: 20,
            janitor: 300_000,
            lease: 60_000,
            moved: 120_000,
            retry: 10,
        }
    }
}

/// Returns the version that the master reports.
pub(crate) fn version(release: Release) -> &'static str {
    match release {
        Release::V2_4_2 => "2.4.2",
        Release::V2_4 => "2.4.18",
        Release::V2_5 => "2.5.13",
        Release::V2_6 => "2.6.4",
        Release::V3_0 => "3.0.0-alpha-4",
    }
}
