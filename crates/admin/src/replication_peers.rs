//! Replication peers: other clusters to which this one sends its writes.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use hbase_client::{
    Effect, Error, ErrorKind, Result, TableName,
    low_level::{convert, pb},
};

use crate::{
    admin::{Admin, bad_answer},
    procedure::{Ended, seen_after_change},
};

/// A replication peer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReplicationPeer {
    /// The id, unique in the cluster.
    pub id: String,
    /// Whether writes are sent now. While the peer is disabled, the cluster keeps them.
    pub enabled: bool,
    /// The configuration.
    pub config: ReplicationPeerConfig,
}

/// What is sent to a replication peer, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReplicationPeerConfig {
    /// The ZooKeeper of the other cluster: `quorum:port:znode`. `None` if the endpoint needs none.
    pub cluster_key: Option<String>,
    /// The class that sends the writes, if it is not HBase's own.
    pub endpoint: Option<String>,
    /// Whether all tables are replicated, except the excluded ones, or only `tables` and
    /// `namespaces`. In either case only families whose `REPLICATION_SCOPE` is 1.
    pub replicate_all: bool,
    /// The tables, each with its families; all families if there are none.
    pub tables: BTreeMap<TableName, BTreeSet<Bytes>>,
    /// The namespaces.
    pub namespaces: BTreeSet<String>,
    /// The excluded tables, each with its families; all families if there are none.
    pub excluded_tables: BTreeMap<TableName, BTreeSet<Bytes>>,
    /// The excluded namespaces.
    pub excluded_namespaces: BTreeSet<String>,
    /// The limit of bytes a second of each region server, or `None`.
    pub bandwidth: Option<u64>,
    /// Whether the writes of a region are sent in their order, also after it has moved.
    pub serial: bool,
    /// Settings for the endpoint.
    pub configuration: BTreeMap<String, String>,
    /// Data for the endpoint.
    pub data: BTreeMap<Bytes, Bytes>,
}

impl ReplicationPeerConfig {
    /// Creates the configuration of a cluster that gets all tables.
    #[must_use]
    pub fn new(cluster_key: impl Into<String>) -> Self {
        Self {
            cluster_key: Some(cluster_key.into()),
            endpoint: None,
            replicate_all: true,
            tables: BTreeMap::new(),
            namespaces: BTreeSet::new(),
            excluded_tables: BTreeMap::new(),
            excluded_namespaces: BTreeSet::new(),
            bandwidth: None,
            serial: false,
            configuration: BTreeMap::new(),
            data: BTreeMap::new(),
        }
    }

    /// Sends the writes by this class, instead of HBase's own.
    #[must_use]
    pub fn with_endpoint(mut self, class: impl Into<String>) -> Self {
        self.endpoint = Some(class.into());
        self
    }

    /// Replicates only the tables and namespaces that are added, among them this table.
    #[must_use]
    pub fn with_table(mut self, table: TableName) -> Self {
        self.replicate_all = false;
        self.tables.insert(table, BTreeSet::new());
        self
    }

    /// Replicates only the tables and namespaces that are added, among them this namespace.
    #[must_use]
    pub fn with_namespace(mut self, namespace: impl Into<String>) -> Self {
        self.replicate_all = false;
        self.namespaces.insert(namespace.into());
        self
    }

    fn message(&self) -> pb::ReplicationPeer {
        pb::ReplicationPeer {
            clusterkey: self.cluster_key.clone(),
            replication_endpoint_impl: self.endpoint.clone(),
            data: convert::pair_messages(&self.data),
            configuration: convert::string_messages(&self.configuration),
            table_cfs: table_messages(&self.tables),
            namespaces: namespace_messages(&self.namespaces),
            bandwidth: Some(
                self.bandwidth
                    .map_or(0, |limit| i64::try_from(limit).unwrap_or(i64::MAX)),
            ),
            replicate_all: Some(self.replicate_all),
            exclude_table_cfs: table_messages(&self.excluded_tables),
            exclude_namespaces: namespace_messages(&self.excluded_namespaces),
            serial: Some(self.serial),
        }
    }

    fn of(message: pb::ReplicationPeer) -> Result<Self> {
        let text = |text: Option<String>| text.filter(|text| !text.is_empty());
        let tables = tables(&message.table_cfs)?;
        let namespaces = namespaces(message.namespaces.clone())?;
        Ok(Self {
            replicate_all: match message.replicate_all {
                Some(all) => all,
                // Peers of HBase 1 name their tables instead.
                None => tables.is_empty() && namespaces.is_empty(),
            },
            bandwidth: message
                .bandwidth
                .and_then(|limit| u64::try_from(limit).ok())
                .filter(|limit| *limit > 0),
            serial: message.serial(),
            cluster_key: text(message.clusterkey),
            endpoint: text(message.replication_endpoint_impl),
            tables,
            namespaces,
            excluded_tables: self::tables(&message.exclude_table_cfs)?,
            excluded_namespaces: self::namespaces(message.exclude_namespaces)?,
            configuration: convert::strings(message.configuration),
            data: convert::pairs(message.data),
        })
    }
}

impl Admin {
    /// Returns the replication peers, in the order of their ids.
    ///
    /// # Errors
    ///
    /// Returns an error if the master cannot be reached or does not allow it.
    pub async fn replication_peers(&self) -> Result<Vec<ReplicationPeer>> {
        let request = pb::ListReplicationPeersRequest { regex: None };
        let answer: pb::ListReplicationPeersResponse = self
            .call("ListReplicationPeers", &request)
            .await
            .map_err(|error| error.at_operation("listing the replication peers"))?;
        let peers = answer.peer_desc.into_iter().map(|peer| {
            Ok(ReplicationPeer {
                enabled: peer.state.state() == pb::replication_state::State::Enabled,
                config: ReplicationPeerConfig::of(peer.config)?,
                id: peer.id,
            })
        });
        let mut peers = peers.collect::<Result<Vec<_>>>()?;
        peers.sort_by(|one, other| one.id.cmp(&other.id));
        Ok(peers)
    }

    /// Adds a replication peer. Does nothing if it exists with the same configuration and state.
    ///
    /// The master and each region server connect to the other cluster meanwhile.
    ///
    /// # Errors
    ///
    /// Returns [`ReplicationPeerExists`](ErrorKind::ReplicationPeerExists) if another peer has the
    /// id, and an error of the server if it rejects the configuration or does not reach the other
    /// cluster.
    pub async fn add_replication_peer(
        &self,
        id: &str,
        config: &ReplicationPeerConfig,
        enabled: bool,
    ) -> Result<()> {
        let in_context = |error: Error| error.at_operation(format!("adding replication peer {id}"));
        let state = if enabled {
            pb::replication_state::State::Enabled
        } else {
            pb::replication_state::State::Disabled
        };
        let request = pb::AddReplicationPeerRequest {
            peer_id: id.to_owned(),
            peer_config: config.message(),
            peer_state: pb::ReplicationState { state: state.into() },
        };
        let deadline = self.deadline();
        let ended = self
            .run::<_, pb::AddReplicationPeerResponse>("AddReplicationPeer", &request, deadline)
            .await;
        let failed = match ended {
            Ok(Ended::Done) => return Ok(()),
            Ok(Ended::Forgotten) => None,
            Err(error) => Some(error),
        };
        // The call has no nonce, so its own repetition may have found the peer.
        let error = match (self.until(deadline).replication_peer(id).await, failed) {
            (Ok(Some(peer)), _) if peer.config == *config && peer.enabled == enabled => return Ok(()),
            // HBase may have added settings of its own to those of the call.
            (Ok(Some(_)), failed) => {
                let error = Error::new(ErrorKind::ReplicationPeerExists, "another peer has the id");
                match failed {
                    Some(failed) => error.with_effect(failed.effect()).with_source(failed),
                    None => error.with_effect(Effect::Unknown),
                }
            }
            (_, Some(failed)) => failed,
            (Ok(None), None) => Error::new(ErrorKind::Server, "the peer is not there"),
            (Err(error), None) => error.with_effect(Effect::Unknown),
        };
        Err(in_context(error))
    }

    /// Replaces the configuration of a replication peer. Does nothing if it is the same.
    ///
    /// Read the configuration with [`replication_peers`](Self::replication_peers), and change it. HBase
    /// accepts no other cluster key or endpoint, and keeps each entry of
    /// [`configuration`](ReplicationPeerConfig::configuration) that is left out
    /// (`ReplicationPeerManager.updatePeerConfig`).
    ///
    /// # Errors
    ///
    /// Returns [`ReplicationPeerNotFound`](ErrorKind::ReplicationPeerNotFound) if it does not exist,
    /// and an error of the server if it rejects the configuration.
    pub async fn update_replication_peer_config(
        &self,
        id: &str,
        config: &ReplicationPeerConfig,
    ) -> Result<()> {
        let request = pb::UpdateReplicationPeerConfigRequest {
            peer_id: id.to_owned(),
            peer_config: config.message(),
        };
        let deadline = self.deadline();
        let ended = self
            .run::<_, pb::UpdateReplicationPeerConfigResponse>(
                "UpdateReplicationPeerConfig",
                &request,
                deadline,
            )
            .await;
        self.until(deadline)
            .expect_peer(ended, id, |peer| peer.config == *config)
            .await
            .map_err(|error| error.at_operation(format!("updating replication peer {id}")))
    }

    /// Removes a replication peer. Writes that it has not got yet are dropped.
    ///
    /// # Errors
    ///
    /// Returns [`ReplicationPeerNotFound`](ErrorKind::ReplicationPeerNotFound) if it does not exist.
    pub async fn remove_replication_peer(&self, id: &str) -> Result<()> {
        let in_context = |error: Error| error.at_operation(format!("removing replication peer {id}"));
        let request = pb::RemoveReplicationPeerRequest {
            peer_id: id.to_owned(),
        };
        let deadline = self.deadline();
        let ended = self
            .run::<_, pb::RemoveReplicationPeerResponse>("RemoveReplicationPeer", &request, deadline)
            .await;
        match ended.map_err(|error| in_context(as_missing(error)))? {
            Ended::Done => Ok(()),
            Ended::Forgotten => {
                let found = self.until(deadline).replication_peer(id).await;
                match seen_after_change(found).map_err(in_context)? {
                    None => Ok(()),
                    Some(_) => Err(in_context(Error::new(
                        ErrorKind::Server,
                        "the peer is still there",
                    ))),
                }
            }
        }
    }

    /// Sends writes to a replication peer, also those that the cluster has kept while the peer was
    /// disabled. Does nothing if it is enabled.
    ///
    /// # Errors
    ///
    /// Returns [`ReplicationPeerNotFound`](ErrorKind::ReplicationPeerNotFound) if it does not exist.
    pub async fn enable_replication_peer(&self, id: &str) -> Result<()> {
        let request = pb::EnableReplicationPeerRequest {
            peer_id: id.to_owned(),
        };
        let deadline = self.deadline();
        let ended = self
            .run::<_, pb::EnableReplicationPeerResponse>("EnableReplicationPeer", &request, deadline)
            .await;
        self.until(deadline)
            .expect_peer(ended, id, |peer| peer.enabled)
            .await
            .map_err(|error| error.at_operation(format!("enabling replication peer {id}")))
    }

    /// Stops sending writes to a replication peer. The cluster keeps them. Does nothing if it is
    /// disabled.
    ///
    /// # Errors
    ///
    /// Returns [`ReplicationPeerNotFound`](ErrorKind::ReplicationPeerNotFound) if it does not exist.
    pub async fn disable_replication_peer(&self, id: &str) -> Result<()> {
        let request = pb::DisableReplicationPeerRequest {
            peer_id: id.to_owned(),
        };
        let deadline = self.deadline();
        let ended = self
            .run::<_, pb::DisableReplicationPeerResponse>("DisableReplicationPeer", &request, deadline)
            .await;
        self.until(deadline)
            .expect_peer(ended, id, |peer| !peer.enabled)
            .await
            .map_err(|error| error.at_operation(format!("disabling replication peer {id}")))
    }

    /// Checks a peer if the change was not seen to succeed: the master rejects one that
    /// has nothing to do.
    async fn expect_peer(
        &self,
        ended: Result<Ended>,
        id: &str,
        is_changed: impl Fn(&ReplicationPeer) -> bool,
    ) -> Result<()> {
        let failed = match ended {
            Ok(Ended::Done) => return Ok(()),
            Ok(Ended::Forgotten) => None,
            Err(error) => Some(as_missing(error)),
        };
        match (self.replication_peer(id).await, failed) {
            (Ok(Some(peer)), _) if is_changed(&peer) => Ok(()),
            (_, Some(failed)) => Err(failed),
            (Ok(_), None) => {
                let error = Error::new(ErrorKind::Server, "the peer does not have the change");
                Err(error.with_effect(Effect::Unknown))
            }
            (Err(error), None) => Err(error.with_effect(Effect::Unknown)),
        }
    }

    async fn replication_peer(&self, id: &str) -> Result<Option<ReplicationPeer>> {
        let peers = self.replication_peers().await?;
        Ok(peers.into_iter().find(|peer| peer.id == id))
    }
}

/// Gives the error of HBase 2.4 for a missing peer, which has no class of its own, its kind.
fn as_missing(error: Error) -> Error {
    let says_so = error.remote().is_some_and(|remote| {
        remote.message.starts_with("Replication peer") && remote.message.ends_with("does not exist")
    });
    match error.kind() {
        ErrorKind::Server if says_so => {
            Error::new(ErrorKind::ReplicationPeerNotFound, "no such peer").with_source(error)
        }
        _ => error,
    }
}

fn tables(messages: &[pb::TableCf]) -> Result<BTreeMap<TableName, BTreeSet<Bytes>>> {
    let table = |message: &pb::TableCf| {
        let name = message.table_name.as_ref();
        let name = name.ok_or_else(|| bad_answer(&"a replication peer has a table without a name"))?;
        let name = convert::table_name(name).map_err(|error| bad_answer(&error))?;
        Ok((name, message.families.iter().cloned().collect()))
    };
    messages.iter().map(table).collect()
}

fn table_messages(tables: &BTreeMap<TableName, BTreeSet<Bytes>>) -> Vec<pb::TableCf> {
    let message = |(table, families): (&TableName, &BTreeSet<Bytes>)| pb::TableCf {
        table_name: Some(convert::table_name_message(table)),
        families: families.iter().cloned().collect(),
    };
    tables.iter().map(message).collect()
}

fn namespaces(messages: Vec<Bytes>) -> Result<BTreeSet<String>> {
    let name = |name: Bytes| {
        let name = String::from_utf8(name.into());
        name.map_err(|_| bad_answer(&"the name of a namespace is not text"))
    };
    messages.into_iter().map(name).collect()
}

fn namespace_messages(namespaces: &BTreeSet<String>) -> Vec<Bytes> {
    let names = namespaces.iter();
    names
        .map(|name| Bytes::copy_from_slice(name.as_bytes()))
        .collect()
}
