//! `hbase-txn txn`: transactions from a file, and how they ended.
//!
//! | file | what |
//! |---|---|
//! | `apply` | reads lines and sends their transactions, a bounded number at a time |
//! | `answers` | the outcomes, in the order of the lines |
//! | `lines` | the lines of a file or of stdin, bounded |
//! | `format` | what a line may say |
//! | `groups` | a line's transactions |
//! | `turns` | transactions of one partition, one after another |
//! | `outcome` | how a transaction with an id ended |

mod answers;
mod apply;
mod format;
mod groups;
mod lines;
mod outcome;
mod turns;

use clap::{Args, Subcommand};

use crate::{exit::Outcome, global::Global};

/// Apply transactions from a file, and look up their outcomes
#[derive(Debug, Args)]
pub(crate) struct Txn {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Apply(apply::Apply),
    Outcome(outcome::Outcome),
}

impl Txn {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        match self.action {
            Action::Apply(apply) => apply.run(global).await,
            Action::Outcome(outcome) => outcome.run(global).await,
        }
    }
}
