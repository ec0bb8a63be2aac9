//! `hbase-txn region-server`.

use clap::{Args, Subcommand};
use hbase_txn::{
    admin::{Admin, OnlineRegion},
    client::ServerName,
};
use serde::Serialize;

use crate::{
    exit::{Exit, Failure, Outcome},
    global::{Format, Global},
    output,
};

/// List, decommission and administer region servers
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
    Regions(Regions),
    Flush(Flush),
    Compact(Compact),
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

/// List the regions that a region server has open
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn region-server regions rs7:16020")]
struct Regions {
    /// Region server, as HOST:PORT
    server: String,
}

/// Flush the regions of region servers
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn region-server flush rs7:16020")]
struct Flush {
    /// Region server, as HOST:PORT
    #[arg(required = true, value_name = "SERVER")]
    servers: Vec<String>,
}

/// Compact the regions of region servers, and wait until that is done
///
/// It reads and writes all of their data; --timeout must allow for that.
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn region-server compact rs7:16020 --timeout 6h")]
struct Compact {
    /// Region server, as HOST:PORT
    #[arg(required = true, value_name = "SERVER")]
    servers: Vec<String>,
}

#[derive(Serialize)]
struct RegionObject {
    table: String,
    region: String,
    range: String,
    replica: u16,
}

#[derive(Serialize)]
struct ServerObject {
    server: String,
    regions: usize,
    decommissioned: bool,
}

impl RegionServer {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        let admin = Admin::new(&global.connect().await?);
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
            Action::Regions(regions) => {
                let live = admin.cluster_info().await?.live_servers;
                let server = found(&live, &regions.server)?;
                return print_regions(global, admin.online_regions(&server).await?);
            }
            Action::Flush(flush) => {
                let live = admin.cluster_info().await?.live_servers;
                for address in &flush.servers {
                    admin.flush_region_server(&found(&live, address)?).await?;
                }
            }
            Action::Compact(compact) => {
                let live = admin.cluster_info().await?.live_servers;
                for address in &compact.servers {
                    admin.major_compact_region_server(&found(&live, address)?).await?;
                }
            }
        }
        Ok(Exit::Done)
    }
}

fn print_regions(global: &Global, mut regions: Vec<OnlineRegion>) -> Outcome {
    regions.sort_by(|one, other| (&one.region.name, one.replica).cmp(&(&other.region.name, other.replica)));
    let objects = regions.into_iter().map(|found| RegionObject {
        table: found.region.table.to_string(),
        region: found.region.encoded_text(),
        range: found.region.range_text(),
        replica: found.replica,
    });
    match global.output {
        Format::Json => {
            for region in objects {
                output::json(&region)?;
            }
        }
        Format::Table => {
            let rows =
                objects.map(|found| [found.table, found.region, found.range, found.replica.to_string()]);
            output::page(&output::table(["table", "region", "range", "replica"], rows))?;
        }
    }
    Ok(Exit::Done)
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
            output::page(&output::table(["region server", "regions", "state"], rows))?;
        }
    }
    Ok(Exit::Done)
}
