//! How a transaction ended.

use std::fmt;

use bytes::Bytes;
use hbase_client::{BytesBinary, Cell, Partition, Row};

use super::settle::Unsettled;
use crate::error::{Error, ErrorKind, Result};

/// How a transaction ended. Exactly one of these is true, and the first that could be proven is
/// told.
#[derive(Debug)]
#[must_use = "only the outcome tells whether the transaction was applied"]
#[non_exhaustive]
pub enum Outcome {
    /// All of it was applied.
    Committed(Committed),
    /// Nothing was applied, because conditions did not hold.
    Rejected(Rejection),
    /// Nothing was applied: the transaction is not one that can be atomic, or valid at all. It was
    /// not sent; or, where regions changed meanwhile, not again.
    Invalid(Error),
    /// It was sent, or tried to be, and surely not applied.
    Aborted(Error),
    /// It was sent and its answer was lost: all of it was applied, or nothing, or it may still be.
    /// A transaction with a record can be [settled](Unsettled::settle).
    Unknown(Unsettled),
}

/// A transaction that was applied.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Committed {
    /// The partition.
    pub partition: Partition,
    /// How many different rows were changed.
    pub rows: usize,
    /// How many mutations were applied.
    pub mutations: usize,
    /// Whether an earlier commit with the same id had applied it, and this one changed nothing.
    pub replayed: bool,
    /// The new cells of increments and appends, by row; only [without the
    /// endpoint](super::OpenOptions::without_endpoint), which does not tell them.
    pub results: Vec<Row>,
}

/// A transaction whose conditions did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rejection {
    /// The partition.
    pub partition: Partition,
    /// The conditions that did not hold, as one consistent read found them, in the order in which
    /// they were added. Never empty.
    pub failed: Vec<FailedCondition>,
}

/// A condition that did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FailedCondition {
    /// Its label.
    pub label: String,
    /// The row that it is about.
    pub row: Bytes,
    /// The cell that was found; none where there was none, and for conditions on whole rows.
    pub found: Option<Cell>,
}

/// How the transaction of one group of a batch ended.
#[derive(Debug)]
#[non_exhaustive]
pub struct GroupOutcome {
    /// The group's partition.
    pub partition: Partition,
    /// How many different rows the group has.
    pub rows: usize,
    /// How it ended.
    pub outcome: Outcome,
}

impl Outcome {
    /// Whether all of it was applied.
    #[must_use]
    pub fn is_committed(&self) -> bool {
        matches!(self, Self::Committed(_))
    }

    /// Whether surely nothing of it was applied, now or later.
    #[must_use]
    pub fn is_not_applied(&self) -> bool {
        matches!(self, Self::Rejected(_) | Self::Invalid(_) | Self::Aborted(_))
    }

    /// What went wrong, where something did: a rejection is no error.
    #[must_use]
    pub fn error(&self) -> Option<&Error> {
        match self {
            Self::Committed(_) | Self::Rejected(_) => None,
            Self::Invalid(error) | Self::Aborted(error) => Some(error),
            Self::Unknown(unsettled) => Some(unsettled.error()),
        }
    }

    /// For the `?` operator: what was committed, or the error. That of an unknown outcome says so
    /// by [`is_outcome_unknown`](Error::is_outcome_unknown), and can no longer be settled by a
    /// handle, but by its id.
    ///
    /// # Errors
    ///
    /// Whenever the outcome is not [`Committed`](Self::Committed); for a rejected transaction
    /// [`ConditionNotMet`](ErrorKind::ConditionNotMet).
    pub fn into_result(self) -> Result<Committed> {
        match self {
            Self::Committed(committed) => Ok(committed),
            Self::Rejected(rejection) => Err(rejection.into()),
            Self::Invalid(error) | Self::Aborted(error) => Err(error),
            Self::Unknown(unsettled) => Err(unsettled.into_error()),
        }
    }

    /// The word for it: `committed`, `rejected`, `refused`, `failed` or `unknown`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Committed(_) => "committed",
            Self::Rejected(_) => "rejected",
            Self::Invalid(_) => "invalid",
            Self::Aborted(_) => "aborted",
            Self::Unknown(_) => "unknown",
        }
    }
}

impl From<Rejection> for Error {
    fn from(rejection: Rejection) -> Self {
        Self::new(ErrorKind::ConditionNotMet, rejection.to_string())
            .at_operation("transaction")
            .at_row(&rejection.partition)
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not met: ")?;
        for (at, condition) in self.failed.iter().enumerate() {
            if at > 0 {
                f.write_str("; ")?;
            }
            write!(f, "{condition}")?;
        }
        Ok(())
    }
}

/// A number of things, in words.
pub(super) fn counted(number: usize, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

/// How much of a value is shown.
const SHOWN_VALUE: usize = 64;

impl fmt::Display for FailedCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.label)?;
        match &self.found {
            None => Ok(()),
            Some(cell) if cell.value.len() > SHOWN_VALUE => {
                write!(f, " (found {}…)", BytesBinary(&cell.value[..SHOWN_VALUE]))
            }
            Some(cell) => write!(f, " (found {})", BytesBinary(&cell.value)),
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Committed(Committed {
                partition,
                rows,
                replayed,
                ..
            }) => {
                write!(f, "committed: partition {partition}, {}", counted(*rows, "row"))?;
                f.write_str(if *replayed { ", by an earlier commit" } else { "" })
            }
            Self::Rejected(rejection) => {
                write!(f, "rejected: partition {}, {rejection}", rejection.partition)
            }
            other => match other.error() {
                Some(error) => write!(f, "{}: {error}", other.name()),
                None => f.write_str(other.name()),
            },
        }
    }
}
