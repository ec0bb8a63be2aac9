//! `hbase-txn provision`: tables as files, planned and applied.
//!
//! | file | contents |
//! |---|---|
//! | `files` | the files of a command line |
//! | `plan` | shows the differences between files and cluster |
//! | `apply` | applies plans |
//! | `show` | the output of a plan, for people or programs |

mod apply;
mod files;
mod plan;
mod show;

pub(super) use self::apply::apply;
use clap::{Args, Subcommand};

use crate::{exit::Outcome, global::Global};

/// Plan and apply table files
#[derive(Debug, Args)]
pub(crate) struct Provision {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Plan(plan::Plan),
    Apply(apply::Apply),
}

impl Provision {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        match self.action {
            Action::Plan(plan) => plan.run(global).await,
            Action::Apply(apply) => apply.run(global).await,
        }
    }
}
