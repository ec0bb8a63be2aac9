//! How a transaction ended.

use std::fmt;

use super::plan::counted;
use crate::{
    error::{Error, Result},
    model::Partition,
};

/// How a transaction ended. Exactly one of these is true, and the first that could be proven is told.
#[derive(Debug)]
#[must_use = "only the outcome tells whether the transaction was applied"]
#[non_exhaustive]
pub enum Outcome {
    /// All of it was applied.
    Committed(Committed),
    /// Nothing was applied: the transaction is not one that can be atomic, or valid at all. It was not sent; or, where
    /// regions changed meanwhile, not again.
    Refused(Error),
    /// It was sent, or tried to be, and surely not applied.
    Failed(Error),
    /// It was sent and its answer was lost: all of it was applied, or nothing, or it may still be.
    Unknown(Error),
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

    /// Why it was not applied, or may not have been.
    #[must_use]
    pub fn error(&self) -> Option<&Error> {
        match self {
            Self::Committed(_) => None,
            Self::Refused(error) | Self::Failed(error) | Self::Unknown(error) => Some(error),
        }
    }

    /// For the `?` operator: what was committed, or the error. That of an unknown outcome says so by
    /// [`is_outcome_unknown`](Error::is_outcome_unknown).
    ///
    /// # Errors
    ///
    /// Whenever the outcome is not [`Committed`](Self::Committed).
    pub fn into_result(self) -> Result<Committed> {
        match self {
            Self::Committed(committed) => Ok(committed),
            Self::Refused(error) | Self::Failed(error) | Self::Unknown(error) => Err(error),
        }
    }

    /// The word for it: `committed`, `refused`, `failed` or `unknown`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Committed(_) => "committed",
            Self::Refused(_) => "refused",
            Self::Failed(_) => "failed",
            Self::Unknown(_) => "unknown",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Committed(Committed { partition, rows, .. }) => {
                write!(f, "committed: partition {partition}, {}", counted(*rows, "row"))
            }
            other => match other.error() {
                Some(error) => write!(f, "{}: {error}", other.name()),
                None => f.write_str(other.name()),
            },
        }
    }
}
