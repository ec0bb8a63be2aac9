//! Read-modify-write of a partition: reads, lets the caller change what depends on it, and repeats
//! both after a conflict.
//!
//! | file | what |
//! |---|---|
//! | `view` | [`UpdateView`]: what the caller's closure reads and changes; remembers what it read; no I/O |
//! | `options` | [`UpdateOptions`] |

mod options;
mod view;

use std::time::Duration;

use hbase_client::{
    BytesBinary, Partition,
    low_level::{Pauses, TableCalls},
};
use tokio::time::Instant;

use self::{options::Recording, view::Change};
pub use self::{options::UpdateOptions, view::UpdateView};
use super::{
    commit::Committer,
    digest::Digest,
    outcome::{FailedCondition, Outcome, Rejection},
    proven_table::ProvenTable,
    record::{RecordRequest, State, TransactionId},
    settle::{Claim, Ended},
    snapshot::{self, Snapshot},
};
use crate::error::{Error, ErrorKind, Result};

/// What an update did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Updated<T> {
    /// The closure's changes were applied, or there were none.
    #[non_exhaustive]
    Done {
        /// What the closure returned in the attempt that counted.
        value: T,
        /// How often the closure was run.
        attempts: u32,
    },
    /// An earlier update with the same id was applied, and this one changed nothing. What the
    /// closure returned then is not known. Only with an [id of the caller's](UpdateOptions::id).
    Replayed,
}

impl<T> Updated<T> {
    /// What the closure returned; none for one that was replayed.
    pub fn into_value(self) -> Option<T> {
        match self {
            Self::Done { value, .. } => Some(value),
            Self::Replayed => None,
        }
    }
}

pub(super) const OPERATION: &str = "update";

/// Of the time that is left for an attempt, this part is kept for finding out how it ended.
const KEPT_FOR_SETTLING: u32 = 5;

/// How many of the conditions that failed an error names.
const NAMED_CONDITIONS: usize = 3;

/// An update, from one attempt to the next: [`read`](Self::read), the caller's closure on a
/// [`view`](Self::view), [`apply`](Self::apply).
pub(super) struct Update<'a> {
    committer: &'a Committer,
    partition: Partition,
    options: UpdateOptions,
    /// Whether the version of the partition stands for what is read.
    versioned: bool,
    deadline: Instant,
    pauses: Pauses,
    attempts: u32,
}

/// How an attempt ended.
pub(super) enum Applied {
    /// The update is done, after so many attempts.
    Done(u32),
    /// An earlier update with the same id was applied.
    Replayed,
    /// The attempt was surely not applied, and the next one may begin.
    Conflict,
}

impl<'a> Update<'a> {
    /// Begins an update. Returns `None` if one of the same id was applied already.
    pub(super) async fn begin(
        committer: &'a Committer,
        partition: Partition,
        options: UpdateOptions,
    ) -> Result<Option<Self>> {
        let table = committer.table();
        let update = Self {
            versioned: table.terms().partition_version && !partition.is_lone_row(),
            deadline: table.table().deadline(),
            committer,
            partition,
            options,
            pauses: Pauses::after_conflicts(),
            attempts: 0,
        };
        let before = was_committed_before(
            table,
            &update.partition,
            &update.options.recording,
            update.deadline,
        )
        .await;
        match before.map_err(|error| update.in_context(error))? {
            true => Ok(None),
            false => Ok(Some(update)),
        }
    }

    /// Begins an attempt: reads the rows.
    pub(super) async fn read(&mut self) -> Result<Snapshot> {
        self.attempts += 1;
        let mut options = self.options.snapshot.clone();
        if self.versioned {
            options = options.with_version();
        }
        snapshot::read(
            self.committer.table(),
            self.partition.clone(),
            &options,
            self.deadline,
        )
        .await
        .map_err(|error| self.in_context(error))
    }

    /// What the caller's closure reads and changes.
    pub(super) fn view<'s>(&'s self, snapshot: &'s Snapshot) -> UpdateView<'s> {
        let table = self.committer.table();
        UpdateView::new(
            snapshot,
            table.name(),
            table.terms(),
            &self.options,
            self.versioned,
            self.deadline,
        )
    }

    /// Turns what the closure did into what is sent; `None` if it only read.
    pub(super) fn finish(&self, view: UpdateView<'_>) -> Result<Option<Change>> {
        view.finish().map_err(|error| self.in_context(error))
    }

    /// Ends an attempt: sends the change, and finds out how that ended.
    pub(super) async fn apply(&mut self, change: Option<Change>) -> Result<Applied> {
        let Some(change) = change else {
            return Ok(Applied::Done(self.attempts));
        };
        let ended = attempt(self.committer, change, &self.options.recording, self.deadline).await;
        let conflict = match ended.map_err(|error| self.in_context(error))? {
            Attempt::Applied { own: true } => return Ok(Applied::Done(self.attempts)),
            Attempt::Applied { own: false } => return Ok(Applied::Replayed),
            Attempt::Conflict(conflict) => conflict,
        };
        if self.attempts >= self.options.attempts || !self.pauses.wait_before(self.deadline).await {
            return Err(self.in_context(gave_up(self.attempts, conflict)));
        }
        let Self {
            partition, attempts, ..
        } = self;
        tracing::debug!(table = %self.committer.table().name(), %partition, attempts, "repeating an update");
        Ok(Applied::Conflict)
    }

    fn in_context(&self, error: Error) -> Error {
        error
            .at_operation(OPERATION)
            .at_table(self.committer.table().name())
            .at_row(&BytesBinary(self.partition.prefix()))
    }
}

/// Refuses an update that can't be recorded as it should be. Returns whether one of the same id was
/// applied already.
async fn was_committed_before(
    table: &ProvenTable,
    partition: &Partition,
    recording: &Recording,
    deadline: Instant,
) -> Result<bool> {
    if !table.terms().endpoint {
        return Err(Error::invalid(
            "an update needs the endpoint, and the table was opened to do without it",
        ));
    }
    let unrecorded = |error: Error| error.with_hint("update it without a record");
    match recording {
        Recording::None => Ok(false),
        Recording::OwnId => Claim::new(table, partition, &TransactionId::unique(), Digest::UPDATE)
            .map(|_| false)
            .map_err(unrecorded),
        Recording::CallersId(id) => {
            let id = id.as_ref().map_err(Clone::clone)?;
            let claim = Claim::new(table, partition, id, Digest::UPDATE)?;
            let record = claim.read(deadline).await?;
            Ok(record.is_some_and(|seen| seen.record.state == State::Committed))
        }
    }
}

/// Sends the change, and finds out how that ended.
async fn attempt(
    committer: &Committer,
    change: Change,
    recording: &Recording,
    deadline: Instant,
) -> Result<Attempt> {
    let Change {
        mut group,
        conditions_of_caller,
    } = change;
    group.guard_timestamps = !group.mutations.is_empty();
    // What it does is computed again in each attempt, so the id can't stand for that.
    let record = |id, of_caller| RecordRequest {
        id,
        of_caller,
        fixed_contents: false,
    };
    group.record = match recording {
        Recording::None => None,
        // One for each attempt: each is settled before the next.
        Recording::OwnId => Some(record(TransactionId::unique(), false)),
        Recording::CallersId(id) => Some(record(id.clone()?, true)),
    };
    let left = deadline.saturating_duration_since(Instant::now());
    let settling = match group.record {
        Some(_) => left / KEPT_FOR_SETTLING,
        None => Duration::ZERO,
    };
    match committer.commit(group, deadline - settling).await {
        Outcome::Committed(committed) => Ok(Attempt::Applied {
            own: !committed.replayed,
        }),
        Outcome::Rejected(rejection) => {
            // What the closure has read is still so: it would do the same again.
            let of_caller = |failed: &FailedCondition| conditions_of_caller.contains(&failed.label);
            match rejection.failed.iter().all(of_caller) {
                true => Err(rejection.into()),
                false => Ok(Attempt::Conflict(Conflict::Rejected(rejection))),
            }
        }
        Outcome::Invalid(error) | Outcome::Aborted(error) => Err(error),
        Outcome::Unknown(unsettled) => {
            let lost = unsettled.error().to_string();
            match unsettled.settle_until(deadline).await? {
                Ended::Committed { own } => Ok(Attempt::Applied { own }),
                Ended::NotApplied => Ok(Attempt::Conflict(Conflict::Lost(lost))),
            }
        }
    }
}

/// How one attempt ended.
enum Attempt {
    /// It was applied: this one, or another one with the same id.
    Applied {
        own: bool,
    },
    Conflict(Conflict),
}

/// Why an attempt was surely not applied.
enum Conflict {
    Rejected(Rejection),
    /// Its answer was lost, for this reason.
    Lost(String),
}

fn gave_up(attempts: u32, last: Conflict) -> Error {
    let why = match last {
        Conflict::Rejected(rejection) => {
            let named: Vec<_> = rejection
                .failed
                .iter()
                .take(NAMED_CONDITIONS)
                .map(ToString::to_string)
                .collect();
            let more = match rejection.failed.len() - named.len() {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            format!(
                "what was read had changed before it could be written, at last: {}{more}",
                named.join("; ")
            )
        }
        Conflict::Lost(reason) => format!("at last: {reason}"),
    };
    Error::new(
        ErrorKind::Conflict,
        format!("gave up, nothing was applied: {why}"),
    )
    .with_retryable(true)
    .at_attempt(attempts)
}

#[cfg(test)]
mod tests;
