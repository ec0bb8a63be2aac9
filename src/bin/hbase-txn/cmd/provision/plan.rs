//! `hbase-txn provision plan`.

use std::path::PathBuf;

use clap::Args;

use super::{files, show};
use crate::{args::Global, cmd::Outcome, exit::Exit};

/// Show what stands between table files and the cluster; changes nothing
///
/// Lines with + are added, with - removed, with ~ changed. Exit status 0 where all of it can be applied or there is nothing to
/// do, 1 where something is refused, 2 where a file is no table file.
///
/// In JSON each change, refusal and note is an object, with the key `change`, `refused` or `note`; there is none where nothing
/// is to be done. See schemas/tables for files.
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn provision plan schemas/tables/orders.toml")]
pub(crate) struct Plan {
    /// Table files; stdin for -
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Plan for an apply that may lose data: families dropped, versions or TTL lowered
    #[arg(long)]
    allow_data_loss: bool,
}

impl Plan {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        let files = files::read(&self.files).await?;
        let connection = global.connect().await?;
        let plans = files::planned(&connection, &files, self.allow_data_loss).await?;
        for plan in &plans {
            show::plan(plan, global.output)?;
        }
        match plans.iter().all(|plan| plan.refusals().is_empty()) {
            true => Ok(Exit::Done),
            false => Ok(Exit::Failed),
        }
    }
}
