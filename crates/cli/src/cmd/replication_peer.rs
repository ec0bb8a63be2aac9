//! `hbase-txn replication-peer`.

use std::collections::{BTreeMap, BTreeSet};

use clap::{ArgGroup, Args, Subcommand};
use hbase_txn::{
    ClientErrorKind, Error,
    admin::{Admin, ReplicationPeer, ReplicationPeerConfig},
    client::TableName,
};
use serde::Serialize;

use super::{confirm::confirm, switch::OnOff};
use crate::{
    exit::{Exit, Failure, Outcome},
    global::{Format, Global},
    output,
    values::{self, Ranged},
};

/// List, add, update, enable, disable and remove replication peers
#[derive(Debug, Args)]
pub(crate) struct Peer {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    List(List),
    Add(Add),
    Update(Update),
    /// Send writes to a peer, also those that were kept while it was disabled
    Enable(Id),
    /// Stop sending writes to a peer, and keep them
    Disable(Id),
    Remove(Remove),
}

/// Remove a peer, and drop the writes that it has not got yet
///
/// On a terminal, the command first asks for the peer's id. Elsewhere it requires --yes.
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn replication-peer remove backup --yes")]
struct Remove {
    id: String,
    /// Do not ask
    #[arg(long)]
    yes: bool,
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

/// Change the configuration of a replication peer
///
/// Settings without an option stay as they are, and a table that is named again keeps its families.
/// HBase changes no cluster key and no endpoint: remove the peer, and add it again.
#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("change").required(true).multiple(true)
        .args(["all", "table", "namespace", "bandwidth", "serial", "set"]),
    after_help = "Example: hbase-txn replication-peer update backup --table orders --bandwidth 10000000"
)]
struct Update {
    id: String,
    /// Replicate all tables, except excluded ones
    #[arg(long, conflicts_with_all = ["table", "namespace"])]
    all: bool,
    /// Replicate this table, and of all others only those named; may be repeated
    #[arg(long)]
    table: Vec<TableName>,
    /// Replicate the tables of this namespace, and of all others only those named; may be repeated
    #[arg(long)]
    namespace: Vec<String>,
    /// With --all, do not replicate this table; may be repeated
    #[arg(long, value_name = "TABLE", requires = "all", conflicts_with_all = ["table", "namespace"])]
    exclude_table: Vec<TableName>,
    /// With --all, do not replicate the tables of this namespace; may be repeated
    #[arg(long, value_name = "NAMESPACE", requires = "all", conflicts_with_all = ["table", "namespace"])]
    exclude_namespace: Vec<String>,
    /// Limit of bytes per second of each region server; 0: no limit
    #[arg(long, value_name = "BYTES", allow_hyphen_values = true, value_parser = values::whole::<u64>)]
    bandwidth: Option<Ranged<u64>>,
    /// Send the writes of a region in their order, also after it has moved
    #[arg(long, value_name = "STATE")]
    serial: Option<OnOff>,
    /// Setting for the endpoint; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = values::setting)]
    set: Vec<(String, String)>,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    bandwidth: Option<u64>,
    serial: bool,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    settings: BTreeMap<String, String>,
}

impl Peer {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        let admin = Admin::new(&global.connect().await?);
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
            Action::Update(update) => {
                let peers = admin.replication_peers().await?;
                let found = peers.into_iter().find(|peer| peer.id == update.id);
                let found = found.ok_or_else(|| no_such_peer(&update.id))?;
                let id = update.id.clone();
                let config = update.apply_to(found.config)?;
                admin.update_replication_peer_config(&id, &config).await?;
            }
            Action::Enable(Id { id }) => admin.enable_replication_peer(&id).await?,
            Action::Disable(Id { id }) => admin.disable_replication_peer(&id).await?,
            Action::Remove(Remove { id, yes }) => {
                let consequence =
                    format!("This removes peer {id}, and it never gets the writes that wait for it.");
                confirm(global, yes, &id, &consequence)?;
                admin.remove_replication_peer(&id).await?;
            }
        }
        Ok(Exit::Done)
    }
}

impl Update {
    fn apply_to(self, mut config: ReplicationPeerConfig) -> Result<ReplicationPeerConfig, Failure> {
        let families_stay = |tables: Vec<TableName>, before: &BTreeMap<TableName, _>| {
            let with_families = |table: TableName| {
                let families: BTreeSet<_> = before.get(&table).cloned().unwrap_or_default();
                (table, families)
            };
            tables.into_iter().map(with_families).collect()
        };
        if self.all || !self.table.is_empty() || !self.namespace.is_empty() {
            config.replicate_all = self.all;
            config.tables = families_stay(self.table, &config.tables);
            config.namespaces = self.namespace.into_iter().collect();
            config.excluded_tables = families_stay(self.exclude_table, &config.excluded_tables);
            config.excluded_namespaces = self.exclude_namespace.into_iter().collect();
        }
        if let Some(limit) = self.bandwidth {
            config.bandwidth = Some(limit.get("--bandwidth")?).filter(|limit| *limit > 0);
        }
        if let Some(serial) = self.serial {
            config.serial = serial.is_on();
        }
        config.configuration.extend(self.set);
        Ok(config)
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
            bandwidth: config.bandwidth,
            serial: config.serial,
            settings: config.configuration,
        }
    }
}

fn no_such_peer(id: &str) -> Error {
    Error::new(ClientErrorKind::ReplicationPeerNotFound, "no such peer")
        .at_operation(format!("updating replication peer {id}"))
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
                let replicated = if found.all {
                    "all".to_owned()
                } else {
                    [found.tables, found.namespaces].concat().join(" ")
                };
                let state = if found.enabled { "enabled" } else { "disabled" };
                let key = found.cluster_key.unwrap_or_default();
                [found.peer, key, state.to_owned(), replicated]
            });
            output::page(&output::table(
                ["peer", "cluster key", "state", "replicated"],
                rows,
            ))?;
        }
    }
    Ok(Exit::Done)
}
