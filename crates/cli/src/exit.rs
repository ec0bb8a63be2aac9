//! Exit statuses and failures of the command.

use std::{fmt, io};

use hbase_txn::{ClientErrorKind, ErrorKind};

use crate::{
    hints, output,
    style::{Meaning, Target, paint},
};

/// Exit statuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The command succeeded.
    Done,
    /// The command was refused or failed.
    Failed,
    /// The command line can't be parsed. Mostly returned by clap.
    Unparsable,
    /// A plan has changes, and the caller asked for `--detailed-exitcode`.
    Differs,
    /// A condition was not met, a lock is not available, what was to be created exists, the answer to a
    /// query is no, or lines were rejected.
    NotMet,
    /// The outcome is unknown, or a lock was lost while a command ran under it.
    Unknown,
    /// The reader of stdout closed it before everything was written. The status of a program that
    /// SIGPIPE ends.
    Cut,
    /// A signal stopped the command. The status of a program that SIGINT ends.
    Interrupted,
    /// The exit status of a command that ran under a lock, or could not be started.
    Of(u8),
}

impl Exit {
    pub(crate) fn status(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Unparsable | Self::Differs => 2,
            Self::NotMet => 3,
            Self::Unknown => 4,
            Self::Cut => 128 + 13,
            Self::Interrupted => 128 + 2,
            Self::Of(status) => status,
        }
    }

    /// Returns the more severe of two statuses.
    pub(crate) fn or_graver(self, other: Self) -> Self {
        [Self::Interrupted, Self::Unknown, Self::Failed, Self::NotMet]
            .into_iter()
            .find(|grave| [self, other].contains(grave))
            .unwrap_or(Self::Done)
    }
}

/// The result of a command.
pub(crate) type Outcome = Result<Exit, Failure>;

/// The reason why a command stops early.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The library's error.
    Library(hbase_txn::Error),
    /// The library's error if the request is impossible in the current state.
    NotMet(hbase_txn::Error),
    /// A local cluster's error.
    Local(hbase_local::Error),
    /// A refusal by the command itself.
    Refused(String),
    /// A program could not be started. The exit status says why.
    NotRun(String, u8),
    /// Input that clap does not check: environment variables, options that depend on each other.
    Unparsable(String),
    /// Input or output of the command itself.
    Io(io::Error),
    /// A signal stopped the command.
    Interrupted,
}

impl Failure {
    /// Prints the failure to stderr and returns the exit status. Nothing is printed if the reader of
    /// stdout has seen enough.
    pub(crate) fn report(&self) -> Exit {
        if self.is_closed_pipe() {
            return Exit::Cut;
        }
        output::complain(&format!(
            "{} {self}",
            paint(Target::Stderr, Meaning::Bad, "hbase-txn:")
        ));
        match self {
            Self::Library(error) if error.is_outcome_unknown() => Exit::Unknown,
            Self::Library(error) if is_not_met(error.kind()) => Exit::NotMet,
            Self::NotMet(_) => Exit::NotMet,
            Self::Unparsable(_) => Exit::Unparsable,
            Self::Interrupted => Exit::Interrupted,
            Self::NotRun(_, status) => Exit::Of(*status),
            _ => Exit::Failed,
        }
    }

    fn is_closed_pipe(&self) -> bool {
        output::is_closed() && matches!(self, Self::Io(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}

/// Whether errors of this kind always describe the current state and not a failure.
fn is_not_met(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::LockUnavailable
            | ErrorKind::LatchExists
            | ErrorKind::LatchAbsent
            | ErrorKind::LatchExpired
            | ErrorKind::DefinitionMismatch
            | ErrorKind::Client(
                ClientErrorKind::TableExists
                    | ClientErrorKind::SnapshotExists
                    | ClientErrorKind::ReplicationPeerExists
                    | ClientErrorKind::FamilyExists
            )
    )
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Library(error) | Self::NotMet(error) => error.fmt(f),
            Self::Local(error) => error.fmt(f),
            Self::Refused(why) | Self::Unparsable(why) | Self::NotRun(why, _) => f.write_str(why),
            Self::Io(error) => error.fmt(f),
            Self::Interrupted => f.write_str("interrupted"),
        }
    }
}

impl From<hbase_txn::Error> for Failure {
    fn from(error: hbase_txn::Error) -> Self {
        Self::Library(hints::with_command(error))
    }
}

impl From<hbase_client::Error> for Failure {
    fn from(error: hbase_client::Error) -> Self {
        hbase_txn::Error::from(error).into()
    }
}

impl From<hbase_local::Error> for Failure {
    fn from(error: hbase_local::Error) -> Self {
        Self::Local(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(&[], Exit::Done)]
    #[case(&[Exit::Done, Exit::NotMet, Exit::Done], Exit::NotMet)]
    #[case(&[Exit::NotMet, Exit::Failed], Exit::Failed)]
    #[case(&[Exit::Unknown, Exit::Failed, Exit::Done], Exit::Unknown)]
    #[case(&[Exit::Interrupted, Exit::Done], Exit::Interrupted)]
    fn the_gravest_outcome_counts(#[case] outcomes: &[Exit], #[case] end: Exit) {
        assert_eq!(
            outcomes.iter().fold(Exit::Done, |all, one| all.or_graver(*one)),
            end
        );
    }
}
