//! `hbase-txn table`: tables, most for transactions.
//!
//! | file | contents |
//! |---|---|
//! | `create` | creates a table and verifies it |
//! | `split_keys` | reads the split keys of a new table from a file |
//! | `clone_schema` | creates a table like another one |
//! | `alter` | changes single settings of a table |
//! | `check` | prints the findings of an audit |
//! | `repair` | moves region boundaries out of partitions |
//! | `rule` | a partition rule on the command line |
//! | `skew` | shows the distribution of rows over partitions and regions |
//! | `describe` | shows families, attributes, rule and regions |
//! | `list` | lists tables |
//! | `count` | counts rows |
//! | `drop` | deletes tables, or their rows |
//! | `files` | flushes and compacts |
//! | `done` | prints what was done to a table |
//! | `regions_at_once` | the option for reading several regions at the same time |
//! | `regions` | splits, merges, moves and empties regions |

mod alter;
mod check;
mod clone_schema;
mod count;
mod create;
mod describe;
mod done;
mod drop;
mod files;
mod list;
mod regions;
pub(in crate::cmd) mod regions_at_once;
mod repair;
mod rule;
mod skew;
mod split_keys;

use clap::{Args, Subcommand};
use hbase_provision::reopen_table;
use hbase_txn::client::TableName;

use self::done::print_done;
use crate::{exit::Outcome, global::Global};

/// Create, check, alter, repair and drop tables, and move their regions
#[derive(Debug, Args)]
pub(crate) struct Table {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Create(create::Create),
    CloneSchema(clone_schema::CloneSchema),
    Check(check::Check),
    Alter(alter::Alter),
    Describe(describe::Describe),
    Repair(repair::Repair),
    Skew(skew::Skew),
    Enable(Enable),
    Disable(Disable),
    Reopen(Reopen),
    List(list::List),
    Count(count::Count),
    Truncate(drop::Truncate),
    Drop(drop::Drop),
    Flush(files::Flush),
    Compact(files::Compact),
    Split(regions::Split),
    Merge(regions::Merge),
    Move(regions::Move),
    TruncateRegion(regions::TruncateRegion),
}

/// Enable a disabled table
///
/// It may take --timeout, and 100 ms for each region.
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn table enable orders")]
struct Enable {
    /// Table, with its namespace if it has one
    name: TableName,
}

/// Disable a table, so that no client can use it until it is enabled
///
/// It may take --timeout, and 100 ms for each region.
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn table disable orders")]
struct Disable {
    /// Table, with its namespace if it has one
    name: TableName,
}

/// Close and open all regions of a table, so that they load its coprocessors again
///
/// The table stays enabled: calls to a region wait until it is open. HBase reopens all regions at once,
/// unless its master has `hbase.reopen.table.regions.progressive.batch.size.max` (2.6 and later). It may take
/// --timeout, and 100 ms for each region.
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn table reopen orders")]
struct Reopen {
    /// Table, with its namespace if it has one
    name: TableName,
}

impl Table {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        match self.action {
            Action::Create(create) => create.run(global).await,
            Action::CloneSchema(clone) => clone.run(global).await,
            Action::Check(check) => check.run(global).await,
            Action::Alter(alter) => alter.run(global).await,
            Action::Describe(describe) => describe.run(global).await,
            Action::Repair(repair) => repair.run(global).await,
            Action::Skew(skew) => skew.run(global).await,
            Action::Enable(enable) => enable.run(global).await,
            Action::Disable(disable) => disable.run(global).await,
            Action::Reopen(reopen) => reopen.run(global).await,
            Action::List(list) => list.run(global).await,
            Action::Count(count) => count.run(global).await,
            Action::Truncate(truncate) => truncate.run(global).await,
            Action::Drop(drop) => drop.run(global).await,
            Action::Flush(flush) => flush.run(global).await,
            Action::Compact(compact) => compact.run(global).await,
            Action::Split(split) => split.run(global).await,
            Action::Merge(merge) => merge.run(global).await,
            Action::Move(to) => to.run(global).await,
            Action::TruncateRegion(truncate) => truncate.run(global).await,
        }
    }
}

impl Enable {
    async fn run(self, global: &Global) -> Outcome {
        let admin = global.connect_for(&self.name).await?;
        admin.enable_table(&self.name).await?;
        print_done(global, &self.name, "enabled", ("enabled", true))
    }
}

impl Reopen {
    async fn run(self, global: &Global) -> Outcome {
        reopen_table(&global.connect().await?, &self.name).await?;
        print_done(global, &self.name, "reopened", ("reopened", true))
    }
}

impl Disable {
    async fn run(self, global: &Global) -> Outcome {
        let admin = global.connect_for(&self.name).await?;
        admin.disable_table(&self.name).await?;
        print_done(global, &self.name, "disabled", ("enabled", false))
    }
}
