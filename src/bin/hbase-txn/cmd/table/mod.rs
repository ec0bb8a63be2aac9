//! `hbase-txn table`: tables that transactions are possible on.
//!
//! | file | what |
//! |---|---|
//! | `create` | makes one, and proves it |
//! | `alter` | changes single things about one |
//! | `check` | what an audit finds, told |
//! | `repair` | boundaries that are put where they belong |
//! | `rule` | a partition rule on the command line |
//! | `skew` | how rows are spread over partitions and regions |
//! | `describe` | families, attributes, rule, regions |

mod alter;
mod check;
mod create;
mod describe;
mod repair;
mod rule;
mod skew;

use clap::{Args, Subcommand};
use hbase_txn::{BytesBinary, PartitionRule, TableName};
use serde::Serialize;

use crate::{
    args::{Format, Global},
    cmd::Outcome,
    exit::Exit,
    output,
};

/// Tables that transactions are possible on
#[derive(Debug, Args)]
pub(crate) struct Table {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Create(create::Create),
    Check(check::Check),
    Alter(alter::Alter),
    Describe(describe::Describe),
    Repair(repair::Repair),
    Skew(skew::Skew),
    Enable(Enable),
    Disable(Disable),
    Drop(Drop),
}

/// Disable a table and delete it, with all its rows, without asking
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn table drop orders")]
struct Drop {
    /// The table, with its namespace if it has one
    name: TableName,
}

/// Let a table be used again
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn table enable orders")]
struct Enable {
    /// The table, with its namespace if it has one
    name: TableName,
}

/// Let nobody use a table, until it is enabled again
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn table disable orders")]
struct Disable {
    /// The table, with its namespace if it has one
    name: TableName,
}

impl Table {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        match self.action {
            Action::Create(create) => create.run(global).await,
            Action::Check(check) => check.run(global).await,
            Action::Alter(alter) => alter.run(global).await,
            Action::Describe(describe) => describe.run(global).await,
            Action::Repair(repair) => repair.run(global).await,
            Action::Skew(skew) => skew.run(global).await,
            Action::Enable(enable) => enable.run(global).await,
            Action::Disable(disable) => disable.run(global).await,
            Action::Drop(drop) => drop.run(global).await,
        }
    }
}

/// Whether a table can be used now.
#[derive(Serialize)]
struct InUse {
    table: String,
    enabled: bool,
}

impl InUse {
    fn tell(self, global: &Global) -> Outcome {
        match global.output {
            Format::Table => {
                let state = if self.enabled { "enabled" } else { "disabled" };
                output::line(&format!("{}: {state}", self.table))?;
            }
            Format::Json => output::json(&self)?,
        }
        Ok(Exit::Done)
    }
}

impl Enable {
    async fn run(self, global: &Global) -> Outcome {
        global.connect().await?.admin().enable_table(&self.name).await?;
        let table = self.name.to_string();
        InUse { table, enabled: true }.tell(global)
    }
}

impl Disable {
    async fn run(self, global: &Global) -> Outcome {
        global.connect().await?.admin().disable_table(&self.name).await?;
        let table = self.name.to_string();
        InUse {
            table,
            enabled: false,
        }
        .tell(global)
    }
}

impl Drop {
    async fn run(self, global: &Global) -> Outcome {
        #[derive(Serialize)]
        struct Dropped {
            table: String,
            dropped: bool,
        }
        global.connect().await?.admin().delete_table(&self.name).await?;
        match global.output {
            Format::Table => output::line(&format!("{}: dropped", self.name))?,
            Format::Json => output::json(&Dropped {
                table: self.name.to_string(),
                dropped: true,
            })?,
        }
        Ok(Exit::Done)
    }
}

/// A partition rule in JSON: `{"prefix_length":3}` or `{"delimiter":"/"}`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum RuleObject {
    PrefixLength(usize),
    Delimiter(String),
    /// A rule of a later library.
    Other(String),
}

impl From<&PartitionRule> for RuleObject {
    fn from(rule: &PartitionRule) -> Self {
        match rule {
            PartitionRule::PrefixLength(length) => Self::PrefixLength(length.get()),
            PartitionRule::Delimiter(delimiter) => Self::Delimiter(BytesBinary(delimiter).to_string()),
            other => Self::Other(other.to_string()),
        }
    }
}
