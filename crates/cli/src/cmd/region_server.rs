//! `hbase-txn region-server`.

use clap::{Args, Subcommand};
use hbase_txn::ServerName;
use serde::Serialize;

use crate::{
    exit::{Exit, Failure, Outcome},
    global::{Format, Global},
    output,
};

/// List, decommission and recommission region servers, and administer their logs
#[derive(Debug, Args)]
pub(crate) struct RegionServer {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    List(List),
    Decommission(Decommission),
    Recommission(Recommission),
    UpdateConfiguration(UpdateConfiguration),
    RollWal(RollWal),
}

/// List the live region servers
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn region-server list")]
struct List {}

/// Give region servers no more regions
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn region-server decommission rs7:16020 --offload")]
struct Decommission {
    /// Region server, as HOST:PORT
    #[arg(required = true, value_name = "SERVER")]
    servers: Vec<String>,
    /// Also begin to move their regions to other servers
    #[arg(long)]
    offload: bool,
}

/// Give a region server regions again
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn region-server recommission rs7:16020")]
struct Recommission {
    /// Region server, as HOST:PORT
    server: String,
}

/// Let servers read their configuration files again
///
/// A change takes effect for those settings that HBase can change on a running server.
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn region-server update-configuration rs7:16020")]
struct UpdateConfiguration {
    /// Region server, as HOST:PORT [default: all region servers and masters]
    #[arg(value_name = "SERVER")]
    servers: Vec<String>,
}

/// Let region servers close their write-ahead logs and begin new ones
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn region-server roll-wal rs7:16020")]
struct RollWal {
    /// Region server, as HOST:PORT
    #[arg(required = true, value_name = "SERVER")]
    servers: Vec<String>,
}

#[derive(Serialize)]
struct ServerObject {
    server: String,
    regions: usize,
    decommissioned: bool,
}

impl RegionServer {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        let admin = global.connect().await?.admin();
        let found = |live: &[ServerName], address: &str| {
            let server = live.iter().find(|server| server.address() == address);
            server
                .cloned()
                .ok_or_else(|| Failure::Refused(format!("{address} is no live region server")))
        };
        match self.action {
            Action::List(List {}) => {
                let decommissioned = admin.decommissioned_region_servers().await?;
                let servers = admin.server_loads().await?.into_iter();
                let objects = servers.map(|load| ServerObject {
                    decommissioned: decommissioned.contains(&load.server),
                    server: load.server.address(),
                    regions: load.regions.len(),
                });
                return print(global, objects);
            }
            Action::Decommission(decommission) => {
                let live = admin.cluster_info().await?.live_servers;
                let servers = decommission.servers.iter().map(|server| found(&live, server));
                let servers = servers.collect::<Result<Vec<_>, _>>()?;
                admin
                    .decommission_region_servers(&servers, decommission.offload)
                    .await?;
            }
            Action::Recommission(recommission) => {
                let live = admin.cluster_info().await?.live_servers;
                let server = found(&live, &recommission.server)?;
                admin.recommission_region_server(&server, &[]).await?;
            }
            Action::UpdateConfiguration(update) if update.servers.is_empty() => {
                admin.update_configuration_of_all().await?;
            }
            Action::UpdateConfiguration(update) => {
                let live = admin.cluster_info().await?.live_servers;
                for address in &update.servers {
                    admin.update_configuration(&found(&live, address)?).await?;
                }
            }
            Action::RollWal(roll) => {
                let live = admin.cluster_info().await?.live_servers;
                for address in &roll.servers {
                    admin.roll_wal_writer(&found(&live, address)?).await?;
                }
            }
        }
        Ok(Exit::Done)
    }
}

fn print(global: &Global, servers: impl Iterator<Item = ServerObject>) -> Outcome {
    match global.output {
        Format::Json => {
            for server in servers {
                output::json(&server)?;
            }
        }
        Format::Table => {
            let rows = servers.map(|found| {
                let state = if found.decommissioned {
                    "decommissioned"
                } else {
                    "in use"
                };
                [found.server, found.regions.to_string(), state.to_owned()]
            });
            output::line(&output::table(["region server", "regions", "state"], rows))?;
        }
    }
    Ok(Exit::Done)
}
