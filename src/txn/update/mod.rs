//! Read-modify-write of a partition: reads it, runs the caller's closure, applies the changes, and
//! repeats all of it after a conflict.
//!
//! | file | what |
//! |---|---|
//! | `view` | [`UpdateView`]: the closure's reads and changes; remembers what was read; no I/O |
//! | `options` | [`UpdateOptions`] |

mod options;
mod view;

use std::time::Duration;

use hbase_client::low_level::{Pauses, TableCalls};
use tokio::time::Instant;

use self::options::Recording;
pub(super) use self::view::Change;
pub use self::{options::UpdateOptions, view::UpdateView};
use super::{
    commit::{Claimed, Committer},
    outcome::{FailedCondition, Outcome, Rejection},
    proof::proven_table::ProvenTable,
    record::{
        RecordRequest, TransactionId,
        digest::Digest,
        settle::{Claim, Ended, settled_elsewhere},
    },
    snapshot::{self, Snapshot},
};
use crate::{
    error::{Error, ErrorKind, Result},
    partition::Partition,
};

/// The result of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Updated<T> {
    /// The closure's changes were applied, or there were none.
    #[non_exhaustive]
    Done {
        /// The value that the closure returned in the attempt that was applied.
        value: T,
        /// The number of times the closure was run.
        attempts: u32,
    },
    /// An earlier update with the same id was applied, and this one changed nothing. The value that
    /// the closure returned then is not known. Possible only with an [id of the
    /// caller](UpdateOptions::id).
    Replayed,
}

impl<T> Updated<T> {
    /// Returns the closure's value, or `None` if the update was replayed.
    pub fn into_value(self) -> Option<T> {
        match self {
            Self::Done { value, .. } => Some(value),
            Self::Replayed => None,
        }
    }
}

pub(super) const OPERATION: &str = "update";

/// One part in this many of the time left is reserved for determining the outcome of an attempt.
const KEPT_FOR_SETTLING: u32 = 5;

/// The maximum number of failed conditions that an error names.
const NAMED_CONDITIONS: usize = 3;

/// An update across its attempts. Each attempt is a [`read`](Self::read), the caller's closure on a
/// [`view`](Self::view), and an [`apply`](Self::apply).
pub(super) struct Update<'a> {
    committer: &'a Committer,
    partition: Partition,
    options: UpdateOptions,
    /// The claim on the caller's id. All attempts have the same one, and each begins with the record
    /// that the last one has seen: another process may settle the update between them.
    claimed: Option<Claimed>,
    /// Whether the partition version guards everything that is read.
    versioned: bool,
    deadline: Instant,
    pauses: Pauses,
    attempts: u32,
}

/// The result of an attempt.
pub(super) enum Applied {
    /// The update is done, after this many attempts.
    Done(u32),
    /// An earlier update with the same id was applied.
    Replayed,
    /// The attempt was certainly not applied; another attempt may begin.
    Conflict,
}

impl<'a> Update<'a> {
    /// Begins an update. Returns `None` if an update with the same id was already applied.
    pub(super) async fn begin(
        committer: &'a Committer,
        partition: Partition,
        options: UpdateOptions,
    ) -> Result<Option<Self>> {
        let table = committer.table();
        let mut update = Self {
            claimed: None,
            versioned: table.terms().partition_version && !partition.is_lone_row(),
            deadline: table.table().deadline(),
            committer,
            partition,
            options,
            pauses: Pauses::after_conflicts(),
            attempts: 0,
        };
        let claimed = claim(
            table,
            &update.partition,
            &update.options.recording,
            update.deadline,
        )
        .await;
        update.claimed = claimed.map_err(|error| update.in_context(error))?;
        if update.claimed.as_ref().is_some_and(Claimed::is_committed) {
            Ok(None)
        } else {
            Ok(Some(update))
        }
    }

    /// Begins an attempt by reading the rows.
    pub(super) async fn read(&mut self) -> Result<Snapshot> {
        self.attempts += 1;
        let mut options = self.options.snapshot.clone();
        if self.versioned {
            options = options.for_update();
        }
        snapshot::read(self.committer, self.partition.clone(), &options, self.deadline)
            .await
            .map_err(|error| self.in_context(error))
    }

    /// Returns the view that the caller's closure reads and changes.
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

    /// Converts the view into the change to send, or `None` if the closure only read.
    pub(super) fn finish(&self, view: UpdateView<'_>) -> Result<Option<Change>> {
        if view.only_reads() {
            return Ok(None);
        }
        view.finish().map(Some).map_err(|error| self.in_context(error))
    }

    /// Ends an attempt: sends the change and determines the outcome.
    pub(super) async fn apply(&mut self, change: Option<Change>) -> Result<Applied> {
        let Some(change) = change else {
            return Ok(Applied::Done(self.attempts));
        };
        let claimed = self.claimed.as_mut();
        let ended = attempt(
            self.committer,
            change,
            &self.options.recording,
            claimed,
            self.deadline,
        )
        .await;
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
        let error = error
            .at_operation(OPERATION)
            .at_table(self.committer.table().name());
        self.partition.in_context(error)
    }
}

/// Refuses an update that can't be recorded as requested. Claims the caller's id, and reads its
/// record.
async fn claim(
    table: &ProvenTable,
    partition: &Partition,
    recording: &Recording,
    deadline: Instant,
) -> Result<Option<Claimed>> {
    if !table.terms().endpoint {
        return Err(Error::invalid(
            "an update needs the endpoint, and the table was opened to do without it",
        ));
    }
    let unrecorded = |error: Error| error.with_hint("update it without a record");
    match recording {
        Recording::None => Ok(None),
        Recording::OwnId => {
            let id = TransactionId::unique_in(table.environment());
            let claim = Claim::new(table, partition, &id, Digest::UPDATE);
            claim.map(|_| None).map_err(unrecorded)
        }
        Recording::CallersId(id) => {
            let id = id.as_ref().map_err(Clone::clone)?;
            let claim = Claim::new(table, partition, id, Digest::UPDATE)?;
            let seen = claim.read_for_commit(deadline).await?;
            Ok(Some(Claimed { claim, seen }))
        }
    }
}

/// Sends the change and determines the outcome.
async fn attempt(
    committer: &Committer,
    change: Change,
    recording: &Recording,
    mut claimed: Option<&mut Claimed>,
    deadline: Instant,
) -> Result<Attempt> {
    let Change { mut group, reads } = change;
    group.guard_timestamps = !group.mutations.is_empty();
    // Each attempt computes the changes again, so the record can't hold a digest of them.
    let record = |id, of_caller| RecordRequest {
        id,
        of_caller,
        fixed_contents: false,
    };
    group.record = match recording {
        Recording::None => None,
        // A new id for each attempt: each is settled before the next begins.
        Recording::OwnId => {
            let id = TransactionId::unique_in(committer.table().environment());
            Some(record(id, false))
        }
        Recording::CallersId(id) => Some(record(id.clone()?, true)),
    };
    let left = deadline.saturating_duration_since(Instant::now());
    let settling = match group.record {
        Some(_) => left / KEPT_FOR_SETTLING,
        None => Duration::ZERO,
    };
    let committing = committer.commit_next(group, claimed.as_deref_mut(), deadline - settling);
    match committing.await {
        Outcome::Committed(committed) => Ok(Attempt::Applied {
            own: !committed.replayed,
        }),
        Outcome::Rejected(rejection) => {
            // Everything that the closure read is unchanged: it would return the same again.
            let of_caller = |failed: &FailedCondition| !reads.contains(&failed.position);
            if rejection.failed.iter().all(of_caller) {
                Err(rejection.into())
            } else {
                Ok(Attempt::Conflict(Conflict::Rejected(rejection)))
            }
        }
        Outcome::Invalid(error) | Outcome::Aborted(error) => Err(error),
        Outcome::Unknown(unsettled) => {
            let lost = unsettled.error().to_string();
            let seen = claimed.as_ref().and_then(|claimed| claimed.seen.clone());
            match unsettled.end_until(seen, deadline).await? {
                Ended::Committed { own } => Ok(Attempt::Applied { own }),
                Ended::NotApplied(fence) => {
                    if let Some(claimed) = claimed {
                        claimed.seen = fence;
                    }
                    Ok(Attempt::Conflict(Conflict::Lost(lost)))
                }
                Ended::SettledElsewhere => Err(settled_elsewhere()),
            }
        }
    }
}

/// The outcome of one attempt.
enum Attempt {
    /// The transaction was applied, by this attempt or by another commit with the same id.
    Applied {
        own: bool,
    },
    Conflict(Conflict),
}

/// The reason why an attempt was certainly not applied.
enum Conflict {
    Rejected(Rejection),
    /// Its answer was lost, with this error.
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
