//! `hbase-txn table list`.

use std::io;

use clap::Args;
use futures::{StreamExt, TryStreamExt, stream};
use hbase_txn::{ClientErrorKind, PartitionRule, admin::Admin, client::TableName};
use serde::Serialize;

use super::rule::RuleObject;
use crate::{
    exit::{Exit, Failure, Outcome},
    global::{Format, Global},
    output,
};

/// The number of tables that --wide reads concurrently.
const AT_ONCE: usize = 16;

/// List the tables that are not HBase's own
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn table list --namespace billing --wide")]
pub(crate) struct List {
    /// Only tables of this namespace
    #[arg(long)]
    namespace: Option<String>,
    /// Also show the state, the number of regions, the partition rule, and whether the table has the endpoint
    #[arg(long)]
    wide: bool,
}

/// A table. The keys and their order are fixed.
#[derive(Serialize)]
struct TableObject {
    table: String,
    #[serde(flatten)]
    details: Option<Details>,
}

/// What --wide shows.
#[derive(Serialize)]
struct Details {
    state: String,
    regions: usize,
    rule: Option<RuleObject>,
    endpoint: bool,
    /// The rule for people.
    #[serde(skip)]
    rule_text: String,
}

impl List {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        let admin = Admin::new(&global.connect().await?);
        let mut tables = match &self.namespace {
            Some(namespace) => admin.tables_of_namespace(namespace).await?,
            None => admin.tables().await?,
        };
        tables.sort();
        let objects: Vec<TableObject> = if self.wide {
            let objects = stream::iter(tables).map(|table| wide(&admin, table));
            let objects = objects.buffered(AT_ONCE);
            objects
                .try_filter_map(async |found| Ok(found))
                .try_collect()
                .await?
        } else {
            tables
                .into_iter()
                .map(|table| TableObject {
                    table: table.to_string(),
                    details: None,
                })
                .collect()
        };
        print(objects, global.output)?;
        Ok(Exit::Done)
    }
}

/// Reads the details of a table. Returns `None` if it was dropped meanwhile.
async fn wide(admin: &Admin, name: TableName) -> Result<Option<TableObject>, Failure> {
    let read = async {
        let descriptor = admin.descriptor(&name).await?;
        let rule = PartitionRule::from_descriptor(&descriptor).ok();
        Ok(Details {
            state: admin.state(&name).await?.to_string(),
            regions: admin.regions(&name).await?.len(),
            rule: rule.as_ref().map(RuleObject::from),
            endpoint: descriptor.names_multi_row_mutation_endpoint(),
            rule_text: rule.map_or_else(|| "-".to_owned(), |rule| rule.to_string()),
        })
    };
    match read.await {
        Ok(details) => Ok(Some(TableObject {
            table: name.to_string(),
            details: Some(details),
        })),
        Err(error) if hbase_client::Error::kind(&error) == ClientErrorKind::TableNotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn print(objects: Vec<TableObject>, format: Format) -> io::Result<()> {
    if format == Format::Json {
        return objects.iter().try_for_each(output::json);
    }
    let header = ["table", "state", "regions", "partition", "endpoint"];
    let mut rows = Vec::new();
    for TableObject { table, details } in objects {
        let Some(details) = details else {
            output::line(&table)?;
            continue;
        };
        let endpoint = if details.endpoint { "yes" } else { "no" };
        rows.push([
            table,
            details.state,
            details.regions.to_string(),
            details.rule_text,
            endpoint.to_owned(),
        ]);
    }
    if rows.is_empty() {
        Ok(())
    } else {
        output::page(&output::table(header, rows))
    }
}
