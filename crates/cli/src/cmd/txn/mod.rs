//! `hbase-txn txn`: transactions from a file, and their outcomes.
//!
//! | file | contents |
//! |---|---|
//! | `apply` | reads lines and sends their transactions, with bounded concurrency |
//! | `answers` | the outcomes, in the order of the lines |
//! | `format` | the format of a line |
//! | `groups` | the transactions of a line |
//! | `turns` | orders the transactions of a partition |
//! | `outcome` | looks up the outcome of a transaction with an id |

mod answers;
mod apply;
mod format;
mod groups;
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
