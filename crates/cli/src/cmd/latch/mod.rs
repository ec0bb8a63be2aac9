//! `hbase-txn latch` and `hbase-txn barrier`, which use the same tables.
//!
//! | file | contents |
//! |---|---|
//! | `which` | the arguments that name a latch |
//! | `init` | creates a latch, and with `--create` its table |
//! | `count` | counts down and up |
//! | `look` | shows a latch, waits for it |
//! | `list` | lists the latches and barriers of a table |
//! | `delete` | deletes it |
//! | `barrier` | creates a barrier, arrives at it, shows and deletes it |
//! | `missing` | the table that a command may create |

pub(crate) mod barrier;
mod count;
mod delete;
mod init;
mod list;
mod look;
mod missing;
mod which;

use clap::{Args, Subcommand};

use crate::{exit::Outcome, global::Global};

/// Create, count, show, list and delete countdown latches, or wait for one
#[derive(Debug, Args)]
pub(crate) struct Latch {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Init(init::Init),
    Show(look::Show),
    List(list::List),
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
            Action::List(list) => list.run(global).await,
            Action::CountDown(count) => count.run(global).await,
            Action::CountUp(count) => count.run(global).await,
            Action::Wait(wait) => wait.run(global).await,
            Action::Delete(delete) => delete.run(global).await,
        }
    }
}
