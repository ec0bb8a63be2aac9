//! `hbase-txn latch`: counts that others wait for to be counted down; and `hbase-txn barrier`, which lives in the same tables.
//!
//! | file | what |
//! |---|---|
//! | `which` | which latch is meant |
//! | `init` | makes a latch, and the table when it is missing |
//! | `count` | counts down and up |
//! | `look` | shows a latch, waits for it |
//! | `delete` | deletes it |
//! | `barrier` | makes a barrier, arrives at it, shows and deletes it |
//! | `missing` | what becomes of a table that is missing |

pub(crate) mod barrier;
mod count;
mod delete;
mod init;
mod look;
mod missing;
mod which;

use clap::{Args, Subcommand};

use crate::{args::Global, cmd::Outcome};

/// Counts that others wait for to be counted down
#[derive(Debug, Args)]
pub(crate) struct Latch {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Init(init::Init),
    Show(look::Show),
    CountDown(count::CountDown),
    CountUp(count::CountUp),
    Wait(look::Wait),
    Delete(delete::Delete),
}

impl Latch {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        match self.action {
            Action::Init(init) => init.run(global).await,
            Action::Show(show) => show.run(global).await,
            Action::CountDown(count) => count.run(global).await,
            Action::CountUp(count) => count.run(global).await,
            Action::Wait(wait) => wait.run(global).await,
            Action::Delete(delete) => delete.run(global).await,
        }
    }
}
