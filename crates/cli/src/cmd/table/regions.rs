//! `hbase-txn table split`, `merge`, `move` and `truncate-region`.

use bytes::Bytes;
use clap::Args;
use hbase_txn::{
    admin::Admin,
    client::{BytesBinary, RegionInfo, ServerName, TableName},
};
use serde::Serialize;

use crate::{
    cmd::confirm::confirm,
    exit::{Exit, Failure, Outcome},
    global::{Format, Global},
    output::{self, Shown},
    values,
};

/// Split the region that has a row, at this row
///
/// The partition rule of the table may move the boundary to the start of the row's partition.
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn table split orders mmm")]
pub(crate) struct Split {
    /// Table, with its namespace if it has one
    name: TableName,
    /// First row of the new region; \xNN is a byte
    #[arg(value_parser = values::bytes)]
    row: Bytes,
}

/// Merge the regions that have these rows, which must be neighbours
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn table merge orders aaa mmm")]
pub(crate) struct Merge {
    /// Table, with its namespace if it has one
    name: TableName,
    /// A row of each region; \xNN is a byte
    #[arg(value_name = "ROW", num_args = 2.., required = true, value_parser = values::bytes)]
    rows: Vec<Bytes>,
}

/// Move the region that has a row to another server
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn table move orders mmm region-server-2:16020")]
pub(crate) struct Move {
    /// Table, with its namespace if it has one
    name: TableName,
    /// A row of the region; \xNN is a byte
    #[arg(value_parser = values::bytes)]
    row: Bytes,
    /// Region server
    #[arg(value_name = "HOST:PORT")]
    server: String,
}

/// Delete all rows of the region that has a row
///
/// HBase 2.6 and later. The region is offline meanwhile, and keeps its boundaries. On a terminal, the command
/// first asks for the table's name. Elsewhere it requires --yes.
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn table truncate-region orders mmm --yes")]
pub(crate) struct TruncateRegion {
    /// Table, with its namespace if it has one
    name: TableName,
    /// A row of the region; \xNN is a byte
    #[arg(value_parser = values::bytes)]
    row: Bytes,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

/// The regions of a table after a change.
#[derive(Serialize)]
struct RegionsObject<'a> {
    table: String,
    regions: Vec<RegionObject<'a>>,
}

#[derive(Serialize)]
struct RegionObject<'a> {
    start: Shown<'a>,
    end: Shown<'a>,
    server: Option<String>,
}

/// Returns the region that has the row.
async fn region_of(admin: &Admin, table: &TableName, row: &Bytes) -> Result<RegionInfo, Failure> {
    let regions = admin.regions(table).await?;
    let found = regions.into_iter().find(|found| found.region.contains(row));
    let refusal = || {
        let row = BytesBinary(row);
        Failure::Refused(format!(
            "table {table}, row {row}: hbase:meta has no region of it now; try again"
        ))
    };
    found.map(|found| found.region).ok_or_else(refusal)
}

async fn print(global: &Global, admin: &Admin, table: &TableName) -> Outcome {
    let regions = admin.regions(table).await?;
    match global.output {
        Format::Json => output::json(&RegionsObject {
            table: table.to_string(),
            regions: regions
                .iter()
                .map(|found| RegionObject {
                    start: Shown(&found.region.start_key),
                    end: Shown(&found.region.end_key),
                    server: found.server.as_ref().map(ServerName::address),
                })
                .collect(),
        })?,
        Format::Table => {
            let rows = regions.iter().map(|found| {
                let server = found.server.as_ref().map(ServerName::address);
                let key = |key: &Bytes| BytesBinary(key).to_string();
                [
                    key(&found.region.start_key),
                    key(&found.region.end_key),
                    server.unwrap_or_default(),
                ]
            });
            output::page(&output::table(["start", "end", "server"], rows))?;
        }
    }
    Ok(Exit::Done)
}

impl Split {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        let admin = Admin::new(&global.connect().await?);
        let region = region_of(&admin, &self.name, &self.row).await?;
        admin.split_region(&region, Some(self.row)).await?;
        print(global, &admin, &self.name).await
    }
}

impl Merge {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        let admin = Admin::new(&global.connect().await?);
        let mut regions: Vec<RegionInfo> = Vec::new();
        for row in &self.rows {
            let region = region_of(&admin, &self.name, row).await?;
            if !regions.contains(&region) {
                regions.push(region);
            }
        }
        if regions.len() < 2 {
            let name = &self.name;
            return Err(Failure::Refused(format!(
                "table {name}: all these rows are in one region"
            )));
        }
        admin.merge_regions(&regions).await?;
        print(global, &admin, &self.name).await
    }
}

impl Move {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        let admin = Admin::new(&global.connect().await?);
        let region = region_of(&admin, &self.name, &self.row).await?;
        let servers = admin.cluster_info().await?.live_servers;
        let Some(to) = servers.iter().find(|server| server.address() == self.server) else {
            let servers: Vec<String> = servers.iter().map(ServerName::address).collect();
            return Err(Failure::Refused(format!(
                "{} is no live region server; there are {}",
                self.server,
                servers.join(", ")
            )));
        };
        admin.move_region(&region, to).await?;
        print(global, &admin, &self.name).await
    }
}

impl TruncateRegion {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        let admin = Admin::new(&global.connect().await?);
        let region = region_of(&admin, &self.name, &self.row).await?;
        let (table, range) = (self.name.to_string(), region.range_text());
        let consequence = format!("This deletes all rows of table {table} in {range}.");
        confirm(global, self.yes, &table, &consequence)?;
        admin.truncate_region(&region).await?;
        print(global, &admin, &self.name).await
    }
}
