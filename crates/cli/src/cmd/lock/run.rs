//! `hbase-txn lock run`.

use std::{ffi::OsString, time::Duration};

use clap::Args;
use hbase_txn::lock::{LockGuard, LockLoss, ReleaseOutcome};
use tokio::time::timeout;

use super::{
    child::{self, GRACE, Running},
    request::{LockUse, Request},
    signals::Signals,
    which::key,
};
use crate::{
    exit::{Exit, Failure, Outcome},
    global::Global,
    output,
};

/// Run a command while a lock is held, and release the lock when the command ends
///
/// The lock is renewed until the command and all processes that it started have ended. The command
/// gets the streams of this process, and in its environment HBASE_TXN_LOCK (the lock's key) and
/// HBASE_TXN_FENCING (its fencing number). TERM, INT, HUP, QUIT, USR1 and USR2 are passed on to it
/// and to the processes that it started.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Run {
    #[command(flatten)]
    request: Request,
    #[command(flatten)]
    command: Command,
}

/// The command that runs while the lock is held.
#[derive(Debug, Args)]
pub(in crate::cmd) struct Command {
    /// Release as soon as CMD itself ends, even if processes that it started still run
    #[arg(long)]
    release_on_exit: bool,
    /// Exit status if what is requested is not available and CMD was not run, instead of 3
    #[arg(long, value_name = "N")]
    conflict_exit_code: Option<u8>,
    /// Exit status if the lock was lost while CMD ran, or the answer to the request was lost, instead
    /// of 4
    #[arg(long, value_name = "N")]
    lost_exit_code: Option<u8>,
    /// Command and its arguments, after --
    #[arg(last = true, required = true, value_name = "CMD")]
    words: Vec<OsString>,
}

const EXAMPLE: &str = r#"Example: hbase-txn lock run locks nightly --farm fra --client billing --wait 1m -- ./nightly.sh --full

The lock is released when CMD and all processes that it started have ended. Processes that left CMD's process group, as daemons do, are not waited for. After TERM, INT, HUP or QUIT, processes that are left 5 seconds after the end of CMD get KILL. --release-on-exit releases as soon as CMD itself ends.

If the lock is lost while CMD runs, CMD and the processes that it started get TERM, and KILL 5 seconds later. If renewals fail, they have ended before the lease expires, provided that the lease is 18s or longer and clocks agree to a second. A lock with a shorter lease, or a revoked one, may be held by the next process while CMD still ends: let the receivers of CMD's changes refuse lower fencing numbers.

On a terminal CMD stays in this command's process group, where keys such as Ctrl-C and Ctrl-Z reach it; elsewhere it has a group of its own. While this command is stopped, the lock is not renewed. If this command is killed by KILL, CMD goes on without it, and the lock ends with its lease.

Exit status: that of CMD, 128 + N if signal N ended it; 3 the lock is not available, and CMD was not run; 127 CMD does not exist; 126 CMD can't be run; 1 refused or failed, and CMD was not run; 4 the lock was lost while CMD ran, or the answer to the request was lost and CMD was not run. If CMD itself exits with 3 or 4, choose other statuses by --conflict-exit-code and --lost-exit-code."#;

impl Run {
    pub(crate) async fn run(self, global: &Global) -> Outcome {
        self.command.exit(self.hold_and_run(global).await)
    }

    async fn hold_and_run(&self, global: &Global) -> Outcome {
        let margin = margin(self.request.asked.lease()?);
        let mut signals = Signals::listen()?;
        let guard = self
            .request
            .acquire(global, &mut signals, LockUse::Attached, |request| {
                request.auto_renew().skew_margin(margin)
            })
            .await?;
        run_under(guard, &self.command, &mut signals).await
    }
}

impl Command {
    /// Replaces the statuses that the command itself may exit with.
    pub(in crate::cmd) fn exit(&self, outcome: Outcome) -> Outcome {
        let exit = outcome.unwrap_or_else(|failure| failure.report());
        let code = match exit {
            Exit::NotMet => self.conflict_exit_code,
            Exit::Unknown => self.lost_exit_code,
            _ => None,
        };
        Ok(code.map_or(exit, Exit::Of))
    }
}

/// The part of the lease for stopping the command, and for differences between clocks.
pub(in crate::cmd) fn margin(lease: Duration) -> Duration {
    (lease / 3).min(GRACE + Duration::from_secs(1))
}

/// Runs a command under a lock, and releases the lock when the command ends.
pub(in crate::cmd) async fn run_under(guard: LockGuard, command: &Command, signals: &mut Signals) -> Outcome {
    let program = command.words.first().map(|program| program.display().to_string());
    let context = format!(
        "running {} under lock {}",
        program.unwrap_or_default(),
        key(guard.name())
    );
    let variables = [
        ("HBASE_TXN_LOCK", key(guard.name())),
        ("HBASE_TXN_FENCING", guard.fencing().to_string()),
    ];
    let mut running = match Running::start(&command.words, variables) {
        Ok(running) => running,
        Err(error) => {
            release(guard, &context, signals).await;
            let why = format!(
                "{context}: {}; check the program's name and permissions",
                output::plain(&error)
            );
            return Err(Failure::NotRun(why, child::status_of_failed_start(&error)));
        }
    };
    let status = loop {
        tokio::select! {
            biased;
            status = running.wait(command.release_on_exit) => break status,
            loss = guard.lost() => {
                warn(&context, &format!("the lock was lost: {loss}; the command gets TERM, and KILL {GRACE:?} later"));
                running.terminate().await;
                // Releases the remains of the lock, without effect on the next holder.
                let _ = timeout(GRACE, guard.release()).await;
                return Ok(Exit::Unknown);
            }
            signal = signals.next() => running.forward(signal),
        }
    };
    // A signal to the whole process group was for the command, and ends its run only.
    signals.ignore_received();
    if let Some(loss) = release(guard, &context, signals).await {
        warn(
            &context,
            &format!("the lock was lost before the command ended: {loss}"),
        );
        return Ok(Exit::Unknown);
    }
    Ok(Exit::Of(child::status(status?)))
}

/// Releases the lock. Returns the loss if it was not held until now. A failed release is only
/// reported.
async fn release(guard: LockGuard, context: &str, signals: &mut Signals) -> Option<LockLoss> {
    let was_held = guard.is_held();
    let released = tokio::select! {
        biased;
        released = guard.release() => released.map_err(|error| error.to_string()),
        () = signals.ending() => Err(Failure::Interrupted.to_string()),
    };
    match released {
        // A lease that expires during the release covered the whole command.
        Ok(ReleaseOutcome::Lost(loss)) if !was_held || loss != LockLoss::Expired => Some(loss),
        Ok(_) => None,
        Err(error) => {
            warn(
                context,
                &format!("cannot release the lock, which is held until its lease expires: {error}"),
            );
            (!was_held).then_some(LockLoss::Expired)
        }
    }
}

fn warn(context: &str, what: &str) {
    output::complain(&format!("hbase-txn: {context}: {what}"));
}
