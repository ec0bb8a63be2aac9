//! `hbase-txn provision`: tables as files, planned and applied.
//!
//! | file | contents |
//! |---|---|
//! | `files` | the files of a command line |
//! | `plan` | shows the differences between files and cluster |
//! | `apply` | applies plans |
//! | `export` | prints a file that describes an existing table |
//! | `show` | the output of a plan, for people or programs |

mod apply;
mod export;
mod files;
mod plan;
mod show;

pub(super) use self::apply::{apply, signed};
use clap::{Args, Subcommand};

use crate::{exit::Outcome, global::Global};

/// Plan, apply and export table files
#[derive(Debug, Args)]
pub(crate) struct Provision {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Plan(plan::Plan),
    Apply(apply::Apply),
    Export(export::Export),
}

impl Provision {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        match self.action {
            Action::Plan(plan) => plan.run(global).await,
            Action::Apply(apply) => apply.run(global).await,
            Action::Export(export) => export.run(global).await,
        }
    }
}
