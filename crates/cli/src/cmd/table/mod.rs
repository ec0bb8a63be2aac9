//! `hbase-txn table`: tables for transactions.
//!
//! | file | contents |
//! |---|---|
//! | `create` | creates a table and verifies it |
//! | `alter` | changes single settings of a table |
//! | `check` | prints the findings of an audit |
//! | `repair` | moves region boundaries out of partitions |
//! | `rule` | a partition rule on the command line |
//! | `skew` | shows the distribution of rows over partitions and regions |
//! | `describe` | shows families, attributes, rule and regions |

mod alter;
mod check;
mod create;
mod describe;
mod repair;
mod rule;
mod skew;

use std::io::{self, IsTerminal};

use clap::{Args, Subcommand};
use hbase_txn::TableName;
use serde::Serialize;

use crate::{
    exit::{Exit, Failure, Outcome},
    global::{Format, Global},
    output,
};

/// Create, check, alter, repair and drop tables for transactions
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

/// Disable a table and delete it, with all its rows
///
/// On a terminal, the command first asks for the table's name. Elsewhere it requires --yes.
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn table drop orders --yes")]
struct Drop {
    /// Table, with its namespace if it has one
    name: TableName,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

/// Enable a disabled table
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn table enable orders")]
struct Enable {
    /// Table, with its namespace if it has one
    name: TableName,
}

/// Disable a table, so that no client can use it until it is enabled
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn table disable orders")]
struct Disable {
    /// Table, with its namespace if it has one
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

/// Whether a table is enabled.
#[derive(Serialize)]
struct InUse {
    table: String,
    enabled: bool,
}

impl InUse {
    fn print(self, global: &Global) -> Outcome {
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
        InUse { table, enabled: true }.print(global)
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
        .print(global)
    }
}

impl Drop {
    async fn run(self, global: &Global) -> Outcome {
        #[derive(Serialize)]
        struct Dropped {
            table: String,
            dropped: bool,
        }
        if !self.yes {
            self.confirm()?;
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

impl Drop {
    /// Asks for the table's name on a terminal.
    fn confirm(&self) -> Result<(), Failure> {
        let refused = |why: &str| Failure::Refused(format!("table {} is not dropped: {why}", self.name));
        let stdin = io::stdin();
        if !(stdin.is_terminal() && io::stderr().is_terminal()) {
            return Err(refused("there is no terminal to ask on; add --yes"));
        }
        output::ask(&format!(
            "This deletes table {} and all its rows. Type its name to go on: ",
            self.name
        ));
        let mut answer = String::new();
        stdin.read_line(&mut answer)?;
        match answer.trim() == self.name.to_string() {
            true => Ok(()),
            false => Err(refused("what was typed is not its name")),
        }
    }
}
