//! The outcome of a transaction.

use std::fmt;

use bytes::Bytes;
use hbase_client::{BytesBinary, Cell, Row, TableName};

use super::record::settle::Unsettled;
use crate::{
    error::{Error, ErrorKind, Result},
    partition::Partition,
};

/// The outcome of a transaction.
#[derive(Debug)]
#[must_use = "only the outcome says whether the transaction was applied"]
#[non_exhaustive]
pub enum Outcome {
    /// All of it was applied.
    Committed(Committed),
    /// Nothing was applied, because a condition did not hold.
    Rejected(Rejection),
    /// Nothing was applied: the transaction can't be atomic, or is not valid. It was not sent, or
    /// not sent again after regions changed in the meantime.
    Invalid(Error),
    /// The client sent it, or tried to, and it was certainly not applied.
    Aborted(Error),
    /// The client sent it and the answer was lost: all of it was applied, or nothing, or a request
    /// in flight may still be applied. A transaction with a record can be
    /// [settled](Unsettled::settle).
    Unknown(Unsettled),
}

/// An applied transaction. Of one across partitions, the partition is the first one, and the numbers are
/// those of all.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Committed {
    /// The partition.
    pub partition: Partition,
    /// The number of distinct rows that were changed.
    pub rows: usize,
    /// The number of mutations that were applied.
    pub mutations: usize,
    /// Whether an earlier commit with the same id applied it, and this commit changed nothing.
    pub replayed: bool,
    /// The new cells of increments and appends, by row. Empty unless the table was opened [without
    /// the endpoint](super::OpenOptions::without_endpoint), which does not return them.
    pub results: Vec<Row>,
}

/// A transaction whose conditions did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rejection {
    /// The table.
    pub table: TableName,
    /// The partition.
    pub partition: Partition,
    /// The conditions that did not hold at one consistent read, in the order in which they were
    /// added. Never empty.
    pub failed: Vec<FailedCondition>,
}

/// A condition that did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FailedCondition {
    /// The label of the condition; of a lock or a latch, what it means that it does not hold.
    pub label: String,
    /// The row that the condition checks.
    pub row: Bytes,
    /// The cell that was found, or `None` if there was none or the condition is on a whole row.
    pub found: Option<Cell>,
    /// The position of the condition among all of the transaction. Two may have the same label.
    pub(super) position: usize,
    /// Whether it is the condition of a lock or a latch.
    pub(crate) is_of_part: bool,
}

/// The outcome of the transaction of one group of a batch.
#[derive(Debug)]
#[non_exhaustive]
pub struct GroupOutcome {
    /// The group's partition.
    pub partition: Partition,
    /// The number of distinct rows in the group.
    pub rows: usize,
    /// The outcome of the group's transaction.
    pub outcome: Outcome,
}

impl Outcome {
    /// Returns whether all of the transaction was applied.
    #[must_use]
    pub fn is_committed(&self) -> bool {
        matches!(self, Self::Committed(_))
    }

    /// Returns whether it is certain that nothing of the transaction was or will be applied.
    #[must_use]
    pub fn is_not_applied(&self) -> bool {
        matches!(self, Self::Rejected(_) | Self::Invalid(_) | Self::Aborted(_))
    }

    /// Returns the error, or `None` if committed or rejected: a rejection is not an error.
    #[must_use]
    pub fn error(&self) -> Option<&Error> {
        match self {
            Self::Committed(_) | Self::Rejected(_) => None,
            Self::Invalid(error) | Self::Aborted(error) => Some(error),
            Self::Unknown(unsettled) => Some(unsettled.error()),
        }
    }

    /// Converts the outcome into a `Result`, for the `?` operator. The error of an unknown outcome
    /// reports it by [`is_outcome_unknown`](Error::is_outcome_unknown); the transaction can then be
    /// settled only by its id, as there is no handle any more.
    ///
    /// # Errors
    ///
    /// Returns an error if the outcome is not [`Committed`](Self::Committed); for a rejected
    /// transaction, [`ConditionNotMet`](ErrorKind::ConditionNotMet).
    pub fn into_result(self) -> Result<Committed> {
        match self {
            Self::Committed(committed) => Ok(committed),
            Self::Rejected(rejection) => Err(rejection.into()),
            Self::Invalid(error) | Self::Aborted(error) => Err(error),
            Self::Unknown(unsettled) => Err(unsettled.into_error()),
        }
    }

    /// Returns the name of the outcome: `committed`, `rejected`, `invalid`, `aborted` or `unknown`.
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
        let error = Self::new(ErrorKind::ConditionNotMet, rejection.to_string());
        let error = error.at_operation("transaction").at_table(&rejection.table);
        rejection.partition.in_context(error)
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (of_parts, others): (Vec<_>, Vec<_>) =
            self.failed.iter().partition(|condition| condition.is_of_part);
        let joined = |failed: &[&FailedCondition]| {
            failed
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join("; ")
        };
        match (&others[..], &of_parts[..]) {
            (others, []) => write!(f, "not met: {}", joined(others)),
            ([], of_parts) => write!(f, "{}; nothing was written", joined(of_parts)),
            (others, of_parts) => write!(
                f,
                "{}; not met: {}; nothing was written",
                joined(of_parts),
                joined(others)
            ),
        }
    }
}

/// Formats a number with its noun, in the plural unless it is 1.
pub(super) fn counted(number: usize, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

/// The number of bytes of a value that are shown.
const SHOWN_VALUE: usize = 64;

impl fmt::Display for FailedCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.label)?;
        match &self.found {
            // The cells of locks and latches are encoded.
            _ if self.is_of_part => Ok(()),
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
