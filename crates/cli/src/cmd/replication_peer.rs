//! `hbase-txn replication-peer`.

use clap::{Args, Subcommand};
use hbase_txn::{ReplicationPeer, ReplicationPeerConfig, TableName};
use serde::Serialize;

use crate::{
    exit::{Exit, Outcome},
    global::{Format, Global},
    output,
};

/// List, add, enable, disable and remove replication peers
#[derive(Debug, Args)]
pub(crate) struct Peer {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    List(List),
    Add(Add),
    /// Send writes to a peer, also those that were kept while it was disabled
    Enable(Id),
    /// Stop sending writes to a peer, and keep them
    Disable(Id),
    /// Remove a peer, and drop the writes that it has not got yet
    Remove(Id),
}

/// List the replication peers
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn replication-peer list")]
struct List {}

/// Add a replication peer
///
/// Families whose REPLICATION_SCOPE is 1 are replicated: of the specified tables and namespaces, or
/// of all tables.
#[derive(Debug, Args)]
#[command(
    after_help = "Example: hbase-txn replication-peer add backup zk1,zk2,zk3:2181:/hbase --table orders"
)]
struct Add {
    id: String,
    /// ZooKeeper of the other cluster: QUORUM:PORT:ZNODE
    cluster_key: String,
    /// Class that sends the writes [default: HBase's own]
    #[arg(long, value_name = "CLASS")]
    endpoint: Option<String>,
    /// Table; may be repeated
    #[arg(long)]
    table: Vec<TableName>,
    /// Namespace; may be repeated
    #[arg(long)]
    namespace: Vec<String>,
    /// Keep the writes until the peer is enabled
    #[arg(long)]
    disabled: bool,
}

#[derive(Debug, Args)]
struct Id {
    id: String,
}

#[derive(Serialize)]
struct PeerObject {
    peer: String,
    cluster_key: Option<String>,
    endpoint: Option<String>,
    enabled: bool,
    all: bool,
    tables: Vec<String>,
    namespaces: Vec<String>,
    excluded_tables: Vec<String>,
    excluded_namespaces: Vec<String>,
}

impl Peer {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        let admin = global.connect().await?.admin();
        match self.action {
            Action::List(List {}) => return print(global, admin.replication_peers().await?),
            Action::Add(add) => {
                let mut config = ReplicationPeerConfig::new(add.cluster_key);
                config.endpoint = add.endpoint;
                config = add
                    .table
                    .into_iter()
                    .fold(config, ReplicationPeerConfig::with_table);
                config = add
                    .namespace
                    .into_iter()
                    .fold(config, ReplicationPeerConfig::with_namespace);
                admin
                    .add_replication_peer(&add.id, &config, !add.disabled)
                    .await?;
            }
            Action::Enable(Id { id }) => admin.enable_replication_peer(&id).await?,
            Action::Disable(Id { id }) => admin.disable_replication_peer(&id).await?,
            Action::Remove(Id { id }) => admin.remove_replication_peer(&id).await?,
        }
        Ok(Exit::Done)
    }
}

impl From<ReplicationPeer> for PeerObject {
    fn from(found: ReplicationPeer) -> Self {
        let config = found.config;
        Self {
            peer: found.id,
            cluster_key: config.cluster_key,
            endpoint: config.endpoint,
            enabled: found.enabled,
            all: config.replicate_all,
            tables: config.tables.keys().map(ToString::to_string).collect(),
            namespaces: config.namespaces.into_iter().collect(),
            excluded_tables: config.excluded_tables.keys().map(ToString::to_string).collect(),
            excluded_namespaces: config.excluded_namespaces.into_iter().collect(),
        }
    }
}

fn print(global: &Global, peers: Vec<ReplicationPeer>) -> Outcome {
    let objects = peers.into_iter().map(PeerObject::from);
    match global.output {
        Format::Json => {
            for object in objects {
                output::json(&object)?;
            }
        }
        Format::Table => {
            let rows = objects.map(|found| {
                let replicated = match found.all {
                    true => "all".to_owned(),
                    false => [found.tables, found.namespaces].concat().join(" "),
                };
                let state = if found.enabled { "enabled" } else { "disabled" };
                let key = found.cluster_key.unwrap_or_default();
                [found.peer, key, state.to_owned(), replicated]
            });
            output::line(&output::table(
                ["peer", "cluster key", "state", "replicated"],
                rows,
            ))?;
        }
    }
    Ok(Exit::Done)
}
