//! `hbase-txn provision`: tables as files, planned and applied.
//!
//! | file | what |
//! |---|---|
//! | `files` | the files of a command line |
//! | `plan` | shows what stands between file and cluster |
//! | `apply` | makes it so |
//! | `show` | a plan as a person reads it, or a program |

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
