//! The processes that a cluster consists of.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The processes of a local cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Shape {
    /// One Java process with ZooKeeper, master and region server, on the local file system. It
    /// boots fast, but the local file system has no durable sync, so killing it can lose
    /// acknowledged edits.
    #[default]
    Standalone,
    /// HDFS, ZooKeeper, a master and region servers, each in a separate process. Acknowledged edits
    /// survive the death of a region server.
    Distributed {
        /// The number of region servers.
        region_servers: u16,
    },
}

impl Shape {
    /// Returns all processes in the order of their dependencies.
    pub(super) fn roles(self) -> Vec<Role> {
        match self {
            Self::Standalone => vec![Role::Standalone],
            Self::Distributed { region_servers } => {
                [Role::NameNode, Role::DataNode, Role::ZooKeeper, Role::Master]
                    .into_iter()
                    .chain((1..=region_servers).map(Role::RegionServer))
                    .collect()
            }
        }
    }

    /// Returns the number of region servers that are separate processes.
    pub(super) fn region_servers(self) -> Option<u16> {
        match self {
            Self::Standalone => None,
            Self::Distributed { region_servers } => Some(region_servers),
        }
    }

    /// Returns the process of region server `number`.
    pub(super) fn region_server(self, number: u16) -> Option<Role> {
        match self {
            Self::Standalone => (number == 1).then_some(Role::Standalone),
            Self::Distributed { region_servers } => (1..=region_servers)
                .contains(&number)
                .then_some(Role::RegionServer(number)),
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Standalone => f.write_str("standalone"),
            Self::Distributed { region_servers: 1 } => f.write_str("with 1 region server"),
            Self::Distributed { region_servers } => write!(f, "with {region_servers} region servers"),
        }
    }
}

/// A process of a cluster, or its gateway. Its log and its pid file have its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Role {
    Standalone,
    NameNode,
    DataNode,
    ZooKeeper,
    Master,
    /// Counted from 1.
    RegionServer(u16),
    /// The Thrift gateway.
    Thrift,
    /// The KDC of a cluster with Kerberos.
    Kdc,
}

impl Role {
    /// Whether the cluster can serve requests without it.
    pub(super) fn is_expendable(self) -> bool {
        matches!(self, Self::RegionServer(_) | Self::Thrift)
    }

    pub(super) fn is_region_server(self) -> bool {
        matches!(self, Self::RegionServer(_))
    }

    /// Whether it is a process of HBase itself: not HDFS, ZooKeeper or the gateway.
    pub(super) fn is_hbase(self) -> bool {
        matches!(self, Self::Standalone | Self::Master | Self::RegionServer(_))
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Standalone => f.write_str("standalone"),
            Self::NameNode => f.write_str("namenode"),
            Self::DataNode => f.write_str("datanode"),
            Self::ZooKeeper => f.write_str("zookeeper"),
            Self::Master => f.write_str("master"),
            Self::RegionServer(number) => write!(f, "region-server-{number}"),
            Self::Thrift => f.write_str("thrift"),
            Self::Kdc => f.write_str("kdc"),
        }
    }
}
