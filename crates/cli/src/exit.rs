//! How the command ends.

use std::{fmt, io};

use hbase_txn::ErrorKind;

use crate::hints;

/// Exit statuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done.
    Done,
    /// Refused or failed.
    Failed,
    /// It can't be parsed; most of this comes from clap.
    Unparsable,
    /// A plan has changes, and the caller asked for `--detailed-exitcode`.
    Differs,
    /// A condition was not met, a lock is not available, or a thing asked about is not so.
    NotMet,
    /// The outcome is unknown, or a lock was lost while a command ran under it.
    Unknown,
    /// As the command ended that was run under a lock.
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
            Self::Of(status) => status,
        }
    }

    /// Of two outcomes the one that the command ends with.
    pub(crate) fn or_graver(self, other: Self) -> Self {
        [Self::Unknown, Self::Failed, Self::NotMet]
            .into_iter()
            .find(|grave| [self, other].contains(grave))
            .unwrap_or(Self::Done)
    }
}

/// What a command ends with.
pub(crate) type Outcome = Result<Exit, Failure>;

/// Why the command ends early.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The library's error.
    Library(hbase_txn::Error),
    /// The library's error where what was asked for is not possible as things are.
    NotMet(hbase_txn::Error),
    /// A local cluster's error.
    Local(hbase_local::Error),
    /// What the command itself refuses.
    Refused(String),
    /// What can't be parsed, and is not clap's to say: what stands in the environment, options that
    /// need one another.
    Unparsable(String),
    /// Input or output of the command itself.
    Io(io::Error),
    /// A signal ended the command.
    Interrupted,
}

impl Failure {
    /// Prints the failure on stderr, and returns the exit status. A closed stdout is no failure: its
    /// reader has seen enough. A caller that must fail then checks
    /// [`is_closed_pipe`](Self::is_closed_pipe) itself.
    pub(crate) fn report(&self) -> Exit {
        if self.is_closed_pipe() {
            return Exit::Done;
        }
        crate::output::complain(&format!("hbase-txn: {self}"));
        match self {
            Self::Library(error) if error.is_outcome_unknown() => Exit::Unknown,
            Self::Library(error) if is_not_met(error.kind()) => Exit::NotMet,
            Self::NotMet(_) => Exit::NotMet,
            Self::Unparsable(_) => Exit::Unparsable,
            _ => Exit::Failed,
        }
    }

    /// Whether the reader of stdout went away.
    pub(crate) fn is_closed_pipe(&self) -> bool {
        matches!(self, Self::Io(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}

/// Whether an error of this kind, always, says how things are and not that something failed.
fn is_not_met(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::LockUnavailable
            | ErrorKind::LatchExists
            | ErrorKind::LatchAbsent
            | ErrorKind::LatchExpired
    )
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Library(error) | Self::NotMet(error) => error.fmt(f),
            Self::Local(error) => error.fmt(f),
            Self::Refused(why) | Self::Unparsable(why) => f.write_str(why),
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
    fn the_gravest_outcome_counts(#[case] outcomes: &[Exit], #[case] end: Exit) {
        assert_eq!(
            outcomes.iter().fold(Exit::Done, |all, one| all.or_graver(*one)),
            end
        );
    }
}
