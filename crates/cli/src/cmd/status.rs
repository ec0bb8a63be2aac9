//! `hbase-txn status`.

use clap::Args;
use futures::{StreamExt, TryStreamExt, stream};
use hbase_txn::{
    ClientErrorKind, PartitionRule,
    admin::Admin,
    client::{ServerName, TableDescriptor, TableName},
};
use serde::Serialize;

use crate::{
    change_log,
    exit::{Exit, Failure, Outcome},
    global::{Format, Global},
    output,
};

/// The number of tables that are read concurrently.
const AT_ONCE: usize = 16;

/// Show the cluster, what chose it, its servers, and the tables for transactions
///
/// Reads the cluster's status and the descriptors of all tables that this user may see. Changes nothing.
/// `doctor` checks whether each region takes transactions.
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn status")]
pub(crate) struct Status {}

/// The status. The keys and their order are fixed.
#[derive(Serialize)]
struct StatusObject {
    cluster: String,
    source: String,
    cluster_id: String,
    release: String,
    user: String,
    authentication: &'static str,
    master: Option<String>,
    backup_masters: Vec<String>,
    servers: Vec<String>,
    dead_servers: Vec<String>,
    regions_in_transition: usize,
    tables: usize,
    /// The tables with a partition rule and the endpoint.
    transactions: Vec<String>,
}

impl Status {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        let chosen = global.chosen()?;
        let (cluster, source) = (chosen.config.address().to_string(), chosen.source);
        if global.output == Format::Table {
            // Before anything can fail, because this is what then needs to be known.
            output::line(&row("cluster", &cluster))?;
            output::line(&row("chosen by", &source))?;
        }
        let connection = global.connect().await?;
        let admin = Admin::new(&connection);
        let info = admin.cluster_info().await?;
        let tables = admin.tables().await?;
        let config = connection.config();
        let status = StatusObject {
            cluster,
            source,
            user: change_log::user(&connection).await?,
            authentication: config.kerberos().map_or("simple", |_| "kerberos"),
            tables: tables.len(),
            transactions: with_transactions(&admin, tables).await?,
            master: info.master.as_ref().map(ServerName::to_string),
            backup_masters: names(&info.backup_masters),
            servers: names(&info.live_servers),
            dead_servers: names(&info.dead_servers),
            regions_in_transition: info.regions_in_transition.len(),
            cluster_id: info.cluster_id,
            release: info.version,
        };
        match global.output {
            Format::Json => output::json(&status)?,
            Format::Table => status.print()?,
        }
        Ok(Exit::Done)
    }
}

fn names(servers: &[ServerName]) -> Vec<String> {
    servers.iter().map(ToString::to_string).collect()
}

/// Returns the tables with a partition rule and the endpoint, in the order of their names.
async fn with_transactions(admin: &Admin, mut tables: Vec<TableName>) -> Result<Vec<String>, Failure> {
    tables.sort();
    let prepared = stream::iter(tables)
        .map(async |name| match admin.descriptor(&name).await {
            Ok(descriptor) if takes_transactions(&descriptor) => Ok(Some(name.to_string())),
            Ok(_) => Ok(None),
            // Dropped meanwhile, or of another user.
            Err(error)
                if [ClientErrorKind::TableNotFound, ClientErrorKind::AccessDenied]
                    .contains(&error.kind()) =>
            {
                Ok(None)
            }
            Err(error) => Err(Failure::from(error)),
        })
        .buffered(AT_ONCE);
    prepared.try_filter_map(async |name| Ok(name)).try_collect().await
}

fn takes_transactions(table: &TableDescriptor) -> bool {
    table.names_multi_row_mutation_endpoint() && PartitionRule::from_descriptor(table).is_ok()
}

impl StatusObject {
    fn print(&self) -> std::io::Result<()> {
        let backups = match self.backup_masters.len() {
            0 => String::new(),
            count => format!(", {}", output::counted(count, "backup")),
        };
        let master = self.master.as_deref().unwrap_or("none is active");
        let dead = match self.dead_servers.len() {
            0 => String::new(),
            count => format!(", {count} dead"),
        };
        let in_transition = match self.regions_in_transition {
            0 => String::new(),
            count => format!(", {} in transition", output::counted(count, "region")),
        };
        let transactions = match &self.transactions[..] {
            [] => "on no table; run hbase-txn table create NAME --prefix-length N".to_owned(),
            tables => format!("on {} of {}: {}", tables.len(), self.tables, tables.join(", ")),
        };
        let rows = [
            ("cluster id", self.cluster_id.clone()),
            ("release", self.release.clone()),
            ("user", format!("{} ({})", self.user, self.authentication)),
            ("master", format!("{master}{backups}")),
            (
                "servers",
                format!("{} live{dead}{in_transition}", self.servers.len()),
            ),
            ("tables", self.tables.to_string()),
            ("transactions", transactions),
        ];
        rows.iter()
            .try_for_each(|(name, value)| output::line(&row(name, value)))
    }
}

fn row(name: &str, value: &str) -> String {
    format!("{name:<13} {value}")
}
