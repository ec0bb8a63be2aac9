//! The registry in ZooKeeper: a few znodes that the servers maintain.

use std::time::Duration;

use tokio::time::Instant;
use zookeeper_client as zk;

use super::wanted::Wanted;
use crate::{
    config::HostPort,
    error::{Error, ErrorKind, Result},
    model::ServerName,
    wire::{convert, pb, znode},
};

/// Opens a session for each lookup: lookups are rare, and an idle session costs the quorum
/// heartbeats.
#[derive(Debug)]
pub(super) struct ZooKeeperRegistry {
    quorum: String,
    hosts: u32,
    znode: String,
}

impl ZooKeeperRegistry {
    pub(super) fn new(quorum: &[HostPort], znode: String) -> Self {
        let quorum: Vec<String> = quorum.iter().map(HostPort::to_string).collect();
        Self {
            hosts: u32::try_from(quorum.len()).unwrap_or(u32::MAX).max(1),
            quorum: quorum.join(","),
            znode,
        }
    }

    pub(super) async fn ask(&self, wanted: Wanted, deadline: Instant) -> Result<ServerName> {
        let path = match wanted {
            Wanted::MetaServer => format!("{}/meta-region-server", self.znode.trim_end_matches('/')),
            Wanted::ActiveMaster => format!("{}/master", self.znode.trim_end_matches('/')),
        };
        let left = deadline.saturating_duration_since(Instant::now());
        // Hosts are tried one after another. A host that accepts connections and never answers must
        // leave time for the others.
        let each = (left / self.hosts).max(Duration::from_millis(1));
        let client = zk::Client::connector()
            .with_connection_timeout(each)
            .with_fail_eagerly()
            .connect(&self.quorum)
            .await
            .map_err(|error| unreachable(error).at_stage("connecting to ZooKeeper"))?;
        let data = match client.get_data(&path).await {
            Ok((data, _)) => data,
            // The parent znode distinguishes a wrong path from a cluster that is still starting.
            Err(zk::Error::NoNode) => {
                let parent = client.check_stat(&self.znode).await.map_err(unreachable)?;
                return Err(match parent {
                    Some(_) => Error::new(
                        ErrorKind::Unreachable,
                        format!("znode {path} does not exist (yet)"),
                    )
                    .with_retryable(true)
                    .with_hint("the cluster may be starting, or have no active master"),
                    None => Error::new(
                        ErrorKind::InvalidConfig,
                        format!("znode {} does not exist", self.znode),
                    )
                    .with_hint("the znode is zookeeper.znode.parent of the servers, /hbase unless changed"),
                });
            }
            Err(error) => return Err(unreachable(error).at_stage("reading ZooKeeper")),
        };
        let broken = |why: &dyn std::fmt::Display| {
            Error::new(
                ErrorKind::Protocol,
                format!("znode {path} does not hold what HBase keeps there: {why}"),
            )
        };
        let server = match wanted {
            Wanted::MetaServer => {
                znode::decode_znode(data.into()).map(|message: pb::MetaRegionServer| message.server)
            }
            Wanted::ActiveMaster => {
                znode::decode_znode(data.into()).map(|message: pb::Master| message.master)
            }
        }
        .map_err(|error| broken(&error))?;
        convert::server_name(&server).map_err(|error| broken(&error))
    }
}

fn unreachable(error: zk::Error) -> Error {
    Error::new(ErrorKind::Unreachable, "ZooKeeper does not answer")
        .with_source(error)
        .with_retryable(true)
}
