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
//! | `top` | shows the locks that most processes wait for, and that are held longest |
//! | `watch` | prints the changes of locks or elections |

pub(super) mod acquire;
mod child;
pub(super) mod look;
pub(super) mod release;
pub(super) mod request;
pub(super) mod run;
pub(super) mod signals;
mod top;
pub(super) mod watch;
pub(super) mod which;

use std::time::Duration;

use clap::{Args, Subcommand};
use hbase_txn::lock::{LockManager, LockToken, Session};

use self::{
    request::Terms,
    which::{Kind, Named},
};
use super::coordination::list;
use crate::{exit::Outcome, global::Global};

/// Acquire, renew, release, show, list, rank and watch locks, or run a command under one
#[derive(Debug, Args)]
pub(crate) struct Lock {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Acquire(acquire::Acquire),
    /// Run a command while a lock is held, and release the lock when the command ends
    ///
    /// The lock is renewed until the command and all processes that it started have ended. The
    /// command gets the streams of this process, and in its environment HBASE_TXN_LOCK (the lock's
    /// key) and HBASE_TXN_FENCING (its fencing number). TERM, INT, HUP, QUIT, USR1 and USR2 are
    /// passed on to it and to the processes that it started.
    #[command(after_help = RUN)]
    Run(run::Run),
    Release(release::Release),
    /// Renew the lease of a lock by its token
    ///
    /// The lock is held for the whole lease from now on, or as long as before if that is longer.
    #[command(after_help = RENEW)]
    Renew(release::Renew),
    Show(look::Show),
    List(list::List),
    Top(top::Top),
    Watch(watch::Watch),
}

const RUN: &str = r#"Example: hbase-txn lock run locks nightly --farm fra --client billing --wait 1m -- ./nightly.sh --full

The lock is released when CMD and all processes that it started have ended. Processes that left CMD's process group, as daemons do, are not waited for. After TERM, INT, HUP or QUIT, processes that are left 5 seconds after the end of CMD get KILL. --release-on-exit releases as soon as CMD itself ends.

If the lock is lost while CMD runs, CMD and the processes that it started get TERM, and KILL 5 seconds later. If renewals fail, they have ended before the lease expires, provided that the lease is 18s or longer and clocks agree to a second. A lock with a shorter lease, or a revoked one, may be held by the next process while CMD still ends: let the receivers of CMD's changes refuse lower fencing numbers.

On a terminal CMD stays in this command's process group, where keys such as Ctrl-C and Ctrl-Z reach it; elsewhere it has a group of its own. While this command is stopped, the lock is not renewed. If this command is killed by KILL, CMD goes on without it, and the lock ends with its lease.

Exit status: that of CMD, 128 + N if signal N ended it; 3 the lock is not available, and CMD was not run; 127 CMD does not exist; 126 CMD can't be run; 1 refused or failed, and CMD was not run; 4 the lock was lost while CMD ran, or the answer to the request was lost and CMD was not run. If CMD itself exits with 3 or 4, choose other statuses by --conflict-exit-code and --lost-exit-code."#;

const RENEW: &str = r#"Example: hbase-txn lock renew locks nightly --farm fra --client billing --token 9f86d081884c7d659a2feaa0c55ad015 --ttl 5m --output json answers

{"lock":"DC#fra#billing#nightly","outcome":"renewed","holder":null}

The outcome is renewed; expired (its lease expired, or it was released: the table does not show which); removed (revoked before its lease expired); or taken, and `holder` has it now, null for a Java client, which writes no name.

Exit status: 0 renewed, 3 expired, removed or taken, 1 refused or failed, 4 the answer was lost."#;

impl Lock {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        match self.action {
            Action::Acquire(acquire) => acquire.run(global).await,
            Action::Run(run) => {
                let ask = async |locks: &LockManager, session: &Session, terms: Terms<'_>| {
                    terms.lock(locks)?.session(session).acquire().await
                };
                run.run(global, Kind::Lock, ask).await
            }
            Action::Release(release) => release.run(global).await,
            Action::Renew(renew) => {
                let renewal = async |named: &Named<'_>, token: LockToken, lease: Option<Duration>| {
                    let (level, id) = (named.name.level(), named.name.id());
                    let locks = named.open(global).await?;
                    Ok(locks.renew(level, id, token, lease).await?)
                };
                renew.run(global, Kind::Lock, renewal).await
            }
            Action::Show(show) => show.run(global).await,
            Action::List(list) => list.run(global).await,
            Action::Top(top) => top.run(global).await,
            Action::Watch(watch) => watch.run(global).await,
        }
    }
}
