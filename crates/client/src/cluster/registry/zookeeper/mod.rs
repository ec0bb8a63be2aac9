//! The registry in ZooKeeper: a few znodes that the servers maintain.

mod access;
mod failure;
mod quorum;

use std::{fmt, time::Duration};

use bytes::Bytes;
use hbase_zookeeper::{ErrorCode, Session, SessionError};
use tokio::time::{Instant, timeout};

pub(super) use self::access::Access;
use self::failure::{Failure, NoAnswer, NoAnswers, no_answer};
use super::{
    super::staggered,
    wanted::{Found, MAX_REPLICAS, Wanted},
};
use crate::{
    config::HostPort,
    error::{Error, ErrorKind, Result},
    model::ServerName,
    rpc::Io,
    wire::{convert, pb, znode},
};

/// How long a server of the quorum may be silent before another one is queried as well.
const PATIENCE: Duration = Duration::from_secs(1);

/// Opens a session for each lookup: lookups are rare, and an idle session costs the quorum
/// heartbeats.
#[derive(Debug)]
pub(super) struct ZooKeeperRegistry {
    quorum: Vec<HostPort>,
    znode: String,
    access: Access,
}

/// What a server of the quorum knows of a znode.
enum Answer {
    /// The data of the znode, and of those of the replicas in order.
    Data(Bytes, Vec<Bytes>),
    NoNode,
    /// The parent of all of HBase's znodes does not exist either.
    NoParent,
}

impl ZooKeeperRegistry {
    pub(super) fn new(quorum: &[HostPort], znode: String, access: Access) -> Self {
        Self {
            quorum: quorum.to_vec(),
            znode,
            access,
        }
    }

    /// Reads the znode of a server, and if they are wanted those of its replicas.
    pub(super) async fn ask(&self, wanted: Wanted, deadline: Instant) -> Result<Found> {
        let (name, replicas) = match wanted {
            Wanted::Meta { replicas: true } => ("meta-region-server", MAX_REPLICAS),
            Wanted::Meta { replicas: false } => ("meta-region-server", 0),
            Wanted::ActiveMaster => ("master", 0),
        };
        let (path, data, replicas) = self.read_znode(name, replicas, deadline).await?;
        let server = match wanted {
            Wanted::Meta { .. } => {
                znode::decode_znode(data).map(|message: pb::MetaRegionServer| message.server)
            }
            Wanted::ActiveMaster => znode::decode_znode(data).map(|message: pb::Master| message.master),
        }
        .map_err(|error| broken(&path, &error))?;
        Ok(Found {
            server: convert::server_name(&server).map_err(|error| broken(&path, &error))?,
            replicas: (1..).zip(replicas).filter_map(replica_in).collect(),
        })
    }

    /// Reads the id of the cluster.
    pub(super) async fn cluster_id(&self, deadline: Instant) -> Result<String> {
        let (path, data, _) = self.read_znode("hbaseid", 0, deadline).await?;
        znode::decode_znode(data)
            .map(|message: pb::ClusterId| message.cluster_id)
            .map_err(|error| broken(&path, &error))
    }

    /// Reads a znode of HBase, and returns its path, its data, and those of up to so many replicas.
    /// Queries the servers of the quorum in random order. The first answer decides.
    async fn read_znode(
        &self,
        name: &str,
        replicas: u16,
        deadline: Instant,
    ) -> Result<(String, Bytes, Vec<Bytes>)> {
        let path = format!("{}/{name}", self.znode.trim_end_matches('/'));
        let mut hosts = self.quorum.clone();
        fastrand::shuffle(&mut hosts);
        let left = deadline.saturating_duration_since(Instant::now());
        // A server that never answers must leave time for all others.
        let each = left / u32::try_from(hosts.len()).unwrap_or(u32::MAX).max(1);
        let query = |host| self.query(host, &path, replicas, each);
        match staggered::first_answer(hosts, 1, PATIENCE.min(each), query).await {
            Ok(Answer::Data(data, replicas)) => Ok((path, data, replicas)),
            Ok(Answer::NoNode) => Err(Error::new(
                ErrorKind::Unreachable,
                format!("znode {path} does not exist (yet)"),
            )
            .with_retryable(true)
            .with_hint("the cluster may be starting, or have no active master")),
            Ok(Answer::NoParent) => Err(Error::new(
                ErrorKind::InvalidConfig,
                format!("znode {} does not exist", self.znode),
            )
            .with_hint("the znode is zookeeper.znode.parent of the servers, /hbase unless changed")),
            Err(failures) => Err(no_answer(&failures)),
        }
    }

    /// Checks each server that accepted a connection but gave no answer, and adds the findings to the
    /// error.
    pub(super) async fn examine(&self, error: Error) -> Error {
        let failures = match NoAnswers::of(&error) {
            Some(failures) => failures.clone(),
            None if error.kind() == ErrorKind::Unreachable => NoAnswers::in_time(&self.quorum),
            None => return error,
        };
        let found = quorum::look(failures.reached(), &self.access).await;
        let failures = failures.with_findings(found);
        error.with_source(failures)
    }

    /// Queries one server, within a time limit for all steps.
    async fn query(
        &self,
        host: HostPort,
        path: &str,
        replicas: u16,
        limit: Duration,
    ) -> Result<Answer, NoAnswer> {
        let read = timeout(limit, self.read(&host, path, replicas, limit)).await;
        read.unwrap_or(Err(Failure::Silent(limit)))
            .map_err(|why| NoAnswer { host, why })
    }

    /// Reads a znode, and those of at most this many replicas. Authenticates only if the server
    /// requires it: the znodes of most secure clusters are readable without.
    async fn read(
        &self,
        host: &HostPort,
        path: &str,
        replicas: u16,
        limit: Duration,
    ) -> Result<Answer, Failure> {
        let session = self.access.open(host, limit).await?;
        let refused = match self.read_in(session, path, replicas).await {
            Err(SessionError::Failed(code))
                if code.requires_authentication() || code == ErrorCode::NO_AUTH =>
            {
                SessionError::Failed(code)
            }
            answer => return Ok(answer?),
        };
        match self.access.open_authenticated(host, limit).await? {
            Some(session) => Ok(self.read_in(session, path, replicas).await?),
            None => Err(refused.into()),
        }
    }

    /// Reads in a session, and closes it. A failure between the replicas leaves those behind it out.
    async fn read_in(
        &self,
        mut session: Session<impl Io>,
        path: &str,
        replicas: u16,
    ) -> Result<Answer, SessionError> {
        let answer = match session.data(path).await? {
            Some(data) => {
                let mut others = Vec::new();
                for id in 1..=replicas {
                    let Ok(Some(data)) = session.data(&format!("{path}-{id}")).await else {
                        break;
                    };
                    others.push(data);
                }
                Answer::Data(data, others)
            }
            // The parent distinguishes a wrong path from a cluster that is still starting.
            None => {
                if session.exists(&self.znode).await? {
                    Answer::NoNode
                } else {
                    Answer::NoParent
                }
            }
        };
        // A session that could not be closed ends with its timeout.
        let _ = session.close().await;
        Ok(answer)
    }
}

fn broken(path: &str, why: &dyn fmt::Display) -> Error {
    Error::new(
        ErrorKind::Protocol,
        format!("znode {path} does not hold what HBase keeps there: {why}"),
    )
}

/// Decodes the znode of a replica of `hbase:meta`. Returns `None` unless the replica is served.
fn replica_in((id, data): (u16, Bytes)) -> Option<(u16, ServerName)> {
    let replica: pb::MetaRegionServer = znode::decode_znode(data).ok()?;
    let server = convert::server_name(&replica.server).ok()?;
    let open = i32::from(pb::region_state::State::Open);
    (replica.state.unwrap_or(open) == open).then_some((id, server))
}

#[cfg(test)]
mod tests;
