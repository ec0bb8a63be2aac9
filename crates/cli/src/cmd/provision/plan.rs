//! `hbase-txn provision plan`.

use std::path::PathBuf;

use clap::Args;

use super::{files, show};
use crate::{
    exit::{Exit, Failure, Outcome},
    global::Global,
};

/// Show the changes that would make the cluster match the table files
///
/// Lines with + are added, with - removed, with ~ changed. Exit status: 0 if all changes can be
/// applied or there are none, 1 if something is refused, 2 if a file is not a table file.
///
/// With --detailed-exitcode: 0 if there are no changes, 2 if there are changes that can be applied,
/// 1 in all other cases; a command line that can't be parsed always exits with 2.
///
/// In JSON each change, refusal and note is an object with the key `change`, `refused` or `note`;
/// without changes there are none. Nothing is changed. See schemas/tables for files.
#[derive(Debug, Args)]
#[command(after_help = "Example: hbase-txn provision plan schemas/tables/orders.toml")]
pub(crate) struct Plan {
    /// Table files; - for stdin
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Plan for an apply with this permission to lose data, as a refusal names it; may be repeated
    #[arg(long, value_name = "LOSS")]
    allow_data_loss: Vec<String>,
    /// Exit with 2 if there are changes
    #[arg(long)]
    detailed_exitcode: bool,
}

impl Plan {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        match self.print(global).await {
            Err(Failure::Unparsable(why)) if self.detailed_exitcode => Err(Failure::Refused(why)),
            outcome => outcome,
        }
    }

    async fn print(&self, global: &Global) -> Outcome {
        let files = files::read(&self.files).await?;
        let connection = global.connect().await?;
        let plans = files::planned(&connection, &files, &self.allow_data_loss).await?;
        for plan in &plans {
            show::plan(plan, global.output)?;
        }
        let is_refused = plans.iter().any(|plan| !plan.refusals().is_empty());
        let has_changes = plans.iter().any(|plan| !plan.changes().is_empty());
        match (is_refused, has_changes && self.detailed_exitcode) {
            (true, _) => Ok(Exit::Failed),
            (false, true) => Ok(Exit::Differs),
            (false, false) => Ok(Exit::Done),
        }
    }
}
