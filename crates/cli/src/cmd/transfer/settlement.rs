//! What became of the lines: counts, rejects, checkpoints, progress.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use hbase_client::{Error, ErrorKind, RemoteException, Writer};

use super::{
    checkpoint::{Checkpoint, State},
    ledger::{Ledger, PendingLine, Rejection},
    rejects::Rejects,
};
use crate::{exit::Failure, output, progress::Progress};

/// The time between two checkpoints.
const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(1);
/// The maximum number of rejected lines that are named on stderr if there is a file of rejects.
const MOST_NAMED: u64 = 10;

/// The lines of an import, from the moment in which they are read.
#[derive(Debug)]
pub(super) struct Settlement {
    pub(super) ledger: Ledger,
    state: State,
    /// `None` if the input can't be read again.
    checkpoint: Option<Checkpoint>,
    /// `None` if the input has no name.
    rejects: Option<Rejects>,
    max_rejects: Option<u64>,
    /// The number of lines that are rejected, those in flight included.
    rejections: u64,
    /// The first failure that is not of one line, and the number of its mutation.
    failed: Option<(u64, Error)>,
    named: u64,
    started: Instant,
    /// The number of lines before this run.
    lines_before: u64,
    /// The number of those that were imported.
    imported_before: u64,
    last_checkpoint: Instant,
    progress: Progress,
}

/// The reason why an import ends before the end of its input.
#[derive(Debug)]
pub(super) enum Stop {
    Interrupted,
    TooManyRejects(u64),
    Failed(Failure),
}

impl Settlement {
    pub(super) fn new(
        state: State,
        checkpoint: Option<Checkpoint>,
        rejects: Option<Rejects>,
        max_rejects: Option<u64>,
    ) -> Self {
        let now = Instant::now();
        let progress = match &checkpoint {
            Some(checkpoint) => Progress::with_bar(checkpoint.source_size(), state.position.offset),
            None => Progress::of_long_work(),
        };
        let settlement = Self {
            ledger: Ledger::default(),
            rejections: state.rejected,
            lines_before: state.imported + state.rejected,
            imported_before: state.imported,
            state,
            checkpoint,
            rejects,
            max_rejects,
            failed: None,
            named: 0,
            started: now,
            last_checkpoint: now,
            progress,
        };
        settlement.show();
        settlement
    }

    /// Returns what is done.
    pub(super) fn state(&self) -> &State {
        &self.state
    }

    /// Returns the path of the file of rejects, as it was given, if there are any in it.
    pub(super) fn rejects(&self) -> Option<&Path> {
        let rejects = self.rejects.as_ref().map(Rejects::path);
        rejects.filter(|_| self.state.rejects.is_some() && self.state.rejected > 0)
    }

    /// Returns the path of the checkpoint.
    pub(super) fn checkpoint(&self) -> Option<&Path> {
        self.checkpoint.as_ref().map(|checkpoint| &*checkpoint.path)
    }

    /// Rejects the last line, this many of whose mutations the writer does not get.
    pub(super) fn reject_last(&mut self, left_out: usize, rejection: Rejection) {
        self.ledger.reject_last(left_out, rejection);
        self.rejections += 1;
    }

    /// Whether no further line may be written before those in flight are done: more than the maximum number of
    /// rejected lines could be among them. Lines that are imported raise the limit, so that an import with few
    /// rejects is as fast as one without a maximum.
    pub(super) fn is_full(&self) -> bool {
        let Some(most) = self.max_rejects else {
            return false;
        };
        let imported = self.state.imported - self.imported_before;
        let allowed = most
            .saturating_sub(self.rejections)
            .saturating_add(imported)
            .max(1);
        self.ledger.lines() as u64 > allowed
    }

    /// Takes what the writer has done. Returns whether it took failures.
    pub(super) fn settle(&mut self, writer: &Writer) -> Result<bool, Failure> {
        // Before the failures: those below it are among them.
        let watermark = writer.watermark();
        let failures = writer.take_failures();
        let has_failures = !failures.is_empty();
        for failed in failures {
            if !is_of_one_line(&failed.error) {
                if self
                    .failed
                    .as_ref()
                    .is_none_or(|(first, _)| failed.number < *first)
                {
                    self.failed = Some((failed.number, failed.error));
                }
                continue;
            }
            let is_unknown = failed.error.is_outcome_unknown();
            let why = Failure::from(failed.error).to_string();
            let is_new = self.ledger.reject(failed.number, |line| Rejection {
                why: format!("line {line}: {why}"),
                is_unknown,
            });
            self.rejections += u64::from(is_new);
        }
        let first_failed = self.failed.as_ref().map(|(number, _)| *number);
        let reached = watermark.min(first_failed.unwrap_or(u64::MAX));
        while let Some(line) = self.ledger.take_done(reached) {
            if let Err(error) = self.end(&line) {
                // Nothing behind it is done before it is.
                self.ledger.put_back(line);
                return Err(error);
            }
        }
        self.show();
        if self.last_checkpoint.elapsed() >= CHECKPOINT_INTERVAL {
            self.write_checkpoint()?;
        }
        Ok(has_failures)
    }

    /// Counts a line that is done.
    fn end(&mut self, line: &PendingLine) -> Result<(), Failure> {
        match &line.rejection {
            None => self.state.imported += 1,
            Some(Rejection { why, is_unknown }) => {
                if let Some(rejects) = &mut self.rejects {
                    rejects.add(line, why)?;
                }
                self.state.rejected += 1;
                self.state.unknown += u64::from(*is_unknown);
                self.name(why);
            }
        }
        self.state.position.line = line.number;
        self.state.position.offset = line.end;
        Ok(())
    }

    /// Names a rejected line on stderr.
    fn name(&mut self, why: &str) {
        self.named += 1;
        let text = match self.rejects {
            Some(_) if self.named == MOST_NAMED + 1 => {
                "further rejected lines are only in the file of rejects"
            }
            Some(_) if self.named > MOST_NAMED => return,
            _ => why,
        };
        self.complain(&format!("rejected: {text}"));
    }

    /// Writes a line to stderr.
    pub(super) fn complain(&self, text: &str) {
        self.progress
            .beside(|| output::complain(&format!("hbase-txn: {text}")));
    }

    /// Returns the reason to stop, if there is one.
    pub(super) fn check(&self) -> Result<(), Stop> {
        if let Some((_, error)) = &self.failed {
            return Err(Stop::Failed(error.clone().into()));
        }
        match self.max_rejects {
            Some(most) if self.rejections > most => Err(Stop::TooManyRejects(most)),
            _ => Ok(()),
        }
    }

    /// Records what is done, so that the next run continues there.
    pub(super) fn write_checkpoint(&mut self) -> Result<(), Failure> {
        if let Some(rejects) = &mut self.rejects {
            self.state.rejects = rejects.flush()?;
        }
        if let Some(checkpoint) = &self.checkpoint {
            checkpoint.write(&self.state)?;
        }
        self.last_checkpoint = Instant::now();
        Ok(())
    }

    /// Writes the last checkpoint, or removes it if the import is complete or nothing is done.
    pub(super) fn finish(&mut self, is_complete: bool) -> Result<(), Failure> {
        self.progress.finish();
        self.write_checkpoint()?;
        let is_needless = is_complete || self.state.position.line == 0;
        if is_needless && let Some(checkpoint) = self.checkpoint.take() {
            checkpoint.remove()?;
        }
        Ok(())
    }

    fn show(&self) {
        let lines = self.state.imported + self.state.rejected;
        let seconds = self.started.elapsed().as_secs_f64().max(0.001);
        let rate = (lines - self.lines_before) as f64 / seconds;
        let rejected = match self.state.rejected {
            0 => String::new(),
            rejected => format!(", {rejected} rejected"),
        };
        self.progress
            .step(&format!("{lines} lines, {rate:.0} lines/s{rejected}"));
        self.progress.reach(self.state.position.offset);
    }
}

/// Returns whether a failure is of its mutation, so that others may succeed. After any other failure,
/// such as a timeout or a disabled table, the same line may be imported later.
pub(super) fn is_of_one_line(error: &Error) -> bool {
    let is_of_one_line = matches!(
        error.kind(),
        ErrorKind::InvalidInput | ErrorKind::FamilyNotFound | ErrorKind::LimitExceeded | ErrorKind::Server
    );
    // A throttle of the table or its namespace, or `HRegion.checkReadOnly`.
    let is_of_the_table = |remote: &RemoteException| {
        remote.class.contains(".quotas.") || remote.message.contains("region is read only")
    };
    is_of_one_line && !error.is_retryable() && !error.remote().is_some_and(is_of_the_table)
}

#[cfg(test)]
mod tests {
    use hbase_txn::client::Effect;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(ErrorKind::InvalidInput, true)]
    #[case(ErrorKind::FamilyNotFound, true)]
    #[case(ErrorKind::Server, true)]
    #[case(ErrorKind::AccessDenied, false)]
    #[case(ErrorKind::QuotaExceeded, false)]
    #[case(ErrorKind::TableNotFound, false)]
    #[case(ErrorKind::TableDisabled, false)]
    #[case(ErrorKind::DeadlineExceeded, false)]
    #[case(ErrorKind::ConnectionLost, false)]
    #[case(ErrorKind::Closed, false)]
    fn failures_are_of_a_line_or_of_the_table(#[case] kind: ErrorKind, #[case] expected: bool) {
        let error = Error::new(kind, "why");
        assert_eq!(is_of_one_line(&error), expected);
        assert_eq!(
            is_of_one_line(&error.clone().with_effect(Effect::Unknown)),
            expected
        );
        assert!(!is_of_one_line(&error.with_retryable(true)));
    }
}
