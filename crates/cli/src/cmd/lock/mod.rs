//! `hbase-txn lock`: distributed locks.
//!
//! | file | contents |
//! |---|---|
//! | `which` | the arguments that name a lock |
//! | `request` | the options of a request, and of the table that it may create |
//! | `acquire` | acquires a lock and leaves it held |
//! | `run` | runs a command under a lock, permits or a leadership |
//! | `child` | that command: its process group and its end |
//! | `signals` | signals that are forwarded to it |
//! | `release` | releases and renews by token, and revokes |
//! | `look` | shows one lock |
//! | `watch` | prints the changes of locks or elections |

pub(super) mod acquire;
mod child;
pub(super) mod look;
pub(super) mod release;
pub(super) mod request;
pub(super) mod run;
pub(super) mod signals;
pub(super) mod watch;
pub(super) mod which;

use clap::{Args, Subcommand};

use super::coordination::list;
use crate::{exit::Outcome, global::Global};

/// Acquire, renew, release, show, list and watch locks, or run a command under one
#[derive(Debug, Args)]
pub(crate) struct Lock {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Acquire(acquire::Acquire),
    Run(run::Run),
    Release(release::Release),
    Renew(release::Renew),
    Show(look::Show),
    List(list::List),
    Watch(watch::Watch),
}

impl Lock {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        match self.action {
            Action::Acquire(acquire) => acquire.run(global).await,
            Action::Run(run) => run.run(global).await,
            Action::Release(release) => release.run(global).await,
            Action::Renew(renew) => renew.run(global).await,
            Action::Show(show) => show.run(global).await,
            Action::List(list) => list.run(global).await,
            Action::Watch(watch) => watch.run(global).await,
        }
    }
}
