//! A command that runs while a lock, permits or a leadership is held.

use std::{ffi::OsString, time::Duration};

use clap::Args;
use hbase_txn::lock::{LockGuard, LockLoss, LockManager, ReleaseOutcome, Session, SessionEnd};
use tokio::time::timeout;

use super::{
    child::{self, GRACE, Running},
    request::{Asked, LockUse, MissingTable, Request, Terms},
    signals::Signals,
    which::{Kind, key},
};
use crate::{
    exit::{Exit, Failure, Outcome},
    global::Global,
    output,
};

/// The time in which a signal that was sent before the end of the command is seen.
const DELIVERED: Duration = Duration::from_millis(100);

/// A request, and the command that runs while what it requests is held.
#[derive(Debug, Args)]
pub(in crate::cmd) struct Run {
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

impl Run {
    /// Acquires what `ask` requests in a session, and runs the command while that lasts.
    pub(in crate::cmd) async fn run(
        self,
        global: &Global,
        kind: Kind,
        ask: impl AsyncFnOnce(&LockManager, &Session, Terms<'_>) -> hbase_txn::Result<LockGuard>,
    ) -> Outcome {
        let Request { asked, table } = &self.request;
        self.command.run(global, kind, asked, Some(table), ask).await
    }
}

impl Command {
    /// Acquires what `ask` requests in a session, and runs the command while that lasts.
    pub(in crate::cmd) async fn run(
        &self,
        global: &Global,
        kind: Kind,
        asked: &Asked,
        table: Option<&MissingTable>,
        ask: impl AsyncFnOnce(&LockManager, &Session, Terms<'_>) -> hbase_txn::Result<LockGuard>,
    ) -> Outcome {
        let run = async {
            let mut signals = Signals::listen()?;
            let open = async |locks: LockManager, terms: Terms<'_>| {
                let session = terms.session(&locks)?;
                let guard = ask(&locks, &session, terms).await?;
                Ok((session, guard))
            };
            let held = asked.acquire(global, &mut signals, kind, LockUse::Attached, table, open);
            let (session, guard) = held.await?;
            run_under(&session, guard, self, &mut signals).await
        };
        self.exit(run.await)
    }

    /// Replaces the statuses that the command itself may exit with.
    fn exit(&self, outcome: Outcome) -> Outcome {
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
pub(super) fn margin(lease: Duration) -> Duration {
    (lease / 3).min(GRACE + Duration::from_secs(1))
}

/// Runs a command under a lock of a session, and releases the lock when the command ends.
async fn run_under(session: &Session, guard: LockGuard, command: &Command, signals: &mut Signals) -> Outcome {
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
            end = session.lost() => {
                let loss = match end {
                    SessionEnd::Lost { loss, .. } => loss.to_string(),
                    end => end.to_string(),
                };
                warn(&context, &format!("the lock was lost: {loss}; the command gets TERM, and KILL {GRACE:?} later"));
                running.terminate().await;
                // Releases the remains of the lock, without effect on the next holder.
                let _ = timeout(GRACE, guard.release()).await;
                return Ok(Exit::Unknown);
            }
            signal = signals.next() => running.forward(signal),
        }
    };
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
        // A signal to the whole process group was for the command, and ends its run only.
        () = signals.ending_after(DELIVERED) => Err(Failure::Interrupted.to_string()),
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
